package main

import (
	"context"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"queen/bench/internal/client"
	"queen/bench/internal/load"
	"queen/bench/internal/message"
	"queen/bench/internal/node"
	"queen/bench/internal/procfs"
	"queen/bench/internal/report"
)

const (
	group       = "readers"
	fewCount    = 100
	firstQueue  = "first"
	secondQueue = "second"
)

// fewPartitions measures single calls on a fresh node with 100 partitions.
func (o *options) fewPartitions(ctx context.Context, r *report.Report, dir string) (*load.Single, error) {
	n, err := node.Start(node.Options{Binary: o.binary, Data: dir})
	if err != nil {
		return nil, err
	}
	defer n.Kill()
	s := &subject{o: o, r: r, n: n}
	if err := s.create(ctx, firstQueue, fewCount); err != nil {
		return nil, err
	}
	return s.single(ctx, firstQueue, fewCount, "100 partitions")
}

// subject is the node that is measured.
type subject struct {
	o *options
	r *report.Report
	n *node.Node
	// written is how many bytes of payload the log has been given besides the partitions' own.
	written int64
}

func (s *subject) measure(ctx context.Context, few *load.Single) error {
	o := s.o
	o.say("creating %d partitions", o.first)
	if err := s.create(ctx, firstQueue, o.first); err != nil {
		return err
	}
	before, err := s.resident(ctx, fmt.Sprintf("at %d", o.first))
	if err != nil {
		return err
	}
	o.say("creating %d more", o.more)
	start := time.Now()
	if err := s.create(ctx, secondQueue, o.more); err != nil {
		return err
	}
	s.r.Add("created, read and acked", float64(o.more)/time.Since(start).Seconds(), "partitions/s")
	all := o.first + o.more
	after, err := s.resident(ctx, fmt.Sprintf("at %d", all))
	if err != nil {
		return err
	}
	s.r.Add("memory per idle partition with its name", float64(after-before)/float64(o.more), "B")
	s.r.Add("memory per idle partition", float64(after-before)/float64(o.more)-message.NameBytes, "B")
	many, err := s.single(ctx, secondQueue, o.more, fmt.Sprintf("%d partitions", all))
	if err != nil {
		return err
	}
	s.r.Add("push p50 against 100 partitions", ratio(many.Push.Percentile(50), few.Push.Percentile(50)), "")
	s.r.Add("pop p50 against 100 partitions", ratio(many.Pop.Percentile(50), few.Pop.Percentile(50)), "")
	return s.restarts(ctx)
}

func ratio(a, b time.Duration) float64 { return float64(a) / float64(max(b, 1)) }

// create makes partitions of a queue by one push each, and the group reads and acks them.
func (s *subject) create(ctx context.Context, queue string, partitions int) error {
	l := load.Defaults()
	l.Addr, l.Queue, l.Group, l.Partitions = s.n.Addr, queue, group, partitions
	l.Producers, l.Warmup, l.Duration, l.Drain, l.Batch = s.o.producers, 0, 0, 5*time.Minute, 500
	l.Configure = fmt.Sprintf(`{"dedupWindowSeconds":%d}`, s.o.dedup)
	res, err := load.Run(ctx, l)
	if err != nil {
		return err
	}
	s.r.Violations = append(s.r.Violations, res.Violations...)
	return nil
}

// single measures single calls with that many partitions in the queue.
func (s *subject) single(ctx context.Context, queue string, partitions int, name string) (*load.Single, error) {
	s.o.say("single calls with %s", name)
	out, err := load.RunSingle(ctx, load.SingleOptions{Addr: s.n.Addr, Queue: queue, Group: group, Partitions: partitions,
		Size: 256, Warmup: s.o.latency / 5, Duration: s.o.latency})
	if err != nil {
		return nil, err
	}
	s.r.Latency(name+": push", &out.Push)
	s.r.Latency(name+": pop", &out.Pop)
	s.r.Latency(name+": ack", &out.Ack)
	return out, nil
}

// resident reads the node's memory when it has been idle: the median of ten readings.
func (s *subject) resident(ctx context.Context, name string) (int64, error) {
	if err := s.write(ctx, s.o.recent); err != nil {
		return 0, err
	}
	s.o.say("idle for %v", s.o.settle)
	time.Sleep(max(s.o.settle, time.Duration(s.o.dedup+1)*time.Second))
	var all []int64
	for range 10 {
		u, err := s.n.PID.Usage()
		if err != nil {
			return 0, err
		}
		all = append(all, u.RSS)
		time.Sleep(time.Second)
	}
	slices.Sort(all)
	s.r.Add("rss "+name, float64(all[5])/(1<<20), "MiB")
	total, kinds, err := procfs.DirBytes(s.n.Options.Data)
	if err != nil {
		return 0, err
	}
	s.r.Add("directory "+name, float64(total)/(1<<20), "MiB")
	s.r.Add("checkpoint "+name, float64(kinds["ckp-"])/(1<<20), "MiB")
	return all[5], nil
}

