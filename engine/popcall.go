package engine

import (
	"container/list"
	"context"
	"errors"
	"sync/atomic"
	"time"

	"queen/engine/format"
)

const (
	defaultBatch   = 200
	maxPartitions  = 64
	maxPopWait     = 60 * time.Second
	defaultPopMax  = 8 << 20
	discoveryLease = 60 * time.Second
	// discoveryQueues bounds the queues one discovery pop looks at.
	discoveryQueues = 256
	// popRounds bounds how often one call proposes: for evidence, undeliverable ranges, look limits.
	popRounds = 64
	// evidenceRounds is how many missing cursors one call looks up before it answers with what it has.
	evidenceRounds = 32
)

// popCall is one Pop under way. It is owned by the calling goroutine, except for what parking and
// the apply goroutine change under their rules.
type popCall struct {
	n      *Node
	caller Caller
	req    PopRequest
	group  string
	lane   laneKey
	cmd    format.Pop
	chosen Chosen
	// conflates and conflicts are the policies that a discovery pop met, if it met any.
	conflates, conflicts, met bool

	place  *list.Element // guarded by parking
	until  int64         // mono deadline of the wait; 0 does not wait
	gone   atomic.Bool
	answer chan popAnswer
}

// popAnswer is what the apply goroutine hands back; the zero value is an empty answer.
type popAnswer struct {
	err    *Error
	result format.PopResult
	header format.EntryHeader
	code   format.Code
}

func (c *popCall) isGone() bool {
	return c.gone.Load() || c.req.Alive != nil && !c.req.Alive()
}

func (c *popCall) answerEmpty() { c.answer <- popAnswer{} }

// mayWait reports whether the call may still park.
func (c *popCall) mayWait() bool { return c.until > c.n.cfg.Clock.Mono() && !c.isGone() }

// newPop checks a request and resolves every default, so that apply finds all explicit.
func (n *Node) newPop(c Caller, req PopRequest) (*popCall, *Error) {
	call := &popCall{n: n, caller: c, req: req, group: groupName(req.Group), answer: make(chan popAnswer, 1)}
	if err := call.check(); err != nil {
		return nil, err
	}
	if req.Wait > 0 && !req.Scope.Discovery {
		call.until = n.cfg.Clock.Mono() + min(req.Wait, maxPopWait).Microseconds()
	}
	call.lane = laneKey{queueName: queueName{c.Tenant, req.Scope.Queue}, group: call.group}
	if req.Scope.Pinned {
		call.lane.partition, call.lane.pinned = req.Scope.Partition, true
	}
	call.cmd = format.Pop{
		Tenant: c.Tenant, Group: viewBytes(call.group), Start: req.Start.Kind, From: req.Start.From,
		Batch: uint32(req.Batch), Partitions: uint32(min(req.Partitions, maxPartitions)),
		Lease: req.Lease.Microseconds(), Worker: viewBytes(c.Subject),
		Queues: [][]byte{viewBytes(req.Scope.Queue)}, Conflate: req.Conflate,
	}
	if req.Scope.Pinned {
		call.cmd.Pinned, call.cmd.Partition, call.cmd.Partitions = true, viewBytes(req.Scope.Partition), 1
	}
	call.defaults()
	return call, nil
}

func (c *popCall) check() *Error {
	r := &c.req
	other := c.group
	if len(r.Scope.Partition) > len(other) {
		other = r.Scope.Partition
	}
	switch {
	case r.Scope.Discovery && r.Scope.Namespace == "" && r.Scope.Task == "":
		return errBad("namespace", "", "namespace or task is required")
	case r.Conflate && c.group == format.QueueMode:
		return errBad("conflation", "", "conflation needs a consumerGroup")
	case r.Conflate && r.CommitOnDelivery:
		return errBad("conflation", "", "conflation can not be combined with commitOnDelivery")
	case r.Batch < 0:
		return errBad("batch", "1 or more", "batch must not be negative")
	case r.Lease < 0:
		return errBad("leaseSeconds", "", "leaseSeconds must not be negative")
	}
	return checkNames(r.Scope.Queue, other, "consumerGroup")
}

