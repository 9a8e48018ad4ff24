package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"queen/bench/internal/client"
	"queen/bench/internal/histo"
	"queen/bench/internal/node"
	"queen/bench/internal/report"
)

const (
	callOps      = 256 // as many as a call may hold
	farQueue     = "far"
	dueQueue     = "due"
	far          = 30 * 24 * time.Hour
	payload      = `"MDEyMzQ1Njc4OWFiY2RlZg=="` // 16 bytes, which are not JSON
	callDeadline = time.Minute
)

// subject is the node that is measured.
type subject struct {
	o *options
	r *report.Report
	n *node.Node
}

func (s *subject) measure(ctx context.Context) error {
	before, err := s.resident("before")
	if err != nil {
		return err
	}
	s.o.say("scheduling %d timers for later", s.o.pending)
	if err := s.schedule(ctx, "pending", farQueue, s.o.pending, time.Now().Add(far)); err != nil {
		return err
	}
	after, err := s.resident("with the pending ones")
	if err != nil {
		return err
	}
	if s.o.pending > 0 {
		s.r.Add("memory per pending timer", float64(after-before)/float64(s.o.pending), "B")
	}
	at := time.Now().Add(s.o.lead).Truncate(time.Second).Add(time.Second)
	s.o.say("scheduling %d timers for %s", s.o.due, at.Format(time.TimeOnly))
	if err := s.schedule(ctx, "due", dueQueue, s.o.due, at); err != nil {
		return err
	}
	if now := time.Now(); now.After(at) {
		return fmt.Errorf("the schedule ended %v after its second: choose a longer --lead", now.Sub(at))
	}
	return s.collect(ctx, at)
}

// resident is the node's memory after it was idle: the median of ten readings.
func (s *subject) resident(name string) (int64, error) {
	s.o.say("idle for %v", s.o.settle)
	time.Sleep(s.o.settle)
	var all []int64
	for range 10 {
		u, err := s.n.PID.Usage()
		if err != nil {
			return 0, err
		}
		all = append(all, u.RSS)
		time.Sleep(min(time.Second, s.o.settle))
	}
	slices.Sort(all)
	s.r.Add("rss "+name, float64(all[5])/(1<<20), "MiB")
	return all[5], nil
}

// schedule sends count timers of a queue for one time, over all connections.
func (s *subject) schedule(ctx context.Context, name, queue string, count int, at time.Time) error {
	var next atomic.Int64
	var failed atomic.Pointer[error]
	var took histo.Recorder
	var all sync.WaitGroup
	start := time.Now()
	for range s.o.connections {
		all.Go(func() {
			c := client.New(s.n.Addr, callDeadline)
			defer c.Close()
			for ctx.Err() == nil && failed.Load() == nil {
				from := int(next.Add(callOps)) - callOps
				if from >= count {
					return
				}
				began := time.Now()
				a, err := c.Do("POST", "/api/v1/timers", s.call(queue, from, min(from+callOps, count), at))
				if err == nil {
					err = a.Err()
				}
				if err != nil {
					failed.Store(&err)
					return
				}
				took.Add(time.Since(began))
			}
		})
	}
	all.Wait()
	if err := failed.Load(); err != nil {
		return *err
	}
	s.r.Add("scheduled, "+name, float64(count)/time.Since(start).Seconds(), "timers/s")
	var h histo.Histogram
	took.Take(&h)
	s.r.Latency("schedule of "+strconv.Itoa(callOps)+", "+name, &h)
	return ctx.Err()
}

// call is a body that schedules the timers [from, to).
func (s *subject) call(queue string, from, to int, at time.Time) []byte {
	b := []byte(`{"operations":[`)
	when := at.UTC().Format("2006-01-02T15:04:05.000000Z")
	for i := from; i < to; i++ {
		if i > from {
			b = append(b, ',')
		}
		b = fmt.Appendf(b, `{"op":"schedule","queue":%q,"timerKey":"t%d","partition":"p%d","at":%q,"txn":"t%d","payload":%s}`,
			queue, i, i%s.o.partitions, when, i, payload)
	}
	return append(b, `]}`...)
}

// fired is what was delivered, once for each timer.
type fired struct {
	at       time.Time
	seen     map[string]int
	late     histo.Histogram // by createdAt
	received histo.Histogram // by the clock here
	last     time.Time       // the newest createdAt
	early    int
}

// popped is what a pop answers, as far as it matters here.
type popped struct {
	Messages []struct {
		TransactionID string    `json:"transactionId"`
		CreatedAt     time.Time `json:"createdAt"`
	} `json:"messages"`
}

// take notes what one pop brought.
func (f *fired) take(body []byte, now time.Time) error {
	var p popped
	if err := json.NewDecoder(bytes.NewReader(body)).Decode(&p); err != nil {
		return fmt.Errorf("timers: a pop answered %.200s: %w", body, err)
	}
	for _, m := range p.Messages {
		f.seen[m.TransactionID]++
		if m.CreatedAt.Before(f.at) {
			f.early++
		}
		f.late.Add(m.CreatedAt.Sub(f.at))
		f.received.Add(now.Sub(f.at))
		if m.CreatedAt.After(f.last) {
			f.last = m.CreatedAt
		}
	}
	return nil
}

// judge reports what fired and what did not as it should.
func (f *fired) judge(r *report.Report, due int) {
	twice := 0
	for _, n := range f.seen {
		if n > 1 {
			twice++
		}
	}
	if missing := due - len(f.seen); missing != 0 {
		r.Violate("%d of %d due timers did not fire", missing, due)
	}
	if twice > 0 {
		r.Violate("%d timers fired more than once", twice)
	}
	if f.early > 0 {
		r.Violate("%d timers fired before their time", f.early)
	}
	r.Latency("lateness of the fire", &f.late)
	r.Add("lateness of the last fire", f.late.Max().Seconds(), "s")
	r.Latency("lateness of the delivery", &f.received)
	if took := f.last.Sub(f.at).Seconds(); took > 0 {
		r.Add("fired", float64(len(f.seen))/took, "timers/s")
	}
}

// collect reads what fires until all due timers have, with one consumer.
func (s *subject) collect(ctx context.Context, at time.Time) error {
	c := client.New(s.n.Addr, callDeadline)
	defer c.Close()
	f := fired{at: at, seen: map[string]int{}}
	const path = "/api/v1/pop/queue/" + dueQueue +
		"?consumerGroup=g&subscriptionMode=all&commitOnDelivery=true&batch=1000&partitions=64&wait=true&timeout=1000"
	for len(f.seen) < s.o.due && time.Since(at) < s.o.patience && ctx.Err() == nil {
		a, err := c.Do("GET", path, nil)
		if err == nil {
			err = a.Err()
		}
		if err != nil {
			return err
		}
		if a.Status == 204 {
			continue
		}
		if err := f.take(a.Body, time.Now()); err != nil {
			return err
		}
	}
	f.judge(s.r, s.o.due)
	return ctx.Err()
}
