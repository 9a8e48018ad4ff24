package engine_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"queen/engine"
	"queen/engine/clock"
	"queen/engine/format"
	"queen/engine/vfs"
)

// watched is the built-in sequencer: it counts who proposes, and holds applies to be one at a time and in order.
type watched struct {
	engine.Sequencer
	engine.Applier
	led, left atomic.Int32 // proposals by calls and by the proposing goroutine
	applying  atomic.Bool
	last      format.Index
	fail      func(c engine.Committed) // before an apply
}

func (w *watched) Propose(p *engine.Proposal) error {
	if p.Wait {
		w.led.Add(1)
	} else {
		w.left.Add(1)
	}
	return w.Sequencer.Propose(p)
}

func (w *watched) Start(a engine.Applier, applied format.Index) (format.Term, error) {
	w.Applier, w.last = a, applied
	return w.Sequencer.Start(w, applied)
}

func (w *watched) Apply(c engine.Committed) (engine.Applied, error) {
	if !w.applying.CompareAndSwap(false, true) || c.Index != w.last+1 {
		return engine.Applied{}, fmt.Errorf("entry %d after %d, or two at a time", c.Index, w.last)
	}
	if w.fail != nil {
		w.fail(c)
	}
	w.last = c.Index
	defer w.applying.Store(false)
	return w.Applier.Apply(c)
}

func openWatched(t testing.TB) (*engine.Node, *watched) {
	w := &watched{}
	n, err := engine.OpenOver(testConfig(vfs.NewMem(), clock.NewFake(1_700_000_000_000_000), 1), func(s engine.Sequencer) engine.Sequencer {
		w.Sequencer = s
		return w
	})
	if err != nil {
		t.Fatal(err)
	}
	return n, w
}

func pushOne(n *engine.Node, partition string, number int) (format.Offset, error) {
	out, err := n.Do(context.Background(), someone, engine.Batch{Ops: []engine.Op{&engine.Append{
		Queue: "q", Partition: partition, Messages: []engine.Message{{Payload: []byte(fmt.Sprint(number))}}}}})
	if err != nil {
		return 0, err
	}
	if e := out[0].Messages[0].Err; e != nil {
		return 0, e
	}
	return out[0].Messages[0].Offset, nil
}

// TestCallersLead: calls that come alone propose, write and apply for themselves; calls that come together share entries,
// some of them made by the proposing goroutine; either way entries are applied one at a time, in order, and every
// call has its own verdict.
func TestCallersLead(t *testing.T) {
	n, w := openWatched(t)
	w.led.Store(0)
	w.left.Store(0)
	for i := range 20 {
		if o, err := pushOne(n, "alone", i); err != nil || int(o) != i {
			t.Fatal(o, err)
		}
	}
	if led, left := w.led.Load(), w.left.Load(); led != 20 || left != 0 {
		t.Fatalf("%d entries by their callers, %d by the goroutine", led, left)
	}
	const callers, pushes = 8, 200
	var all sync.WaitGroup
	for c := range callers {
		all.Go(func() {
			for i := range pushes {
				if o, err := pushOne(n, fmt.Sprint(c), i); err != nil || int(o) != i {
					t.Errorf("caller %d push %d: offset %d, %v", c, i, o, err)
					return
				}
			}
		})
	}
	all.Wait()
	if led, left := w.led.Load()-20, w.left.Load(); led == 0 || led+left > callers*pushes {
		t.Errorf("%d entries by callers, %d by the goroutine", led, left)
	}
	if err := n.Close(context.Background()); err != nil {
		t.Fatal(err)
	}
	if _, err := pushOne(n, "alone", 0); err == nil || err.(*engine.Error).Code != engine.CodeClosed {
		t.Fatal(err)
	}
}

// TestApplyPanicEndsTheProcess: also where a call applies for itself and a server above it recovers panics.
func TestApplyPanicEndsTheProcess(t *testing.T) {
	if os.Getenv("APPLY_PANICS") != "" {
		n, w := openWatched(t)
		w.fail = func(engine.Committed) { panic("half an entry") }
		func() {
			defer func() { _ = recover() }()
			_, _ = pushOne(n, "p", 0)
		}()
		fmt.Println("went on")
		return
	}
	cmd := exec.Command(os.Args[0], "-test.run=^TestApplyPanicEndsTheProcess$")
	cmd.Env = append(os.Environ(), "APPLY_PANICS=1")
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || !strings.Contains(string(out), "half an entry") || strings.Contains(string(out), "went on") {
		t.Fatalf("%v\n%s", err, out)
	}
}

// BenchmarkPushAlone is one caller that pushes a kilobyte at a time, on memory: what the node adds to the disk's time.
// Waking a goroutine costs ten times what it shows here where cores are idle.
func BenchmarkPushAlone(b *testing.B) {
	cfg := testConfig(vfs.NewMem(), clock.Real(), 1)
	cfg.SegmentBytes, cfg.TailBytes = 64<<20, 1<<20
	n, err := engine.OpenLocal(cfg)
	if err != nil {
		b.Fatal(err)
	}
	ops := []engine.Op{&engine.Append{Queue: "q", Partition: "p", Messages: []engine.Message{{Payload: make([]byte, 1024)}}}}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	b.ReportAllocs()
	for b.Loop() {
		if _, err := n.Do(ctx, someone, engine.Batch{Ops: ops}); err != nil {
			b.Fatal(err)
		}
	}
	b.StopTimer()
	if err := n.Close(context.Background()); err != nil {
		b.Fatal(err)
	}
}

