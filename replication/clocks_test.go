package replication

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"queen/engine/clock"
	"queen/engine/format"
)

// TestVotersClock: the median of the voters' clocks, of which a majority has to be known, goes on between reports and is forgotten without any; and
// the disk of one that votes is full as long as its report counts.
func TestVotersClock(t *testing.T) {
	now := clock.NewFake(time.Hour.Microseconds())
	s := &Sequencer{o: Options{Node: 1, Clock: now}.withDefaults(), deployment: new(atomic.Uint64)}
	at := func(d time.Duration) format.Wall { return format.Wall(d.Microseconds()) }
	says := func(node format.Replica, wall time.Duration, flags uint32) {
		s.noteGlimpse(node, &Report{Wall: wall.Microseconds(), Flags: flags})
	}
	expect := func(what string, want time.Duration, known, full bool) {
		t.Helper()
		got, is := s.VotersClock()
		require.Equal(t, known, is, what)
		require.Equal(t, at(want), got, what)
		require.Equal(t, full, s.VoterFull(), what)
	}
	says(2, 2*time.Hour, 0)
	expect("the membership is not known", 0, false, false)
	s.mu.members = Members{Voters: map[format.Replica]string{1: "", 2: "", 3: ""}, Followers: map[format.Replica]string{4: ""}}
	expect("two of three: the lower one", time.Hour, true, false)
	says(3, 3*time.Hour, 0)
	says(4, 0, ReportFull)
	expect("all, and one that only follows", 2*time.Hour, true, false)
	now.AdvanceMono(4 * time.Second)
	expect("a moment later", 2*time.Hour+4*time.Second, true, false)
	says(3, 3*time.Hour, ReportFull)
	expect("one is full", 2*time.Hour+4*time.Second, true, true)
	now.AdvanceMono(glimpseFor - time.Second)
	expect("node 2 was not heard again", time.Hour, true, true)
	says(2, 0, 0)
	s.noteCluster(format.UUID{1})
	s.noteGlimpse(2, &Report{Cluster: format.UUID{2}, Wall: 9 * time.Hour.Microseconds()})
	expect("one of another cluster", time.Hour, true, true)
	now.AdvanceMono(glimpseFor)
	expect("nobody was heard for long", 0, false, false)
}
