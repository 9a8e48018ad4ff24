package enginetest

import (
	"context"
	"testing"
	"time"

	"queen/engine"
	"queen/engine/clock"
	"queen/engine/format"
)

// TestModelParkedPopsAreServedInOrder: two pops park before there is anything; two pushes feed them
// in the order of their arrival, one waiter per ready partition.
func TestModelParkedPopsAreServedInOrder(t *testing.T) {
	ctx, c := context.Background(), engine.Caller{Tenant: format.DefaultTenant}
	fake := clock.NewFake(1e15)
	m := NewModel(ModelOptions{Clock: fake})
	got := make([]chan string, 2)
	for i := range got {
		got[i] = make(chan string, 1)
		go func() {
			d, err := m.Pop(ctx, c, engine.PopRequest{Scope: engine.Scope{Queue: "q"}, Wait: time.Minute})
			if err != nil || d == nil {
				got[i] <- "nothing"
				return
			}
			d.Delivered()
			got[i] <- d.Claims[0].Partition
		}()
		fake.WaitArmed(i + 1)
	}
	for i, name := range []string{"a", "b"} {
		push := &engine.Append{Queue: "q", Partition: name, Messages: []engine.Message{{Payload: []byte("1")}}}
		if _, err := m.Do(ctx, c, engine.Batch{Ops: []engine.Op{push}}); err != nil {
			t.Fatal(err)
		}
		if g := <-got[i]; g != name {
			t.Fatalf("waiter %d got %q, want the partition %q", i, g, name)
		}
	}
}

// TestModelWakesParkedPopWhenALeaseEnds: time alone feeds a parked pop, at the moment it is due.
func TestModelWakesParkedPopWhenALeaseEnds(t *testing.T) {
	ctx, c := context.Background(), engine.Caller{Tenant: format.DefaultTenant}
	fake := clock.NewFake(1e15)
	m := NewModel(ModelOptions{Clock: fake})
	push := &engine.Append{Queue: "q", Messages: []engine.Message{{Payload: []byte("1")}}}
	if _, err := m.Do(ctx, c, engine.Batch{Ops: []engine.Op{push}}); err != nil {
		t.Fatal(err)
	}
	pop := engine.PopRequest{Scope: engine.Scope{Queue: "q"}, Lease: 20 * time.Second}
	if d, err := m.Pop(ctx, c, pop); err != nil || d == nil || d.Claims[0].Attempt != 1 {
		t.Fatalf("first pop: %v %v", d, err)
	}
	got := make(chan *engine.Delivery, 1)
	go func() {
		pop.Wait = time.Minute
		d, _ := m.Pop(ctx, c, pop)
		got <- d
	}()
	fake.WaitArmed(2) // the timeout and the end of the lease
	fake.Advance(20 * time.Second)
	if d := <-got; d == nil || d.Claims[0].Attempt != 2 {
		t.Fatalf("after the lease: %+v, want attempt 2", d)
	}
}
