package enginetest

import (
	"bytes"
	"context"
	"runtime"
	"slices"
	"testing"
	"time"

	"queen/engine"
	"queen/engine/clock"
	"queen/engine/format"
)

// mutant is a model with one rule broken: a request is changed on the way in, an answer on the way
// out, or the state behind them.
type mutant struct {
	*Model
	op        func(m *Model, op engine.Op)                           // changes a copy of each op
	result    func(m *Model, op engine.Op, r *engine.Result)         // changes each result
	request   func(m *Model, c *engine.Caller, r *engine.PopRequest) // changes each pop
	message   func(d *engine.Delivered)                              // changes each delivered message
	delivery  func(d *engine.Delivery)                               // changes each delivery
	read      func(r *engine.ReadResult)                             // changes each read
	queue     func(q *queue)                                         // changes a queue after each configure
	offsets   func(a *engine.OffsetAnswer)                           // changes each offset answer
	reopen    func(s *state)                                         // changes the state at each restart
	shown     map[*queue]format.QueueOptions                         // what queue changed, as it was
	abandoned bool                                                   // an abandoned delivery stays leased
	reversed  bool                                                   // messages come in the wrong order
}

func (x *mutant) Do(ctx context.Context, c engine.Caller, b engine.Batch) ([]engine.Result, error) {
	ops := slices.Clone(b.Ops)
	for i := range ops {
		ops[i] = copyOp(ops[i])
		if x.op != nil {
			x.op(x.Model, ops[i])
		}
	}
	res, err := x.Model.Do(ctx, c, engine.Batch{Ops: ops, Atomic: b.Atomic})
	for i := range res {
		if x.result != nil {
			x.result(x.Model, b.Ops[i], &res[i])
		}
	}
	return res, err
}

func copyOp(op engine.Op) engine.Op {
	switch op := op.(type) {
	case *engine.Append:
		c := *op
		c.Messages = slices.Clone(op.Messages)
		return &c
	case *engine.Ack:
		c := *op
		return &c
	case *engine.Extend:
		c := *op
		return &c
	case *engine.Release:
		c := *op
		return &c
	case *engine.SetOffset:
		c := *op
		return &c
	}
	return op
}

func (x *mutant) Pop(ctx context.Context, c engine.Caller, r engine.PopRequest) (*engine.Delivery, error) {
	if x.request != nil {
		x.request(x.Model, &c, &r)
	}
	d, err := x.Model.Pop(ctx, c, r)
	if d == nil || err != nil {
		return d, err
	}
	if x.delivery != nil {
		x.delivery(d)
	}
	var all []engine.Delivered
	for m := range d.Messages() {
		if x.message != nil {
			x.message(&m)
		}
		all = append(all, m)
	}
	if x.reversed {
		slices.Reverse(all)
	}
	return engine.NewDelivery(*d, func(yield func(engine.Delivered, error) bool) {
		for _, m := range all {
			if !yield(m, nil) {
				return
			}
		}
	}, func(delivered bool) {
		if delivered || x.abandoned {
			d.Delivered()
		} else {
			d.Abandon()
		}
	}), nil
}

func (x *mutant) Read(ctx context.Context, c engine.Caller, r engine.ReadRequest) (*engine.ReadResult, error) {
	res, err := x.Model.Read(ctx, c, r)
	if res != nil && x.read != nil && c != prober {
		x.read(res)
	}
	return res, err
}

func (x *mutant) Offsets(ctx context.Context, c engine.Caller, qs []engine.OffsetQuery) ([]engine.OffsetAnswer, error) {
	res, err := x.Model.Offsets(ctx, c, qs)
	for i := range res {
		if x.offsets != nil {
			x.offsets(&res[i])
		}
	}
	return res, err
}

func (x *mutant) Catalog() engine.Catalog { return &mutantCatalog{x.Model.Catalog(), x} }

type mutantCatalog struct {
	engine.Catalog
	x *mutant
}

