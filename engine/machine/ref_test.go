package machine

import (
	"fmt"
	"slices"

	"queen/engine/format"
)

// The reference: the same rules over plain lists of messages, with no journal, no lazy cursor, no
// evidence and no timer. It predicts every verdict but the choice of partitions by a Pop, which it
// checks instead: what is claimed must be claimable, and what is left out must not be.

type refMsg struct {
	id    string
	w     format.Wall
	place format.Place
}

type refPart struct {
	id    format.PartitionID
	name  string
	msgs  []refMsg
	trim  int
	bornW format.Wall
	born  format.Index
	shown int         // window queues: visible below
	since format.Wall // window queues: first hidden message
}

type refQueue struct {
	id     format.QueueID
	name   string
	opts   format.QueueOptions
	parts  []*refPart
	groups map[string]*refGroup
	cutoff format.Wall
	dedup0 format.Wall // originals before do not count
}

type refGroup struct {
	name  string
	kind  format.StartKind
	from  format.Wall
	at    format.Place
	cur   map[format.PartitionID]*refCur
	notes map[format.PartitionID]string
	last  bool // conflates
	open  bool // a commit made it, and nobody has said where it starts
}

type refCur struct {
	next       int
	lease      format.UUID // zero: none ever
	leased     bool
	first, end int
	expiry     format.Mono
	attempts   int
	at         int // the attempts are of this head
	retries    int
	notBefore  format.Mono
	delivered  int
	acked      bool
}

type refDead struct {
	part   format.PartitionID
	offset format.Offset
	group  string
}

// refReceipt is the answer of an ack that ended a lease.
type refReceipt struct {
	res   format.AckResult
	group *refGroup
	runs  string
	until format.Mono
}

type refReceiptKey struct {
	lease format.UUID
	part  format.PartitionID
}

type ref struct {
	queues map[string]*refQueue
	all    map[format.PartitionID]*refPart
	owner  map[format.PartitionID]*refQueue
	dead   []refDead
	kept   map[refReceiptKey]refReceipt
	markW  []format.Wall
	admins refAdmins
	keyed  *refKeyed
	inTxn  bool // acks are parts of a transaction
	t      format.Mono
	w      format.Wall
}

func newRef() *ref {
	return &ref{queues: map[string]*refQueue{}, all: map[format.PartitionID]*refPart{}, owner: map[format.PartitionID]*refQueue{},
		kept: map[refReceiptKey]refReceipt{}, admins: refAdmins{}, keyed: &refKeyed{rows: map[string]*refRow{}}}
}

// tick moves the stamps and shows what windows held back long enough.
func (r *ref) tick(t format.Mono, w format.Wall) {
	r.t, r.w = t, w
	r.keyed.expire(w)
	for _, q := range r.queues {
		for _, p := range q.parts {
			r.show(q, p)
		}
	}
}

func (r *ref) show(q *refQueue, p *refPart) {
	n := seconds(q.opts.WindowBuffer)
	if n == 0 || len(p.msgs) == p.shown {
		p.shown = len(p.msgs)
		return
	}
	if r.w >= p.msgs[len(p.msgs)-1].w+n || r.w >= p.since+10*n {
		p.shown = len(p.msgs)
	}
}

// visible is the end of what may be delivered.
func (r *ref) visible(q *refQueue, p *refPart) int {
	end := len(p.msgs)
	if q.opts.WindowBuffer > 0 {
		end = p.shown
	}
	if d := seconds(q.opts.DelayedProcessing); d > 0 {
		for end > 0 && r.w < p.msgs[end-1].w+d {
			end--
		}
	}
	return end
}

func (r *ref) queue(name string, by madeBy) *refQueue {
	q := r.queues[name]
	if q == nil {
		q = &refQueue{name: name, opts: format.DefaultOptions(by == byConfigure), groups: map[string]*refGroup{}}
		if by != byConfigure {
			q.opts.Namespace = name // undotted names only
		}
		r.queues[name] = q
	}
	return q
}

func (q *refQueue) part(name string) *refPart {
	for _, p := range q.parts {
		if p.name == name {
			return p
		}
	}
	return nil
}

