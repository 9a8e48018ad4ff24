package enginetest

import (
	"fmt"
	"slices"
	"time"

	"queen/engine"
	"queen/engine/format"
)

// optionPatch sets one option by its name on the wire.
func optionPatch(name string, n int) (o format.QueueOptions) {
	v, on := int64(n), n != 0
	switch name {
	case "leaseTime":
		o.Set, o.LeaseTime = format.OptLeaseTime, v
	case "retryLimit":
		o.Set, o.RetryLimit = format.OptRetryLimit, v
	case "dedupWindowSeconds":
		o.Set, o.DedupWindowSeconds = format.OptDedupWindowSeconds, v
	case "delayedProcessing":
		o.Set, o.DelayedProcessing = format.OptDelayedProcessing, v
	case "windowBuffer":
		o.Set, o.WindowBuffer = format.OptWindowBuffer, v
	case "retryDelay":
		o.Set, o.RetryDelayMs = format.OptRetryDelay, v
	case "deadLetterQueue":
		o.Set, o.DeadLetterQueue = format.OptDeadLetterQueue, on
	case "dlqAfterMaxRetries":
		o.Set, o.DLQAfterMaxRetries = format.OptDLQAfterMaxRetries, on
	case "dlqScope":
		o.Set, o.DLQScopeBatch = format.OptDLQScope, on
	case "maxDeliveries":
		o.Set, o.MaxDeliveries = format.OptMaxDeliveries, v
	case "retentionSeconds":
		o.Set, o.RetentionSeconds = format.OptRetentionSeconds, v
	case "retentionEnabled":
		o.Set, o.RetentionEnabled = format.OptRetentionEnabled, on
	case "completedRetentionSeconds":
		o.Set, o.CompletedRetentionSeconds = format.OptCompletedRetentionSeconds, v
	case "maxWaitTimeSeconds":
		o.Set, o.MaxWaitTimeSeconds = format.OptMaxWaitTimeSeconds, v
	case "encryptionEnabled":
		o.Set, o.EncryptionEnabled = format.OptEncryptionEnabled, on
	case "maxSize":
		o.Set, o.MaxSize = format.OptMaxSize, v
	case "ttl":
		o.Set, o.TTL = format.OptTTL, v
	}
	return o
}

const optTrims = format.OptRetentionSeconds | format.OptRetentionEnabled | format.OptCompletedRetentionSeconds |
	format.OptMaxWaitTimeSeconds | format.OptTTL

// configure sets one option. Time moves a little before and after, so that what was pushed under the
// old options and under the new ones differ in time.
func (p *player) configure(op Op) (string, error) {
	if _, err := p.advance(Op{For: time.Microsecond}); err != nil {
		return "", err
	}
	req := engine.ConfigureRequest{Queue: op.queue(), Patch: optionPatch(op.What, op.N)}
	ctx, cancel := p.call()
	defer cancel()
	p.arm()
	info, err := p.e.Catalog().Configure(ctx, p.caller, req)
	apply := func(s *state) (*queue, error) {
		q, err := s.configure(p.caller.Tenant, &req)
		if err == nil && req.Patch.Set&optTrims != 0 {
			q.trims = true
		}
		return q, err
	}
	if err != nil && p.hit {
		after := p.s.clone()
		_, _ = apply(after) // these options are never refused
		return "died", p.settleCrash(after)
	}
	if err != nil {
		return "", fmt.Errorf("configure: %w", err)
	}
	q, err := apply(p.s)
	if err != nil || info.Options != q.opts || info.Name != q.name {
		return "", fmt.Errorf("configure: answered %+v, want %+v (%v)", info.Options, q.opts, err)
	}
	p.cov.count("configure ok")
	if p.hit {
		return "ok", nil // the storage may be gone already; the restart comes next
	}
	_, err = p.advance(Op{For: time.Microsecond})
	return "ok", err
}

// catalog runs one change of the catalogue; change carries it out on the engine, model on the model.
func (p *player) catalog(change func(engine.Catalog) (any, error), model func(*state) any) (string, error) {
	p.arm()
	got, err := change(p.e.Catalog())
	if err != nil && p.hit {
		after := p.s.clone()
		model(after)
		return "died", p.settleCrash(after)
	}
	if err != nil {
		return "", err
	}
	if want := model(p.s); want != nil && got != want {
		return "", fmt.Errorf("answered %v, want %v", got, want)
	}
	return fmt.Sprint(got), nil
}

