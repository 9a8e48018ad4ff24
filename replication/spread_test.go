package replication

import (
	"maps"
	"testing"

	"queen/engine/format"
)

// TestPlacement: which node is to lead which raft group.
func TestPlacement(t *testing.T) {
	type nodes = []format.Replica
	type led = map[format.RaftGroup]format.Replica
	for _, c := range []struct {
		name            string
		groups          int
		voters, present nodes
		leads, want     led
	}{
		{"each group has a home", 3, nodes{1, 2, 3}, nodes{1, 2, 3}, nil, led{1: 1, 2: 2, 3: 3}},
		{"who leads does not count then", 3, nodes{1, 2, 3}, nodes{1, 2, 3}, led{1: 3, 2: 3, 3: 3}, led{1: 1, 2: 2, 3: 3}},
		{"more groups than nodes", 5, nodes{1, 2, 3}, nodes{1, 2, 3}, nil, led{1: 1, 2: 2, 3: 3, 4: 1, 5: 2}},
		{"fewer groups than nodes", 2, nodes{1, 2, 3}, nodes{1, 2, 3}, nil, led{1: 1, 2: 2}},
		{"numbers with gaps", 3, nodes{2, 5, 9}, nodes{2, 5, 9}, nil, led{1: 2, 2: 5, 3: 9}},
		{"a node is away, the others are equal", 3, nodes{1, 2, 3}, nodes{1, 2}, nil, led{1: 1, 2: 2, 3: 1}},
		{"it stays among equals", 3, nodes{1, 2, 3}, nodes{1, 2}, led{3: 2}, led{1: 1, 2: 2, 3: 2}},
		{"it does not stay with who has more", 4, nodes{1, 2, 3}, nodes{1, 3}, led{2: 1}, led{1: 1, 2: 3, 3: 3, 4: 1}},
		{"two are away from one node", 6, nodes{1, 2, 3}, nodes{1, 2}, led{3: 1, 6: 1}, led{1: 1, 2: 2, 3: 1, 4: 1, 5: 2, 6: 2}},
		{"who leads is away", 3, nodes{1, 2, 3}, nodes{2, 3}, led{1: 1}, led{1: 2, 2: 2, 3: 3}},
		{"one is left", 3, nodes{1, 2, 3}, nodes{2}, led{1: 1, 2: 2, 3: 3}, led{1: 2, 2: 2, 3: 2}},
		{"who is present and does not vote", 2, nodes{1, 2}, nodes{1, 3}, nil, led{1: 1, 2: 1}},
		{"nobody is present", 3, nodes{1, 2, 3}, nil, led{1: 1}, led{}},
		{"no voter is known", 3, nil, nodes{1}, led{1: 1}, led{}},
	} {
		present := map[format.Replica]bool{}
		for _, node := range c.present {
			present[node] = true
		}
		if got := placement(c.groups, c.voters, present, c.leads); !maps.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}

// TestSpreadRounds: when the lead may be moved.
func TestSpreadRounds(t *testing.T) {
	type set = map[format.Replica]uint64
	all, two, again := set{1: 1, 2: 1, 3: 1}, set{1: 1, 2: 1}, set{1: 1, 2: 1, 3: 2}
	const long = 3 * spreadRounds
	type step struct {
		rounds        int
		can           set
		leads, placed bool
		due           int // how often
	}
	for _, c := range []struct {
		name  string
		steps []step
	}{
		{"once, after a while", []step{{spreadRounds, all, true, false, 0}, {long, all, true, false, 1}}},
		{"not by who follows, nor once it leads", []step{{long, all, false, false, 0}, {long, all, true, false, 0}}},
		{"not what an operator moved meanwhile", []step{{spreadRounds / 2, all, true, false, 0}, {long, all, true, true, 0}, {long, all, true, false, 0}}},
		{"not by who leads by an operator's word and hears of it a round later",
			[]step{{spreadRounds, all, false, false, 0}, {1, all, true, false, 0}, {long, all, true, true, 0}}},
		{"by who was elected meanwhile", []step{{spreadRounds, all, false, false, 0}, {long, all, true, false, 1}}},
		{"not again when one misses some rounds", []step{{long, all, true, false, 1}, {silentRounds, two, true, false, 0}, {long, all, true, false, 0}}},
		{"again when one is gone, and when it is back", []step{{long, all, true, false, 1}, {long, two, true, false, 1}, {long, all, true, false, 1}}},
		{"again when one was started again", []step{{long, all, true, false, 1}, {long, again, true, false, 1}}},
		{"an operator's word ends with a change", []step{{long, all, true, true, 0}, {long, again, true, false, 1}}},
		{"not while they change", []step{{spreadRounds, all, true, false, 0}, {spreadRounds, again, true, false, 0}, {spreadRounds, all, true, false, 0}}},
	} {
		var p spread
		for i, s := range c.steps {
			due := 0
			for range s.rounds {
				p.round(s.can, s.leads)
				if p.due(s.placed) {
					due++
					p.done = true
				}
			}
			if due != s.due {
				t.Errorf("%s, step %d: due %d times, want %d", c.name, i, due, s.due)
			}
		}
	}
}

// TestCanLead: a lead goes to a voter that takes part and does not drain.
func TestCanLead(t *testing.T) {
	s := &Sequencer{o: Options{Node: 1, origin: &origin{draining: func() []format.Replica { return []format.Replica{3} }}}}
	s.mu.members.Voters = map[format.Replica]string{2: "", 3: "", 4: "", 5: ""}
	got := s.canLead(map[format.Replica]Report{2: {Boot: 7, Flags: ReportPart}, 3: {Boot: 7, Flags: ReportPart}, 4: {Boot: 7},
		6: {Boot: 7, Flags: ReportPart}})
	if want := (map[format.Replica]uint64{2: 7}); !maps.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

// TestSpread: of three nodes each comes to lead one of three raft groups. A lead that an operator moves then stays where it is, until a node was
// started again.
func TestSpread(t *testing.T) {
	c := newRouted(t, 3, 1, 2, 3)
	c.spread = true
	c.start(1, 2, 3)
	spread := func() {
		t.Helper()
		(&testCluster{t: t}).until("each node leads one group", func() bool {
			for g := format.RaftGroup(1); g <= 3; g++ {
				if c.of(g).leader() != format.Replica(g) {
					return false
				}
			}
			return true
		})
	}
	spread()
	three := c.of(3)
	three.lead(1)
	rounds := func() map[format.Replica]int {
		all := map[format.Replica]int{}
		for node := range three.nodes {
			s := three.sequencer(node)
			s.mu.Lock()
			all[node] = s.mu.spread.rounds
			s.mu.Unlock()
		}
		return all
	}
	before := rounds()
	three.until("the lead could have been moved", func() bool {
		for node, n := range rounds() {
			if n <= before[node]+spreadRounds {
				return false
			}
		}
		return true
	})
	if got := three.leader(); got != 1 {
		t.Errorf("an operator had node 1 lead group 3, and node %d does", got)
	}
	c.stop(2)
	c.start(2)
	spread()
}
