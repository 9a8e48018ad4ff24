package main

import (
	"context"
	"fmt"
	"net/url"
	"sync"
	"time"

	"queen/bench/internal/changes"
	"queen/bench/internal/place"
	"queen/bench/internal/report"
)

// underFaults replays the input in rounds on a cluster that has faults done to it.
func underFaults(ctx context.Context, o options, in *changes.Input, v *report.Violations, out *report.Report) error {
	var all struct {
		sync.Mutex
		rounds int
		outcome
	}
	err := o.trial.OnCluster(ctx, place.Setting{Binary: o.binary, Dir: o.dir, Seed: o.seed, Limit: o.limit, Out: o.out, Violations: v, Report: out},
		func(ctx context.Context, p place.Round) error {
			own := o
			own.seed, own.out = o.seed+uint64(p.Number), p.Out
			queue := fmt.Sprintf("%s-%d", o.queue, p.Number)
			came, err := newReplay(own, in, queue, v.In(queue), p.Place).round(ctx, p.Number)
			if err != nil {
				return err
			}
			all.Lock()
			defer all.Unlock()
			all.rounds++
			all.add(came)
			return nil
		})
	out.Add("rounds", float64(all.rounds), "")
	all.reportWorkers(out)
	all.reportReaders(out)
	return err
}

// round is one replay with everything that is judged about it. It leaves nothing behind.
func (r *replay) round(ctx context.Context, number int) (*outcome, error) {
	start := time.Now()
	group := newLedger(r.in, "workers", r.v)
	err := place.Together(ctx,
		func(ctx context.Context) error { return r.produce(ctx, r.first) },
		func(ctx context.Context) error { return r.consume(ctx, group) })
	if err != nil {
		return nil, err
	}
	consumed := time.Since(start)
	if err := r.nothingLeft(ctx, group); err != nil {
		return nil, err
	}
	workers := group.finish()
	readers, err := r.again(ctx, group)
	if err != nil {
		return nil, err
	}
	r.say("round %d: %d lines consumed in %v, redelivered %d, acks lost %d, all judged after %v", number, len(r.in.Lines),
		consumed.Round(time.Millisecond), workers.redelivered, workers.lostAcks, time.Since(start).Round(time.Millisecond))
	return r.outcome(workers, readers), r.giveUp(ctx)
}

// giveUp deletes the queue.
func (r *replay) giveUp(ctx context.Context) error {
	conn := place.Conn(r.place, 0)
	defer conn.Close()
	a, err := place.Ask(ctx, conn, "DELETE", "/api/v1/resources/queues/"+url.PathEscape(r.queue), nil)
	if err == nil {
		err = a.Err()
	}
	return err
}
