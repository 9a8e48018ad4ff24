package replication

import (
	"bytes"
	"context"
	"errors"
	"testing"
	"time"

	"queen/engine/clock"
)

// TestRate: bytes pass when those before them have taken their time, and not a moment earlier; what was not used is not saved up.
func TestRate(t *testing.T) {
	now := clock.NewFake(0)
	r := &rate{clock: now, perSecond: 1000}
	passed := make(chan int64)
	sizes := []int{500, 250, 2000, 1}
	go func() {
		for _, n := range sizes {
			_ = r.wait(context.Background(), n)
			passed <- now.Mono()
		}
	}()
	want := int64(0)
	for i, n := range sizes {
		if got := <-passed; got != want {
			t.Fatalf("piece %d passed after %d us, not %d", i, got, want)
		}
		if i == len(sizes)-1 {
			break
		}
		now.WaitArmed(1)
		now.Advance(time.Duration(n)*time.Millisecond - time.Microsecond)
		if now.Armed() != 1 {
			t.Fatalf("piece %d passed early", i+1)
		}
		now.Advance(time.Microsecond)
		want += int64(n) * 1000
	}
	now.Advance(time.Hour)
	go func() {
		for range 2 {
			_ = r.wait(context.Background(), 1000)
			passed <- now.Mono()
		}
	}()
	first := <-passed
	now.WaitArmed(1)
	now.Advance(time.Second)
	if second := <-passed; second-first != time.Second.Microseconds() {
		t.Errorf("an idle hour was saved up: %d us between two pieces", second-first)
	}
}

// TestRatedWriter: all bytes come in their order, in pieces; nothing comes once the context has ended.
func TestRatedWriter(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	var out bytes.Buffer
	w := &ratedWriter{ctx, &out, &rate{clock: clock.Real(), perSecond: 1 << 40}}
	b := bytes.Repeat([]byte("0123456789"), ratePiece/4)
	if n, err := w.Write(b); n != len(b) || err != nil || !bytes.Equal(out.Bytes(), b) {
		t.Fatalf("%d of %d bytes: %v", n, len(b), err)
	}
	cancel()
	if n, err := w.Write(b); n != 0 || !errors.Is(err, context.Canceled) {
		t.Errorf("%d bytes after the end: %v", n, err)
	}
}