func (r *ref) group(q *refQueue, name string, kind format.StartKind, from format.Wall, at format.Place, last bool) *refGroup {
	g := q.groups[name]
	if g == nil {
		if name == format.QueueMode {
			kind, from = format.StartAll, 0
		}
		g = &refGroup{name: name, kind: format.StartNew, at: at, cur: map[format.PartitionID]*refCur{},
			last: last && name != format.QueueMode, open: true}
		q.groups[name] = g
	}
	if g.open && kind != 0 {
		g.kind, g.from, g.at, g.open = kind, from, at, false
	}
	return g
}

// push predicts an Append.
func (r *ref) push(queue, part string, ids []string, clear uint64, place format.Place,
	got *format.AppendResult,
) (format.Code, error) {
	named := slices.ContainsFunc(ids, func(s string) bool { return s != "" })
	if q := r.queues[queue]; q != nil && q.part(part) != nil && named {
		if r.late(q, q.part(part), clear, place) {
			return format.CodeStaleEvidence, nil
		}
	}
	q := r.queue(queue, byPush)
	q.id = got.Queue
	p := q.part(part)
	if p == nil {
		p = &refPart{id: got.Partition, name: part, bornW: r.w, born: place.Index}
		if r.all[p.id] != nil || p.id == 0 {
			return 0, fmt.Errorf("new partition got id %d", p.id)
		}
		q.parts = append(q.parts, p)
		r.all[p.id], r.owner[p.id] = p, q
	}
	if got.Partition != p.id || int(got.Base) != len(p.msgs) {
		return 0, fmt.Errorf("stored at %d of %d, want %d of %d", got.Base, got.Partition, len(p.msgs), p.id)
	}
	first := len(p.msgs)
	var dups []format.DupResult
	for i, id := range ids {
		at := format.Place{Index: place.Index, Ordinal: place.Ordinal + format.Ordinal(i)}
		if k := r.original(q, p, id, first); k >= 0 {
			dups = append(dups, format.DupResult{At: uint32(i), Offset: format.Offset(k), Place: p.msgs[k].place, W: p.msgs[k].w})
			continue
		}
		p.msgs = append(p.msgs, refMsg{id, r.w, at})
	}
	if q.opts.WindowBuffer > 0 && p.shown == first {
		p.since = r.w
	}
	if q.opts.WindowBuffer == 0 {
		p.shown = len(p.msgs)
	}
	if !slices.Equal(dups, got.Dups) || int(got.Kept) != len(ids)-len(dups) {
		return 0, fmt.Errorf("kept %d, duplicates %v, want %v", got.Kept, got.Dups, dups)
	}
	return format.CodeOK, nil
}

func (r *ref) original(q *refQueue, p *refPart, id string, first int) int {
	if id == "" {
		return -1
	}
	for k := len(p.msgs) - 1; k >= 0; k-- {
		if p.msgs[k].id != id {
			continue
		}
		if k >= first || r.w-p.msgs[k].w < seconds(q.opts.DedupWindowSeconds) && p.msgs[k].w >= q.dedup0 {
			return k
		}
		return -1
	}
	return -1
}

// next is where a group stands on a partition, cursor or not.
func (r *ref) next(g *refGroup, p *refPart) int {
	if c := g.cur[p.id]; c != nil {
		return max(c.next, p.trim)
	}
	return max(r.missing(g, p), p.trim)
}

// missing is where a cursor begins that does not exist yet, by looking at every message.
func (r *ref) missing(g *refGroup, p *refPart) int {
	for i, m := range p.msgs {
		switch {
		case g.kind == format.StartAll,
			g.kind == format.StartNew && g.at.Before(m.place),
			g.kind == format.StartFrom && m.w >= g.from:
			return i
		}
	}
	return len(p.msgs)
}

// start is the first offset that retention has left.
func (r *ref) start(q *refQueue, p *refPart) int {
	at := p.trim
	for at < len(p.msgs) && p.msgs[at].w < q.cutoff {
		at++
	}
	return at
}

