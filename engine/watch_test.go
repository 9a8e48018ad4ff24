package engine_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"queen/engine"
	"queen/engine/clock"
	"queen/engine/format"
)

// TestWatchRandomly compares watchers with a model over random watching, pushing and deleting: every change of what is
// watched is told once, in the order of the first change, and nothing else.
func TestWatchRandomly(t *testing.T) {
	for seed := range uint64(20) {
		n := openNode(t, clock.NewFake(1_790_000_000_000_000))
		w := watchModel{t: t, n: n, rng: rand.New(rand.NewPCG(seed, 1)), ends: map[engine.PartitionRef]int{}}
		for range 3 {
			w.all = append(w.all, &modelWatcher{Watcher: n.Watch(nobody), watched: map[engine.PartitionRef]bool{}})
		}
		for range 400 {
			w.step()
		}
		for _, m := range w.all {
			w.next(m)
			m.Close()
		}
		if err := n.Close(context.Background()); err != nil {
			t.Fatal(err)
		}
	}
}

var nobody = engine.Caller{Tenant: format.DefaultTenant}

type modelWatcher struct {
	engine.Watcher
	watched map[engine.PartitionRef]bool
	changed []engine.PartitionRef
}

type watchModel struct {
	t    *testing.T
	n    *engine.Node
	rng  *rand.Rand
	all  []*modelWatcher
	ends map[engine.PartitionRef]int
}

func (w *watchModel) ref() engine.PartitionRef {
	return engine.PartitionRef{Queue: fmt.Sprint("q", w.rng.IntN(3)), Partition: fmt.Sprint("p", w.rng.IntN(4))}
}

func (w *watchModel) changed(r engine.PartitionRef) {
	for _, m := range w.all {
		if m.watched[r] && !slices.Contains(m.changed, r) {
			m.changed = append(m.changed, r)
		}
	}
}

func (w *watchModel) step() {
	m, r := w.all[w.rng.IntN(len(w.all))], w.ref()
	switch k := w.rng.IntN(20); {
	case k < 4:
		m.Add(r)
		m.watched[r] = true
	case k < 6:
		m.Remove(r)
		delete(m.watched, r)
		m.changed = slices.DeleteFunc(m.changed, func(o engine.PartitionRef) bool { return o == r })
	case k < 14:
		_, err := w.n.Do(context.Background(), nobody, engine.Batch{Ops: []engine.Op{&engine.Append{Queue: r.Queue,
			Partition: r.Partition, Messages: []engine.Message{{Payload: []byte("1")}}}}})
		if err != nil {
			w.t.Fatal(err)
		}
		w.ends[r]++
		w.changed(r)
	case k < 15:
		existed, err := w.n.Catalog().DeleteQueue(context.Background(), nobody, r.Queue)
		if err != nil {
			w.t.Fatal(err)
		}
		for _, p := range []string{"p0", "p1", "p2", "p3"} {
			at := engine.PartitionRef{Queue: r.Queue, Partition: p}
			if delete(w.ends, at); existed {
				w.gone(at)
			}
		}
	default:
		w.next(m)
	}
}

// gone notes that a partition is no more. Which of a queue's is told first is nobody's business.
func (w *watchModel) gone(r engine.PartitionRef) { w.changed(r) }

func (w *watchModel) next(m *modelWatcher) {
	w.t.Helper()
	over, cancel := context.WithCancel(context.Background())
	cancel()
	got, err := m.Next(over)
	if (err == nil) != (len(m.changed) > 0) {
		w.t.Fatalf("%d changes, error %v; want %v", len(got), err, m.changed)
	}
	for _, c := range got {
		i := slices.Index(m.changed, c.PartitionRef)
		if i < 0 || int(c.End) != w.ends[c.PartitionRef] || c.Exists != (w.ends[c.PartitionRef] > 0) {
			w.t.Fatalf("change %+v; want one of %v, end %d", c, m.changed, w.ends[c.PartitionRef])
		}
		m.changed = slices.Delete(m.changed, i, i+1)
	}
	if len(m.changed) > 0 {
		w.t.Fatalf("%v is not told", m.changed)
	}
}
