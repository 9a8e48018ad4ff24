package main

import (
	"context"
	"errors"
	"math"
	"slices"
	"sync"
	"time"

	"queen/bench/internal/client"
	"queen/bench/internal/place"
)

// kind is what a request is about.
type kind int

const (
	pushCall kind = iota
	popCall
	ackCall
	kinds
)

// traffic knows which requests are on their way, and how each one ended.
type traffic struct {
	mu struct {
		sync.Mutex
		sent [kinds]int // left and not answered yet
		// killed is when the node was last killed; unanswered counts what had left before and got no answer.
		killed     time.Time
		unanswered [kinds]int
		// usual is how long an answered push took lately.
		usual time.Duration
	}
}

// lane is one connection whose requests are counted as one kind at a time. It belongs to one goroutine.
type lane struct {
	t    *traffic
	conn *client.Conn
	kind kind
	left time.Time // when the request under way had left; zero before
}

func (t *traffic) lane(c *client.Conn) *lane {
	l := &lane{t: t, conn: c}
	l.conn.Sent = func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.mu.sent[l.kind]++
		l.left = time.Now()
	}
	return l
}

// call makes one request and accounts for it.
func (l *lane) call(k kind, do func() (client.Answer, error)) (client.Answer, error) {
	l.kind, l.left = k, time.Time{}
	a, err := do()
	if l.left.IsZero() {
		return a, err // it never left whole
	}
	l.t.mu.Lock()
	defer l.t.mu.Unlock()
	l.t.mu.sent[k]--
	if errors.Is(err, client.ErrUnanswered) && l.left.Before(l.t.mu.killed) {
		l.t.mu.unanswered[k]++
	}
	if err == nil && k == pushCall {
		l.t.mu.usual += (time.Since(l.left) - l.t.mu.usual) / 16
	}
	return a, err
}

// usual is how long a push takes lately, at least a little.
func (t *traffic) usual() time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	return max(t.mu.usual, 100*time.Microsecond)
}

// underway is how many requests of a kind have left and are not answered.
func (t *traffic) underway(k kind) int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.mu.sent[k]
}

// noteKill starts counting what gets no answer because of a kill that follows at once.
func (t *traffic) noteKill() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.mu.killed = time.Now()
	t.mu.unanswered = [kinds]int{}
}

// settled waits until every request that had left is over, and returns how many got no answer.
func (t *traffic) settled(ctx context.Context) [kinds]int {
	for ctx.Err() == nil && t.underway(pushCall)+t.underway(popCall)+t.underway(ackCall) > 0 {
		_ = place.Pause(ctx, time.Millisecond)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.mu.unanswered
}

// gate keeps producers together: none is further ahead of another than slack lines, so that all of them push until the end
// is near. Closed, it gathers them all before their next push so that they leave at once.
type gate struct {
	slack int
	mu    struct {
		sync.Mutex
		closed  bool
		waiting int
		running int   // producers that are not done
		at      []int // lines pushed by each; those that are done are ahead of all
		open    chan struct{}
	}
}

// slack is how far ahead a producer may be on one node, whose kills gather all of them. On a cluster some go on while the node
// of another stands still.
const slack = 25

func newGate(o *options) *gate {
	producers, g := o.producers, &gate{slack: slack}
	if o.trial.Nodes > 0 {
		g.slack = math.MaxInt32
	}
	g.mu.running, g.mu.at, g.mu.open = producers, make([]int, producers), make(chan struct{})
	return g
}

// pass lets producer i, which has pushed at lines, make its next push.
func (g *gate) pass(ctx context.Context, i, at int) {
	for ctx.Err() == nil {
		g.mu.Lock()
		g.mu.at[i] = at
		closed, open, behind := g.mu.closed, g.mu.open, slices.Min(g.mu.at)
		if closed {
			g.mu.waiting++
		}
		g.mu.Unlock()
		if closed {
			select {
			case <-open:
			case <-ctx.Done():
			}
			return
		}
		if at <= behind+g.slack {
			return
		}
		_ = place.Pause(ctx, 100*time.Microsecond)
	}
}

// done says that producer i has nothing more to push.
func (g *gate) done(i int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.mu.running--
	g.mu.at[i] = math.MaxInt
}

// gather closes the gate and waits until every producer stands at it; false when fewer than want are left.
func (g *gate) gather(ctx context.Context, want int) bool {
	g.mu.Lock()
	g.mu.closed = true
	g.mu.Unlock()
	for ctx.Err() == nil {
		g.mu.Lock()
		waiting, running := g.mu.waiting, g.mu.running
		g.mu.Unlock()
		if running < want {
			g.release()
			return false
		}
		if waiting == running {
			return true
		}
		_ = place.Pause(ctx, 50*time.Microsecond)
	}
	return false
}

// release opens the gate.
func (g *gate) release() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.mu.closed, g.mu.waiting = false, 0
	close(g.mu.open)
	g.mu.open = make(chan struct{})
}
