package machine

import (
	"fmt"
	"slices"

	"queen/engine/format"
)

// held lists the cursors that a lease holds now, in order of partition.
func (r *ref) held(id format.UUID) (cs []*refCur, ps []*refPart, gs []*refGroup) {
	var ids []format.PartitionID
	for pid := range r.all {
		ids = append(ids, pid)
	}
	slices.Sort(ids)
	for _, pid := range ids {
		for _, name := range groupNames {
			if g := r.owner[pid].groups[name]; g != nil {
				if c := g.cur[pid]; c.live(r.t) && c.lease == id {
					cs, ps, gs = append(cs, c), append(ps, r.all[pid]), append(gs, g)
				}
			}
		}
	}
	return cs, ps, gs
}

func (r *ref) heldOn(id format.UUID, part format.PartitionID) (*refCur, *refPart) {
	cs, ps, _ := r.held(id)
	for i := range cs {
		if ps[i].id == part {
			return cs[i], ps[i]
		}
	}
	return nil, nil
}

func (r *ref) extend(x *format.Extend) (code format.Code, res format.ExtendResult) {
	cs, _, _ := r.held(x.Lease)
	for _, c := range cs {
		c.expiry = max(c.expiry, r.t+format.Mono(x.For))
		if res.Renewed++; res.Renewed == 1 || c.expiry < res.Expiry {
			res.Expiry = c.expiry
		}
	}
	if res.Renewed == 0 {
		return format.CodeLeaseInvalid, res
	}
	return format.CodeOK, res
}

func (c *refCur) touched() bool { return c.acked || c.next != c.first }

func (r *ref) handBack(x *format.Release) (code format.Code, res format.CountResult) {
	cs, ps, _ := r.held(x.Lease)
	for i, c := range cs {
		if len(x.Partitions) > 0 && !slices.Contains(x.Partitions, ps[i].id) {
			continue
		}
		res.Existed = true
		if c.touched() {
			code = format.CodePartial
			continue
		}
		c.leased, c.delivered = false, 0
		if c.attempts--; c.attempts == 0 {
			c.end = c.first
		}
		res.Rows++
	}
	return code, res
}

func (r *ref) skip(x *format.Skip) (format.Code, format.CountResult) {
	c, p := r.heldOn(x.Lease, x.Partition)
	switch {
	case c == nil:
		return format.CodeLeaseInvalid, format.CountResult{}
	case c.delivered != 0 || c.touched():
		return format.CodePartial, format.CountResult{}
	case int(x.Upto) <= c.next || int(x.Upto) > len(p.msgs):
		return format.CodeUnresolvable, format.CountResult{}
	}
	res := format.CountResult{Rows: uint64(int(x.Upto) - c.next), Existed: true}
	c.leased, c.end = false, 0
	r.move(c, int(x.Upto))
	return format.CodeOK, res
}

func (r *ref) trimLease(x *format.TrimLease) (format.Code, format.CountResult) {
	c, _ := r.heldOn(x.Lease, x.Partition)
	if c == nil {
		return format.CodeLeaseInvalid, format.CountResult{}
	}
	if int(x.NewEnd) > c.end || x.LastDelivered >= x.NewEnd || int(x.NewEnd) <= c.next {
		return format.CodeUnresolvable, format.CountResult{}
	}
	res := format.CountResult{Rows: uint64(c.end - int(x.NewEnd)), Existed: true}
	c.end, c.delivered = int(x.NewEnd), int(x.LastDelivered)+1
	return format.CodeOK, res
}

func (r *ref) seek(x *format.SetOffset) (format.Code, format.CountResult) {
	q := r.queues[string(x.Queue)]
	if q == nil {
		return format.CodeUnknownQueue, format.CountResult{}
	}
	p := q.part(string(x.Partition))
	if p == nil {
		return format.CodeUnknownPartition, format.CountResult{}
	}
	g := q.groups[string(x.Group)]
	if g == nil {
		return format.CodeUnknownGroup, format.CountResult{}
	}
	to := len(p.msgs)
	if !x.ToEnd {
		to = min(max(int(x.To), p.trim), to)
	}
	g.cur[p.id] = &refCur{next: to}
	g.note(p.id, "")
	return format.CodeOK, format.CountResult{Rows: 1, Existed: true}
}

