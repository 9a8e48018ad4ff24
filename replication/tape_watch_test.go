package replication

import (
	"context"
	"errors"
	"slices"
	"testing"

	"queen/engine"
	"queen/engine/clock"
	"queen/engine/format"
)

// filling is a node whose disk may be full.
type filling struct {
	alarmed
	full bool
}

func (f *filling) Standing() engine.Standing { return engine.Standing{Full: f.full} }

// TestLongCopies: of a copy of the state that takes long is told once, and a full disk, here or of another one that votes, ends it and lets none
// begin.
func TestLongCopies(t *testing.T) {
	now, f := clock.NewFake(0), &filling{}
	s := &Sequencer{o: Options{Node: 1, Clock: now}.withDefaults(), peer: f}
	s.mu.members.Voters = map[format.Replica]string{1: "", 2: ""}
	begin := func() *tape {
		tp := newTape(context.Background(), now, 7)
		t.Cleanup(tp.cancel)
		s.mu.tapes = map[format.Replica]*tape{3: tp}
		return tp
	}
	tp := begin()
	tp.mu.idle.Stop() // it has a taker
	s.watchTapes()
	now.Advance(tapeLong)
	s.watchTapes()
	s.watchTapes()
	if want := []string{"node 3 has b: <nil>"}; !slices.Equal(f.told, want) || tp.ctx.Err() != nil {
		t.Errorf("told %q, not %q; %v", f.told, want, tp.ctx.Err())
	}
	f.full = true
	tp.finish()
	s.watchTapes()
	if tp.ctx.Err() != nil {
		t.Error("a copy for which nothing is kept any more was ended")
	}
	for _, other := range []bool{false, true} {
		tp, f.full, s.mu.glimpses = begin(), !other, map[format.Replica]glimpse{2: {full: other, at: now.Mono()}}
		s.watchTapes()
		if tp.ctx.Err() == nil {
			t.Errorf("a copy went on with a full disk, another node's: %v", other)
		}
		if _, err := (&links{s: s}).record(context.Background(), 3); !errors.Is(err, errTapeFull) {
			t.Errorf("a copy began: %v", err)
		}
	}
	if len(f.told) != 3 {
		t.Errorf("told: %q", f.told)
	}
}