func (p *player) deleteQueue(op Op) (string, error) {
	ctx, cancel := p.call()
	defer cancel()
	answer, err := p.catalog(
		func(c engine.Catalog) (any, error) { return c.DeleteQueue(ctx, p.caller, op.queue()) },
		func(s *state) any { return s.deleteQueue(p.caller.Tenant, op.queue()) })
	if answer == "true" {
		p.sharp(op.queue(), "")
		p.cov.count("delete-queue existed")
	} else {
		p.cov.count("delete-queue absent")
	}
	return answer, err
}

func (p *player) deleteGroup(op Op) (string, error) {
	ctx, cancel := p.call()
	defer cancel()
	p.cov.count("delete-group ok")
	p.sharp(op.queue(), groupName(op.group())) // the calls of groups are not struck by crashes
	return p.catalog(
		func(c engine.Catalog) (any, error) {
			return c.DeleteGroup(ctx, p.caller, op.group(), op.queue(), false, op.has("k"))
		},
		func(s *state) any {
			s.deleteGroup(p.caller.Tenant, groupName(op.group()), op.queue(), false, op.has("k"))
			return nil // how many rows a cursor takes is the engine's business
		})
}

// subscribe changes where untouched partitions start. Which partitions count as touched while their
// messages are hidden, or were claimed and handed back, is left open, so it is not asked then.
func (p *player) subscribe(op Op) (string, error) {
	for _, q := range p.s.queues {
		if q.group(groupName(op.group())) != nil && (p.blurred[blur{q.name, groupName(op.group())}] || q.opts.DelayedProcessing > 0 ||
			q.opts.WindowBuffer > 0) {
			return skip, nil
		}
	}
	from := p.s.w - format.Wall(op.For.Microseconds())
	ctx, cancel := p.call()
	defer cancel()
	answer, err := p.catalog(
		func(c engine.Catalog) (any, error) { return c.SetSubscription(ctx, p.caller, op.group(), from) },
		func(s *state) any { return s.setSubscription(p.caller.Tenant, groupName(op.group()), from) })
	if answer == "0" {
		p.cov.count("subscribe nothing")
	} else {
		p.cov.count("subscribe ok")
	}
	return answer, err
}

// dead lists all dead letters, holds them against the model and adopts their ids.
func (p *player) dead() ([]engine.DeadLetter, error) {
	ctx, cancel := p.call()
	defer cancel()
	got, err := p.e.Catalog().DeadLetters(ctx, p.caller, engine.DeadLetterFilter{Limit: 100_000})
	if err != nil {
		return nil, fmt.Errorf("dead letters: %w", err)
	}
	if len(got) != len(p.s.dead) {
		return nil, fmt.Errorf("dead letters: %d listed, want %d", len(got), len(p.s.dead))
	}
	seen := map[*deadLetter]bool{}
	for i := range got {
		g := &got[i]
		if i > 0 && g.FailedAt > got[i-1].FailedAt {
			return nil, fmt.Errorf("dead letters: row %d failed after row %d", i, i-1)
		}
		d := p.deadOf(g, seen)
		if d == nil {
			return nil, fmt.Errorf("dead letter %+v: there is none like it", *g)
		}
		seen[d] = true
		d.ID, d.known = g.ID, true
	}
	return got, nil
}

// deadOf finds the model's record of a listed dead letter.
func (p *player) deadOf(g *engine.DeadLetter, seen map[*deadLetter]bool) *deadLetter {
	for _, d := range p.s.dead {
		if seen[d] || d.known && d.ID != g.ID || d.Queue != g.Queue || d.Partition != g.Partition || d.Group != g.Group ||
			d.offset != g.Message.Offset || d.Error != g.Error || d.Retries != g.Retries || d.FailedAt != g.FailedAt {
			continue
		}
		part := p.s.tenantPart(d.tenant, d.PartitionID)
		if part == nil {
			if part = p.s.queue(d.tenant, d.Queue).part(d.Partition); part == nil {
				continue
			}
		}
		if p.judgeRecord(&part.msgs[d.offset], &g.Message) == nil {
			return d
		}
	}
	return nil
}

