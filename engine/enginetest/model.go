package enginetest

import (
	"context"
	"iter"
	"slices"
	"sync"
	"time"

	"queen/engine"
	"queen/engine/clock"
	"queen/engine/format"
)

// ModelOptions are the options of NewModel.
type ModelOptions struct {
	// Clock tells the time and arms waits; nil means the system's clock.
	Clock clock.Clock
	// DefaultStartAll makes groups that name no subscription mode start at the oldest message
	// (S-sub-8).
	DefaultStartAll bool
}

// Model is the reference implementation of engine.Engine: everything in memory, one mutex, nothing
// durable. Parked calls wait on the clock and are served in the order of their arrival.
type Model struct {
	opts      ModelOptions
	ephemeral engine.Ephemeral

	mu struct {
		sync.Mutex
		s       *state
		stamp   stamp
		closed  bool
		waiters []*waiter
		timer   clock.Timer
		bump    chan struct{} // closed and replaced at every change; reads wait on it
		watches []*watcher
		// kvWatches counts those who wait for changes of keys.
		kvWatches int
		// snapshots are of which later pages may be asked for, oldest first; began counts them.
		snapshots []kvSnapshot
		began     uint64
	}
}

var _ engine.Engine = (*Model)(nil)

// waiter is a parked pop.
type waiter struct {
	tenant format.Tenant
	req    *engine.PopRequest
	got    chan *engine.Delivery // room for one
}

// NewModel returns an empty engine.
func NewModel(o ModelOptions) *Model {
	if o.Clock == nil {
		o.Clock = clock.Real()
	}
	m := &Model{opts: o}
	m.ephemeral = engine.NewEphemeral(engine.EphemeralOptions{Clock: o.Clock, Rows: NewAdminRows(), Incarnation: 1})
	m.mu.s = newState()
	m.mu.s.changed = m.changedLocked
	m.mu.bump = make(chan struct{})
	m.mu.stamp = newStamp(o.Clock)
	return m
}

// stepLocked moves time on; every public call starts with it.
func (m *Model) stepLocked() *state {
	s := m.mu.s
	s.advance(m.mu.stamp.read(m.opts.Clock))
	return s
}

// Do judges every op at once; the answer is as durable as memory.
func (m *Model) Do(ctx context.Context, c engine.Caller, b engine.Batch) ([]engine.Result, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.mu.closed {
		return nil, errClosed()
	}
	if ctx.Err() != nil {
		return nil, errGone(ctx)
	}
	res, after, err := m.stepLocked().commit(c, b)
	m.mu.s = after
	after.fireDue()
	m.serveLocked()
	if err != nil {
		return nil, err
	}
	return res, nil
}

func errClosed() *engine.Error {
	return &engine.Error{Code: engine.CodeClosed, RetryAfter: time.Second, Message: "the node is shutting down"}
}

// do judges acks first, together, then every other op in order.
func (s *state) do(c engine.Caller, ops []engine.Op) []engine.Result {
	res := make([]engine.Result, len(ops))
	s.repeats = nil
	s.acks(c, ops, res)
	for i, op := range ops {
		switch op := op.(type) {
		case *engine.Ack:
		case *engine.Append:
			res[i] = s.append(c, op)
		case *engine.Extend:
			res[i] = s.extend(c, op)
		case *engine.Release:
			res[i] = s.release(c.Tenant, op)
		case *engine.SetOffset:
			res[i] = s.seek(c.Tenant, op)
		case *engine.Redrive:
			res[i] = s.redrive(c, op)
		default:
			res[i].Err = fail(engine.CodeNotBuilt, "this feature is not built yet")
		}
	}
	return res
}

