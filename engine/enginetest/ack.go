package enginetest

import (
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"queen/engine"
	"queen/engine/format"
)

// defaultReason is what a dead letter says when no nack gave a reason (S-dlq-10).
const defaultReason = "Retries exhausted"

// ackKey is what is judged together: the acks of one call that name the same partition, consumer
// group and lease (S-ack-18).
type ackKey struct {
	part     format.PartitionID
	group    string
	lease    string
	unfenced bool
}

// signal is one ack whose message was found above the cursor.
type signal struct {
	at     int // number of the op in the call
	offset format.Offset
	ack    *engine.Ack
}

// ackMemo is an ack that ended a lease: the same ack again, within a minute, gets the same
// answer (S-ack-15). The same ack means the same verdicts on the same offsets.
type ackMemo struct {
	lease    string
	until    format.Mono
	before   format.Offset // the cursor then
	open     format.Offset // from where ids were looked for: what retention took is nobody's to resolve to
	end      format.Offset // of what was leased
	after    format.Offset // the cursor behind it
	conflate bool
	verdicts map[format.Offset]format.AckStatus
	filed    map[format.Offset]bool
}

// memoMicros is how long an ack that ended a lease is remembered.
const memoMicros = 60e6

// acks judges all acks of one call; res is indexed like ops.
func (s *state) acks(by engine.Caller, ops []engine.Op, res []engine.Result) {
	var order []ackKey
	byKey := map[ackKey][]int{}
	for i, op := range ops {
		a, ok := op.(*engine.Ack)
		if !ok {
			continue
		}
		k := ackKey{a.Partition, groupName(a.Group), a.Lease, a.Unfenced}
		k.unfenced = k.unfenced && k.lease == ""
		if byKey[k] == nil {
			order = append(order, k)
		}
		byKey[k] = append(byKey[k], i)
	}
	for _, k := range order {
		s.ackKey(by, k, byKey[k], ops, res)
	}
}

func (s *state) ackKey(by engine.Caller, k ackKey, at []int, ops []engine.Op, res []engine.Result) {
	refuse := func(code engine.ErrorCode, text string) {
		for _, i := range at {
			if res[i].Err == nil {
				res[i] = engine.Result{Err: fail(code, text)}
			}
		}
	}
	for _, i := range at {
		if st := ops[i].(*engine.Ack).Status; st < format.AckCompleted || st > format.AckDLQ {
			res[i].Err = fail(engine.CodeBadStatus, "bad_status: not an ack status")
		}
	}
	p := s.tenantPart(by.Tenant, k.part)
	if p == nil {
		refuse(engine.CodeUnknownPartition, "no such partition")
		return
	}
	g := p.q.group(k.group)
	if at = s.barred(g, p, &k, at, ops, res); len(at) == 0 {
		return
	}
	if g == nil || !g.cursor(p).touched {
		refuse(engine.CodeNotLeased, "consumer not found: the group never popped this partition")
		return
	}
	s.refresh(p.q, false)
	c := g.cursor(p)
	if !s.inTxn && s.repeated(c, p, k, at, ops, res) {
		return
	}
	live := s.live(c)
	if !k.unfenced && (live == nil || !strings.EqualFold(live.text, k.lease)) {
		refuse(engine.CodeLeaseInvalid, "invalid or expired lease")
		return
	}
	before, open, end := c.next, g.next(p), c.bound()
	sigs := s.resolve(g, p, at, ops, res)
	if len(sigs) == 0 {
		return
	}
	filed := s.settle(g, p, sigs, res)
	if live != nil && c.lease == nil {
		c.memos = slices.DeleteFunc(c.memos, func(m *ackMemo) bool { return s.t >= m.until })
		c.memos = append(c.memos, &ackMemo{lease: live.text, until: s.t + memoMicros, before: before, open: open, end: end,
			verdicts: verdicts(p, open, at, ops), filed: filed, after: c.next, conflate: g.conflate})
	}
	s.refresh(p.q, true)
}