func (p *player) redrive(op Op) (string, error) {
	rows, err := p.dead()
	if err != nil {
		return "", err
	}
	move := &engine.Redrive{DeadLetter: format.UUID{5}}
	if op.Back < len(rows) {
		d := rows[op.Back]
		move.DeadLetter = d.ID
		twin := func(o engine.DeadLetter) bool { // which of two filed in one microsecond is the newer one can not be told
			return o.ID != d.ID && o.PartitionID == d.PartitionID && o.Message.TransactionID == d.Message.TransactionID && o.FailedAt == d.FailedAt
		}
		if op.has("a") && !slices.ContainsFunc(rows, twin) {
			*move = engine.Redrive{ByAddress: true, PartitionID: d.PartitionID, TransactionID: d.Message.TransactionID}
		}
	}
	if op.has("t") {
		move.Partition, move.ToPart = op.part(), true
	}
	if op.has("q") {
		move.Queue, move.ToOther = op.queue(), true
	}
	if op.has("d") && op.Back < len(rows) {
		if err := p.pushCopy(move, &rows[op.Back]); err != nil {
			return "", err
		}
	}
	res, died, err := p.do(move)
	if err != nil || died {
		return "died", err
	}
	want := p.s.redrive(p.caller, move)
	g, w := &res[0].Redrive, &want.Redrive
	if code(res[0].Err) != code(want.Err) || want.Err == nil && (g.Duplicate != w.Duplicate || g.Queue != w.Queue ||
		g.Partition != w.Partition || g.Group != w.Group || g.TransactionID != w.TransactionID || g.DeadLetter != w.DeadLetter) {
		return "", fmt.Errorf("redrive: got %+v (%v), want %+v (%v)", *g, res[0].Err, *w, want.Err)
	}
	if want.Err != nil {
		p.cov.count("redrive " + string(want.Err.Code))
		return string(want.Err.Code), nil
	}
	p.cov.count("redrive " + verdictOf(&w.Message))
	if w.Duplicate {
		return "duplicate", nil
	}
	return describeMessage(g.Message), p.judgeMessage(w.Queue, w.Partition, &g.Message, &w.Message)
}

// pushCopy pushes a message with the id the copy of a dead letter will have, to where it will go.
func (p *player) pushCopy(move *engine.Redrive, d *engine.DeadLetter) error {
	add := &engine.Append{Queue: d.Queue, Partition: d.Partition, Messages: []engine.Message{{TransactionID: "dlq:" + d.ID.String()}}}
	if move.ToOther {
		add.Queue = move.Queue
	}
	if move.ToPart {
		add.Partition = move.Partition
	}
	armed := p.armed
	p.armed = 0 // the redrive is what may die
	res, _, err := p.do(add)
	p.armed = armed
	if err != nil {
		return err
	}
	return p.judgeAppend(add, &res[0])
}

func (p *player) purge(op Op) (string, error) {
	rows, err := p.dead()
	if err != nil {
		return "", err
	}
	ctx, cancel := p.call()
	defer cancel()
	var answer string
	if op.has("a") && op.Back < len(rows) {
		d := rows[op.Back]
		answer, err = p.catalog(
			func(c engine.Catalog) (any, error) {
				return c.DeleteDeadLetters(ctx, p.caller, d.PartitionID, d.Message.TransactionID)
			},
			func(s *state) any {
				return s.deleteDead(p.caller.Tenant, d.PartitionID, d.Message.TransactionID)
			})
	} else {
		var group *string
		if name := groupName(op.group()); op.has("g") {
			group = &name
		}
		answer, err = p.catalog(
			func(c engine.Catalog) (any, error) {
				n, err := c.Purge(ctx, p.caller, op.queue(), group)
				if code(err) == engine.CodeUnknownQueue && p.s.queue(p.caller.Tenant, op.queue()) == nil {
					return n, nil // as good an answer as "none were there"
				}
				return n, err
			},
			func(s *state) any { return s.purge(p.caller.Tenant, op.queue(), group) })
	}
	if answer == "0" {
		p.cov.count("purge nothing")
	} else {
		p.cov.count("purge some")
	}
	return answer, err
}
