package engine_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"testing"

	"queen/engine"
	"queen/engine/clock"
)

// TestCallsLargerThanAnEntry: what no segment can hold is refused, alone, and the node goes on; many calls
// that fit one by one are not fused into an entry that does not.
func TestCallsLargerThanAnEntry(t *testing.T) {
	n := openNode(t, clock.NewFake(1_700_000_000_000_000)) // segments of 1 MiB: an entry holds 252 KiB
	push := func(size int) error {
		noise := make([]byte, size) // does not compress
		rand.NewChaCha8([32]byte{}).Read(noise)
		_, err := n.Do(t.Context(), someone, engine.Batch{Ops: []engine.Op{&engine.Append{
			Queue: "q", Partition: "p", Messages: []engine.Message{{Payload: noise}}}}})
		return err
	}
	var refused *engine.Error
	if err := push(260 << 10); !errors.As(err, &refused) || refused.Code != engine.CodeTooLarge {
		t.Fatalf("260 KiB: %v", err)
	}
	done := make(chan error, 16)
	for range cap(done) {
		go func() { done <- push(100 << 10) }()
	}
	for range cap(done) {
		if err := <-done; err != nil {
			t.Fatalf("100 KiB: %v", err)
		}
	}
	if err := n.Close(context.Background()); err != nil {
		t.Fatal(err)
	}
}