func (r *ref) register(x *format.Register, at format.Place) (format.Code, format.CountResult) {
	q := r.queues[string(x.Queue)]
	if q == nil && (x.Reset || x.OnlyMissing) {
		return format.CodeUnknownQueue, format.CountResult{}
	}
	q = r.queue(string(x.Queue), byPop)
	g := q.groups[string(x.Group)]
	res := format.CountResult{Existed: g != nil}
	switch {
	case g == nil && x.OnlyMissing:
		return format.CodeUnknownGroup, format.CountResult{}
	case g == nil:
		g = r.group(q, string(x.Group), x.Start, x.From, at, x.Conflate)
		if x.Reset {
			g.kind, g.from, g.at = x.Start, x.From, at
		}
		res.Rows = uint64(len(q.parts))
	case x.Reset:
		g.kind, g.from, g.at, g.cur = x.Start, x.From, at, map[format.PartitionID]*refCur{}
		g.notes, g.open = nil, false
		res.Rows = uint64(len(q.parts))
	case x.OnlyMissing:
		// What nothing was claimed of has no cursor here: a start that was looked up is none.
		g.kind, g.from, g.at, g.open = x.Start, x.From, at, false
		res.Rows = 1
	default:
		r.group(q, string(x.Group), x.Start, x.From, at, x.Conflate)
	}
	return format.CodeOK, res
}

// spokenFor says that a dead letter or a live lease keeps a partition.
func (r *ref) spokenFor(q *refQueue, p *refPart) bool {
	for _, d := range r.dead {
		if d.part == p.id {
			return true
		}
	}
	for _, g := range q.groups {
		if g.cur[p.id].live(r.t) {
			return true
		}
	}
	return false
}

func (r *ref) forget(q *refQueue, p *refPart) {
	delete(r.all, p.id)
	delete(r.owner, p.id)
	q.parts = slices.DeleteFunc(q.parts, func(o *refPart) bool { return o == p })
	for _, g := range q.groups {
		delete(g.cur, p.id)
		delete(g.notes, p.id)
	}
}

func (r *ref) drop(q *refQueue) {
	for _, p := range q.parts {
		delete(r.all, p.id)
		delete(r.owner, p.id)
	}
	r.dead = slices.DeleteFunc(r.dead, func(d refDead) bool { return r.all[d.part] == nil })
	delete(r.queues, q.name)
}

func (r *ref) configure(c *format.Configure) format.QueueOptions {
	q := r.queue(string(c.Queue), byConfigure)
	old := q.opts
	overlay(&q.opts, &c.Patch, c.Patch.Set)
	q.opts.Set |= c.Patch.Set
	if q.opts.DedupWindowSeconds > old.DedupWindowSeconds {
		q.dedup0 = max(q.dedup0, r.w-seconds(old.DedupWindowSeconds))
	}
	return q.opts
}

// late says that evidence up to mark clear leaves a chunk out that may hold an original.
func (r *ref) late(q *refQueue, p *refPart, clear uint64, place format.Place) bool {
	window, n := seconds(q.opts.DedupWindowSeconds), len(r.markW)
	return n > 8 && window > 0 && clear < uint64(n-8) && r.w-r.markW[n-9] < window && p.bornW <= r.markW[n-9] && p.born != place.Index
}

// checkPush predicts whether a transaction may hold an Append.
func (r *ref) checkPush(queue, part string, ids []string, clear uint64, place format.Place) format.Code {
	q := r.queues[queue]
	if q == nil || q.part(part) == nil {
		return format.CodeOK
	}
	p := q.part(part)
	if slices.ContainsFunc(ids, func(s string) bool { return s != "" }) && r.late(q, p, clear, place) {
		return format.CodeStaleEvidence
	}
	for _, id := range ids {
		if r.original(q, p, id, len(p.msgs)) >= 0 {
			return format.CodeDuplicate
		}
	}
	return format.CodeOK
}

func runText(a *format.Ack) string {
	s := ""
	for _, run := range a.Runs {
		s += fmt.Sprint(run.First, run.Count, run.Status, " ")
	}
	return s
}
