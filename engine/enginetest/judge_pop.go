package enginetest

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"queen/engine"
	"queen/engine/format"
)

// pop claims, delivers or abandons, and judges what came.
func (p *player) pop(op Op) (string, error) {
	req := p.popRequest(op)
	ctx, cancel := p.call()
	defer cancel()
	d, err := p.e.Pop(ctx, p.caller, req)
	if err != nil {
		return "", fmt.Errorf("pop: %w", err)
	}
	if d == nil || len(d.Claims) == 0 {
		return "empty", p.judgeEmpty(&req, d)
	}
	h := &handed{lease: d.Lease, group: op.group(), claims: d.Claims}
	for m, err := range d.Messages() {
		if err != nil {
			return "", fmt.Errorf("pop: reading the delivery: %w", err)
		}
		h.messages = append(h.messages, cloneDelivered(m))
	}
	if err := p.judgePop(&req, d, h); err != nil {
		return "", err
	}
	p.delivered = append(p.delivered, h)
	if len(p.delivered) > handedKept {
		p.delivered = slices.Delete(p.delivered, 0, 1)
	}
	if !op.has("x") {
		d.Delivered()
		return describeDelivery(h), nil
	}
	d.Abandon()
	p.cov.count("pop abandoned")
	if d.Lease != "" {
		p.s.release(p.caller.Tenant, &engine.Release{Lease: d.Lease})
	}
	return describeDelivery(h) + " abandoned", p.probe() // whatever Abandon started comes before the probe
}

func (p *player) popRequest(op Op) engine.PopRequest {
	req := engine.PopRequest{Scope: engine.Scope{Queue: op.queue()}, Group: op.group(), Batch: op.N, Partitions: op.M,
		Lease: op.For, CommitOnDelivery: op.has("c"), Autopilot: op.has("a")}
	req.Conflate = op.has("v") && !req.CommitOnDelivery && req.Group != ""
	switch {
	case op.has("d"):
		req.Scope = engine.Scope{Discovery: true, Task: fmt.Sprintf("t%d", op.Queue%2)}
	case op.has("p"):
		req.Scope.Partition, req.Scope.Pinned = op.part(), true
	}
	switch {
	case op.has("l"):
		req.Start.Kind = format.StartAll
	case op.has("f"):
		req.Start = engine.Start{Kind: format.StartFrom, From: p.s.w - 10e6}
	}
	if op.What == "bytes" {
		req.MaxBytes = 150
	}
	return req
}

func describeDelivery(h *handed) string {
	var b strings.Builder
	for i, c := range h.claims {
		if i > 0 {
			b.WriteString(", ")
		}
		fmt.Fprintf(&b, "%s/%s %d-%d attempt %d", c.Queue, c.Partition, c.First, c.Last, c.Attempt)
	}
	return b.String()
}

// judgeEmpty: nothing may have been claimable.
func (p *player) judgeEmpty(req *engine.PopRequest, d *engine.Delivery) error {
	p.cov.count("pop empty")
	conflate, conflict := p.s.policy(p.s.popQueues(p.caller.Tenant, req), req)
	if got := d != nil; got != (conflate || conflict) || got && (d.Conflate != conflate || d.Conflict != conflict) {
		return fmt.Errorf("pop: the empty answer is %+v; the group conflates: %v, not what was asked: %v", d, conflate, conflict)
	}
	if err := p.adoptSpent(p.s.candidates(p.s.popQueues(p.caller.Tenant, req), req), nil, nil); err != nil {
		return err
	}
	if want := p.s.pop(p.caller.Tenant, req); want != nil {
		c := want.claims[0]
		return fmt.Errorf("pop: empty, but %s/%s is claimable from offset %d", c.p.q.name, c.p.name, c.from)
	}
	return nil
}