// Configure lets the mutation act behind what the catalogue shows.
func (c *mutantCatalog) Configure(ctx context.Context, by engine.Caller, r engine.ConfigureRequest) (engine.QueueInfo, error) {
	c.shown(by, r.Queue, func(q *queue, o format.QueueOptions) { q.opts = o })
	info, err := c.Catalog.Configure(ctx, by, r)
	if c.x.queue != nil && err == nil {
		c.x.mu.Lock()
		defer c.x.mu.Unlock()
		q := c.x.mu.s.queue(by.Tenant, r.Queue)
		if c.x.shown == nil {
			c.x.shown = map[*queue]format.QueueOptions{}
		}
		c.x.shown[q] = q.opts
		c.x.queue(q)
	}
	return info, err
}

func (c *mutantCatalog) Queues(ctx context.Context, by engine.Caller, p engine.Page) ([]engine.QueueInfo, string, error) {
	rows, next, err := c.Catalog.Queues(ctx, by, p)
	for i := range rows {
		c.shown(by, rows[i].Name, func(_ *queue, o format.QueueOptions) { rows[i].Options = o })
	}
	return rows, next, err
}

func (c *mutantCatalog) shown(by engine.Caller, name string, f func(*queue, format.QueueOptions)) {
	c.x.mu.Lock()
	defer c.x.mu.Unlock()
	if q := c.x.mu.s.queue(by.Tenant, name); q != nil {
		if o, ok := c.x.shown[q]; ok {
			f(q, o)
		}
	}
}