// barred refuses what a call says of a message above the cursor that it gives an unknown status, and of
// those behind it, and returns what is left to judge (S-ack-16).
func (s *state) barred(g *group, p *part, k *ackKey, at []int, ops []engine.Op, res []engine.Result) (left []int) {
	touched, any := g != nil && g.cursor(p).touched, false
	if _, ok := format.ParseUUID(k.lease); !ok && !k.unfenced {
		touched = false // no lease, no ack: nothing moves
	}
	bar, next, named := p.end(), format.Offset(0), map[format.Offset]bool{}
	if touched {
		next = g.next(p) // what retention took is nobody's to resolve to
	}
	for _, i := range at {
		o, ok := p.resolve(ops[i].(*engine.Ack), next, named)
		if ok {
			named[o] = true
		}
		switch {
		case res[i].Err == nil:
			continue
		case !touched && k.unfenced:
			bar, any = 0, true
		case touched && ok && o >= next:
			bar, any = min(bar, o), true
		}
	}
	named = map[format.Offset]bool{}
	for _, i := range at {
		o, ok := p.resolve(ops[i].(*engine.Ack), next, named)
		if ok {
			named[o] = true
		}
		switch {
		case res[i].Err != nil:
		case any && ok && o >= bar:
			res[i].Err = fail(engine.CodeBadStatus, "bad_status: a message at or below this one has an unknown status")
		default:
			left = append(left, i)
		}
	}
	return left
}

// verdicts is what a call says about the offsets it names, the strongest word on each.
func verdicts(p *part, next format.Offset, at []int, ops []engine.Op) map[format.Offset]format.AckStatus {
	out, named := map[format.Offset]format.AckStatus{}, map[format.Offset]bool{}
	for _, i := range at {
		a := ops[i].(*engine.Ack)
		if a.Status < format.AckCompleted || a.Status > format.AckDLQ {
			continue
		}
		if o, ok := p.resolve(a, next, named); ok {
			named[o] = true
			out[o] = max(out[o], a.Status)
		}
	}
	return out
}

// repeated answers an ack that already applied and released its lease as it was answered then.
func (s *state) repeated(c *cursor, p *part, k ackKey, at []int, ops []engine.Op, res []engine.Result) bool {
	i := slices.IndexFunc(c.memos, func(m *ackMemo) bool {
		return !k.unfenced && strings.EqualFold(m.lease, k.lease) && s.t < m.until &&
			maps.Equal(m.verdicts, verdicts(p, m.open, at, ops))
	})
	if i < 0 {
		return false
	}
	m := c.memos[i]
	s.repeats = append(s.repeats, at...)
	named := map[format.Offset]bool{}
	for _, i := range at {
		if res[i].Err != nil {
			continue
		}
		a := ops[i].(*engine.Ack)
		o, ok := p.resolve(a, m.open, named)
		switch {
		case !ok || o >= m.end:
			res[i].Err = errUnresolvable()
		case o >= m.before:
			named[o] = true
			res[i].Ack = engine.AckItem{Released: true, Filed: m.filed[o]}
			if m.conflate && len(m.filed) == 0 && a.Status == format.AckCompleted && o+1 == m.after {
				res[i].Ack.Conflated = uint64(m.after - m.before - 1)
			}
		case a.Status == format.AckCompleted:
			res[i].Ack.Noop = true
		default:
			res[i].Err = errCommitted()
		}
	}
	return true
}

func errUnresolvable() *engine.Error {
	return fail(engine.CodeUnresolvable, "unresolvable: no such message in what was leased")
}

func errCommitted() *engine.Error {
	return fail(engine.CodeAlreadyCommitted, "already committed: the cursor has passed this message")
}

// resolve turns each ack into an offset and answers those that are about nothing: at or below the
// cursor (S-ack-9, S-ack-10) or nowhere in what was leased (S-ack-11).
func (s *state) resolve(g *group, p *part, at []int, ops []engine.Op, res []engine.Result) []signal {
	c := g.cursor(p)
	bound := c.bound()
	if s.inTxn && ops[at[0]].(*engine.Ack).Lease == "" {
		bound = p.end() // S-txn-8
	}
	named := map[format.Offset]bool{}
	var sigs []signal
	for _, i := range at {
		if res[i].Err != nil {
			continue
		}
		a := ops[i].(*engine.Ack)
		o, ok := p.resolve(a, g.next(p), named)
		switch {
		case !ok || o >= bound:
			res[i].Err = errUnresolvable()
		case o >= c.next:
			named[o] = true
			sigs = append(sigs, signal{i, o, a})
		case a.Status == format.AckCompleted:
			res[i].Ack.Noop = true
		default:
			res[i].Err = errCommitted()
		}
	}
	return sigs
}

// resolve finds the message an ack names. An id that is there twice means the lowest offset above
// the cursor not yet named in this call, else the newest at or below it.
func (p *part) resolve(a *engine.Ack, next format.Offset, named map[format.Offset]bool) (format.Offset, bool) {
	if a.HasOffset {
		return a.Offset, a.Offset < p.end()
	}
	if id, ok := format.ParseUUID(a.TransactionID); ok {
		for o := range p.msgs {
			if p.msgs[o].rec.ID == id {
				return format.Offset(o), true
			}
		}
	}
	all := p.byID[a.TransactionID]
	for _, o := range all {
		if o >= next && !named[o] {
			return o, true
		}
	}
	if len(all) == 0 {
		return 0, false
	}
	return all[len(all)-1], true
}