// judgePop checks that the engine chose among what was claimable, the longest claimable first, and
// then that each claim and each byte is what the rules say for that choice. It adopts the choice.
func (p *player) judgePop(req *engine.PopRequest, d *engine.Delivery, h *handed) error {
	s := p.s
	qs := s.popQueues(p.caller.Tenant, req)
	cands := s.candidates(qs, req)
	l := popLimits(req, len(cands))
	chosen, err := p.chosen(cands, d.Claims)
	if err != nil {
		return err
	}
	if err := p.judgeOrder(cands, chosen); err != nil {
		return err
	}
	before, gone := map[*part]cursor{}, false
	for _, c := range cands {
		before[c.p] = *c.g.cursor(c.p)
		gone = gone || p.s.overGone(c)
	}
	emptied := p.s.emptied(qs, req)
	gone = gone || len(emptied) > 0
	for i := range chosen {
		if gone { // what is gone in front of a message may count against the batch of the whole pop
			chosen[i].upto = d.Claims[i].Last + 1
		}
	}
	if err := p.adoptSpent(cands, chosen, d.Claims); err != nil {
		return err
	}
	p.adoptStarts(chosen, d, h)
	got := s.take(qs, chosen, req, &l)
	if got == nil || len(got.claims) != len(d.Claims) {
		return fmt.Errorf("pop: %d partitions claimed, which is more than the budgets allow", len(d.Claims))
	}
	left := p.fitting(cands, chosen, l.bytes)
	if left == 0 || l.full || gone {
		// Bytes ended the answer, or the batch went to what is gone: others may have been claimed and handed
		// back, to where they were, or moved over what is gone.
		for _, c := range cands {
			p.blurred[blur{c.p.q.name, c.g.name}] = true
		}
	}
	if left > 0 && !gone && len(chosen) < l.partitions && l.batch > 0 && l.bytes > 0 && !l.full {
		if again := s.clone(); again.pop(p.caller.Tenant, req) != nil {
			return fmt.Errorf("pop: %d partitions claimed of %d allowed, and %d claimable ones left", len(chosen), l.partitions, left)
		}
	}
	if err := p.judgeHead(req, d, got); err != nil {
		return err
	}
	at := 0
	for i := range got.claims {
		c := &got.claims[i]
		n, err := p.judgeClaim(c, &d.Claims[i], i, h.messages[at:], before[c.p])
		if err != nil {
			return fmt.Errorf("pop of %s/%s: %w", c.p.q.name, c.p.name, err)
		}
		at += n
		if lease := c.g.cursor(c.p).lease; lease != nil && !req.CommitOnDelivery {
			lease.text = d.Lease
		}
	}
	if at != len(h.messages) {
		return fmt.Errorf("pop: %d messages delivered, want %d", len(h.messages), at)
	}
	return p.adoptSealed(emptied)
}

// overGone says that a claim of c would start above the cursor, over what is gone.
func (s *state) overGone(c candidate) bool {
	cur := c.g.cursor(c.p)
	from, _ := s.span(c.g, c.p)
	return cur.touched && from > cur.next || cur.jumped && from == cur.next || !cur.touched && c.p.start > 0
}

// emptied lists what a pop may have looked at for messages that are gone, with nothing behind them that it may see.
func (s *state) emptied(qs []*queue, req *engine.PopRequest) (out []candidate) {
	for _, q := range qs {
		g := q.group(groupName(req.Group))
		for _, p := range q.parts {
			c := g.cursor(p)
			from, to := s.span(g, p)
			outside := req.Scope.Pinned && p.name != req.Scope.Partition
			if from == to && p.start > 0 && !(c.touched && c.next >= p.start) && !outside && s.live(c) == nil && s.t >= c.backoff {
				out = append(out, candidate{g: g, p: p})
			}
		}
	}
	return out
}

// adoptSealed takes over which of these the engine has moved the cursor over (S-pop-17): then nothing that is gone is in
// front of it any more.
func (p *player) adoptSealed(emptied []candidate) error {
	ctx, cancel := p.call()
	defer cancel()
	for _, c := range emptied {
		rows, _, err := p.e.Catalog().GroupPartitions(ctx, p.caller, c.g.name, c.p.q.name, engine.Page{Limit: 1000})
		if err != nil {
			return fmt.Errorf("partitions of group %s: %w", c.g.name, err)
		}
		at := slices.IndexFunc(rows, func(r engine.GroupPartition) bool { return r.Partition.Name == c.p.name })
		if at >= 0 && rows[at].Consumed >= uint64(c.p.start) {
			cur := c.g.touch(c.p)
			cur.next = max(cur.next, c.p.start) // the budget stays (S-dlq-7)
		}
	}
	return nil
}

// fitting counts the claimable partitions that were not chosen although their first message has room
// in what is left of the byte budget; 0 when one has none, since that one may have been next and ends
// the answer.
func (p *player) fitting(cands, chosen []candidate, bytes int64) (n int) {
	for _, c := range cands {
		from, to := p.s.span(c.g, c.p)
		if slices.ContainsFunc(chosen, func(x candidate) bool { return x.p == c.p }) || from == to {
			continue
		}
		if !c.g.cursor(c.p).touched && c.g.start.Kind != format.StartAll {
			return 0 // where it starts may have to be looked up first
		}
		if c.g.conflate {
			for from = to - 1; p.s.expired(c.p, from); from-- {
			}
		}
		if int64(len(c.p.msgs[from].rec.Payload)) > bytes {
			return 0
		}
		n++
	}
	return n
}

