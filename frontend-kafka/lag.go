package frontendkafka

import (
	"time"

	"queen/engine"
	"queen/engine/batch"
)

const (
	// lagWatched is over how long a consumer that reads late is watched before it is judged.
	lagWatched = 250 * time.Millisecond
	// lagServed is the part of that time, one in lagServed at least, for which the node must have read for it: one that
	// takes longer over what it got than the node over its fetches is slow by itself, and nobody makes way for it.
	lagServed = 4
	// lagLost is from which lag on a consumer reads history: producers do not wait for it until it has come to the end once.
	lagLost = 30 * time.Second
	// lagParts bounds the partitions of a late consumer that are remembered; of others is not known how they grow.
	lagParts = 4096
)

// lag is how far behind the consumer of one connection reads, in time: how long ago was appended what its last answer
// ended with, of partitions that have more. What a fetch took all of, or waited for, is not late, however old it was.
// Whether it comes closer is told in records: its lag in time goes on growing after producers have slowed down, for as long as
// it reads what they wrote before. The handling goroutine's, but for its address.
type lag struct {
	lost bool
	// from is when the watch began, 0 when there is none; served is what fetches took since, written and given are the
	// records that came to its late partitions and that it got of them.
	from                   int64
	served, written, given int64
	// seen is where its late partitions were when they were looked at last: clients name other partitions in each request.
	seen map[lagPart]lagSeen
	// in is the pace that counts the consumer.
	in *pace
}

type lagPart struct {
	topic string
	num   int32
}

// lagSeen is a partition's end, and what the consumer gets next.
type lagSeen struct{ end, next int64 }

// look is what one fetch told.
type look struct {
	now int64 // Mono at its end
	// served is how many microseconds it took, written and given are as those of lag.
	served, written, given int64
	// waited says that it was parked, rest that it left something, late that some of that is less old than lagLost: behind
	// is the oldest of it.
	waited, rest, late bool
	behind             time.Duration
}

// verdict is what a look at a consumer came to.
type verdict uint8

const (
	lagOpen verdict = iota // it is late, and not judged yet
	lagNone                // it is not late, or by its own fault
	lagLate                // it is late, and judged
)

// judge takes a look in; from half of most on a consumer is late, so that most is seldom reached. lacks is what part of the records
// that were written a late consumer did not get over a whole watch, below 0 where it got more than were written and so comes closer.
// The first late fetch after others only begins a watch: what an ended transaction shows at once is old, and soon read.
func (l *lag) judge(k look, most time.Duration) (v verdict, lacks float64) {
	switch {
	case k.waited || !k.rest:
		l.lost = false
		l.end()
		return lagNone, 0
	case !k.late:
		l.lost = true
		l.end()
		return lagNone, 0
	case l.lost || k.behind <= most/2:
		l.end()
		return lagNone, 0
	case l.from == 0:
		l.begin(k.now)
		return lagOpen, 0
	}
	l.served, l.written, l.given = l.served+k.served, l.written+k.written, l.given+k.given
	took := k.now - l.from
	if took < lagWatched.Microseconds() || l.written == 0 && l.given == 0 {
		return lagOpen, 0
	}
	if l.written > 0 {
		lacks = max(float64(l.written-l.given)/float64(l.written), -1)
	} else {
		lacks = -1
	}
	own := l.served*lagServed < took
	if l.begin(k.now); own {
		return lagNone, 0
	}
	return lagLate, lacks
}

func (l *lag) begin(now int64) { l.from, l.served, l.written, l.given = now, 0, 0, 0 }

// end ends the watch.
func (l *lag) end() { l.from, l.seen = 0, nil }

// leave says that nobody has to make way for the consumer.
func (l *lag) leave() {
	if l.in != nil {
		l.in.leave(l)
		l.in = nil
	}
}

// progress tells what came to a late partition since it was looked at last, and what the consumer gets of it.
func (l *lag) progress(p lagPart, now lagSeen) (written, given int64) {
	was, ok := l.seen[p]
	switch {
	case ok && now.next >= was.next && now.end >= was.end:
		written, given = now.end-was.end, now.next-was.next
	case !ok && len(l.seen) == lagParts:
		return 0, 0
	case l.seen == nil:
		l.seen = map[lagPart]lagSeen{}
	}
	l.seen[p] = now
	return written, given
}

// lagging judges the connection's consumer by a fetch that was carried out.
func (c *conn) lagging(f *fetching) {
	most := c.f.opts.LagMax
	if most <= 0 || f.failed {
		return
	}
	l, from := &c.lag, c.lag.from
	f.look.now = c.f.opts.Clock.Mono()
	f.look.served = f.look.now - f.began
	v, lacks := l.judge(f.look, most)
	if v == lagNone {
		l.leave()
		return
	}
	p := c.f.paces.of(f.who.Tenant) // made for the first look, so that what is written meanwhile is measured
	if l.in != p {
		l.leave()
	}
	if v == lagLate {
		l.in = p
		if p.late(l, from, f.look.now, lacks) {
			l.lost, l.in = true, nil
			l.end()
		}
	}
}

// age notes how old the last of what a partition gave is, where it has more: it ends at end.
func (f *fetching) age(p *fetchPart, got *engine.Fetched, end int64) {
	n := len(got.Frames)
	if f.c.f.opts.LagMax <= 0 || n == 0 {
		return
	}
	next := nextOffset(&got.Frames[n-1])
	if next >= end {
		return
	}
	f.look.rest = true
	d := time.Duration(f.now-got.Frames[n-1].CreatedAt) * time.Microsecond
	if d >= lagLost {
		return
	}
	f.look.late, f.look.behind = true, max(f.look.behind, d)
	if d > f.c.f.opts.LagMax/2 && !f.c.lag.lost {
		written, given := f.c.lag.progress(lagPart{p.topic.name, p.num}, lagSeen{end, next})
		f.look.written, f.look.given = f.look.written+written, f.look.given+given
	}
}

// nextOffset is the offset behind a frame.
func nextOffset(fr *engine.Frame) int64 {
	if n := len(fr.Messages); n > 0 {
		return int64(fr.Messages[n-1].Offset) + 1
	}
	h, err := batch.ParseHeader(fr.Batch)
	if err != nil {
		return int64(fr.Base) + 1
	}
	return h.BaseOffset + int64(h.LastOffsetDelta) + 1
}