// settle moves the cursor. Whatever is completed below the lowest nack, or below a signal and not
// mentioned, is passed. The lowest nack ends the walk and the lease: failed with budget left and
// retry leave the cursor in front of it, dlq and failed with the budget spent file what they name and
// pass it (S-ack-2, 5 to 8; S-dlq-3 to 6). Completed messages above it come again.
func (s *state) settle(g *group, p *part, sigs []signal, res []engine.Result) (filed map[format.Offset]bool) {
	c := g.cursor(p)
	lease := s.live(c)
	before := c.next
	strongest := map[format.Offset]signal{}
	var offsets []format.Offset
	for _, sig := range sigs {
		old, twice := strongest[sig.offset]
		if !twice {
			offsets = append(offsets, sig.offset)
		}
		if !twice || sig.ack.Status > old.ack.Status {
			strongest[sig.offset] = sig
		}
	}
	slices.Sort(offsets)
	nacked := false
	filed = map[format.Offset]bool{}
	for n, o := range offsets {
		if strongest[o].ack.Status == format.AckCompleted {
			s.pass(c, o+1)
			continue
		}
		nacked = true
		if g.conflate {
			newest := o // beyond what was seen where a transaction names it
			if end := c.bound(); o < end {
				newest = end - 1
			}
			s.nackNewest(g, p, newest, strongest[o].ack, sigs, filed)
			break
		}
		s.pass(c, o)
		s.nack(g, p, offsets[n:], strongest, sigs, filed)
		break
	}
	released := lease != nil && (nacked || c.next >= lease.end)
	if lease != nil {
		lease.acked = true
	}
	if released {
		c.lease = nil
	}
	if !nacked && c.next >= c.bound() {
		c.retries, c.attempts, c.backoff = 0, 0, 0 // the batch is complete
	}
	c.lastAck = s.w
	for _, sig := range sigs {
		res[sig.at].Ack.Released = released
		res[sig.at].Ack.Filed = filed[sig.offset]
		if g.conflate && !nacked && sig.ack.Status == format.AckCompleted && sig.offset+1 == c.next {
			res[sig.at].Ack.Conflated = uint64(c.next - before - 1)
		}
		if sig.ack.Status == format.AckCompleted {
			s.stats.Acked++
		} else {
			s.stats.Nacked++
		}
	}
	return filed
}

func (s *state) pass(c *cursor, to format.Offset) {
	if to > c.next {
		c.consumed += uint64(to - c.next)
		c.next = to
	}
}

// nack carries out the lowest nack. failed charges the budget, or with the budget spent files the
// head; with the queue's dlqScope, and for dlq always, the messages that follow it without a gap and
// with the same status go the same way (S-dlq-12). What is dropped for want of a dead letter queue is the head alone (S-dlq-5).
func (s *state) nack(g *group, p *part, from []format.Offset, strongest map[format.Offset]signal,
	sigs []signal, filed map[format.Offset]bool) {
	c := g.cursor(p)
	head := strongest[from[0]].ack
	opts := &p.q.opts
	if head.Status == format.AckRetry || head.Status == format.AckFailed && c.retries < opts.RetryLimit {
		if head.Status == format.AckFailed {
			c.retries++
		}
		c.backoff = s.backoff(p, head)
		return
	}
	files := head.Status == format.AckDLQ || opts.DeadLetterQueue || opts.DLQAfterMaxRetries
	for _, o := range from {
		if o != c.next || strongest[o].ack.Status != head.Status {
			break
		}
		if files {
			s.file(g, p, o, reasonFor(o, sigs))
			filed[o] = true
		}
		s.pass(c, o+1)
		if head.Status == format.AckFailed && !(files && opts.DLQScopeBatch) {
			break
		}
	}
	c.retries, c.attempts, c.backoff = 0, 0, 0
}

// nackNewest is nack for a group that conflates: what was superseded stays before the cursor with its deliveries and
// failures, and given up is the newest message that was seen (S-con-6, S-con-9).
func (s *state) nackNewest(g *group, p *part, o format.Offset, head *engine.Ack, sigs []signal, filed map[format.Offset]bool) {
	c, opts := g.cursor(p), &p.q.opts
	if head.Status == format.AckRetry || head.Status == format.AckFailed && c.retries < opts.RetryLimit {
		if head.Status == format.AckFailed {
			c.retries++
		}
		c.backoff = s.backoff(p, head)
		return
	}
	if head.Status == format.AckDLQ || opts.DeadLetterQueue || opts.DLQAfterMaxRetries {
		s.file(g, p, o, reasonFor(o, sigs))
		filed[o] = true
	}
	s.pass(c, o+1)
	c.retries, c.attempts, c.backoff = 0, 0, 0
}

