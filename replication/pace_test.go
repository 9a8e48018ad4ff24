package replication

import (
	"testing"
	"time"
)

// TestPace: a node is behind since the first round that had an entry more than it, not since its own newest entry; rounds without
// new entries count for nothing, and what is too old is told as old as what is remembered.
func TestPace(t *testing.T) {
	var p pace
	second := time.Second.Microseconds()
	if got := p.behind(second, 0); got != 0 {
		t.Errorf("behind by %v before the first round", got)
	}
	p.note(1*second, 100)
	p.note(3600*second, 100) // an idle hour
	p.note(3601*second, 110)
	p.note(3602*second, 120)
	for applied, want := range map[uint64]time.Duration{99: 3602 * time.Second, 100: 2 * time.Second, 109: 2 * time.Second, 110: time.Second,
		119: time.Second, 120: 0, 200: 0} {
		if got := p.behind(3603*second, applied); got != want {
			t.Errorf("with %d entries behind by %v, want %v", applied, got, want)
		}
	}
	for i := range uint64(2 * paceRounds) {
		p.note((4000+int64(i))*second, 1000+i)
	}
	if got := p.behind((4000+2*paceRounds)*second, 0); len(p.rounds) != paceRounds || got != paceRounds*time.Second {
		t.Errorf("%d rounds are remembered, the oldest of %v ago", len(p.rounds), got)
	}
}