// adoptStarts takes note of heads that maxDeliveries would end if the deliveries before what is gone in
// front of them counted, and that were delivered: whether those count is left open (S-lease-7).
func (p *player) adoptStarts(chosen []candidate, d *engine.Delivery, h *handed) {
	for i, c := range chosen {
		cur := c.g.cursor(c.p)
		at := slices.IndexFunc(h.messages, func(m engine.Delivered) bool { return m.Claim == i })
		if at >= 0 && cur.jumped && p.s.spent(c.g, c.p) && h.messages[at].Offset == cur.head {
			cur.attempts = d.Claims[i].Attempt - 1
		}
	}
}

// adoptSpent looks which of the partitions whose head maxDeliveries ends were looked at by a pop that
// did not claim them: looking is what files the head. Of heads that may be at their end or not it looks for all.
func (p *player) adoptSpent(cands, chosen []candidate, claims []engine.Claimed) error {
	ctx, cancel := p.call()
	defer cancel()
	for _, c := range cands {
		at := slices.IndexFunc(chosen, func(x candidate) bool { return x.p == c.p })
		cur, spent := c.g.cursor(c.p), p.s.spent(c.g, c.p)
		open := p.s.maybeSpent(c.g, c.p) || spent && cur.jumped && c.g.conflate
		if !open && (at >= 0 || !spent) {
			continue
		}
		rows, _, err := p.e.Catalog().GroupPartitions(ctx, p.caller, c.g.name, c.p.q.name, engine.Page{Limit: 1000})
		if err != nil {
			return fmt.Errorf("partitions of group %s: %w", c.g.name, err)
		}
		head := cur.head
		if open {
			head = max(head, cur.last.end-1)
		}
		switch {
		case slices.ContainsFunc(rows, func(r engine.GroupPartition) bool { return r.Partition.Name == c.p.name && r.Next > head }):
			p.s.overDelivered(c.g, c.p)
		case at >= 0:
			cur.attempts = claims[at].Attempt - 1 // those before do not count
		}
	}
	return nil
}

// chosen finds the candidates the engine claimed, in its order.
func (p *player) chosen(cands []candidate, claims []engine.Claimed) (out []candidate, err error) {
	for _, c := range claims {
		at := slices.IndexFunc(cands, func(x candidate) bool { return x.p.q.name == c.Queue && x.p.name == c.Partition })
		if at < 0 {
			return nil, fmt.Errorf("pop: claims %s/%s from %d, which is not claimable (%s)", c.Queue, c.Partition, c.First, p.why(c))
		}
		if slices.Contains(out, cands[at]) {
			return nil, fmt.Errorf("pop: claims %s/%s twice", c.Queue, c.Partition)
		}
		if err := p.adoptPart(cands[at].p, c.PartitionID); err != nil {
			return nil, err
		}
		out = append(out, cands[at])
	}
	return out, nil
}

// why tells what keeps a partition from being claimed.
func (p *player) why(c engine.Claimed) string {
	q := p.s.queue(p.caller.Tenant, c.Queue)
	if q == nil || q.part(c.Partition) == nil {
		return "it does not exist or is outside the scope"
	}
	part := q.part(c.Partition)
	var b strings.Builder
	fmt.Fprintf(&b, "offsets %d to %d, visible to %d", part.start, part.end(), p.s.visible(part))
	for _, g := range q.groups {
		cur := g.cursor(part)
		fmt.Fprintf(&b, "; group %s at %d", g.name, g.next(part))
		if l := p.s.live(cur); l != nil {
			fmt.Fprintf(&b, " leased to %d for %d us", l.end, l.expiry-p.s.t)
		}
		if cur.backoff > p.s.t {
			fmt.Fprintf(&b, " held back for %d us", cur.backoff-p.s.t)
		}
	}
	return b.String()
}

// starvedAfter is how often a claimable partition may be passed over before that is an error, beside
// the number of those that compete with it.
const starvedAfter = 64