func (c *popCall) defaults() {
	r, cmd := &c.req, &c.cmd
	if cmd.Start == 0 {
		cmd.Start = format.StartNew
		if c.n.cfg.DefaultStartAll {
			cmd.Start = format.StartAll
		}
	}
	if c.group == format.QueueMode {
		cmd.Start, cmd.From = format.StartAll, 0
	}
	// Autopilot picks the knobs that were not sent; pinned and conflating pops and queue mode ignore it.
	if r.Autopilot && !r.Scope.Pinned && !r.Scope.Discovery && !r.Conflate && c.group != format.QueueMode {
		if r.Batch == 0 {
			cmd.Batch, c.chosen.Set = defaultBatch, true
		}
		if r.Partitions == 0 {
			cmd.Partitions, c.chosen.Set = maxPartitions, true
		}
	}
	if cmd.Batch == 0 {
		cmd.Batch = defaultBatch
	}
	if cmd.Partitions == 0 && r.Conflate {
		cmd.Partitions = min(cmd.Batch, maxPartitions) // one message a partition (S-con-5)
	}
	if cmd.Partitions == 0 {
		cmd.Partitions = 1
	}
	if r.Scope.Discovery && cmd.Lease == 0 {
		cmd.Lease = discoveryLease.Microseconds()
	}
	if r.MaxBytes <= 0 {
		r.MaxBytes = defaultPopMax
	}
}

// Pop implements Engine.
func (n *Node) Pop(ctx context.Context, caller Caller, req PopRequest) (*Delivery, error) {
	if req.Wait <= 0 && n.mayLag() { // who waits is woken; who does not is to find what others were told of
		if err := n.catchUp(ctx); err != nil {
			return nil, err
		}
	}
	call, bad := n.newPop(caller, req)
	if bad != nil {
		return nil, bad
	}
	again := false // the last round stopped half-way: what it gave back may not be counted as ready yet
	for round := range popRounds {
		a, err := call.round(ctx, again)
		if err != nil {
			return nil, err
		}
		again = a.code != format.CodeOK
		if a.code == format.CodeNeedEvidence && round < evidenceRounds {
			// What was claimed is handed back and claimed again with the evidence, so that one lease covers
			// the whole answer.
			call.handBackNow(&a)
			if err := call.findEvidence(&a.result); err != nil {
				return nil, err
			}
			continue
		}
		if a.code == format.CodeStaleEvidence {
			call.cmd.Evidence = nil // a registration or retention came between: look again
			continue
		}
		if len(a.result.Claims) == 0 {
			return call.empty(), nil
		}
		d, err := call.deliver(ctx, &a)
		switch {
		case err == errGone && ctx.Err() != nil:
			return nil, errContext(ctx, OutcomeNone)
		case err == errGone:
			return nil, nil
		case err != nil || d != nil:
			return d, err
		}
		// Everything claimed had expired or was trimmed: the cursor moved, look again.
	}
	return call.empty(), nil
}

// empty is the answer of a pop that claimed nothing: nil, unless the caller has to be told that its group
// conflates, or does not though the caller thinks it does (S-con-1).
func (c *popCall) empty() *Delivery {
	c.tallyEmpty()
	d := Delivery{Group: c.group}
	if c.req.Scope.Discovery {
		d.Conflate, d.Conflict = c.conflates || c.req.Conflate && !c.met, c.conflicts
	} else {
		d.Conflate = c.n.conflates(&c.lane, c.req.Conflate)
		d.Conflict = d.Conflate != c.req.Conflate
	}
	if !d.Conflate && !d.Conflict {
		return nil
	}
	return NewDelivery(d, func(func(Delivered, error) bool) {}, func(bool) {})
}