// mutants each break one rule. parked ones need the suite: lists never wait.
var mutants = []struct {
	name  string
	suite bool // only the conformance suite can see it
	build func(m *Model) *mutant
}{
	{"lost lease fencing", false, func(m *Model) *mutant {
		return &mutant{op: onAck(func(a *engine.Ack) { a.Lease, a.Unfenced = "", true })}
	}},
	{"retry charges the budget", false, func(m *Model) *mutant { return &mutant{op: onAck(status(format.AckRetry, format.AckFailed))} }},
	{"failed never charges", false, func(m *Model) *mutant { return &mutant{op: onAck(status(format.AckFailed, format.AckRetry))} }},
	{"dlq is only failed", false, func(m *Model) *mutant { return &mutant{op: onAck(status(format.AckDLQ, format.AckFailed))} }},
	{"a noop charges the budget", false, func(m *Model) *mutant {
		return &mutant{result: func(m *Model, op engine.Op, r *engine.Result) {
			if a, ok := op.(*engine.Ack); ok && r.Ack.Noop {
				m.mu.Lock()
				p := m.mu.s.parts[a.Partition]
				p.q.group(groupName(a.Group)).cursor(p).retries++
				m.mu.Unlock()
			}
		}}
	}},
	{"an ack completes one message more", false, func(m *Model) *mutant {
		return &mutant{op: onAck(func(a *engine.Ack) { a.Offset++ })}
	}},
	{"the reason of a nack is lost", false, func(m *Model) *mutant { return &mutant{op: onAck(func(a *engine.Ack) { a.Reason = "" })} }},
	{"a nack's delay is ignored", false, func(m *Model) *mutant { return &mutant{op: onAck(func(a *engine.Ack) { a.Delay = 0 })} }},
	{"an ack moves another group's cursor", false, func(m *Model) *mutant { return &mutant{op: onAck(func(a *engine.Ack) { a.Group = "" })} }},
	{"a duplicate is told a new offset", false, func(m *Model) *mutant {
		return &mutant{result: onMessage(func(r *engine.MessageResult) {
			if r.Status == engine.Duplicate {
				r.Offset++
			}
		})}
	}},
	{"a duplicate is told a new id", false, func(m *Model) *mutant {
		return &mutant{result: onMessage(func(r *engine.MessageResult) {
			if r.Status == engine.Duplicate {
				r.ID[15]++
			}
		})}
	}},
	{"ids are not kept", false, func(m *Model) *mutant {
		return &mutant{op: func(m *Model, op engine.Op) {
			if a, ok := op.(*engine.Append); ok {
				for i := range a.Messages {
					a.Messages[i].TransactionID = ""
				}
			}
		}}
	}},
	{"the dedup window is a second short", false, func(m *Model) *mutant {
		return &mutant{op: func(m *Model, op engine.Op) {
			a, ok := op.(*engine.Append)
			if !ok {
				return
			}
			m.mu.Lock()
			defer m.mu.Unlock()
			for _, q := range m.mu.s.queues {
				if q.name == a.Queue {
					q.dedupFloor = max(q.dedupFloor, m.mu.s.w-seconds(q.opts.DedupWindowSeconds-1))
				}
			}
		}}
	}},
	{"a message id is used twice", false, func(m *Model) *mutant {
		return &mutant{result: onMessage(func(r *engine.MessageResult) { r.ID[15] &^= 1 })}
	}},
	{"batch is ignored", false, func(m *Model) *mutant { return &mutant{request: onPop(func(r *engine.PopRequest) { r.Batch = 0 })} }},
	{"partitions is ignored", false, func(m *Model) *mutant {
		return &mutant{request: onPop(func(r *engine.PopRequest) { r.Partitions = 64 })}
	}},
	{"a pop claims one partition less", false, func(m *Model) *mutant {
		return &mutant{request: onPop(func(r *engine.PopRequest) { r.Partitions = max(1, r.Partitions-1) })}
	}},
	{"maxBytes is ignored", false, func(m *Model) *mutant { return &mutant{request: onPop(func(r *engine.PopRequest) { r.MaxBytes = 0 })} }},
	{"pinned pops are not", false, func(m *Model) *mutant {
		return &mutant{request: onPop(func(r *engine.PopRequest) { r.Scope.Pinned = false })}
	}},
	{"every group is queue mode", false, func(m *Model) *mutant { return &mutant{request: onPop(func(r *engine.PopRequest) { r.Group = "" })} }},
	{"all starts like new", false, func(m *Model) *mutant {
		return &mutant{request: onPop(func(r *engine.PopRequest) { r.Start = engine.Start{} })}
	}},
	{"commit on delivery leases", false, func(m *Model) *mutant {
		return &mutant{request: onPop(func(r *engine.PopRequest) { r.CommitOnDelivery = false })}
	}},
	{"a lease is a millisecond short", false, func(m *Model) *mutant {
		return &mutant{request: onPop(func(r *engine.PopRequest) { r.Lease = max(0, r.Lease-time.Millisecond) })}
	}},
	{"discovery sees every queue", false, func(m *Model) *mutant {
		return &mutant{request: func(m *Model, c *engine.Caller, r *engine.PopRequest) {
			if r.Scope.Discovery {
				m.mu.Lock()
				defer m.mu.Unlock()
				for _, q := range m.mu.s.queues {
					q.opts.Task = r.Scope.Task
				}
			}
		}}
	}},
	{"the newest claimable is served first", false, func(m *Model) *mutant {
		return &mutant{request: func(m *Model, c *engine.Caller, r *engine.PopRequest) {
			if r.Scope.Pinned || r.Scope.Discovery || r.Partitions > 1 || r.Autopilot {
				return
			}
			m.mu.Lock()
			defer m.mu.Unlock()
			s := m.stepLocked()
			if cands := s.candidates(s.popQueues(c.Tenant, r), r); len(cands) > 0 {
				r.Scope.Pinned, r.Scope.Partition = true, cands[len(cands)-1].p.name
			}
		}}
	}},
	{"an abandoned claim stays leased", false, func(m *Model) *mutant { return &mutant{abandoned: true} }},
	{"attempts are not counted", false, func(m *Model) *mutant {
		return &mutant{delivery: func(d *engine.Delivery) {
			for i := range d.Claims {
				d.Claims[i].Attempt = 1
			}
		}}
	}},
	{"messages come in reverse", false, func(m *Model) *mutant { return &mutant{reversed: true} }},
	{"one payload byte is wrong", false, func(m *Model) *mutant {
		return &mutant{message: func(d *engine.Delivered) { d.Payload = bytes.ReplaceAll(d.Payload, []byte("99"), []byte("9 ")) }}
	}},
	{"headers are lost", false, func(m *Model) *mutant { return &mutant{message: func(d *engine.Delivered) { d.Headers = nil }} }},
	{"createdAt is a microsecond off", false, func(m *Model) *mutant { return &mutant{message: func(d *engine.Delivered) { d.CreatedAt++ }} }},
	{"a read skips its first record", false, func(m *Model) *mutant {
		return &mutant{read: func(r *engine.ReadResult) {
			for i := range r.Parts {
				if len(r.Parts[i].Records) > 1 {
					r.Parts[i].Records = r.Parts[i].Records[1:]
				}
			}
		}}
	}},
	{"the end is told one too high", false, func(m *Model) *mutant { return &mutant{offsets: func(a *engine.OffsetAnswer) { a.End++ }} }},
	{"extend renews nothing but says so", false, func(m *Model) *mutant {
		return &mutant{op: func(m *Model, op engine.Op) {
			if e, ok := op.(*engine.Extend); ok {
				e.For = 0
			}
		}}
	}},
	{"release hands back the acked as well", false, func(m *Model) *mutant {
		return &mutant{op: func(m *Model, op engine.Op) {
			if r, ok := op.(*engine.Release); ok {
				m.mu.Lock()
				defer m.mu.Unlock()
				m.mu.s.eachLease(format.DefaultTenant, r.Lease, func(_ *group, _ *part, c *cursor) { c.lease.acked = false })
			}
		}}
	}},
	{"a seek goes one too far", false, func(m *Model) *mutant {
		return &mutant{op: func(m *Model, op engine.Op) {
			if s, ok := op.(*engine.SetOffset); ok && !s.Whole {
				s.To.Offset++
			}
		}}
	}},
	{"delayedProcessing is a second short", false, func(m *Model) *mutant {
		return &mutant{queue: func(q *queue) { q.opts.DelayedProcessing = max(0, q.opts.DelayedProcessing-1) }}
	}},
	{"retention comes early", false, func(m *Model) *mutant {
		return &mutant{queue: func(q *queue) { q.opts.MaxWaitTimeSeconds /= 2 }}
	}},
	{"completed retention looks at no cursor", false, func(m *Model) *mutant {
		return &mutant{op: func(m *Model, op engine.Op) {
			m.mu.Lock()
			defer m.mu.Unlock()
			for _, q := range m.stepLocked().queues {
				for _, p := range q.parts {
					if o := &q.opts; o.RetentionEnabled && o.CompletedRetentionSeconds > 0 && len(q.groups) > 0 {
						m.mu.s.trim(p, p.firstAt(m.mu.s.w-seconds(o.CompletedRetentionSeconds)))
					}
				}
			}
		}}
	}},
	{"a restart loses the last message", false, func(m *Model) *mutant {
		return &mutant{reopen: func(s *state) {
			for _, q := range s.queues {
				for _, p := range q.parts {
					if q.tenant != prober.Tenant && p.end() > p.start {
						last := p.msgs[len(p.msgs)-1].rec.TransactionID
						p.msgs = p.msgs[:len(p.msgs)-1]
						p.revealed = min(p.revealed, p.end())
						if all := p.byID[last]; len(all) > 0 {
							p.byID[last] = all[:len(all)-1]
						}
						return
					}
				}
			}
		}}
	}},
	{"a restart loses leases", false, func(m *Model) *mutant {
		return &mutant{reopen: func(s *state) { eachCursor(s, func(c *cursor) { c.lease = nil }) }}
	}},
	{"a restart forgets the budget", false, func(m *Model) *mutant {
		return &mutant{reopen: func(s *state) { eachCursor(s, func(c *cursor) { c.retries = 0 }) }}
	}},
	{"a parked pop is never woken", true, func(m *Model) *mutant { return &mutant{request: onPop(func(r *engine.PopRequest) { r.Wait = 0 })} }},
	{"tenants share queues", true, func(m *Model) *mutant {
		return &mutant{request: func(m *Model, c *engine.Caller, r *engine.PopRequest) { c.Tenant = format.DefaultTenant }}
	}},
	{"nobody asks whether the caller is alive", true, func(m *Model) *mutant { return &mutant{request: onPop(func(r *engine.PopRequest) { r.Alive = nil })} }},
}

