package load

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"queen/bench/internal/client"
	"queen/bench/internal/histo"
	"queen/bench/internal/message"
)

// SingleOptions describe single synchronous calls: one connection, one message, one call at a time.
type SingleOptions struct {
	Addr, Queue      string
	Partitions, Size int
	Warmup, Duration time.Duration
	// Group, when set, consumes: every push is followed by a pop, which has to find that message wherever it is, and
	// its ack. The group has read all that is in the queue.
	Group string
}

// Single has the latency of each kind of call.
type Single struct{ Push, Pop, Ack histo.Histogram }

// RunSingle makes single calls for the given time.
func RunSingle(ctx context.Context, o SingleOptions) (*Single, error) {
	c := client.New(o.Addr, time.Minute)
	defer c.Close()
	s := single{o: o, c: c, run: uint64(time.Now().UnixNano()), next: make([]uint32, o.Partitions)}
	rng := rand.New(rand.NewPCG(s.run, 0))
	start := time.Now()
	counting := false
	for ctx.Err() == nil {
		now := time.Since(start)
		if now >= o.Warmup+o.Duration {
			break
		}
		if now >= o.Warmup && !counting {
			s.out, counting = Single{}, true
		}
		if err := s.once(rng.IntN(o.Partitions), rng.Uint64()); err != nil {
			return nil, err
		}
	}
	return &s.out, ctx.Err()
}

type single struct {
	o    SingleOptions
	c    *client.Conn
	run  uint64
	next []uint32
	d    client.Delivery
	out  Single
}

func (s *single) once(part int, mix uint64) error {
	number := s.next[part]
	s.next[part]++
	name := message.AppendPartition(nil, part)
	start := time.Now()
	s.c.PushBegin()
	s.c.PushItem([]byte(s.o.Queue), name, message.AppendID(nil, s.run, uint32(part), number),
		message.AppendPayload(nil, s.o.Size, number, start.UnixMicro(), mix))
	a, err := s.c.PushSend()
	if err != nil {
		return err
	}
	if queued, _ := client.CountQueued(a.Body); a.Status != 201 || queued != 1 {
		return fmt.Errorf("load: push: status %d: %.300s", a.Status, a.Body)
	}
	s.out.Push.Add(time.Since(start))
	if s.o.Group == "" {
		return nil
	}
	return s.consume(name)
}

// consume takes the message that was just pushed to a partition.
func (s *single) consume(name []byte) error {
	pop := client.PopRequest{Queue: s.o.Queue, Group: s.o.Group, Batch: 1, All: true}
	path := pop.Path()
	start := time.Now()
	a, err := s.c.Do("GET", path, nil)
	if err != nil {
		return err
	}
	if a.Status != 200 {
		return fmt.Errorf("load: pop: status %d: %.300s", a.Status, a.Body)
	}
	s.out.Pop.Add(time.Since(start))
	if err := client.ParsePop(a.Body, &s.d); err != nil {
		return err
	}
	if len(s.d.Messages) != 1 || string(s.d.Messages[0].Partition) != string(name) {
		return fmt.Errorf("load: a pop after a push to %s was answered %.300s", name, a.Body)
	}
	s.c.AckBegin()
	for i := range s.d.Messages {
		s.c.AckItem(s.d.Messages[i].ID, s.d.Messages[i].PartitionID, s.d.Lease)
	}
	start = time.Now()
	if a, err = s.c.AckSend(s.o.Group); err != nil {
		return err
	}
	if n := client.CountAcked(a.Body); a.Status != 200 || n != len(s.d.Messages) {
		return fmt.Errorf("load: ack: status %d: %.300s", a.Status, a.Body)
	}
	s.out.Ack.Add(time.Since(start))
	return nil
}
