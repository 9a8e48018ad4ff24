package frontendmcp

import (
	"cmp"
	"slices"

	"queen/engine"
	"queen/engine/format"
)

// Reasons for which a partition is behind, as lag_top names them.
const (
	reasonLeaseHeld    = "lease_held"    // a worker holds the lease and does not acknowledge
	reasonPoison       = "poison"        // the message at the cursor was handed out again and again
	reasonNeverStarted = "never_started" // the consumer group has taken nothing since it was registered
	reasonNoConsumer   = "no_consumer"   // it could be taken, and nobody asks
	reasonDelayed      = "delayed"       // the queue hands messages out later on purpose
	reasonRetryWait    = "retry_wait"    // the message at the cursor failed and waits for its next try
	reasonInProgress   = "in_progress"   // a worker took it a moment ago, or it has just arrived
	reasonWaiting      = "waiting_turn"  // the workers of the consumer group are busy with other partitions
	reasonBehindLease  = "behind_lease"  // the workers of the consumer group hold leases elsewhere and do not go on
)

// Bounds of judgement. A worker that holds a lease for less, and a message that waits for less, is normal.
const (
	stuckAfter    = format.Wall(30e6) // microseconds
	poisonedAfter = 3                 // deliveries of one message
)

// behind is one partition that a consumer group is behind on, and why.
type behind struct {
	engine.LagRow
	reason string
}

// sight is what the tools that explain a backlog look at.
type sight struct {
	now    format.Wall
	queues map[string]*engine.QueueInfo
	groups []engine.GroupInfo
	rows   []behind
}

// look gathers what is behind, of one queue or all, of one consumer group or all, and judges each partition by itself
// and by what the rest of its group does.
func (c *call) look(queue, group string) (*sight, error) {
	s := &sight{now: c.f.now(), queues: map[string]*engine.QueueInfo{}}
	if queue != "" {
		q, err := c.engine.Catalog().Queue(c.ctx, c.caller, queue)
		if err != nil {
			return nil, err
		}
		s.queues[queue] = &q
	} else {
		all, _, err := c.queues()
		if err != nil {
			return nil, err
		}
		for i := range all {
			s.queues[all[i].Name] = &all[i]
		}
	}
	var err error
	if s.groups, err = c.groups(queue, group); err != nil {
		return nil, err
	}
	rows, err := c.engine.Inspect().TopLag(c.ctx, c.caller, queue, maxScan)
	if err != nil {
		return nil, err
	}
	for i := range rows {
		if group == "" || rows[i].Group == group {
			s.rows = append(s.rows, behind{LagRow: rows[i]})
		}
	}
	s.judge()
	return s, nil
}

// groupKey is a consumer group on a queue.
type groupKey struct{ queue, group string }

// judge gives every row its reason.
func (s *sight) judge() {
	type activity struct{ fresh, held bool }
	doing := map[groupKey]activity{}
	started := map[groupKey]bool{}
	for i := range s.groups {
		started[groupKey{s.groups[i].Queue, s.groups[i].Name}] = s.groups[i].Consumed || s.groups[i].Leases > 0
	}
	for i := range s.rows {
		r := &s.rows[i]
		r.reason = s.alone(&r.LagRow)
		k := groupKey{r.Queue, r.Group}
		a := doing[k]
		a.fresh = a.fresh || r.LeasedAt != 0 && s.now-r.LeasedAt < stuckAfter
		a.held = a.held || r.reason == reasonLeaseHeld
		doing[k] = a
	}
	for i := range s.rows {
		r := &s.rows[i]
		if r.reason != reasonNoConsumer {
			continue
		}
		switch k := (groupKey{r.Queue, r.Group}); {
		case doing[k].fresh:
			r.reason = reasonWaiting
		case doing[k].held:
			r.reason = reasonBehindLease
		case !started[k] && r.Attempts == 0:
			r.reason = reasonNeverStarted
		}
	}
}

// alone judges a row without its group.
func (s *sight) alone(r *engine.LagRow) string {
	switch {
	case r.Attempts >= poisonedAfter || r.Retries >= poisonedAfter-1:
		return reasonPoison
	case r.LeasedAt != 0 && s.now-r.LeasedAt >= stuckAfter:
		return reasonLeaseHeld
	case r.LeasedAt != 0:
		return reasonInProgress
	case r.HoldUntil > s.now:
		return reasonRetryWait
	case s.delayedUntil(r) > s.now:
		return reasonDelayed
	case r.OldestAt != 0 && s.now-r.OldestAt < stuckAfter:
		return reasonInProgress
	}
	return reasonNoConsumer
}

// delayedUntil is when the queue's options let the oldest message of a row be taken; 0 for at once.
func (s *sight) delayedUntil(r *engine.LagRow) format.Wall {
	q := s.queues[r.Queue]
	if q == nil || r.OldestAt == 0 {
		return 0
	}
	wait := max(q.Options.DelayedProcessing, q.Options.WindowBuffer)
	if wait <= 0 {
		return 0
	}
	return r.OldestAt + format.Wall(wait)*1e6
}

// worst sorts rows so that those furthest behind come first.
func (s *sight) worst() []behind {
	slices.SortStableFunc(s.rows, func(a, b behind) int {
		return cmp.Or(cmp.Compare(b.Lag, a.Lag), cmp.Compare(a.Queue, b.Queue), cmp.Compare(a.Group, b.Group), cmp.Compare(a.Partition, b.Partition))
	})
	return s.rows
}
