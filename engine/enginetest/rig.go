package enginetest

import (
	"context"
	"fmt"
	"runtime"
	"time"

	"queen/engine"
	"queen/engine/clock"
	"queen/engine/format"
)

// epoch is the wall time at which every fake clock of this package starts.
const epoch = 1_700_000_000_000_000

// guard is how long, in real time, a call that must come back may take before its test fails.
const guard = 20 * time.Second

// tester is what the rules need of a *testing.T.
type tester interface {
	Helper()
	Errorf(format string, args ...any)
	Fatalf(format string, args ...any)
}

// rig is one engine under one fake clock, with the shorthand the rules are written in. Every method
// fails the test by itself when a call that has to work does not.
type rig struct {
	t      tester
	e      engine.Engine
	clock  *clock.Fake
	o      *Options
	caller engine.Caller
	ctx    context.Context
}

// as is the same engine under another tenant.
func (r *rig) as(tenant byte) *rig {
	other := *r
	other.caller.Tenant = format.Tenant{0: 0xee, 15: tenant}
	return &other
}

func (r *rig) fatalf(format string, args ...any) {
	r.t.Helper()
	r.t.Fatalf(format, args...)
}

func check(r *rig, ok bool, format string, args ...any) {
	r.t.Helper()
	if !ok {
		r.t.Fatalf(format, args...)
	}
}

func equal[T comparable](r *rig, what string, got, want T) {
	r.t.Helper()
	if got != want {
		r.t.Fatalf("%s: got %v, want %v", what, got, want)
	}
}

// code is the error code of err, "" for none.
func code(err error) engine.ErrorCode {
	if err == nil {
		return ""
	}
	e, ok := err.(*engine.Error)
	switch {
	case !ok:
		return "not an *engine.Error"
	case e == nil:
		return ""
	}
	return e.Code
}

// advance moves time, and waits until what it made due has been applied if the engine can say so.
func (r *rig) advance(d time.Duration) {
	r.clock.Advance(d)
	if r.o.Settle != nil {
		r.o.Settle(r.e)
	}
}

func (r *rig) do(ops ...engine.Op) []engine.Result {
	r.t.Helper()
	res, err := r.e.Do(r.ctx, r.caller, engine.Batch{Ops: ops})
	if err != nil {
		r.fatalf("Do: %v", err)
	}
	equal(r, "results", len(res), len(ops))
	return res
}

// msg is a message with this id ("" for none) whose payload is the id, or the text given.
func msg(id string, payload ...string) engine.Message {
	m := engine.Message{TransactionID: id, Payload: []byte(fmt.Sprintf("%q", id))}
	if len(payload) > 0 {
		m.Payload = []byte(payload[0])
	}
	return m
}

// push stores messages with these ids in one call and wants every one queued.
func (r *rig) push(queue, partition string, ids ...string) []engine.MessageResult {
	r.t.Helper()
	res := r.pushAny(queue, partition, ids...)
	for i, m := range res {
		if m.Status != engine.Queued {
			r.fatalf("push of %q: status %d, error %v", ids[i], m.Status, m.Err)
		}
	}
	return res
}

func (r *rig) pushAny(queue, partition string, ids ...string) []engine.MessageResult {
	r.t.Helper()
	op := &engine.Append{Queue: queue, Partition: partition}
	for _, id := range ids {
		op.Messages = append(op.Messages, msg(id))
	}
	res := r.do(op)[0]
	if res.Err != nil {
		r.fatalf("push: %v", res.Err)
	}
	equal(r, "message results", len(res.Messages), len(ids))
	return res.Messages
}

// refused is the code with which a push of one message fails, as a call or as an op.
func (r *rig) refused(queue, partition, id string) engine.ErrorCode {
	r.t.Helper()
	res, err := r.e.Do(r.ctx, r.caller, engine.Batch{Ops: []engine.Op{
		&engine.Append{Queue: queue, Partition: partition, Messages: []engine.Message{msg(id)}}}})
	switch {
	case err != nil:
		return code(err)
	case res[0].Err != nil:
		return res[0].Err.Code
	case len(res[0].Messages) == 1 && res[0].Messages[0].Err != nil:
		return res[0].Messages[0].Err.Code
	}
	return ""
}

// batch is a delivery that was read to its end and told delivered.
type batch struct {
	r        *rig
	d        *engine.Delivery
	group    string
	messages []engine.Delivered
}

func popOf(queue string) engine.PopRequest {
	return engine.PopRequest{Scope: engine.Scope{Queue: queue}}
}

func grouped(queue, group string, kind format.StartKind) engine.PopRequest {
	p := popOf(queue)
	p.Group, p.Start.Kind = group, kind
	return p
}

func pinned(queue, partition string) engine.PopRequest {
	return engine.PopRequest{Scope: engine.Scope{Queue: queue, Partition: partition, Pinned: true}}
}

// pop claims now; the batch is nil when there is nothing.
func (r *rig) pop(req engine.PopRequest) *batch {
	r.t.Helper()
	b, err := r.popErr(req)
	if err != nil {
		r.fatalf("Pop: %v", err)
	}
	return b
}

func (r *rig) popErr(req engine.PopRequest) (*batch, error) {
	d, err := r.e.Pop(r.ctx, r.caller, req)
	if d == nil || err != nil {
		return nil, err
	}
	b := &batch{r: r, d: d, group: req.Group}
	for m, err := range d.Messages() {
		if err != nil {
			d.Abandon()
			return nil, err
		}
		b.messages = append(b.messages, cloneDelivered(m))
	}
	d.Delivered()
	return b, nil
}

func cloneDelivered(m engine.Delivered) engine.Delivered {
	m.Record = cloneRecord(m.Record)
	return m
}

