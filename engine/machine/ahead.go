package machine

import (
	"queen/engine/format"
	"queen/engine/machine/slab"
)

// ahead is a run of Appends of an entry, decoded before the first of them is applied. Pushes go to random partitions, so
// that each look-up of one (name, row, id) misses the processor's caches; those of several at a time overlap, while one
// push after another would wait for its own. It changes no verdict: everything is looked at again by apply, except for
// a partition that was found, which nothing but Appends comes before.
type ahead struct {
	pushes [64]aheadPush
	n      int
	ids    []slab.ID
	read   uint64 // what was read ahead, so that reading it is not optimised away
}

type aheadPush struct {
	cmd     format.Append
	ordinal format.Ordinal
	q       *queue
	hash    uint64 // of the partition's name
	part    handle // 0: not there yet
}

// take decodes the current command, an Append.
func (a *ahead) take(r *format.CommandReader) error {
	p := &a.pushes[a.n]
	p.ordinal, p.q, p.part = r.Ordinal(), nil, 0
	a.n++
	return r.Append(&p.cmd)
}

// applyAhead applies what was taken.
func (m *Machine) applyAhead(out *format.Results) {
	pushes := m.ahead.pushes[:m.ahead.n]
	m.ahead.n = 0
	if len(pushes) > 1 {
		m.lookAhead(pushes)
	}
	for i := range pushes {
		p := &pushes[i]
		m.place = format.Place{Index: m.applied, Ordinal: p.ordinal}
		m.filed = 0
		res := format.Result{Kind: format.KindAppend, First: p.ordinal, At: uint32(len(out.Appends))}
		if p.q == nil {
			p.q = m.queueBy(p.cmd.Tenant, p.cmd.Queue)
		}
		res.Code = m.applyPush(&p.cmd, p.q, p.part, nextAppend(out))
		out.Items = append(out.Items, res)
	}
}

// lookAhead reads what the pushes are going to need: first the places in the index, then what these lead to.
func (m *Machine) lookAhead(pushes []aheadPush) {
	a := &m.ahead
	for i := range pushes {
		p := &pushes[i]
		if i > 0 && p.cmd.Tenant == pushes[i-1].cmd.Tenant && string(p.cmd.Queue) == string(pushes[i-1].cmd.Queue) {
			p.q = pushes[i-1].q
		} else {
			p.q = m.queueBy(p.cmd.Tenant, p.cmd.Queue)
		}
		if p.q != nil {
			p.hash = m.nameHash(p.q.id, p.cmd.Partition)
		}
	}
	for i := range pushes {
		if p := &pushes[i]; p.q != nil {
			p.part = m.nameIndex.Guess(p.hash)
		}
	}
	for i := range pushes {
		if p := &pushes[i]; p.part != 0 {
			a.read += uint64(m.parts.Get(p.part).name)
		}
	}
	for i := range pushes {
		if p := &pushes[i]; p.part != 0 {
			a.read += uint64(len(m.names.Get(m.parts.Get(p.part).name)))
		}
	}
	a.ids = a.ids[:0]
	for i := range pushes {
		p := &pushes[i]
		if p.q == nil {
			continue
		}
		if p.part = m.partByHash(p.q, p.cmd.Partition, p.hash); p.part == 0 {
			continue
		}
		pid := uint64(m.parts.Get(p.part).id)
		for at := 0; at < len(p.cmd.Hashes) && len(a.ids) < aheadIDs; at += len(format.IDHash{}) {
			a.ids = append(a.ids, slab.ID{PID: pid, Hash: [16]byte(p.cmd.Hashes[at:])})
		}
	}
	m.ids.Warm(a.ids)
}

// aheadIDs bounds the ids that are read ahead: more would push each other out of the caches.
const aheadIDs = 1024
