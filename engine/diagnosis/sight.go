package diagnosis

import (
	"cmp"
	"context"
	"slices"

	"queen/engine"
	"queen/engine/format"
)

// Reasons for which a consumer group is behind on a partition.
const (
	ReasonLeaseHeld    = "lease_held"    // a worker holds the lease and does not acknowledge
	ReasonPoison       = "poison"        // the message at the cursor was handed out again and again
	ReasonNeverStarted = "never_started" // the consumer group has taken nothing since it was registered
	ReasonNoConsumer   = "no_consumer"   // it could be taken, and nobody asks
	ReasonDelayed      = "delayed"       // the queue hands messages out later on purpose
	ReasonRetryWait    = "retry_wait"    // the message at the cursor failed and waits for its next try
	ReasonInProgress   = "in_progress"   // a worker took it a moment ago, or it has just arrived
	ReasonWaiting      = "waiting_turn"  // the workers of the consumer group are busy with other partitions
	ReasonBehindLease  = "behind_lease"  // the workers of the consumer group hold leases elsewhere and do not go on
)

// Bounds of judgement. A worker that holds a lease for less, and a message that waits for less, is normal.
const (
	stuckAfter    = format.Wall(30e6) // microseconds
	poisonedAfter = 3                 // deliveries of one message
)

// scanMax bounds the queues, and the partitions that are behind, that one call looks at.
const scanMax = 10_000

// Behind is one partition that a consumer group is behind on, and why.
type Behind struct {
	engine.LagRow
	// Reason is one of the reasons above.
	Reason string
}

// Sight is what explains a backlog.
type Sight struct {
	// Now is when it was looked.
	Now format.Wall
	// Queues are those that were asked for, by name.
	Queues map[string]*engine.QueueInfo
	// Groups are the consumer groups on them that were asked for.
	Groups []engine.GroupInfo
	// Rows are in the order of the engine until Worst sorts them.
	Rows []Behind
}

// Look gathers what is behind at a time, of one queue or all, of one consumer group or all ("" is all), and judges each
// partition by itself and by what the rest of its group does. Errors are those of the engine: an unknown queue is one,
// an unknown group is an empty sight.
func Look(ctx context.Context, e engine.Engine, who engine.Caller, now format.Wall, queue, group string) (*Sight, error) {
	s := &Sight{Now: now, Queues: map[string]*engine.QueueInfo{}}
	if queue != "" {
		q, err := e.Catalog().Queue(ctx, who, queue)
		if err != nil {
			return nil, err
		}
		s.Queues[queue] = &q
	} else if err := s.allQueues(ctx, e, who); err != nil {
		return nil, err
	}
	var err error
	if s.Groups, err = groupsOf(ctx, e, who, queue, group); err != nil {
		return nil, err
	}
	rows, err := e.Inspect().TopLag(ctx, who, queue, scanMax)
	if err != nil {
		return nil, err
	}
	for i := range rows {
		if group == "" || rows[i].Group == group {
			s.Rows = append(s.Rows, Behind{LagRow: rows[i]})
		}
	}
	s.judge()
	return s, nil
}

// allQueues takes the caller's queues, scanMax of them at most.
func (s *Sight) allQueues(ctx context.Context, e engine.Engine, who engine.Caller) error {
	for page := (engine.Page{Limit: 1000}); ; {
		rows, next, err := e.Catalog().Queues(ctx, who, page)
		if err != nil {
			return err
		}
		for i := range rows {
			s.Queues[rows[i].Name] = &rows[i]
		}
		if next == "" || len(s.Queues) >= scanMax {
			return nil
		}
		page.After = next
	}
}

// groupsOf are the consumer groups of a queue and of a name, each "" for all.
func groupsOf(ctx context.Context, e engine.Engine, who engine.Caller, queue, group string) ([]engine.GroupInfo, error) {
	all, err := e.Catalog().Groups(ctx, who)
	return slices.DeleteFunc(all, func(g engine.GroupInfo) bool {
		return queue != "" && g.Queue != queue || group != "" && g.Name != group
	}), err
}

// groupKey is a consumer group on a queue.
type groupKey struct{ queue, group string }

// judge gives every row its reason.
func (s *Sight) judge() {
	type activity struct{ fresh, held bool }
	doing := map[groupKey]activity{}
	started := map[groupKey]bool{}
	for i := range s.Groups {
		started[groupKey{s.Groups[i].Queue, s.Groups[i].Name}] = s.Groups[i].Consumed || s.Groups[i].Leases > 0
	}
	for i := range s.Rows {
		r := &s.Rows[i]
		r.Reason = s.alone(&r.LagRow)
		k := groupKey{r.Queue, r.Group}
		a := doing[k]
		a.fresh = a.fresh || r.LeasedAt != 0 && s.Now-r.LeasedAt < stuckAfter
		a.held = a.held || r.Reason == ReasonLeaseHeld
		doing[k] = a
	}
	for i := range s.Rows {
		r := &s.Rows[i]
		if r.Reason != ReasonNoConsumer {
			continue
		}
		switch k := (groupKey{r.Queue, r.Group}); {
		case doing[k].fresh:
			r.Reason = ReasonWaiting
		case doing[k].held:
			r.Reason = ReasonBehindLease
		case !started[k] && r.Attempts == 0:
			r.Reason = ReasonNeverStarted
		}
	}
}

// alone judges a row without its group.
func (s *Sight) alone(r *engine.LagRow) string {
	switch {
	case r.Attempts >= poisonedAfter || r.Retries >= poisonedAfter-1:
		return ReasonPoison
	case r.LeasedAt != 0 && s.Now-r.LeasedAt >= stuckAfter:
		return ReasonLeaseHeld
	case r.LeasedAt != 0:
		return ReasonInProgress
	case r.HoldUntil > s.Now:
		return ReasonRetryWait
	case s.DelayedUntil(r) > s.Now:
		return ReasonDelayed
	case r.OldestAt != 0 && s.Now-r.OldestAt < stuckAfter:
		return ReasonInProgress
	}
	return ReasonNoConsumer
}

// DelayedUntil is when the queue's options let the oldest message of a row be taken; 0 for at once.
func (s *Sight) DelayedUntil(r *engine.LagRow) format.Wall {
	q := s.Queues[r.Queue]
	if q == nil || r.OldestAt == 0 {
		return 0
	}
	wait := max(q.Options.DelayedProcessing, q.Options.WindowBuffer)
	if wait <= 0 {
		return 0
	}
	return r.OldestAt + format.Wall(wait)*1e6
}

// Worst sorts rows so that those furthest behind come first.
func (s *Sight) Worst() []Behind {
	slices.SortStableFunc(s.Rows, func(a, b Behind) int {
		return cmp.Or(cmp.Compare(b.Lag, a.Lag), cmp.Compare(a.Queue, b.Queue), cmp.Compare(a.Group, b.Group), cmp.Compare(a.Partition, b.Partition))
	})
	return s.Rows
}