// Pop claims at once, or parks in arrival order. Discovery never parks (S-pop-9).
func (m *Model) Pop(ctx context.Context, c engine.Caller, req engine.PopRequest) (*engine.Delivery, error) {
	if err := checkPop(&req); err != nil {
		return nil, err
	}
	if req.Start.Kind == 0 && m.opts.DefaultStartAll {
		req.Start.Kind = format.StartAll
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.mu.closed {
		return nil, errClosed()
	}
	m.stepLocked()
	w := &waiter{tenant: c.Tenant, req: &req, got: make(chan *engine.Delivery, 1)}
	if d := m.tryLocked(w); d != nil {
		return d, nil
	}
	if req.Wait <= 0 || req.Scope.Discovery {
		return m.emptyLocked(c.Tenant, &req), nil
	}
	m.mu.waiters = append(m.mu.waiters, w)
	m.armLocked()
	m.mu.Unlock()
	d, err := m.park(ctx, w, min(req.Wait, time.Minute))
	m.mu.Lock()
	return d, err
}

// park waits for a delivery, the timeout, or the caller's end. One that arrives together with the
// caller's end is handed back.
func (m *Model) park(ctx context.Context, w *waiter, wait time.Duration) (*engine.Delivery, error) {
	t := m.opts.Clock.NewTimer(wait)
	defer t.Stop()
	select {
	case d := <-w.got:
		return d, nil
	case <-t.C():
	case <-ctx.Done():
	}
	m.mu.Lock()
	m.mu.waiters = slices.DeleteFunc(m.mu.waiters, func(o *waiter) bool { return o == w })
	m.mu.Unlock()
	var d *engine.Delivery
	select {
	case d = <-w.got:
	default:
	}
	if ctx.Err() == nil && d == nil {
		m.mu.Lock()
		d = m.emptyLocked(w.tenant, w.req)
		m.mu.Unlock()
	}
	if ctx.Err() == nil {
		return d, nil
	}
	if d != nil {
		d.Abandon()
	}
	return nil, errGone(ctx)
}

func errGone(ctx context.Context) *engine.Error {
	return &engine.Error{Code: engine.CodeTimeout, RetryAfter: time.Second, Message: "the caller is gone", Cause: ctx.Err()}
}

// tryLocked claims for one pop, nil when there is nothing or nobody to receive it.
func (m *Model) tryLocked(w *waiter) *engine.Delivery {
	if w.req.Alive != nil && !w.req.Alive() {
		return nil
	}
	p := m.mu.s.pop(w.tenant, w.req)
	if p == nil {
		return nil
	}
	if w.req.Alive != nil && !w.req.Alive() {
		m.mu.s.release(w.tenant, &engine.Release{Lease: p.lease.String()})
		return nil
	}
	return m.delivery(w.tenant, w.req, p)
}

// emptyLocked is the answer of a pop that claimed nothing: nil, unless it tells of a policy.
func (m *Model) emptyLocked(t format.Tenant, r *engine.PopRequest) *engine.Delivery {
	d := engine.Delivery{Group: groupName(r.Group)}
	d.Conflate, d.Conflict = m.mu.s.policy(m.mu.s.popQueues(t, r), r)
	if !d.Conflate && !d.Conflict {
		return nil
	}
	return engine.NewDelivery(d, (&popped{}).messages(), func(bool) {})
}

// delivery dresses a claim. Abandon hands the lease back uncounted (S-pop-12); what was committed at
// hand-out stays so.
func (m *Model) delivery(t format.Tenant, r *engine.PopRequest, p *popped) *engine.Delivery {
	d := engine.Delivery{Group: groupName(r.Group), Chosen: p.chosen, Conflate: p.conflate, Conflict: p.conflict}
	if !p.lease.IsZero() {
		d.Lease = p.lease.String()
	}
	for _, c := range p.claims {
		d.Claims = append(d.Claims, engine.Claimed{Queue: c.p.q.name, Partition: c.p.name, PartitionID: c.p.id,
			First: c.messages[0].Offset, Last: c.to - 1, Attempt: c.attempt})
	}
	return engine.NewDelivery(d, p.messages(), func(delivered bool) {
		if delivered || d.Lease == "" {
			return
		}
		m.mu.Lock()
		defer m.mu.Unlock()
		m.stepLocked().release(t, &engine.Release{Lease: d.Lease})
		m.serveLocked()
	})
}

func (p *popped) messages() iter.Seq2[engine.Delivered, error] {
	return func(yield func(engine.Delivered, error) bool) {
		for i := range p.claims {
			for _, rec := range p.claims[i].messages {
				if !yield(engine.Delivered{Record: rec, Claim: i}, nil) {
					return
				}
			}
		}
	}
}

// serveLocked gives parked pops what is claimable now, first come first served, and wakes reads. It
// ends every call that may have changed something.
func (m *Model) serveLocked() {
	rest := m.mu.waiters[:0]
	for _, w := range m.mu.waiters {
		if d := m.tryLocked(w); d != nil {
			w.got <- d
		} else {
			rest = append(rest, w)
		}
	}
	clear(m.mu.waiters[len(rest):])
	m.mu.waiters = rest
	close(m.mu.bump)
	m.mu.bump = make(chan struct{})
	m.armLocked()
}

// armLocked arms the timer for the next moment at which time alone gives a parked pop something.
func (m *Model) armLocked() {
	if m.mu.timer != nil {
		m.mu.timer.Stop()
		m.mu.timer = nil
	}
	if m.mu.closed || len(m.mu.waiters)+len(m.mu.s.keyed.timers)+m.mu.kvWatches == 0 {
		return
	}
	if d, ok := m.mu.s.nextDue(); ok {
		m.mu.timer = m.opts.Clock.AfterFunc(max(d, time.Microsecond), m.due)
	}
}

func (m *Model) due() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.mu.closed {
		m.stepLocked()
		m.serveLocked()
	}
}

// Close answers parked calls with nothing and refuses what follows.
func (m *Model) Close(context.Context) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.mu.closed {
		return nil
	}
	m.mu.closed = true
	for _, w := range m.mu.waiters {
		w.got <- nil
	}
	m.mu.waiters = nil
	m.armLocked()
	close(m.mu.bump)
	return nil
}

// Status is that of a lone leader.
func (m *Model) Status(context.Context) (engine.Status, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.mu.closed {
		return engine.Status{Role: "stopped", Why: "closed", IOMode: "memory"}, nil
	}
	n := format.Index(m.mu.s.seq)
	return engine.Status{Role: "leader", Term: 1, Applied: n, Durable: n, CanWrite: true, Quorum: true, Ready: true,
		Progress: 1, IOMode: "memory"}, nil
}

// Catalog lists and changes what exists.
func (m *Model) Catalog() engine.Catalog { return (*modelCatalog)(m) }

// Inspect looks without touching.
func (m *Model) Inspect() engine.Inspect { return (*modelInspect)(m) }
