package logstore

import (
	"flag"
	"testing"

	"queen/engine/vfs"
)

var traceSteps = flag.Int("trace-steps", 4000, "steps of the random trace against the model")

// TestTraceAgainstModel does random legal saves on a few replicas, closes and reopens the store now and
// then, and compares everything with the model.
func TestTraceAgainstModel(t *testing.T) {
	fs := vfs.NewMem()
	o := testOptions(fs)
	o.ExtentBytes, o.SaverBytes = 8<<10, 2048
	s := mustOpen(t, o)
	g := newGenerator(3, 3, 3000, 8)
	steps := *traceSteps
	if testing.Short() {
		steps /= 4
	}
	for i := range steps {
		v := g.next()
		if err := s.Append(v); err != nil {
			t.Fatalf("step %d: %v", i, err)
		}
		if i%37 == 0 || i == steps-1 {
			if diff := g.m.differs(s, false); diff != "" {
				t.Fatalf("step %d: %s", i, diff)
			}
		}
		switch {
		case g.r.IntN(60) == 0:
			if err := s.Close(); err != nil {
				t.Fatalf("step %d: close: %v", i, err)
			}
			s = mustOpen(t, o)
		case g.r.IntN(60) == 0:
			fs = fs.Crash(vfs.DropUnsynced())
			_ = s.Close()
			o.FS = fs
			s = mustOpen(t, o)
			if diff := g.m.differs(s, true); diff != "" {
				t.Fatalf("step %d: after a crash: %s", i, diff)
			}
			g.m.takeCommits(s)
		default:
			continue
		}
		if diff := g.m.differs(s, false); diff != "" {
			t.Fatalf("step %d: after opening: %s", i, diff)
		}
		g.reclaim(t, s)
	}
}

// takeCommits makes the model know which commit indexes a crash left.
func (m *model) takeCommits(s *Store) {
	for k, r := range m.replicas {
		st, _ := s.Replica(k.group, k.replica)
		r.commit, r.durableCommit = st.Commit, st.Commit
	}
}

// reclaim gives away the oldest segments that raft does not need.
func (g *generator) reclaim(t *testing.T, s *Store) {
	for _, in := range s.Segments() {
		if !in.Sealed || s.Reclaim(in.Segment) != nil {
			return
		}
	}
}
