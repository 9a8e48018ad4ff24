package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"queen/bench/internal/kafkaload"
	"queen/bench/internal/procfs"
	"queen/bench/internal/report"
)

// cell is one target with one number of partitions.
type cell struct {
	target     string
	partitions int
	result     *kafkaload.Result // nil with err
	report     *report.Report    // nil with err
	pressure   *pressure         // of --overload
	// unmeasured says that there are numbers, and none of what was asked.
	unmeasured bool
	err        error
}

// measure runs a cell on a broker of its own.
func measure(ctx context.Context, o *options, target string, partitions int) *cell {
	c := &cell{target: target, partitions: partitions}
	dir, err := report.TempDir(o.data)
	if err != nil {
		c.err = err
		return c
	}
	defer os.RemoveAll(dir)
	b, err := targetByName(target)(o, dir)
	if err != nil {
		c.err = err
		return c
	}
	if !o.quiet {
		fmt.Fprintf(os.Stderr, "%s, %d partitions\n", target, partitions)
	}
	err = c.run(ctx, o, b, dir)
	if err != nil {
		c.result, c.report = nil, nil
		if log := b.log(); log != "" {
			err = fmt.Errorf("%w\nit said:\n%s", err, log)
		}
	}
	c.err = errors.Join(err, b.stop())
	return c
}

// run loads a broker; its end is that of the load.
func (c *cell) run(ctx context.Context, o *options, b *target, dir string) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	if b.ended != nil {
		go func() {
			select {
			case <-b.ended:
				cancel(errors.New("the broker ended while it was measured"))
			case <-ctx.Done():
			}
		}()
	}
	l := o.load
	l.Addr, l.Process, l.Data, l.Partitions, l.CreateStep = b.addr, b.pid, dir, c.partitions, b.step
	// A broker that was found running may have topics of earlier runs.
	l.Topic = fmt.Sprintf("%s-%d", l.Topic, time.Now().UnixNano())
	if o.topic != "" && c.target == "running" {
		l.Topic, l.Existing = o.topic, true
	}
	l.Producers, l.Consumers = min(l.Producers, c.partitions), min(l.Consumers, c.partitions)
	if !o.quiet {
		l.OnWindow = func(w kafkaload.Window) { fmt.Fprintln(os.Stderr, w) }
	}
	c.report = &report.Report{Program: fmt.Sprintf("kafka %s %d", c.target, c.partitions)}
	if o.overload {
		return c.pressed(ctx, o, l)
	}
	var err error
	if c.result, err = kafkaload.Run(ctx, l); err != nil {
		return err
	}
	c.fill(&l)
	if o.soak > 0 && c.ours() {
		judgeSoak(c.report, c.result, o.p99, o.growth)
	}
	return nil
}

// pressed measures the capacity, then offers a multiple of it on a topic of its own.
func (c *cell) pressed(ctx context.Context, o *options, l kafkaload.Options) error {
	l.Rate = 0
	capacity, err := kafkaload.Run(ctx, l)
	if err != nil {
		return err
	}
	rate := ratePerSecond(capacity)
	l.Topic += "-pressed"
	l.Rate = rate * o.factor
	// An open loop offers no more than may be in flight: enough that the broker is what limits. What piles up is not waited
	// for: how much is consumed while producers press is the question.
	l.InFlight *= 4
	l.LeaveRest = true
	// The schedule falls behind by as much as is offered in vain: a record's way begins when it is sent.
	l.FromSend = true
	if c.result, err = kafkaload.Run(ctx, l); err != nil {
		return err
	}
	p := newPressure(rate, l.Rate, c.result)
	c.pressure, c.unmeasured = p, p.none()
	r := c.report
	r.Add("capacity", p.capacity, "msg/s")
	r.Add("offered", p.offered, "msg/s")
	r.Add("accepted", p.accepted, "msg/s")
	r.Add("consumed", p.consumed, "msg/s")
	r.Add("consumed of accepted", p.share(), "")
	r.Add("consumed of accepted, worst window", p.worst, "")
	r.Add("consumed of the capacity", p.kept(), "")
	r.Violations = append(r.Violations, capacity.Violations...)
	c.fill(&l)
	if c.ours() && !c.unmeasured {
		p.judge(r)
	}
	return nil
}

// ratePerSecond counts records that came in and went out.
func ratePerSecond(r *kafkaload.Result) float64 {
	return float64(min(r.Produced, r.Consumed)) / r.Elapsed.Seconds()
}

func worstWindow(r *kafkaload.Result) (worst time.Duration) {
	for i := range r.Windows {
		worst = max(worst, r.Windows[i].Produce.Percentile(99))
	}
	return worst
}

func conditions(l *kafkaload.Options) string {
	pace, readers := "as fast as it goes", "assigned directly"
	if l.Rate > 0 {
		pace = report.Number(l.Rate) + " msg/s open loop"
	}
	if l.Group != "" {
		readers = "in a consumer group"
	}
	return fmt.Sprintf("%d partitions, %d producers of %d x %d B, acks=all, idempotent, lz4, linger %v, at most %d in flight, %d consumers %s, "+
		"%s, %v after %v, load %.1f", l.Partitions, l.Producers, l.Batch, l.Size, l.Linger, l.InFlight, l.Consumers, readers, pace, l.Duration,
		l.Warmup, procfs.Load())
}

// fill notes what the load measured.
func (c *cell) fill(l *kafkaload.Options) {
	r, res := c.report, c.result
	r.Conditions = conditions(l)
	seconds := res.Elapsed.Seconds()
	r.Add("rate in", float64(res.Produced)/seconds, "msg/s")
	r.Add("rate out", float64(res.Consumed)/seconds, "msg/s")
	r.Latency("produce", &res.Produce)
	r.Latency("e2e", &res.Arrival)
	r.Add("worst window produce p99", float64(worstWindow(res))/1e3, "us")
	messages := float64(max(res.Produced, 1))
	if l.Process != 0 {
		r.Spent(res.Spent, res.Produced)
		r.Add("rss before", float64(res.Before)/(1<<20), "MiB")
		r.Add("rss after", float64(res.After)/(1<<20), "MiB")
		r.Add("rss slope", res.Slope/(1<<20), "MiB/min")
	}
	r.Add("loader cpu", res.Loader.Usage.CPU.Seconds()/res.Loader.Elapsed.Seconds(), "cores")
	r.Add("loader cpu per message", float64(res.Loader.Usage.CPU.Microseconds())/messages, "us")
	w := res.Wire
	r.Add("messages per record batch", messages/float64(max(w.Batches, 1)), "")
	r.Add("messages per produce request", messages/float64(max(w.Produces, 1)), "")
	r.Add("fetch requests", float64(w.Fetches)/seconds, "1/s")
	r.Add("bytes of a fetch request", float64(w.FetchBytes)/float64(max(w.Fetches, 1)), "B")
	r.Add("fetch request bytes per message", float64(w.FetchBytes)/float64(max(res.Consumed, 1)), "B")
	r.Add("fetch answer bytes per message", float64(w.FetchedBytes)/float64(max(res.Consumed, 1)), "B")
	r.Add("answer to a fetch", float64(w.FetchTime.Microseconds())/float64(max(w.Fetches, 1)), "us")
	r.Add("consumers waiting for answers", w.FetchTime.Seconds()/seconds/float64(max(l.Consumers, 1)), "of their time")
	r.Add("repeats", float64(res.Repeats), "msg")
	r.Add("left", float64(res.Left), "msg")
	r.Violations = append(r.Violations, res.Violations...)
}
