package enginetest

import (
	"context"
	"regexp"
	"slices"
	"strconv"

	"queen/engine"
	"queen/engine/format"
)

// modelCatalog is the Catalog of a Model; it shares its memory and mutex.
type modelCatalog Model

func (m *modelCatalog) model() *Model { return (*Model)(m) }

// with runs f on the state of now, and serves whoever waits on what it changed.
func (m *Model) with(f func(*state) error) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.mu.closed {
		return errClosed()
	}
	if err := f(m.stepLocked()); err != nil {
		return err
	}
	m.serveLocked()
	return nil
}

func (m *modelCatalog) Configure(_ context.Context, c engine.Caller, r engine.ConfigureRequest) (info engine.QueueInfo, err error) {
	err = m.model().with(func(s *state) error {
		q, bad := s.configure(c.Tenant, &r)
		if bad != nil {
			return bad
		}
		info = s.queueInfo(q)
		return nil
	})
	return info, err
}

// CatchUp implements engine.Catalog: there is nobody to be behind of.
func (m *modelCatalog) CatchUp(context.Context, engine.Caller) error { return nil }

func (m *modelCatalog) DeleteQueue(_ context.Context, c engine.Caller, queue string) (existed bool, err error) {
	err = m.model().with(func(s *state) error {
		existed = s.deleteQueue(c.Tenant, queue)
		return nil
	})
	return existed, err
}

func (m *modelCatalog) DeleteLife(_ context.Context, c engine.Caller, queue string, life format.QueueID) (existed bool, err error) {
	err = m.model().with(func(s *state) error {
		q := s.queue(c.Tenant, queue)
		existed = q != nil && s.queueInfo(q).ID == life && s.deleteQueue(c.Tenant, queue)
		return nil
	})
	return existed, err
}

func (m *modelCatalog) DeleteGroup(_ context.Context, c engine.Caller, group, queue string, all, keep bool) (n uint64, err error) {
	err = m.model().with(func(s *state) error {
		n = s.deleteGroup(c.Tenant, groupName(group), queue, all, keep)
		return nil
	})
	return n, err
}

func (m *modelCatalog) SetSubscription(_ context.Context, c engine.Caller, group string, from format.Wall) (n uint64, err error) {
	err = m.model().with(func(s *state) error {
		n = s.setSubscription(c.Tenant, groupName(group), from)
		return nil
	})
	return n, err
}

var sinkHold = regexp.MustCompile(`^[A-Za-z0-9._-]{0,64}$`)

// configure merges options (S-cfg-1): absent keeps, reset restores the default, replace resets all
// that is not named.
func (s *state) configure(t format.Tenant, r *engine.ConfigureRequest) (*queue, error) {
	if e := checkNames(r.Queue, ""); e != nil {
		return nil, e
	}
	if r.Guarded {
		var life format.QueueID
		if q := s.queue(t, r.Queue); q != nil {
			life = s.queueInfo(q).ID
		}
		if life != r.Life {
			return nil, &engine.Error{Code: engine.CodeGone}
		}
	}
	set := r.Patch.Set
	if set&format.OptRetentionSinkHold != 0 && !sinkHold.MatchString(r.Patch.RetentionSinkHold) {
		return nil, &engine.Error{Code: engine.CodeBadRequest, Field: "retentionSinkHold", Message: "not a sink name"}
	}
	if hold := r.Patch.RetentionSinkHoldMaxSeconds; set&format.OptRetentionSinkHoldMaxSeconds != 0 &&
		(hold < 60 || hold > 31536000) {
		return nil, &engine.Error{Code: engine.CodeBadRequest, Field: "retentionSinkHoldMaxSeconds",
			Limit: "60..31536000", Message: "out of range"}
	}
	q := s.queue(t, r.Queue)
	if q == nil {
		q = s.makeQueue(t, r.Queue, true)
	}
	old := q.opts
	reset := r.Reset
	if r.Replace {
		reset = format.OptAll
	}
	def := format.DefaultOptions(q.declared)
	mergeOptions(&q.opts, &def, reset)
	q.opts.Set &^= reset
	mergeOptions(&q.opts, &r.Patch, set)
	q.opts.Set |= set
	clampOptions(&q.opts)
	if q.opts.DedupWindowSeconds != old.DedupWindowSeconds {
		q.dedupFloor = max(q.dedupFloor, s.w-seconds(old.DedupWindowSeconds))
	}
	s.retain()
	s.refresh(q, false)
	return q, nil
}

