package main

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	"queen/bench/internal/node"
)

// TestSmoke runs the program small, through the real binary, with both kinds of streams.
func TestSmoke(t *testing.T) {
	if testing.Short() {
		t.Skip("builds and starts the real binary")
	}
	o := defaults()
	o.dir, o.streams, o.dialers, o.idle, o.pushes, o.patience = t.TempDir(), 50, 4, 0, 20, time.Minute
	var err error
	if o.binary, err = node.Build(filepath.Join(o.dir, "queen")); err != nil {
		t.Fatal(err)
	}
	r, err := run(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range r.Violations {
		t.Error(v)
	}
	for _, kind := range []string{"socket", "events"} {
		if n, ok := r.Get(kind + ": descriptors"); !ok || n < 50 {
			t.Errorf("%s: %v descriptors", kind, n)
		}
		if n, ok := r.Get(kind + ": push to arrival p50"); !ok || n <= 0 {
			t.Errorf("%s: no arrival was measured", kind)
		}
	}
}

// TestDataOf tells messages from other frames.
func TestDataOf(t *testing.T) {
	for text, want := range map[string]int{`{"type":"message","data":7}`: 7, `{"type":"opened"}`: -1, `x`: -1, `{"data":"7"}`: -1} {
		got, ok := dataOf([]byte(text))
		if !ok {
			got = -1
		}
		if got != want {
			t.Errorf("%s: %d, want %d", text, got, want)
		}
	}
}