func (r *ref) gone(q *refQueue, p *refPart) bool {
	return len(p.msgs) > 0 && p.msgs[len(p.msgs)-1].w < q.cutoff
}

func (c *refCur) live(t format.Mono) bool { return c != nil && c.leased && t < c.expiry }

// claimable says that a Pop that looks at the partition gets something.
func (r *ref) claimable(q *refQueue, g *refGroup, p *refPart) bool {
	c := g.cur[p.id]
	if c.live(r.t) || c != nil && c.notBefore > r.t || r.gone(q, p) {
		return false
	}
	next := r.next(g, p)
	if c != nil && r.exhausted(q, c, next) {
		next = r.head(g, c, next) + 1
	}
	return next < r.visible(q, p)
}

func (r *ref) exhausted(q *refQueue, c *refCur, next int) bool {
	return q.opts.MaxDeliveries > 0 && c.at == next && int64(c.attempts) >= q.opts.MaxDeliveries
}

// head is the message that an exhausted cursor gives up: the one it was handed last.
func (r *ref) head(g *refGroup, c *refCur, next int) int {
	if g.last && c.end > next {
		return c.seen(next, c.end)
	}
	return next
}

// seen is the message of a conflating claim that was handed out, as far as a TrimLease told.
func (c *refCur) seen(next, end int) int {
	if c.delivered > next && c.delivered <= end {
		return c.delivered - 1
	}
	return end - 1
}

// pop checks the claims of a Pop and takes them over.
//
// Where a delay hides messages a Pop may see less than what is old enough, until the log was asked.
func (r *ref) pop(q *refQueue, g *refGroup, c *format.Pop, got *format.PopResult, settled bool) error {
	batch, parts := int(c.Batch), int(max(c.Partitions, 1))
	if c.Pinned {
		parts = 1
	}
	if got.Conflate != g.last || got.Conflict != (g.last != c.Conflate) {
		return fmt.Errorf("conflates %v, conflict %v, the group %v", got.Conflate, got.Conflict, g.last)
	}
	for i := range got.Claims {
		cl := &got.Claims[i]
		p := r.all[cl.Partition]
		if p == nil || r.owner[p.id] != q || c.Pinned && p.name != string(c.Partition) {
			return fmt.Errorf("claim of partition %d, which is not of queue %q", cl.Partition, q.name)
		}
		if err := r.claim(q, g, p, c, cl, got); err != nil {
			return fmt.Errorf("partition %q: %w", p.name, err)
		}
		parts--
		want := r.visible(q, p) - int(cl.First)
		if skipped := cl.Conflated; g.last {
			batch--
			if skipped != uint64(cl.End-cl.First-1) {
				return fmt.Errorf("partition %q: [%d, %d) skips %d", p.name, cl.First, cl.End, skipped)
			}
		} else {
			batch -= int(cl.End - cl.First)
			want = min(want, batch+int(cl.End-cl.First))
		}
		if n := int(cl.End - cl.First); n > want || n < want && (settled || q.opts.DelayedProcessing == 0) {
			return fmt.Errorf("partition %q: claimed %d, want %d", p.name, cl.End-cl.First, want)
		}
	}
	if batch < 0 || parts < 0 {
		return fmt.Errorf("claimed more than batch or partitions allow: %d and %d left", batch, parts)
	}
	return nil
}

// leftOut names a partition that a Pop with room left should have claimed, for the sake of a message
// that retention has not taken.
func (r *ref) leftOut(q *refQueue, g *refGroup, c *format.Pop) string {
	for _, p := range q.parts {
		if c.Pinned && p.name != string(c.Partition) {
			continue
		}
		if !r.claimable(q, g, p) {
			continue
		}
		for _, m := range p.msgs[r.next(g, p):r.visible(q, p)] {
			if m.w >= q.cutoff {
				return p.name
			}
		}
	}
	return ""
}