// clampOptions brings options into their bounds (S-cfg-4).
func clampOptions(o *format.QueueOptions) {
	o.MinPopWaitTimeMs = min(max(o.MinPopWaitTimeMs, 0), 60000)
	for _, n := range []*int64{&o.LeaseTime, &o.RetryLimit, &o.RetryDelayMs, &o.MaxSize, &o.TTL, &o.DelayedProcessing,
		&o.WindowBuffer, &o.RetentionSeconds, &o.CompletedRetentionSeconds, &o.MaxWaitTimeSeconds,
		&o.DedupWindowSeconds, &o.MaxDeliveries, &o.KafkaPartitions, &o.RetentionBytes, &o.RetentionMs, &o.TombstoneMs,
		&o.MinCompactionLagMs, &o.MaxCompactionLagMs, &o.CompactDirtyPermille} {
		*n = max(*n, 0)
	}
	o.CompactDirtyPermille = min(o.CompactDirtyPermille, 1000)
}

// mergeOptions copies the options in mask.
func mergeOptions(to, from *format.QueueOptions, mask format.OptionMask) {
	str := func(bit format.OptionMask, a, b *string) {
		if mask&bit != 0 {
			*a = *b
		}
	}
	num := func(bit format.OptionMask, a, b *int64) {
		if mask&bit != 0 {
			*a = *b
		}
	}
	flag := func(bit format.OptionMask, a, b *bool) {
		if mask&bit != 0 {
			*a = *b
		}
	}
	str(format.OptNamespace, &to.Namespace, &from.Namespace)
	str(format.OptTask, &to.Task, &from.Task)
	num(format.OptLeaseTime, &to.LeaseTime, &from.LeaseTime)
	num(format.OptRetryLimit, &to.RetryLimit, &from.RetryLimit)
	num(format.OptPriority, &to.Priority, &from.Priority)
	num(format.OptRetryDelay, &to.RetryDelayMs, &from.RetryDelayMs)
	num(format.OptMaxSize, &to.MaxSize, &from.MaxSize)
	num(format.OptTTL, &to.TTL, &from.TTL)
	flag(format.OptDeadLetterQueue, &to.DeadLetterQueue, &from.DeadLetterQueue)
	flag(format.OptDLQAfterMaxRetries, &to.DLQAfterMaxRetries, &from.DLQAfterMaxRetries)
	num(format.OptDelayedProcessing, &to.DelayedProcessing, &from.DelayedProcessing)
	num(format.OptWindowBuffer, &to.WindowBuffer, &from.WindowBuffer)
	num(format.OptRetentionSeconds, &to.RetentionSeconds, &from.RetentionSeconds)
	num(format.OptCompletedRetentionSeconds, &to.CompletedRetentionSeconds, &from.CompletedRetentionSeconds)
	flag(format.OptRetentionEnabled, &to.RetentionEnabled, &from.RetentionEnabled)
	flag(format.OptCompactKeys, &to.CompactKeys, &from.CompactKeys)
	flag(format.OptEncryptionEnabled, &to.EncryptionEnabled, &from.EncryptionEnabled)
	num(format.OptMaxWaitTimeSeconds, &to.MaxWaitTimeSeconds, &from.MaxWaitTimeSeconds)
	num(format.OptMinPopWaitTime, &to.MinPopWaitTimeMs, &from.MinPopWaitTimeMs)
	num(format.OptDedupWindowSeconds, &to.DedupWindowSeconds, &from.DedupWindowSeconds)
	str(format.OptRetentionSinkHold, &to.RetentionSinkHold, &from.RetentionSinkHold)
	num(format.OptRetentionSinkHoldMaxSeconds, &to.RetentionSinkHoldMaxSeconds, &from.RetentionSinkHoldMaxSeconds)
	num(format.OptMaxDeliveries, &to.MaxDeliveries, &from.MaxDeliveries)
	flag(format.OptDLQScope, &to.DLQScopeBatch, &from.DLQScopeBatch)
	num(format.OptKafkaPartitions, &to.KafkaPartitions, &from.KafkaPartitions)
	num(format.OptRetentionBytes, &to.RetentionBytes, &from.RetentionBytes)
	num(format.OptRetentionMs, &to.RetentionMs, &from.RetentionMs)
	num(format.OptTombstoneMs, &to.TombstoneMs, &from.TombstoneMs)
	num(format.OptMinCompactionLagMs, &to.MinCompactionLagMs, &from.MinCompactionLagMs)
	num(format.OptMaxCompactionLagMs, &to.MaxCompactionLagMs, &from.MaxCompactionLagMs)
	num(format.OptCompactDirtyPermille, &to.CompactDirtyPermille, &from.CompactDirtyPermille)
}