// backoff is until when a nacked head is held back: what the ack asks for, else the queue's
// retryDelay where one was configured.
func (s *state) backoff(p *part, a *engine.Ack) format.Mono {
	switch {
	case a.Delay > 0:
		return s.t + micros(a.Delay)
	case p.q.opts.Set&format.OptRetryDelay != 0 && p.q.opts.RetryDelayMs > 0:
		return s.t + format.Mono(p.q.opts.RetryDelayMs*1000)
	}
	return 0
}

// reasonFor is the reason given for this message, else the first one given at all (S-dlq-11).
func reasonFor(o format.Offset, sigs []signal) string {
	first := ""
	for _, sig := range sigs {
		if sig.ack.Status == format.AckCompleted || sig.ack.Reason == "" {
			continue
		}
		if sig.offset == o {
			return cut(sig.ack.Reason)
		}
		if first == "" {
			first = cut(sig.ack.Reason)
		}
	}
	if first == "" {
		return defaultReason
	}
	return first
}

// cut bounds a reason at a rune border.
func cut(reason string) string {
	if len(reason) <= engine.MaxReason {
		return reason
	}
	n := engine.MaxReason
	for n > 0 && !utf8.RuneStart(reason[n]) {
		n--
	}
	return reason[:n]
}

// file writes a dead letter with its whole message (S-dlq-8, S-dlq-10).
func (s *state) file(g *group, p *part, o format.Offset, reason string) {
	d := &deadLetter{tenant: p.q.tenant, offset: o}
	d.DeadLetter = engine.DeadLetter{ID: s.mint(), Queue: p.q.name, Partition: p.name, PartitionID: p.id,
		Group: g.name, Error: reason, Retries: uint32(g.cursor(p).retries), FailedAt: s.w,
		Message: cloneRecord(p.msgs[o].rec)}
	s.dead = append(s.dead, d)
	s.stats.DeadLettered++
}

// extend renews every live partition of a lease (S-lease-4). It never brings one back.
func (s *state) extend(by engine.Caller, op *engine.Extend) engine.Result {
	length := max(micros(op.For), 1e6)
	var earliest format.Mono
	var res engine.Result
	s.eachLease(by.Tenant, op.Lease, func(_ *group, _ *part, c *cursor) {
		c.lease.expiry = max(c.lease.expiry, s.t+length)
		if res.Extend.Renewed++; res.Extend.Renewed == 1 || c.lease.expiry < earliest {
			earliest = c.lease.expiry
		}
	})
	if res.Extend.Renewed > 0 {
		res.Extend.Expires = s.w + format.Wall(earliest-s.t)
	}
	return res
}

// release hands back what a lease holds untouched, not counted as a delivery (S-pop-12).
func (s *state) release(t format.Tenant, op *engine.Release) engine.Result {
	var res engine.Result
	if _, ok := format.ParseUUID(op.Lease); !ok {
		return engine.Result{Err: fail(engine.CodeLeaseInvalid, "invalid or expired lease")}
	}
	partial := false
	s.eachLease(t, op.Lease, func(_ *group, p *part, c *cursor) {
		if op.Partition != 0 && op.Partition != p.id {
			return
		}
		if c.lease.acked {
			partial = true
			return
		}
		s.handBack(c)
		res.Rows++
	})
	s.refreshAll()
	if partial {
		return engine.Result{Err: fail(engine.CodeLeaseInvalid, "part of the lease is acked already")}
	}
	return res
}

// handBack undoes a claim: the partition gets its turn back, though since when it counts is not known if
// the claim was pinned. The last one of a head leaves no trace of having been leased.
func (s *state) handBack(c *cursor) {
	c.exact = false
	c.ready, c.lease = c.lease.ready, nil
	if c.attempts--; c.attempts == 0 {
		c.last = nil
	}
	s.stats.HandedBack++
}

// bound is one past the last offset an ack may name: the end of what was leased last, also when that
// lease is over, else the cursor (S-ack-11).
func (c *cursor) bound() format.Offset {
	if c.last == nil {
		return c.next
	}
	return max(c.next, c.last.end)
}

// eachLease visits the live rows of a lease of a tenant.
func (s *state) eachLease(t format.Tenant, text string, f func(*group, *part, *cursor)) {
	for _, q := range s.queues {
		if q.tenant != t {
			continue
		}
		for _, g := range q.groups {
			for _, p := range q.parts {
				if c := g.cursor(p); s.live(c) != nil && strings.EqualFold(c.lease.text, text) {
					f(g, p, c)
				}
			}
		}
	}
}