func (r *ref) claim(q *refQueue, g *refGroup, p *refPart, cmd *format.Pop, cl *format.Claim,
	got *format.PopResult,
) error {
	c := g.cur[p.id]
	next := r.next(g, p)
	first, end := int(cl.First), int(cl.End)
	if c.live(r.t) || c != nil && c.notBefore > r.t || r.gone(q, p) {
		return fmt.Errorf("is not claimable")
	}
	if c == nil {
		c = &refCur{}
		g.cur[p.id] = c
	} else if head := r.head(g, c, next); r.exhausted(q, c, next) && p.msgs[head].w >= q.cutoff {
		r.giveUp(q, g, p, c, head)
		next = head + 1
	}
	for next < first && p.msgs[next].w < q.cutoff {
		next++ // gone: a cursor may have been moved over it
	}
	if first != next || end <= first || end > r.visible(q, p) {
		return fmt.Errorf("claimed [%d, %d), want it to start at %d and end by %d", first, end, next, r.visible(q, p))
	}
	if cmd.Commit {
		*c = refCur{next: end, end: c.end}
		if cl.Attempt != 1 {
			return fmt.Errorf("attempt %d of a committed claim", cl.Attempt)
		}
		return nil
	}
	if c.at != first {
		c.attempts = 0
	}
	c.next, c.at = first, first
	c.attempts++
	if int(cl.Attempt) != c.attempts {
		return fmt.Errorf("attempt %d, want %d", cl.Attempt, c.attempts)
	}
	length := format.Mono(cmd.Lease)
	if length == 0 {
		length = format.Mono(seconds(max(q.opts.LeaseTime, 1)))
	}
	c.lease, c.leased, c.first, c.end, c.expiry = got.Lease, true, first, end, r.t+length
	c.notBefore, c.delivered, c.acked = 0, 0, false
	return nil
}

// giveUp files the head that was delivered too often, or drops it.
func (r *ref) giveUp(q *refQueue, g *refGroup, p *refPart, c *refCur, head int) {
	if q.opts.DeadLetterQueue || q.opts.DLQAfterMaxRetries {
		r.dead = append(r.dead, refDead{p.id, format.Offset(head), g.name})
	}
	c.next, c.attempts, c.retries = head+1, 0, 0
}

// bound is one past what may be acked.
func (c *refCur) bound(t format.Mono) int { return max(c.next, c.end) }

// ack predicts an Ack.
func (r *ref) ack(a *format.Ack) (format.Code, format.AckResult) {
	p := r.all[a.Partition]
	if p == nil {
		return format.CodeUnknownPartition, format.AckResult{}
	}
	q := r.owner[p.id]
	g := q.groups[string(a.Group)]
	if g == nil || g.cur[p.id] == nil {
		return format.CodeNotLeased, format.AckResult{Queue: q.id}
	}
	c := g.cur[p.id]
	res := format.AckResult{Queue: q.id, Before: format.Offset(c.next), After: format.Offset(c.next)}
	end := c.bound(r.t)
	res.LeaseFirst, res.LeaseEnd = format.Offset(end), format.Offset(end)
	if c.live(r.t) {
		res.LeaseFirst = format.Offset(c.first)
	}
	if !a.Unfenced && (!c.live(r.t) || c.lease != a.Lease) {
		if kept := r.kept[refReceiptKey{a.Lease, p.id}]; kept.until > r.t && kept.group == g && kept.runs == runText(a) {
			return format.CodeOK, kept.res
		}
		res.LeaseFirst, res.LeaseEnd = res.Before, res.Before
		return format.CodeLeaseInvalid, res
	}
	return r.settle(q, g, p, c, a, end, r.reach(c, p, a), res)
}

// reach is one past what an ack may name: in a transaction an unfenced one goes to the partition's end.
func (r *ref) reach(c *refCur, p *refPart, a *format.Ack) int {
	if r.inTxn && a.Unfenced {
		return max(c.bound(r.t), len(p.msgs))
	}
	return c.bound(r.t)
}

