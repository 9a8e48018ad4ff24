package main

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"queen/bench/internal/client"
	"queen/bench/internal/histo"
	"queen/bench/internal/node"
	"queen/bench/internal/procfs"
	"queen/bench/internal/report"
)

// subject is the node that is measured with streams of one kind.
type subject struct {
	o    *options
	r    *report.Report
	n    *node.Node
	kind string

	streams []*stream
	ending  atomic.Bool  // the streams are being closed
	ended   atomic.Int64 // streams that ended before that
	arrived chan arrival
	readers sync.WaitGroup
}

type arrival struct {
	push int
	at   time.Time
}

func (s *subject) measure(ctx context.Context) error {
	// The queue, its consumer group and what the node makes once are there before memory is read.
	c := client.New(s.n.Addr, time.Minute)
	defer func() { c.Close() }()
	s.arrived = make(chan arrival, 1024)
	defer s.close()
	if err := s.open(1); err != nil {
		return err
	}
	if err := s.pushes(ctx, c, -10, 0, &histo.Histogram{}); err != nil {
		return err
	}
	before, err := s.n.PID.Usage()
	if err != nil {
		return err
	}
	s.o.say("opening %d streams (%s)", s.o.streams, s.kind)
	began := time.Now()
	if err := s.open(s.o.streams); err != nil {
		return err
	}
	s.r.Add(s.kind+": opened", float64(s.o.streams)/time.Since(began).Seconds(), "streams/s")
	if err := s.idle(before); err != nil {
		return err
	}
	c.Close() // the node has closed a connection that asked nothing for so long
	c = client.New(s.n.Addr, time.Minute)
	var h histo.Histogram
	if err := s.pushes(ctx, c, 0, s.o.pushes, &h); err != nil {
		return err
	}
	s.r.Latency(s.kind+": push to arrival", &h)
	if n := s.ended.Load(); n > 0 {
		s.r.Violate("%d streams (%s) ended by themselves", n, s.kind)
	}
	return nil
}

// open opens streams, some at once, and reads them.
func (s *subject) open(count int) error {
	made := make([]*stream, count)
	errs := make([]error, s.o.dialers)
	var next atomic.Int64
	var all sync.WaitGroup
	for d := range s.o.dialers {
		all.Go(func() {
			for {
				i := int(next.Add(1)) - 1
				if i >= count {
					return
				}
				if made[i], errs[d] = openers[s.kind](s.n.Addr); errs[d] != nil {
					return
				}
			}
		})
	}
	all.Wait()
	for _, m := range made {
		if m == nil {
			continue
		}
		s.streams = append(s.streams, m)
		s.readers.Go(func() { s.read(m) })
	}
	for _, err := range errs {
		if err != nil {
			return fmt.Errorf("streams: %d of %d opened: %w", len(s.streams), count, err)
		}
	}
	return nil
}

// read passes on what a stream brings until it ends.
func (s *subject) read(m *stream) {
	for {
		text, err := m.next(m)
		if err != nil {
			if !s.ending.Load() {
				s.ended.Add(1)
			}
			return
		}
		if push, ok := dataOf(text); ok {
			s.arrived <- arrival{push, time.Now()}
		}
	}
}

func (s *subject) close() {
	s.ending.Store(true)
	for _, m := range s.streams {
		_ = m.nc.Close()
	}
	s.readers.Wait()
}

// idle measures the node while nothing happens.
func (s *subject) idle(before procfs.Usage) error {
	s.o.say("idle for %v", s.o.idle)
	time.Sleep(s.o.idle / 4) // for what opening left behind
	start, err := s.n.PID.Usage()
	if err != nil {
		return err
	}
	was, _, err := procfs.DirBytes(s.n.Options.Data)
	if err != nil {
		return err
	}
	time.Sleep(s.o.idle)
	end, err := s.n.PID.Usage()
	if err != nil {
		return err
	}
	is, _, err := procfs.DirBytes(s.n.Options.Data)
	if err != nil {
		return err
	}
	name := s.kind + ": "
	s.r.Add(name+"rss before", float64(before.RSS)/(1<<20), "MiB")
	s.r.Add(name+"rss with streams", float64(end.RSS)/(1<<20), "MiB")
	s.r.Add(name+"rss per stream", float64(end.RSS-before.RSS)/1024/float64(s.o.streams), "KiB")
	s.r.Add(name+"threads", float64(end.Threads), "")
	s.r.Add(name+"descriptors", float64(end.FDs), "")
	s.r.Add(name+"processor while idle", (end.CPU-start.CPU).Seconds()/max(s.o.idle.Seconds(), 1e-9)*100, "% of a core")
	s.r.Add(name+"directory grew while idle", float64(is-was)/1024, "KiB")
	return nil
}

// pushes sends the messages [from, to) one at a time and waits for each.
func (s *subject) pushes(ctx context.Context, c *client.Conn, from, to int, h *histo.Histogram) error {
	for i := from; i < to && ctx.Err() == nil; i++ {
		began := time.Now()
		a, err := c.Do("POST", "/api/v1/push", fmt.Appendf(nil, `{"items":[{"queue":%q,"transactionId":"m%d","payload":%d}]}`, queue, i, i))
		if err == nil {
			err = a.Err()
		}
		if err != nil {
			return err
		}
		at, ok := s.await(i)
		if !ok {
			s.r.Violate("message %d did not arrive on any stream (%s) within %v", i, s.kind, s.o.patience)
			continue
		}
		h.Add(at.Sub(began))
	}
	return ctx.Err()
}

// await waits for a message; any other one that arrives was there before or comes too late.
func (s *subject) await(push int) (at time.Time, ok bool) {
	patience := time.NewTimer(s.o.patience)
	defer patience.Stop()
	for {
		select {
		case a := <-s.arrived:
			if a.push == push {
				return a.at, true
			}
			s.r.Violate("message %d arrived while %d was awaited (%s): twice, or late", a.push, push, s.kind)
		case <-patience.C:
			return at, false
		}
	}
}
