package enginetest

import (
	"slices"

	"queen/engine/format"
)

// clone copies the state, so that what a call without an answer may have done can be tried on the
// copy. Payload bytes are shared: nothing changes them.
func (s *state) clone() *state {
	c := *s
	c.changed, c.keyed = nil, s.keyed.clone()
	c.queues, c.parts, c.dead = nil, map[format.PartitionID]*part{}, nil
	for _, q := range s.queues {
		c.queues = append(c.queues, c.cloneQueue(q))
	}
	for _, d := range s.dead {
		copied := *d
		c.dead = append(c.dead, &copied)
	}
	return &c
}

func (s *state) cloneQueue(q *queue) *queue {
	c := *q
	c.parts, c.groups = nil, nil
	moved := map[*part]*part{}
	for _, p := range q.parts {
		n := *p
		n.q, n.msgs, n.byID = &c, slices.Clone(p.msgs), make(map[string][]format.Offset, len(p.byID))
		for id, offsets := range p.byID {
			n.byID[id] = slices.Clone(offsets)
		}
		c.parts = append(c.parts, &n)
		s.parts[n.id] = &n
		moved[p] = &n
	}
	for _, g := range q.groups {
		n := *g
		n.cursors = make(map[*part]*cursor, len(g.cursors))
		for p, cur := range g.cursors {
			n.cursors[moved[p]] = cur.clone()
		}
		c.groups = append(c.groups, &n)
	}
	return &c
}

func (c *cursor) clone() *cursor {
	n := *c
	if c.last != nil {
		l := *c.last
		n.last = &l
	}
	switch {
	case c.lease == nil:
	case c.lease == c.last:
		n.lease = n.last
	default:
		l := *c.lease
		n.lease = &l
	}
	n.memos = slices.Clone(c.memos)
	return &n
}