// round launches the call once and waits for its answer. When the caller goes away while a claim is
// under way, the claim is handed back as soon as it arrives.
func (c *popCall) round(ctx context.Context, again bool) (popAnswer, error) {
	c.launch(again)
	var expired <-chan struct{}
	if c.until != 0 {
		t := c.n.cfg.Clock.NewTimer(time.Duration(c.until-c.n.cfg.Clock.Mono()) * time.Microsecond)
		defer t.Stop()
		expired = t.C()
	}
	for {
		select {
		case a := <-c.answer:
			if a.err != nil {
				return a, a.err
			}
			return a, nil
		case <-expired:
			expired = nil
			if c.n.park.leave(c) {
				return popAnswer{}, nil
			}
			// A claim is under way; it may bring something within a flush time.
		case <-ctx.Done():
			c.gone.Store(true)
			if c.n.park.leave(c) {
				return popAnswer{}, errContext(ctx, OutcomeNone)
			}
			go c.handBack()
			return popAnswer{}, errContext(ctx, OutcomeNone)
		}
	}
}

// handBack waits for the claim of a caller that went away and returns it uncounted (S-pop-12).
func (c *popCall) handBack() {
	a := <-c.answer
	c.handBackNow(&a)
}

// errGone says that the caller went away and its claim was handed back.
var errGone = errors.New("engine: the caller went away")

// handBackNow returns a claim uncounted.
func (c *popCall) handBackNow(a *popAnswer) {
	if len(a.result.Claims) > 0 && !a.result.Lease.IsZero() {
		c.n.release(a.result.Lease, 0)
	}
}

// launch proposes the pop when something may be ready, the group is not registered yet, or it is to look
// again where it looked; else it parks the call, or answers empty.
func (c *popCall) launch(again bool) {
	if !again && !c.parkUnlessReady(false) {
		return
	}
	c.n.park.depart(c.lane)
	if c.n.fuser.submit(c.n.seq.Prompt(), c.submission()) {
		c.n.lead()
	}
}

// parkUnlessReady decides under the state lock, so that no append can slip between the look and the
// park. It returns true when the pop is to be proposed.
func (c *popCall) parkUnlessReady(front bool) bool {
	n := c.n
	n.state.RLock()
	ready := n.readyFor(c)
	if ready > n.park.flying(c.lane) {
		n.state.RUnlock()
		return true
	}
	parked := c.mayWait() && n.park.park(c, front)
	n.state.RUnlock()
	if !parked {
		c.answerEmpty()
	}
	return false
}

// fly submits the pop; depart was counted. Its completion runs where its entry is applied.
func (c *popCall) fly() { c.n.fuser.submit(false, c.submission()) }

func (c *popCall) submission() *submission {
	s := newSubmission(consumption)
	s.buf.AddPop(&c.cmd)
	s.applied = c.landed
	return s
}

// landed runs in the apply goroutine right after the pop's entry was applied and before the next
// one is: an empty pop parks again, in front, or looks again when more became ready meanwhile.
func (c *popCall) landed(s *submission) {
	c.n.park.arrive(c.lane)
	if s.err != nil {
		c.answer <- popAnswer{err: s.err}
		return
	}
	defer s.flight.release()
	it := &s.items()[0]
	again := it.Code == format.CodeNeedEvidence || it.Code == format.CodeStaleEvidence
	if e := errOfCode(it.Code); e != nil && !again {
		c.answer <- popAnswer{err: e}
		return
	}
	res := &s.flight.results.Pops[it.At]
	if len(res.Claims) > 0 || again {
		a := popAnswer{result: *res, header: s.flight.header, code: it.Code}
		res.Claims = nil // the answer's from now on
		c.answer <- a
		return
	}
	if c.isGone() {
		c.answerEmpty()
		return
	}
	if res.Again || c.parkUnlessReady(true) {
		c.n.park.depart(c.lane)
		c.fly()
	}
}