// TestFlightsAreNotSharedTooEarly: verdicts are used again for later entries, never while a call still reads them. Callers
// push, pop and ack side by side, and each finds its own verdicts. Run it with -race.
func TestFlightsAreNotSharedTooEarly(t *testing.T) {
	n, _ := openWatched(t)
	const callers, rounds = 6, 60
	var all sync.WaitGroup
	for c := range callers {
		all.Go(func() {
			queue, next := fmt.Sprint("q", c), 0
			for i := range rounds {
				count := 1 + (i*7+c)%23
				if err := pushMany(n, queue, next, count); err != nil {
					t.Errorf("caller %d round %d: %v", c, i, err)
					return
				}
				if err := popAndAck(n, queue, next, count); err != nil {
					t.Errorf("caller %d round %d: %v", c, i, err)
					return
				}
				next += count
			}
		})
	}
	all.Wait()
	if err := n.Close(context.Background()); err != nil {
		t.Fatal(err)
	}
}

// TestTransactionsAreNotSharedTooEarly: what a transaction is encoded and answered with is used again by later ones, never
// while it is still needed, whatever becomes of the caller. Callers push and count side by side, each finds its own verdicts,
// and others go away while theirs are under way. Run it with -race.
func TestTransactionsAreNotSharedTooEarly(t *testing.T) {
	n, _ := openWatched(t)
	const callers, rounds = 6, 60
	var all sync.WaitGroup
	for c := range callers {
		all.Go(func() {
			queue, next := fmt.Sprint("q", c), 0
			for i := range rounds {
				count := 1 + (i*5+c)%4
				if err := pushAndCount(context.Background(), n, queue, next, count, i+1); err != nil {
					t.Errorf("caller %d round %d: %v", c, i, err)
					return
				}
				next += count
			}
		})
		all.Go(func() {
			for i := range rounds {
				ctx, cancel := context.WithCancel(context.Background())
				go cancel()
				_ = pushAndCount(ctx, n, fmt.Sprint("left", c), i, 1, i+1)
			}
		})
	}
	all.Wait()
	if err := n.Close(context.Background()); err != nil {
		t.Fatal(err)
	}
}

// pushAndCount pushes messages first, first+1, ... and counts, in one transaction, and holds the verdicts to be its own.
func pushAndCount(ctx context.Context, n *engine.Node, queue string, first, count, total int) error {
	a := &engine.Append{Queue: queue, Partition: "p"}
	for k := range count {
		a.Messages = append(a.Messages, engine.Message{TransactionID: fmt.Sprint(queue, first+k), Payload: []byte("{}")})
	}
	k := &engine.KV{Kind: engine.KVIncr, Namespace: "ns", Key: queue, Delta: format.Number{Kind: format.IntNumber, Int: 1}}
	room := []engine.Result{{Rows: 1}, {Err: &engine.Error{}}}
	out, err := n.Do(ctx, someone, engine.Batch{Ops: []engine.Op{a, k}, Atomic: true, Results: room[:0]})
	if err != nil {
		return err
	}
	if &out[0] != &room[0] || out[0].Rows != 0 || out[1].Err != nil {
		return fmt.Errorf("the answer is not in the memory that was given, or holds what was in it: %+v", out)
	}
	for i, m := range out[0].Messages {
		if m.Status != engine.Queued || int(m.Offset) != first+i {
			return fmt.Errorf("message %d: %+v", first+i, m)
		}
	}
	if kv := out[1].KV; !kv.Applied || string(kv.Row.Value) != fmt.Sprint(total) || len(out[0].Messages) != count {
		return fmt.Errorf("counted %s of %d, %d messages of %d", kv.Row.Value, total, len(out[0].Messages), count)
	}
	return nil
}

// pushMany pushes messages first, first+1, ... and holds their verdicts to be theirs.
func pushMany(n *engine.Node, queue string, first, count int) error {
	a := &engine.Append{Queue: queue, Partition: "p"}
	for k := range count {
		a.Messages = append(a.Messages, engine.Message{TransactionID: fmt.Sprint(queue, first+k), Payload: []byte("{}")})
	}
	out, err := n.Do(context.Background(), someone, engine.Batch{Ops: []engine.Op{a}})
	if err != nil {
		return err
	}
	for k, m := range out[0].Messages {
		if m.Status != engine.Queued || int(m.Offset) != first+k {
			return fmt.Errorf("message %d: %+v", first+k, m)
		}
	}
	return nil
}

// popAndAck takes them in one pop, which must hold all of them and no other, and acks each.
func popAndAck(n *engine.Node, queue string, first, count int) error {
	d, err := n.Pop(context.Background(), someone, engine.PopRequest{Scope: engine.Scope{Queue: queue}, Group: "g",
		Start: engine.Start{Kind: format.StartAll}, Batch: 1000})
	if err != nil || d == nil {
		return fmt.Errorf("pop: %v %v", d, err)
	}
	var ops []engine.Op
	for m, err := range d.Messages() {
		if err != nil || int(m.Offset) != first+len(ops) || m.TransactionID != fmt.Sprint(queue, m.Offset) {
			return fmt.Errorf("popped %d as %q, want %d: %v", m.Offset, m.TransactionID, first+len(ops), err)
		}
		ops = append(ops, &engine.Ack{Partition: d.Claims[0].PartitionID, Group: "g", Lease: d.Lease, Status: format.AckCompleted,
			TransactionID: strings.Clone(m.TransactionID)})
	}
	d.Delivered()
	if len(ops) != count {
		return fmt.Errorf("popped %d, want %d", len(ops), count)
	}
	out, err := n.Do(context.Background(), someone, engine.Batch{Ops: ops})
	if err != nil {
		return err
	}
	for k := range out {
		if out[k].Err != nil || !out[k].Ack.Released || out[k].Ack.Noop {
			return fmt.Errorf("ack %d: %+v %v", first+k, out[k].Ack, out[k].Err)
		}
	}
	return nil
}
