package main

import (
	"context"
	"fmt"
	"net"
	"runtime"
	"strconv"
	"sync/atomic"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// killed is a node that is killed with -9 and started again at the same address.
type killed struct {
	t    *testing.T
	dir  string
	addr string
	p    *process
}

func newKilled(t *testing.T) *killed {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	k := &killed{t: t, dir: t.TempDir(), addr: ln.Addr().String()}
	_ = ln.Close()
	k.start()
	return k
}

func (k *killed) start() {
	k.t.Helper()
	k.p = runNode(k.t, k.dir, nil, "--frontends", "http,kafka", "--kafka", k.addr, "--kafka-group-join-delay", "0s",
		"--kafka-default-partitions", "2")
}

// during kills the node each time some further steps were done, while more are under way, and starts it again.
func (k *killed) during(ctx context.Context, done *atomic.Int64, times int, steps int64) {
	for range times {
		for from := done.Load(); done.Load() < from+steps; {
			if ctx.Err() != nil {
				k.t.Fatalf("only %d steps were done", done.Load())
			}
			runtime.Gosched()
		}
		k.p.kill()
		k.start()
	}
}

func (k *killed) client(opts ...kgo.Opt) *kgo.Client {
	k.t.Helper()
	cl, err := kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(k.addr), kgo.AllowAutoTopicCreation(),
		kgo.RecordPartitioner(kgo.ManualPartitioner())}, opts...)...)
	if err != nil {
		k.t.Fatal(err)
	}
	return cl
}

// read gives the committed values of a partition, in order.
func (k *killed) read(ctx context.Context, topic string, partition int32) (values []string) {
	k.t.Helper()
	cl := k.client(kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{
		topic: {partition: kgo.NewOffset().AtStart()}}))
	defer cl.Close()
	ends, err := kadm.NewClient(cl).ListCommittedOffsets(ctx, topic)
	if err != nil {
		k.t.Fatal(err)
	}
	end, _ := ends.Lookup(topic, partition)
	if err := cl.ProduceSync(ctx, &kgo.Record{Topic: topic, Partition: partition, Value: []byte("end")}).FirstErr(); err != nil {
		k.t.Fatal(err)
	}
	for {
		got := cl.PollFetches(ctx)
		if err := got.Err(); err != nil {
			k.t.Fatal(err)
		}
		for _, r := range got.Records() {
			if r.Offset >= end.Offset {
				return values
			}
			values = append(values, string(r.Value))
		}
	}
}

// TestKafkaKilledWhileProducing: an idempotent producer whose node is killed between append and answer sends again, and every
// record is there once, in order.
func TestKafkaKilledWhileProducing(t *testing.T) {
	k := newKilled(t)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	cl := k.client(kgo.ProducerLinger(0), kgo.MaxBufferedRecords(64))
	defer cl.Close()
	var acked atomic.Int64
	stop, stopped := context.WithCancel(ctx)
	sent := make(chan int, 1)
	go func() {
		n := 0
		for ; stop.Err() == nil; n++ {
			cl.Produce(ctx, &kgo.Record{Topic: "t", Value: []byte(strconv.Itoa(n))}, func(_ *kgo.Record, err error) {
				if err != nil {
					t.Errorf("produce: %v", err)
				}
				acked.Add(1)
			})
		}
		sent <- n
	}()
	k.during(ctx, &acked, 4, 200)
	stopped()
	n := <-sent
	if err := cl.Flush(ctx); err != nil {
		t.Fatal(err)
	}
	got := k.read(ctx, "t", 0)
	if len(got) != n {
		t.Errorf("%d records are there, %d were produced", len(got), n)
	}
	for i, v := range got {
		if v != strconv.Itoa(i) {
			t.Fatalf("offset %d is %s", i, v)
		}
	}
}

// TestKafkaKilledWhileCommitting: what was acknowledged of positions is there after a kill, and nothing that nobody asked for.
func TestKafkaKilledWhileCommitting(t *testing.T) {
	k := newKilled(t)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	cl := k.client()
	defer cl.Close()
	adm := kadm.NewClient(cl)
	if err := cl.ProduceSync(ctx, &kgo.Record{Topic: "t", Value: []byte("v")}).FirstErr(); err != nil {
		t.Fatal(err)
	}
	var acked, asked atomic.Int64
	stop, stopped := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for i := int64(1); stop.Err() == nil; i++ {
			asked.Store(i)
			var both kadm.Offsets
			both.AddOffset("t", 0, i, -1)
			both.AddOffset("t", 1, i, -1)
			if _, err := adm.CommitOffsets(ctx, "g", both); err == nil {
				acked.Store(i)
			}
		}
	}()
	k.during(ctx, &acked, 4, 50)
	stopped()
	<-ended
	got, err := adm.FetchOffsets(ctx, "g")
	if err != nil {
		t.Fatal(err)
	}
	a, _ := got.Lookup("t", 0)
	b, _ := got.Lookup("t", 1)
	if a.At != b.At || a.At < acked.Load() || a.At > asked.Load() {
		t.Errorf("positions %d and %d: %d was acknowledged, %d asked for", a.At, b.At, acked.Load(), asked.Load())
	}
}

// TestKafkaKilledWhileEnding: a transaction whose node is killed at its end is there as a whole or not at all, what was
// acknowledged as committed is there, and what was aborted is not.
func TestKafkaKilledWhileEnding(t *testing.T) {
	k := newKilled(t)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	var ends atomic.Int64
	stop, stopped := context.WithCancel(ctx)
	verdicts := make(chan map[string]string, 1)
	go func() {
		told := map[string]string{}
		var cl *kgo.Client
		for i := 0; stop.Err() == nil; i++ {
			if cl == nil {
				cl = k.client(kgo.TransactionalID("x"))
			}
			id, commit := fmt.Sprint(i), kgo.TransactionEndTry(i%3 != 0)
			err := cl.BeginTransaction()
			if err == nil {
				err = cl.ProduceSync(ctx, &kgo.Record{Topic: "t", Value: []byte(id)}, &kgo.Record{Topic: "t", Partition: 1, Value: []byte(id)}).FirstErr()
			}
			if err == nil {
				err = cl.EndTransaction(ctx, commit)
			}
			switch {
			case err != nil:
				told[id] = "unknown"
				cl.Close()
				cl = nil
			case commit == kgo.TryCommit:
				told[id] = "committed"
			default:
				told[id] = "aborted"
			}
			ends.Add(1)
		}
		if cl != nil {
			cl.Close()
		}
		verdicts <- told
	}()
	k.during(ctx, &ends, 4, 20)
	stopped()
	told := <-verdicts
	seen := [2]map[string]int{{}, {}}
	for p := range seen {
		for _, v := range k.read(ctx, "t", int32(p)) {
			seen[p][v]++
		}
	}
	for id, verdict := range told {
		a, b := seen[0][id], seen[1][id]
		switch {
		case a != b || a > 1, verdict == "committed" && a != 1, verdict == "aborted" && a != 0:
			t.Errorf("transaction %s is %s, and there %d and %d times", id, verdict, a, b)
		}
	}
}