// deleteQueue forgets a queue, its partitions, cursors, ids and dead letters (S-cfg-8).
func (s *state) deleteQueue(t format.Tenant, name string) bool {
	q := s.queue(t, name)
	if q == nil {
		return false
	}
	s.queues = slices.DeleteFunc(s.queues, func(o *queue) bool { return o == q })
	s.dead = slices.DeleteFunc(s.dead, func(d *deadLetter) bool { return d.tenant == t && d.Queue == name })
	for _, p := range q.parts {
		delete(s.parts, p.id)
		s.note(p)
	}
	return true
}

// deleteGroup removes a group's cursors, and unless told to keep it its registration (S-seek-5).
func (s *state) deleteGroup(t format.Tenant, name, queue string, all, keep bool) (n uint64) {
	for _, q := range s.queues {
		if q.tenant != t || !all && q.name != queue {
			continue
		}
		g := q.group(name)
		if g == nil {
			continue
		}
		if n += g.touchedCursors(); g.sought {
			n += uint64(len(q.parts)) - g.touchedCursors()
		}
		g.sought = false
		if keep {
			g.walked = false
			g.forgetCursors()
		} else {
			q.groups = slices.DeleteFunc(q.groups, func(o *group) bool { return o == g })
		}
		s.refresh(q, false)
	}
	return n
}

func (g *group) touchedCursors() (n uint64) {
	for _, c := range g.cursors {
		if c.touched {
			n++
		}
	}
	return n
}

// setSubscription changes where partitions without a cursor start (S-grp-6).
func (s *state) setSubscription(t format.Tenant, name string, from format.Wall) (n uint64) {
	for _, q := range s.queues {
		if g := q.group(name); q.tenant == t && g != nil {
			g.start, g.walked = engine.Start{Kind: format.StartFrom, From: from}, false
			for _, p := range q.parts {
				g.cursor(p).exact = false
			}
			n++
			s.refresh(q, false)
		}
	}
	return n
}

// page cuts one page out of rows; the cursor is the number of rows before it.
func page[T any](rows []T, p engine.Page) ([]T, string, error) {
	from := 0
	if p.After != "" {
		n, err := strconv.Atoi(p.After)
		if err != nil || n < 0 || n > len(rows) {
			return nil, "", &engine.Error{Code: engine.CodeBadRequest, Field: "after", Message: "not a cursor of this listing"}
		}
		from = n
	}
	limit := p.Limit
	if limit <= 0 {
		limit = 1000
	}
	if to := from + limit; to < len(rows) {
		return rows[from:to], strconv.Itoa(to), nil
	}
	return rows[from:], "", nil
}
