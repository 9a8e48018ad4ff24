package load

import (
	"fmt"
	"math/rand/v2"
	"time"

	"queen/bench/internal/message"
)

// producer pushes to the partitions that are its own: those whose number leaves its own when divided by the number of
// producers. It sends one batch at a time, and a batch until it is answered, so that the order in a partition is its own.
type producer struct {
	r    *run
	i    int
	own  int // partitions
	conn Producer
	rng  *rand.Rand

	name, id, payload []byte
}

// newProducer is nil, and the run over, when there is no connection to be had.
func (r *run) newProducer(i int) *producer {
	conn, err := r.o.Target.Producer(&r.o, i)
	if err != nil {
		r.fail(fmt.Errorf("load: producer %d: %w", i, err))
		return nil
	}
	return &producer{r: r, i: i, own: (r.o.Partitions - i + r.o.Producers - 1) / r.o.Producers, conn: conn,
		rng: rand.New(rand.NewPCG(r.id, uint64(i)))}
}

func (r *run) produce(i int) {
	p := r.newProducer(i)
	if p == nil {
		return
	}
	defer p.conn.Close()
	if r.o.Rate > 0 {
		p.open()
		return
	}
	for !p.over() {
		if r.o.Backlog > 0 && r.o.Consumers > 0 && r.left() > r.o.Backlog {
			pause(r.ctx, time.Millisecond)
			continue
		}
		if !p.push(time.Now(), nil) {
			return
		}
	}
}

func (p *producer) over() bool { return p.r.stopping.Load() || p.r.ctx.Err() != nil }

// open pushes at the moments of a schedule, those of the producers one after another.
func (p *producer) open() {
	o := &p.r.o
	step := time.Duration(float64(o.Batch*o.Producers) / o.Rate * float64(time.Second))
	due := p.r.start.Add(step * time.Duration(p.i) / time.Duration(o.Producers))
	for ; !p.over(); due = due.Add(step) {
		pause(p.r.ctx, time.Until(due))
		if p.over() || !p.push(due, nil) {
			return
		}
	}
}

// fill pushes one message to each of its partitions.
func (p *producer) fill() {
	for from := 0; from < p.own && p.r.ctx.Err() == nil; from += p.r.o.Batch {
		to := min(from+p.r.o.Batch, p.own)
		if !p.push(time.Now(), func(k int) (int, bool) { return from + k, from+k < to }) {
			return
		}
	}
}

// push sends one batch meant to leave at due, to partitions that choose picks, or random ones. It is sent again until the
// node took it; false when the run is over.
func (p *producer) push(due time.Time, choose func(k int) (own int, more bool)) bool {
	n := p.build(due, choose)
	again := false
	for wait := time.Millisecond; ; wait = min(wait*2, time.Second) {
		p.r.pushes.Add(1)
		a, err := p.conn.Send()
		switch {
		case err != nil:
			if p.r.ctx.Err() != nil {
				return false
			}
			if p.r.unanswered.Add(1) > maxUnanswered {
				p.r.fail(fmt.Errorf("load: pushes stay unanswered: %w", err))
				return false
			}
			again = true
		case a.Refused != nil:
			p.r.fail(fmt.Errorf("load: push: %w", a.Refused))
			return false
		case a.Later:
			p.r.refused.Add(1)
			again = again || a.Unsure
			wait = max(wait, a.Wait)
		default:
			return p.took(&a, n, due, again)
		}
		if p.r.stopping.Load() {
			return false // the numbers of this batch are not used again, since its producer ends
		}
		pause(p.r.ctx, wait)
	}
}

// maxUnanswered ends a run whose node is gone.
const maxUnanswered = 10_000

// build writes a batch into the connection and returns its length.
func (p *producer) build(due time.Time, choose func(k int) (int, bool)) int {
	o := &p.r.o
	at := due.UnixMicro()
	p.conn.Begin()
	n := 0
	for ; n < o.Batch; n++ {
		own := 0
		if choose == nil {
			own = p.rng.IntN(p.own)
		} else if k, more := choose(n); more {
			own = k
		} else {
			break
		}
		part := own*o.Producers + p.i
		number := p.r.next[part]
		p.r.next[part]++
		p.name = message.AppendPartition(p.name[:0], part)
		p.id = message.AppendID(p.id[:0], p.r.id, uint32(part), number)
		p.payload = message.AppendPayload(p.payload[:0], o.Size, number, at, p.rng.Uint64())
		p.conn.Item(p.name, p.id, p.payload)
	}
	return n
}

// took counts a batch that was taken and judges the answer.
func (p *producer) took(a *Reply, n int, due time.Time, again bool) bool {
	p.r.pushTimes.Add(time.Since(due))
	if a.Duplicates > 0 {
		p.r.duplicates.Add(uint64(a.Duplicates))
		if !again {
			p.r.violations.add("a push that was sent once was answered with %d duplicates", a.Duplicates)
		}
	}
	if a.Queued+a.Duplicates != n {
		p.r.fail(fmt.Errorf("load: %d of %d messages of a push were refused: %.300s", n-a.Queued-a.Duplicates, n, a.Text))
		return false
	}
	p.r.pushed.Add(uint64(n))
	return true
}
