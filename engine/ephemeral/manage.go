package ephemeral

import (
	"cmp"
	"slices"

	"queen/engine/format"
)

// Refresh lets a queue that is there take over its declaration as it is now.
func (s *Store) Refresh(t format.Tenant, queue string) {
	d := s.enter(t, queue)
	defer s.end()
	if q := s.find(t, queue); q != nil {
		s.ensureQueue(q.tenant, queue, d)
	}
}

// Usable says why a call that changes a queue would be refused; nil when it would not.
func (s *Store) Usable(queue string) error {
	if err := checkName("queue", queue, false); err != nil {
		return err
	}
	s.begin()
	defer s.end()
	return orNil(s.usable())
}

// Reset drops every message of a queue, voids its leases and brings the groups to its end (S-eph-15); dropped counts
// the messages, 0 when there is no such queue. Parked pops stay.
func (s *Store) Reset(t format.Tenant, queue string) (dropped int64, err error) {
	if err := checkName("queue", queue, false); err != nil {
		return 0, err
	}
	s.begin()
	defer s.end()
	if err := s.usable(); err != nil {
		return 0, err
	}
	q := s.find(t, queue)
	if q == nil {
		return 0, nil
	}
	dropped = q.depth
	for q.oldest != nil {
		s.detach(q.oldest)
		s.forget(q.oldest)
	}
	return dropped, nil
}

// Delete forgets a queue with everything in it; false when there was none. Parked pops get their empty answer.
func (s *Store) Delete(t format.Tenant, queue string) (bool, error) {
	if err := checkName("queue", queue, false); err != nil {
		return false, err
	}
	s.begin()
	defer s.end()
	if err := s.usable(); err != nil {
		return false, err
	}
	q := s.find(t, queue)
	if q == nil {
		return false, nil
	}
	s.dropQueue(q)
	return true, nil
}

// Queue is a queue in a listing.
type Queue struct {
	Name               string
	Declared           bool
	Depth, Bytes       int64
	Partitions, Groups int
	Drops              Drops
	Settings           Settings
}

// Queues lists the queues of a tenant that are in memory, by name. It holds the lock for some of them at a time.
func (s *Store) Queues(t format.Tenant) []Queue {
	s.begin()
	var all []*queue
	if own := s.tenants[t]; own != nil {
		all = make([]*queue, 0, len(own.queues))
		for _, q := range own.queues {
			all = append(all, q)
		}
	}
	s.end()
	slices.SortFunc(all, func(a, b *queue) int { return cmp.Compare(a.name, b.name) })
	rows := make([]Queue, 0, len(all))
	for part := range slices.Chunk(all, 256) {
		s.begin()
		for _, q := range part {
			if q.tenant.queues[q.name] == q {
				rows = append(rows, q.view())
			}
		}
		s.end()
	}
	return rows
}

func (q *queue) view() Queue {
	return Queue{Name: q.name, Declared: q.declared, Depth: q.depth, Bytes: q.bytes, Partitions: len(q.parts),
		Groups: len(q.groups), Drops: q.drops, Settings: q.settings}
}

// MaxListed bounds the partitions that a Depth lists.
const MaxListed = 1_000

// Depth is how much of a queue a group has not settled.
type Depth struct {
	Queue
	Pending           int64
	PartitionsPending int
	PendingBytes      int64
	// Parts are the partitions with anything pending, by name, at most MaxListed.
	Parts []PartDepth
	// PerGroup are all groups, by name.
	PerGroup []GroupDepth
}

// PartDepth is one partition of a Depth.
type PartDepth struct {
	Name           string
	Pending, Bytes int64
}

// GroupDepth is one group: Pending counts what it has not settled, Skipped what was dropped before it did.
type GroupDepth struct {
	Name    string
	Pending int64
	Skipped uint64
}

// Depth counts a queue, for one group when name is not nil: a group that never polled has everything before it.
func (s *Store) Depth(t format.Tenant, queue string, name *string) (Depth, error) {
	if err := checkName("queue", queue, false); err != nil {
		return Depth{}, err
	}
	s.begin()
	defer s.end()
	q := s.find(t, queue)
	if q == nil {
		return Depth{}, &Error{Reason: NotFound, Message: "there is no such ephemeral queue"}
	}
	d := Depth{Queue: q.view()}
	var asked *group
	if name != nil {
		asked = q.groups[*name]
	}
	for _, p := range q.parts {
		row := p.depth(asked)
		if row.Pending == 0 {
			continue
		}
		d.PartitionsPending++
		d.Pending += row.Pending
		d.PendingBytes += row.Bytes
		d.Parts = append(d.Parts, row)
	}
	slices.SortFunc(d.Parts, func(a, b PartDepth) int { return cmp.Compare(a.Name, b.Name) })
	d.Parts = d.Parts[:min(len(d.Parts), MaxListed)]
	for _, g := range q.groups {
		row := GroupDepth{Name: g.name}
		for _, c := range g.cursors {
			row.Pending += c.pending()
			row.Skipped += c.skipped
		}
		d.PerGroup = append(d.PerGroup, row)
	}
	slices.SortFunc(d.PerGroup, func(a, b GroupDepth) int { return cmp.Compare(a.Name, b.Name) })
	return d, nil
}

// pending counts what the group has not settled on the partition.
func (c *cursor) pending() int64 { return c.behind + int64(len(c.held)) }

// depth counts a partition for a group; nil counts what is stored.
func (p *partition) depth(g *group) PartDepth {
	row := PartDepth{Name: p.name, Pending: p.count, Bytes: p.bytes}
	if g == nil {
		return row
	}
	c := g.cursors[p.name]
	if c == nil {
		return row
	}
	row.Pending, row.Bytes = c.pending(), 0
	for _, d := range c.held {
		row.Bytes += int64(len(d.m.payload))
	}
	for m := c.next; m != nil; m = m.next {
		row.Bytes += int64(len(m.payload))
	}
	return row
}

// Stats is a snapshot of counters and gauges.
type Stats struct {
	Counts
	// Bytes and MaxBytes are what is used of the node's memory for ephemeral queues, and the bound of pushes.
	Bytes, MaxBytes int64
	Queues, Parked  int
	Enabled         bool
	Incarnation     uint64
}

// Stats is quick.
func (s *Store) Stats() Stats {
	s.begin()
	defer s.end()
	return Stats{Counts: s.counts, Bytes: s.bytes, MaxBytes: s.o.MaxBytes, Queues: s.queues, Parked: s.parked,
		Enabled: !s.off, Incarnation: s.o.Incarnation}
}
