package ephemeral

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"queen/engine/clock"
)

// Goal: with producers, consumers that compete, ack, give back, abandon and go away, a reset of another queue and
// listings at the same time, every message is settled exactly once and in the end nothing is left.
func TestConcurrent(t *testing.T) {
	const producers, consumers, each = 4, 8, 2_000
	s := New(Options{Clock: clock.Real(), Incarnation: 1})
	defer s.Close()
	var settled sync.Map
	var left atomic.Int64
	left.Store(producers * each)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var all sync.WaitGroup
	for p := range producers {
		all.Go(func() {
			for i := range each {
				for s.Push(someone, PushRequest{Queue: "q", Partition: fmt.Sprint(p), Payloads: [][]byte{fmt.Appendf(nil, "%d.%d", p, i)}}) != nil {
					runtime.Gosched() // the queue is full: consumers are behind
				}
			}
		})
	}
	for c := range consumers {
		all.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				call, end := ctx, context.CancelFunc(func() {})
				if n%13 == 0 { // one that goes away while messages come
					call, end = context.WithTimeout(ctx, time.Duration(n%7)*100*time.Microsecond)
				}
				d, err := s.Pop(call, someone, PopRequest{Queue: "q", Group: "g", Batch: 1 + c, Wait: time.Minute})
				end()
				if err != nil || d == nil {
					continue
				}
				if n%5 == 0 {
					d.Abandon()
					continue
				}
				acks := make([]Ack, len(d.Messages))
				for i, m := range d.Messages {
					acks[i].ID = m.ID
					if n%11 == 0 && m.Failed == 0 {
						acks[i].Status = Retry
					}
				}
				out, err := s.Ack(someone, "q", "g", acks)
				if err != nil {
					t.Error(err)
				}
				d.Delivered()
				for i, o := range out {
					if acks[i].Status != Completed {
						continue
					}
					if _, twice := settled.LoadOrStore(string(d.Messages[i].Payload), true); o != Acked || twice {
						t.Errorf("%s: %s, twice %v", d.Messages[i].Payload, o, twice)
					}
					if left.Add(-1) == 0 {
						cancel()
					}
				}
			}
		})
	}
	all.Go(func() {
		for i := 0; ctx.Err() == nil; i++ {
			_ = s.Push(someone, PushRequest{Queue: "other", Partition: "p", Payloads: [][]byte{nil}})
			_, _ = s.Reset(someone, "other")
			_, _ = s.Delete(someone, "other")
			_, _ = s.Depth(someone, "q", nil)
			s.Queues(someone)
			s.SetEnabled(true)
		}
	})
	all.Wait()
	require.NoError(t, checkStore(s))
	require.Zero(t, s.Queues(someone)[0].Depth)
	require.Zero(t, s.Stats().Parked)
}

// Goal: a reply crosses the store in microseconds: push, wake, pop, and back. Prints the median round trip; not judged.
func BenchmarkRequestReply(b *testing.B) {
	s := New(Options{Clock: clock.Real(), Incarnation: 1})
	defer s.Close()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() {
		for ctx.Err() == nil {
			d, err := s.Pop(ctx, someone, PopRequest{Queue: "requests", Group: "workers", Wait: time.Minute, CommitOnDelivery: true})
			if err != nil || d == nil {
				continue
			}
			d.Delivered()
			_ = s.Push(someone, PushRequest{Queue: string(d.Messages[0].Payload), Partition: "p", Payloads: [][]byte{[]byte("reply")}})
		}
	}()
	inbox := [][]byte{[]byte("inbox")}
	trips := make([]time.Duration, 0, b.N)
	b.ReportAllocs()
	for b.Loop() {
		start := time.Now()
		if err := s.Push(someone, PushRequest{Queue: "requests", Partition: "p", Payloads: inbox}); err != nil {
			b.Fatal(err)
		}
		d, err := s.Pop(ctx, someone, PopRequest{Queue: "inbox", Wait: time.Minute, CommitOnDelivery: true})
		if err != nil || d == nil {
			b.Fatal(err)
		}
		d.Delivered()
		trips = append(trips, time.Since(start))
	}
	reportP50(b, trips)
}

func reportP50(b *testing.B, trips []time.Duration) {
	slices.Sort(trips)
	b.ReportMetric(float64(trips[len(trips)/2].Nanoseconds())/1e3, "us-p50")
}

// BenchmarkPushPop is one message through a queue, with its ack.
func BenchmarkPushPop(b *testing.B) {
	s := New(Options{Clock: clock.Real(), Incarnation: 1})
	defer s.Close()
	payload := [][]byte{make([]byte, 100)}
	b.ReportAllocs()
	for b.Loop() {
		_ = s.Push(someone, PushRequest{Queue: "q", Partition: "p", Payloads: payload})
		d, _ := s.Pop(context.Background(), someone, PopRequest{Queue: "q"})
		_, _ = s.Ack(someone, "q", "", []Ack{{ID: d.Messages[0].ID}})
	}
}
