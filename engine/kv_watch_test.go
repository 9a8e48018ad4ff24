package engine_test

import (
	"fmt"
	"testing"

	"queen/engine"
)

// TestWatcherThatFellBehindCatchesUp: a watcher whose place is no longer remembered is told so once, gets every live
// row in order of version, and goes on from there.
func TestWatcherThatFellBehindCatchesUp(t *testing.T) {
	r := newRig(t)
	r.open()
	w, err := r.node.Keyed().WatchKV(t.Context(), someone, engine.KVWatch{Namespace: "n"})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	const batches, size = 80, 256 // more changes than are remembered
	for b := range batches {
		var ops []engine.Op
		for i := range size {
			ops = append(ops, &engine.KV{Kind: engine.KVPut, Namespace: "n", Key: fmt.Sprint((b*size + i) % 2000), Value: fmt.Append(nil, b)})
		}
		if _, err := r.atomic(someone, ops...); err != nil {
			t.Fatal(err)
		}
	}
	rows, losses, last := 0, 0, uint64(0)
	for rows < 2000 {
		changes, lost, err := w.Next(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if lost {
			losses++
		}
		for _, c := range changes {
			if c.Row.Version <= last || c.Deleted {
				t.Fatalf("%+v after version %d", c, last)
			}
			last = c.Row.Version
		}
		rows += len(changes)
	}
	if rows != 2000 || losses != 1 {
		t.Fatalf("%d rows, lost %d times", rows, losses)
	}
	if _, err := r.atomic(someone, &engine.KV{Kind: engine.KVDelete, Namespace: "n", Key: "7"}); err != nil {
		t.Fatal(err)
	}
	if changes, lost, err := w.Next(t.Context()); err != nil || lost || len(changes) != 1 || !changes[0].Deleted || changes[0].Row.Version <= last {
		t.Fatalf("%+v, %v, %v", changes, lost, err)
	}
	r.close()
}