// some wants a batch with these transaction ids, and may wait for what time has made due.
func (r *rig) some(req engine.PopRequest, ids ...string) *batch {
	r.t.Helper()
	if req.Wait == 0 && !req.Scope.Discovery {
		req.Wait = 30 * time.Second
	}
	b := r.pop(req)
	if b == nil || len(b.d.Claims) == 0 {
		r.fatalf("pop: empty, want %q", ids)
	}
	b.want(ids...)
	return b
}

// none wants an empty answer at once.
func (r *rig) none(req engine.PopRequest) {
	r.t.Helper()
	if b := r.pop(req); b != nil && len(b.d.Claims) > 0 {
		r.fatalf("pop: got %q, want nothing", b.ids())
	}
}

func (b *batch) ids() (out []string) {
	for _, m := range b.messages {
		out = append(out, m.TransactionID)
	}
	return out
}

func (b *batch) want(ids ...string) {
	b.r.t.Helper()
	if got := b.ids(); fmt.Sprint(got) != fmt.Sprint(ids) {
		b.r.fatalf("delivered %q, want %q", got, ids)
	}
}

func (b *batch) attempt() uint32 { return b.d.Claims[0].Attempt }

// ack is an ack of the i-th message under the batch's lease.
func (b *batch) ack(i int, status format.AckStatus) *engine.Ack {
	m := b.messages[i]
	return &engine.Ack{Partition: b.d.Claims[m.Claim].PartitionID, Group: b.group, Lease: b.d.Lease,
		TransactionID: m.TransactionID, Status: status}
}

// all completes every message of the batch.
func (b *batch) all() []engine.Result {
	b.r.t.Helper()
	var ops []engine.Op
	for i := range b.messages {
		ops = append(ops, b.ack(i, format.AckCompleted))
	}
	res := b.r.do(ops...)
	for i := range res {
		if res[i].Err != nil {
			b.r.fatalf("ack of %q: %v", b.messages[i].TransactionID, res[i].Err)
		}
	}
	return res
}

// with acks the messages in order with these statuses, in one call: c, f, r, d, or - for none.
func (b *batch) with(statuses string) []engine.Result {
	b.r.t.Helper()
	var ops []engine.Op
	for i, s := range statuses {
		if st := statusOf(s); st != 0 {
			ops = append(ops, b.ack(i, st))
		}
	}
	return b.r.do(ops...)
}

func statusOf(letter rune) format.AckStatus {
	switch letter {
	case 'c':
		return format.AckCompleted
	case 'f':
		return format.AckFailed
	case 'r':
		return format.AckRetry
	case 'd':
		return format.AckDLQ
	}
	return 0
}

func (r *rig) configure(queue string, set format.OptionMask, o format.QueueOptions) engine.QueueInfo {
	r.t.Helper()
	o.Set = set
	info, err := r.e.Catalog().Configure(r.ctx, r.caller, engine.ConfigureRequest{Queue: queue, Patch: o})
	if err != nil {
		r.fatalf("Configure: %v", err)
	}
	return info
}

func (r *rig) partition(queue, partition string) engine.PartitionInfo {
	r.t.Helper()
	p, err := r.e.Catalog().Partition(r.ctx, r.caller, queue, partition)
	if err != nil {
		r.fatalf("Partition(%q, %q): %v", queue, partition, err)
	}
	return p
}

func (r *rig) deadLetters(f engine.DeadLetterFilter) []engine.DeadLetter {
	r.t.Helper()
	rows, err := r.e.Catalog().DeadLetters(r.ctx, r.caller, f)
	if err != nil {
		r.fatalf("DeadLetters: %v", err)
	}
	return rows
}

func (r *rig) read(queue, partition string, from format.Offset) engine.PartitionRead {
	r.t.Helper()
	res, err := r.e.Read(r.ctx, r.caller, engine.ReadRequest{At: []engine.Position{{Queue: queue, Partition: partition, Offset: from}}})
	if err != nil {
		r.fatalf("Read: %v", err)
	}
	return res.Parts[0]
}

// seek moves a group and wants it to work.
func (r *rig) seek(op engine.SetOffset) engine.Result {
	r.t.Helper()
	res := r.do(&op)[0]
	if res.Err != nil {
		r.fatalf("seek: %v", res.Err)
	}
	return res
}

// parked runs a pop in the background and returns once it waits.
func (r *rig) parked(req engine.PopRequest) <-chan *batch {
	r.t.Helper()
	before := r.e.Inspect().Stats().Parked
	out := make(chan *batch, 1)
	go func() {
		b, err := r.popErr(req)
		if err != nil {
			r.t.Errorf("parked Pop: %v", err)
		}
		out <- b
	}()
	for r.e.Inspect().Stats().Parked == before && len(out) == 0 {
		if r.ctx.Err() != nil {
			r.fatalf("the pop never parked")
		}
		runtime.Gosched()
	}
	return out
}

// arrives wants a parked pop to be answered with these messages.
func (r *rig) arrives(ch <-chan *batch, ids ...string) *batch {
	r.t.Helper()
	select {
	case b := <-ch:
		if b == nil {
			r.fatalf("the parked pop was answered empty, want %q", ids)
		}
		b.want(ids...)
		return b
	case <-r.ctx.Done():
		r.fatalf("the parked pop was not woken")
	}
	return nil
}

// removedBy moves time on until retention has removed everything below start, and fails when a
// minute did not do it. How soon inside that minute is the engine's business (S-ret-5).
func (r *rig) removedBy(queue, partition string, start format.Offset) {
	r.t.Helper()
	for range 60 {
		r.advance(time.Second)
		if r.partition(queue, partition).Start >= start {
			return
		}
	}
	r.fatalf("after a minute %s/%s still starts at %d, want %d", queue, partition, r.partition(queue, partition).Start, start)
}