const fillerBytes = 64 << 10

// filler is a JSON string of fillerBytes that hardly compresses: what fills the memory of recent messages has to
// arrive there at its length.
func filler(seed uint64) []byte {
	var key [32]byte
	binary.LittleEndian.PutUint64(key[:], seed)
	raw := make([]byte, fillerBytes/4*3-2)
	_, _ = rand.NewChaCha8(key).Read(raw)
	return append(base64.StdEncoding.AppendEncode([]byte{'"'}, raw), '"')
}

// write pushes bytes to one partition of a queue of its own.
func (s *subject) write(ctx context.Context, bytes int64) error {
	s.written += bytes
	c := client.New(s.n.Addr, time.Minute)
	defer c.Close()
	name := message.AppendPartition(nil, 0)
	run := uint64(time.Now().UnixNano())
	for n := uint32(0); bytes > 0 && ctx.Err() == nil; {
		c.PushBegin()
		for range 64 {
			c.PushItem([]byte("recent"), name, message.AppendID(nil, run, 0, n), filler(run+uint64(n)))
			n++
			bytes -= fillerBytes
		}
		a, err := c.PushSend()
		if err == nil {
			err = a.Err()
		}
		if err != nil {
			return err
		}
	}
	return ctx.Err()
}

// restarts fills the log and kills the node: right after a write, and idle.
func (s *subject) restarts(ctx context.Context) error {
	if missing := s.o.logBytes - s.written; missing > 0 {
		s.o.say("writing %d MiB", missing>>20)
		if err := s.write(ctx, missing); err != nil {
			return err
		}
	}
	if err := s.write(ctx, 64<<20); err != nil {
		return err
	}
	total, kinds, err := procfs.DirBytes(s.n.Options.Data)
	if err != nil {
		return err
	}
	s.r.Add("payload written", float64(s.written)/(1<<20), "MiB")
	s.r.Add("directory before the restarts", float64(total)/(1<<20), "MiB")
	s.r.Add("checkpoint before the restarts", float64(kinds["ckp-"])/(1<<20), "MiB")
	took, err := s.restart()
	if err != nil {
		return err
	}
	s.r.Add("restart after kill -9, right after writing", took.Seconds(), "s")
	var idle []time.Duration
	for range s.o.restarts {
		time.Sleep(min(s.o.settle, 5*time.Second))
		if took, err = s.restart(); err != nil {
			return err
		}
		idle = append(idle, took)
	}
	if len(idle) > 0 {
		slices.Sort(idle)
		s.r.Add("restart after kill -9, idle, median", idle[len(idle)/2].Seconds(), "s")
	}
	time.Sleep(min(s.o.settle, 5*time.Second))
	u, err := s.n.PID.Usage()
	if err != nil {
		return err
	}
	s.r.Add("rss after a restart", float64(u.RSS)/(1<<20), "MiB")
	return s.remembers()
}

func (s *subject) restart() (time.Duration, error) {
	s.n.Kill()
	n, err := s.n.Restart()
	if err != nil {
		return 0, err
	}
	s.n = n
	s.o.say("restarted in %v", n.Started.Round(time.Millisecond))
	return n.Started, nil
}

// remembers checks that the node that is ready again knows its partitions: a message goes behind the one there is.
func (s *subject) remembers() error {
	c := client.New(s.n.Addr, time.Minute)
	defer c.Close()
	for _, part := range []int{0, s.o.more / 2, s.o.more - 1} {
		c.PushBegin()
		id := message.AppendID(nil, 1, uint32(part), 1<<31)
		c.PushItem([]byte(secondQueue), message.AppendPartition(nil, part), id, []byte("null"))
		a, err := c.PushSend()
		if err != nil {
			return err
		}
		if err := client.ParsePush(a.Body, func(_ int, p client.Pushed) {
			if string(p.Status) != "queued" || p.Offset == 0 {
				s.r.Violate("after the restarts a message of partition %d was %s at offset %d", part, p.Status, p.Offset)
			}
		}); err != nil {
			return err
		}
	}
	return nil
}
