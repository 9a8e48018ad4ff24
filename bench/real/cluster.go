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
	out.Conditions += ", " + o.trial.String()
	o.out = place.Timed(o.out)
	v.Out = o.out
	c, err := o.trial.Open(o.binary, o.dir)
	if err != nil {
		return err
	}
	defer c.End()
	ctx, cancel := context.WithTimeout(ctx, o.trial.For+o.limit)
	defer cancel()
	var all struct {
		sync.Mutex
		rounds int
		outcome
	}
	start := time.Now()
	done, err := o.trial.Run(ctx, c, o.seed, o.out, func(ctx context.Context, number int) error {
		own := o
		own.seed += uint64(number)
		queue := fmt.Sprintf("%s-%d", o.queue, number)
		r := newReplay(own, in, queue, v.In(queue), c.Round(number))
		came, err := r.round(ctx, number)
		if err != nil {
			return err
		}
		all.Lock()
		defer all.Unlock()
		all.rounds++
		all.add(came)
		return nil
	})
	place.Sum(done, out)
	out.Add("time", time.Since(start).Seconds(), "s")
	out.Add("rounds", float64(all.rounds), "")
	all.reportWorkers(out)
	all.reportReaders(out)
	if err != nil {
		return fmt.Errorf("%w\nthe nodes said:\n%s", err, c.LogTail())
	}
	if err := c.Stop(); err != nil {
		v.Add("%v", err)
	}
	return nil
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