func onAck(f func(*engine.Ack)) func(*Model, engine.Op) {
	return func(_ *Model, op engine.Op) {
		if a, ok := op.(*engine.Ack); ok {
			f(a)
		}
	}
}

func status(from, to format.AckStatus) func(*engine.Ack) {
	return func(a *engine.Ack) {
		if a.Status == from {
			a.Status = to
		}
	}
}

func onMessage(f func(*engine.MessageResult)) func(*Model, engine.Op, *engine.Result) {
	return func(_ *Model, _ engine.Op, r *engine.Result) {
		for i := range r.Messages {
			f(&r.Messages[i])
		}
	}
}

func onPop(f func(*engine.PopRequest)) func(*Model, *engine.Caller, *engine.PopRequest) {
	return func(_ *Model, _ *engine.Caller, r *engine.PopRequest) { f(r) }
}

func eachCursor(s *state, f func(*cursor)) {
	for _, q := range s.queues {
		for _, g := range q.groups {
			for _, p := range q.parts {
				f(g.cursor(p))
			}
		}
	}
}

// TestMutantsAreCaught: every broken rule is noticed, by random lists where they can see it and by
// the suite where only that can.
func TestMutantsAreCaught(t *testing.T) {
	shrink := 1 // nobody reads the list
	if testing.Verbose() {
		shrink = 40
	}
	for i, mu := range mutants {
		if testing.Short() && i%5 != 0 {
			continue // no mutant runs code of its own that could race
		}
		t.Run(mu.name, func(t *testing.T) {
			if mu.suite {
				if broken := brokenRules(mu.build); len(broken) == 0 {
					t.Fatal("no rule of the suite noticed")
				}
				return
			}
			_, f := Random(RandomOptions{Open: func(uint64) Target { return openMutant(mu.build) }, Seed: 1, Ops: 20_000, ShrinkRuns: shrink})
			if f == nil {
				t.Fatal("20,000 random operations did not notice")
			}
			if testing.Verbose() {
				t.Log(f)
			}
		})
	}
}

