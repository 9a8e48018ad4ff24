package engine_test

import (
	"fmt"
	"testing"

	"queen/engine"
)

// TestWatcherOfAVersionToCome: a place that no change had yet is a place in other data. The watcher is told that it is
// lost and gets every row, then what changes; waiting for that version would hide all changes up to it.
func TestWatcherOfAVersionToCome(t *testing.T) {
	r := newRig(t)
	r.open()
	put := func(key string) {
		if _, err := r.atomic(someone, &engine.KV{Kind: engine.KVPut, Namespace: "n", Key: key, Value: []byte("1")}); err != nil {
			t.Fatal(err)
		}
	}
	put("a")
	w, err := r.node.Keyed().WatchKV(t.Context(), someone, engine.KVWatch{Namespace: "n", From: 1 << 40})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	put("b")
	if changes, lost, err := w.Next(t.Context()); err != nil || !lost || len(changes) != 2 || changes[1].Row.Key != "b" {
		t.Fatalf("%+v, %v, %v", changes, lost, err)
	}
	put("c")
	if changes, lost, err := w.Next(t.Context()); err != nil || lost || len(changes) != 1 || changes[0].Row.Key != "c" {
		t.Fatalf("%+v, %v, %v", changes, lost, err)
	}
	r.close()
}

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