// settle applies the verdicts one message at a time.
func (r *ref) settle(q *refQueue, g *refGroup, p *refPart, c *refCur, a *format.Ack, end, reach int,
	res format.AckResult,
) (format.Code, format.AckResult) {
	status := map[int]format.AckStatus{}
	noop, committed, above := false, false, false
	for _, run := range a.Runs {
		for k := range int(run.Count) {
			o := int(run.First) + k
			switch {
			case o < c.next && run.Status == format.AckCompleted:
				noop = true
			case o < c.next:
				committed = true
			case o >= reach:
				above = true
			default:
				status[o] = run.Status
			}
		}
	}
	head, done := -1, c.next
	for o := c.next; o < reach && head < 0; o++ {
		switch status[o] {
		case 0:
		case format.AckCompleted:
			done = o + 1
		default:
			head = o
		}
	}
	switch {
	case head < 0 && done == c.next:
		switch {
		case noop:
			return format.CodeOK, res
		case committed:
			return format.CodeCommitted, res
		case above:
			return format.CodeUnresolvable, res
		}
		return format.CodeMalformed, res
	case head < 0:
		if c.delivered != 0 && done >= c.delivered {
			done = max(done, end)
		}
		if r.move(c, done); g.last {
			res.Conflated = uint64(done) - uint64(res.Before) - 1
		}
		res.After = format.Offset(done)
		if done >= end {
			c.retries, c.attempts = 0, 0
			r.release(c, a, &res, end, 0)
		} else if c.live(r.t) {
			c.acked = true
		}
		return format.CodeOK, res
	}
	return r.nack(q, g, p, c, a, end, reach, res, status, head)
}

func (r *ref) move(c *refCur, next int) {
	if next != c.next {
		c.next, c.attempts = next, 0
	}
}

func (r *ref) nack(q *refQueue, g *refGroup, p *refPart, c *refCur, a *format.Ack, end, reach int,
	res format.AckResult, status map[int]format.AckStatus, head int,
) (format.Code, format.AckResult) {
	if !g.last {
		r.move(c, head)
	}
	delay := format.Mono(0)
	if q.opts.Set&format.OptRetryDelay != 0 {
		delay = format.Mono(q.opts.RetryDelayMs * 1000)
	}
	for _, run := range a.Runs {
		if int(run.First) <= head && head < int(run.First)+int(run.Count) && run.Delay > 0 {
			delay = format.Mono(run.Delay)
		}
	}
	filing := q.opts.DeadLetterQueue || q.opts.DLQAfterMaxRetries
	take := 0
	st := status[head]
	if g.last {
		if head < end {
			head = c.seen(c.next, end)
		}
		status = map[int]format.AckStatus{head: st}
	}
	switch {
	case st == format.AckFailed && int64(c.retries) < q.opts.RetryLimit:
		c.retries++
	case st == format.AckFailed && !(filing && q.opts.DLQScopeBatch):
		take = 1
	case st == format.AckFailed || st == format.AckDLQ:
		for head+take < reach && status[head+take] == st {
			take++
		}
		filing = true
	}
	if take > 0 {
		delay = 0
		c.retries, c.attempts = 0, 0
		if filing {
			for k := range take {
				r.dead = append(r.dead, refDead{p.id, format.Offset(head + k), g.name})
			}
			res.Filed, res.FiledFirst, res.FiledEnd = true, format.Offset(head), format.Offset(head+take)
		} else {
			res.Dropped = true
		}
		r.move(c, head+take)
		c.attempts = 0
	}
	res.After = format.Offset(c.next)
	r.release(c, a, &res, end, delay)
	return format.CodeOK, res
}

// release ends the lease and keeps the answer.
func (r *ref) release(c *refCur, a *format.Ack, res *format.AckResult, end int, delay format.Mono) {
	if c.live(r.t) {
		res.Released = true
		kept := refReceipt{*res, r.owner[a.Partition].groups[string(a.Group)], runText(a), r.t + receiptMicros}
		kept.res.LeaseFirst, kept.res.DeadLetter = res.Before, format.UUID{}
		r.kept[refReceiptKey{c.lease, a.Partition}] = kept
	}
	c.leased, c.acked, c.notBefore, c.delivered = false, false, 0, 0
	if delay > 0 {
		c.notBefore = r.t + delay
	}
}