// judgeOrder checks S-pop-10: where the moments at which two partitions became claimable are known to
// be in one order, one that is new to the group is not served instead of an earlier one; and nothing
// starves. A partition the group knows may be served earlier than its turn: an engine may have a note
// about it from before, and such a note is used up once.
func (p *player) judgeOrder(cands, chosen []candidate) error {
	for _, left := range cands {
		if slices.Contains(chosen, left) || p.s.spent(left.g, left.p) || p.s.maybeSpent(left.g, left.p) {
			continue // what was given up may have been all there is
		}
		if p.s.overGone(left) {
			continue // it may have been claimed, of what is gone, and moved over that: it comes with the next pop
		}
		for _, c := range chosen {
			if !p.o.LooseOrder && c.p.q == left.p.q && c.exact && c.fresh && left.exact && left.ready < c.ready {
				return fmt.Errorf("pop: serves %s, claimable since %d, and not %s, claimable since %d",
					c.p.name, c.ready, left.p.name, left.ready)
			}
		}
		cur := left.g.cursor(left.p)
		if cur.passed++; cur.passed > starvedAfter+4*len(cands) {
			return fmt.Errorf("pop: %s/%s has been claimable for %d pops that served others", left.p.q.name, left.p.name, cur.passed)
		}
	}
	return nil
}

func (p *player) judgeHead(req *engine.PopRequest, d *engine.Delivery, got *popped) error {
	if len(got.claims) > 1 {
		p.cov.count("pop several partitions")
	}
	if d.Group != groupName(req.Group) || d.Conflate != got.conflate || d.Conflict != got.conflict || d.Chosen.Set != got.chosen.Set {
		return fmt.Errorf("pop: answer for group %q, chosen %+v, conflates %v %v; want group %q, chosen %+v, %v %v", d.Group, d.Chosen,
			d.Conflate, d.Conflict, groupName(req.Group), got.chosen, got.conflate, got.conflict)
	}
	if got.conflate {
		p.cov.count("pop conflated")
	}
	if req.CommitOnDelivery {
		p.cov.count("pop committed")
		if d.Lease != "" {
			return fmt.Errorf("pop: a lease %q although the pop committed", d.Lease)
		}
		return nil
	}
	id, ok := format.ParseUUID(d.Lease)
	if !ok {
		return fmt.Errorf("pop: %q is no lease id", d.Lease)
	}
	return p.fresh(id)
}

// judgeClaim compares one claim and its messages; n is how many of them are its.
func (p *player) judgeClaim(want *claim, got *engine.Claimed, at int, messages []engine.Delivered, before cursor) (n int, err error) {
	first := want.messages[0].Offset
	low := first
	if before.touched {
		low = min(low, before.next)
	}
	if got.First > first || got.First < low || got.Last != want.to-1 {
		return 0, fmt.Errorf("claims %d to %d, want %d to %d", got.First, got.Last, first, want.to-1)
	}
	cur := want.g.cursor(want.p)
	if got.Attempt != want.attempt {
		// Whether a start that moved over what is gone is a new start, is left open (S-lease-7).
		if !(cur.jumped || before.jumped) || got.Attempt < 1 || got.Attempt > before.attempts+1 || cur.lease == nil {
			return 0, fmt.Errorf("attempt %d, want %d", got.Attempt, want.attempt)
		}
		cur.attempts, cur.lease.attempt = got.Attempt, got.Attempt
	}
	if got.Attempt > 1 {
		p.cov.count("pop redelivered")
	} else {
		p.cov.count("pop delivered")
	}
	for i := range want.messages {
		if i >= len(messages) || messages[i].Claim != at {
			return 0, fmt.Errorf("%d messages, want %d", i, len(want.messages))
		}
		m := &want.p.msgs[want.messages[i].Offset]
		if err := p.judgeRecord(m, &messages[i].Record); err != nil {
			return 0, err
		}
	}
	return len(want.messages), nil
}

// judgeRecord compares a stored message byte for byte and adopts its id when that is not known yet.
func (p *player) judgeRecord(m *message, got *engine.Record) error {
	if m.pending {
		if err := p.adoptID(m, got.ID); err != nil {
			return err
		}
	}
	want := &m.rec
	same := got.ID == want.ID && got.Offset == want.Offset && got.TransactionID == want.TransactionID &&
		got.HasCallerID == want.HasCallerID && got.TraceID == want.TraceID && got.ProducerSub == want.ProducerSub &&
		got.ContentType == want.ContentType && got.CreatedAt == want.CreatedAt && bytes.Equal(got.Payload, want.Payload) &&
		slices.EqualFunc(got.Headers, want.Headers, func(a, b engine.Header) bool {
			return a.Name == b.Name && bytes.Equal(a.Value, b.Value)
		})
	if !same {
		return fmt.Errorf("message at %d: got %+v, want %+v", want.Offset, *got, *want)
	}
	return nil
}
