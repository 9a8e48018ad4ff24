package enginetest

import (
	"testing"
	"time"

	"queen/engine"
	"queen/engine/format"
)

// TestCatchUp: what a recurring timer does after a day in which nobody could fire.
func TestCatchUp(t *testing.T) {
	for _, c := range []struct {
		policy engine.CatchUp
		want   int
	}{{engine.CatchUpOne, 1}, {engine.CatchUpAll, 24}, {engine.CatchUpSkip, 0}} {
		s := newState()
		s.advance(0, epoch)
		by := engine.Caller{Tenant: format.DefaultTenant}
		op := recurring("0 * * * *")
		op.CatchUp = c.policy
		_, _, err := s.commit(by, engine.Batch{Ops: []engine.Op{&op}})
		if err != nil {
			t.Fatal(err)
		}
		s.advance(0, epoch+format.Wall(24*time.Hour/time.Microsecond))
		got := 0
		if q := s.queue(by.Tenant, "q"); q != nil {
			got = len(q.part("p").msgs)
		}
		if due := s.keyed.timers[timerKey{by.Tenant, "q", "c"}].due; got != c.want || due <= s.w {
			t.Errorf("policy %d: %d fires, want %d; next is due at %d, now is %d", c.policy, got, c.want, due, s.w)
		}
	}
}