func openMutant(build func(*Model) *mutant) Target {
	target := openModelTarget(0)
	m := target.Engine.(*Model)
	x := build(m)
	x.Model = m
	target.Engine = x
	restart := target.Reopen
	target.Reopen = func(crash bool) engine.Engine {
		restart(crash)
		if x.reopen != nil {
			m.mu.Lock()
			x.reopen(m.mu.s)
			m.mu.Unlock()
		}
		return x
	}
	return target
}

// brokenRules runs the suite on a mutant and returns the rules that fail.
func brokenRules(build func(*Model) *mutant) (broken []string) {
	for _, ru := range allRules() {
		c := clock.NewFake(epoch)
		m := NewModel(ModelOptions{Clock: c})
		x := build(m)
		x.Model = m
		verdict := &recorder{}
		done := make(chan struct{})
		go func() {
			defer close(done)
			ru.run(verdict, x, c, &Options{}, 2*time.Second)
		}()
		<-done
		if verdict.failed {
			broken = append(broken, ru.name)
		}
	}
	return broken
}

// recorder stands in for a *testing.T whose failure is wanted.
type recorder struct{ failed bool }

func (r *recorder) Helper()               {}
func (r *recorder) Errorf(string, ...any) { r.failed = true }
func (r *recorder) Fatalf(string, ...any) {
	r.failed = true
	runtime.Goexit()
}
