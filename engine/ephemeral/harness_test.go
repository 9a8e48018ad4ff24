package ephemeral

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"queen/engine/clock"
	"queen/engine/format"
)

var someone = format.DefaultTenant

// rig is a store under a manual clock; the invariants are checked after every call through it.
type rig struct {
	t     *testing.T
	clock *clock.Fake
	s     *Store
	// declared are the declarations; changing them needs generation++.
	declared   map[string]Settings
	generation uint64
}

func (r *rig) Generation() uint64 { return r.generation }

func (r *rig) Declared(_ format.Tenant, queue string) (Settings, bool) {
	d, ok := r.declared[queue]
	return d, ok
}

func newRig(t *testing.T, o Options) *rig {
	r := &rig{t: t, clock: clock.NewFake(1_700_000_000_000_000), declared: map[string]Settings{}}
	r.clock.Advance(time.Hour) // 0 is no time
	o.Clock, o.Declarations, o.Incarnation = r.clock, r, 0xabc
	r.s = New(o)
	t.Cleanup(r.s.Close)
	return r
}

func (r *rig) check() {
	r.t.Helper()
	require.NoError(r.t, checkStore(r.s))
}

func (r *rig) declare(queue string, s Settings) {
	r.t.Helper()
	s, err := s.Normal()
	require.NoError(r.t, err)
	r.declared[queue] = s
	r.generation++
	r.s.Refresh(someone, queue)
	r.check()
}

// tryPush pushes to "queue/partition", or to partition p of a queue without a slash.
func (r *rig) tryPush(where string, payloads ...string) error {
	queue, part, ok := strings.Cut(where, "/")
	if !ok {
		part = "p"
	}
	b := make([][]byte, len(payloads))
	for i := range payloads {
		b[i] = []byte(payloads[i])
	}
	err := r.s.Push(someone, PushRequest{Queue: queue, Partition: part, Payloads: b})
	r.check()
	return err
}

func (r *rig) push(where string, payloads ...string) {
	r.t.Helper()
	require.NoError(r.t, r.tryPush(where, payloads...))
}

// request reads "queue[/partition]@group".
func request(where string, batch int) PopRequest {
	where, group, _ := strings.Cut(where, "@")
	queue, part, pinned := strings.Cut(where, "/")
	return PopRequest{Queue: queue, Partition: part, Pinned: pinned, Group: group, Batch: batch}
}

func (r *rig) popRequest(q PopRequest) *Delivery {
	r.t.Helper()
	d, err := r.s.Pop(context.Background(), someone, q)
	require.NoError(r.t, err)
	r.check()
	return d
}

func (r *rig) pop(where string, batch int) *Delivery {
	r.t.Helper()
	return r.popRequest(request(where, batch))
}

// got renders a delivery: payloads, with the failed deliveries before it where there were any.
func got(d *Delivery) string {
	if d == nil {
		return ""
	}
	var parts []string
	for _, m := range d.Messages {
		s := string(m.Payload)
		if m.Failed > 0 {
			s += fmt.Sprintf("!%d", m.Failed)
		}
		parts = append(parts, s)
	}
	return strings.Join(parts, " ")
}

// ack answers every message of d with a status and returns the outcomes.
func (r *rig) ack(where string, d *Delivery, status Status) string {
	r.t.Helper()
	q := request(where, 0)
	acks := make([]Ack, len(d.Messages))
	for i := range d.Messages {
		acks[i] = Ack{d.Messages[i].ID, status}
	}
	out, err := r.s.Ack(someone, q.Queue, q.Group, acks)
	require.NoError(r.t, err)
	r.check()
	parts := make([]string, len(out))
	for i := range out {
		parts[i] = string(out[i])
	}
	return strings.Join(parts, " ")
}

// parked is a pop in a goroutine of its own, which waits.
type parked struct {
	r      *rig
	w      *waiter
	cancel context.CancelFunc
	answer chan *Delivery
	err    error
}

// park starts a waiting pop and returns once it is in the store.
func (r *rig) park(q PopRequest, wait time.Duration) *parked {
	r.t.Helper()
	q.Wait = wait
	ctx, cancel := context.WithCancel(context.Background())
	p := &parked{r: r, cancel: cancel, answer: make(chan *Delivery, 1)}
	before := r.s.waiters
	go func() {
		d, err := r.s.Pop(ctx, someone, q)
		p.err = err
		p.answer <- d
	}()
	for p.w == nil && len(p.answer) == 0 {
		p.w = r.newest(before)
		runtime.Gosched()
	}
	r.check()
	return p
}

// newest is the waiter that was parked last, if it came after number before.
func (r *rig) newest(before uint64) *waiter {
	r.s.mu.Lock()
	defer r.s.mu.Unlock()
	for _, n := range r.s.due.items {
		if w, ok := n.of.(*waiter); ok && w.number > before {
			return w
		}
	}
	return nil
}

// waits reports that the pop is still parked: the answer is given inside the call that causes it.
func (p *parked) waits() bool {
	p.r.s.mu.Lock()
	defer p.r.s.mu.Unlock()
	return p.w != nil && !p.w.done
}

func (p *parked) got() string {
	d := <-p.answer
	p.r.check()
	return got(d)
}

func (r *rig) advance(d time.Duration) {
	r.t.Helper()
	r.clock.Advance(d)
	r.check()
}

func refused(t *testing.T, want Reason, err error) *Error {
	t.Helper()
	var e *Error
	require.True(t, errors.As(err, &e), "%v", err)
	require.Equal(t, want, e.Reason, "%v", err)
	return e
}
