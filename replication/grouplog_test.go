package replication

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/lni/dragonboat/v4/raftio"
	pb "github.com/lni/dragonboat/v4/raftpb"

	"queen/engine/format"
	"queen/engine/logstore"
	"queen/engine/vfs"
)

// groupLogs is a LogDB over raft groups 1 and 2, which have a store each, or share one.
type groupLogs struct {
	fs     *vfs.Mem
	db     *LogDB
	stores [3]*logstore.Store // of each group
	taken  [3]int             // how often each group's outcomes were taken
}

func (x *groupLogs) options(g format.RaftGroup) logstore.Options {
	o := testOptions(x.fs)
	o.Dir = fmt.Sprint("/log", g)
	return o
}

func openGroupLogs(t *testing.T, shared bool, known [3]format.Index) *groupLogs {
	x := &groupLogs{fs: vfs.NewMem(), db: newLogDB()}
	for g := format.RaftGroup(1); g <= 2; g++ {
		if shared && g == 2 {
			x.stores[2] = x.stores[1]
		} else {
			log := mustOpen(t, x.options(g))
			t.Cleanup(func() { _ = log.Close() })
			x.stores[g] = log
		}
		x.db.open(g, x.stores[g], known[g], func(of format.RaftGroup, _ format.Replica) []logstore.Outcome {
			if of != g {
				t.Errorf("outcomes of group %d were wanted from group %d", of, g)
			}
			x.taken[g]++
			return nil
		})
		must(t, x.db.SaveBootstrapInfo(uint64(g), 5, pb.Bootstrap{Type: pb.OnDiskStateMachine, Addresses: map[uint64]string{5: "h:1"}}))
	}
	return x
}

// updateOf has a group save an entry, and that all before it are committed.
func updateOf(g format.RaftGroup, i uint64) pb.Update {
	return pb.Update{ShardID: uint64(g), ReplicaID: 5, State: pb.State{Term: 1, Vote: 5, Commit: i - 1},
		EntriesToSave: []pb.Entry{{Index: i, Term: 1, Type: pb.EncodedEntry, Key: 1, ClientID: 1, Cmd: encoded(10, 10, 10*uint64(g)+i)}}}
}

// TestKnownOfAGroup: what is known to be committed of one raft group is never told the library of another, which would take entries
// for committed that are not.
func TestKnownOfAGroup(t *testing.T) {
	for _, shared := range []bool{false, true} {
		x := openGroupLogs(t, shared, [3]format.Index{1: 7, 2: 3})
		for g := format.RaftGroup(1); g <= 2; g++ {
			for i := uint64(1); i <= 10; i++ {
				u := updateOf(g, i)
				u.State.Commit = 0
				must(t, x.db.SaveRaftState([]pb.Update{u}, 1))
			}
		}
		for g, want := range map[uint64]uint64{1: 7, 2: 3} {
			if rs, err := x.db.ReadRaftState(g, 5, 0); err != nil || rs.State.Commit != want || rs.EntryCount != 10 {
				t.Errorf("group %d, one store %v: %+v, want a commit of %d: %v", g, shared, rs, want, err)
			}
		}
	}
}

// TestSavesOfTwoGroups: what the library saves of two groups in one call is durable in the logs of both when it returns, and nothing of
// one is in the other's; where both have one log it is one write.
func TestSavesOfTwoGroups(t *testing.T) {
	for _, shared := range []bool{false, true} {
		x := openGroupLogs(t, shared, [3]format.Index{})
		before := x.stores[1].Stats().Extents
		must(t, x.db.SaveRaftState([]pb.Update{updateOf(1, 1), updateOf(2, 1)}, 1))
		if wrote := x.stores[1].Stats().Extents - before; wrote != 1 {
			t.Errorf("one store %v: %d extents were written", shared, wrote)
		}
		if x.taken != [3]int{1: 1, 2: 1} {
			t.Errorf("one store %v: outcomes of the groups were taken %v times", shared, x.taken)
		}
		x.fs = x.fs.Crash(vfs.DropUnsynced())
		for g := format.RaftGroup(1); g <= 2; g++ {
			of := g
			if shared {
				of = 1
			}
			log := mustOpen(t, x.options(of))
			if all := log.Replicas(); !shared && (len(all) != 1 || all[0].Group != g) {
				t.Errorf("the log of group %d holds %+v", g, all)
			}
			got, err := log.Entries(nil, g, 5, 1, 2, 1<<20, nil)
			if err != nil || len(got) != 1 || string(got[0].Data) != string(encoded(10, 10, 10*uint64(g)+1)) {
				t.Errorf("group %d, one store %v: %d entries after a power cut: %v", g, shared, len(got), err)
			}
			must(t, log.Close())
		}
	}
}

// TestErrorOfOneStore: a call that one of two logs fails is an error, whichever it is, and the other one has what was saved.
func TestErrorOfOneStore(t *testing.T) {
	for g := format.RaftGroup(1); g <= 2; g++ {
		x := openGroupLogs(t, false, [3]format.Index{})
		must(t, x.stores[g].Close())
		if err := x.db.SaveRaftState([]pb.Update{updateOf(1, 1), updateOf(2, 1)}, 1); !errors.Is(err, logstore.ErrClosed) {
			t.Errorf("the log of group %d is closed: %v", g, err)
		}
		other := 3 - g
		if st, _ := x.stores[other].Replica(other, 5); st.Last != 1 {
			t.Errorf("the log of group %d ends at entry %d", other, st.Last)
		}
	}
}

// TestGroupNotOpen: a raft group without a log here is refused by name, by each call that would read or write it, and nothing that comes
// with it is written.
func TestGroupNotOpen(t *testing.T) {
	x := openGroupLogs(t, false, [3]format.Index{})
	d := x.db
	p := pb.Snapshot{ShardID: 3, Index: 1, Term: 1, Type: pb.OnDiskStateMachine}
	for name, call := range map[string]func() error{
		"SaveBootstrapInfo": func() error { return d.SaveBootstrapInfo(3, 5, pb.Bootstrap{}) },
		"GetBootstrapInfo":  func() error { _, err := d.GetBootstrapInfo(3, 5); return err },
		"SaveRaftState":     func() error { return d.SaveRaftState([]pb.Update{updateOf(1, 1), updateOf(3, 1)}, 1) },
		"IterateEntries":    func() error { _, _, err := d.IterateEntries(nil, 0, 3, 5, 1, 2, 100); return err },
		"ReadRaftState":     func() error { _, err := d.ReadRaftState(3, 5, 0); return err },
		"RemoveNodeData":    func() error { return d.RemoveNodeData(3, 5) },
		"ImportSnapshot":    func() error { return d.ImportSnapshot(p, 5) },
		"SaveSnapshots":     func() error { return d.SaveSnapshots([]pb.Update{{ShardID: 3, ReplicaID: 5, Snapshot: p}}) },
		"GetSnapshot":       func() error { _, err := d.GetSnapshot(3, 5); return err },
		"keep":              func() error { _, err := d.keep(3, 5, 1); return err },
		"saveFloor":         func() error { _, err := d.saveFloor(3, 5); return err },
		"flushOutcomes":     func() error { return d.flushOutcomes(3, 5) },
	} {
		if err := call(); err == nil || !strings.Contains(err.Error(), "raft group 3 is not open here") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if st, _ := x.stores[1].Replica(1, 5); st.Last != 0 {
		t.Errorf("%d entries of group 1 were written", st.Last)
	}
	all, err := d.ListNodeInfo()
	if err != nil || len(all) != 2 || all[0] != raftio.GetNodeInfo(1, 5) || all[1] != raftio.GetNodeInfo(2, 5) {
		t.Errorf("the nodes are %+v: %v", all, err)
	}
}

// TestGroupRemoved: a raft group whose log was taken away is not open any more, and nothing that was held in memory of it is there when it
// is opened again; another group is not touched, nor a log that was opened since.
func TestGroupRemoved(t *testing.T) {
	x := openGroupLogs(t, false, [3]format.Index{})
	d := x.db
	for g := format.RaftGroup(1); g <= 2; g++ {
		must(t, d.SaveRaftState([]pb.Update{updateOf(g, 1)}, 1))
		p := pb.Snapshot{ShardID: uint64(g), Index: 1, Term: 1, OnDiskIndex: 1, Dummy: true, Type: pb.OnDiskStateMachine}
		must(t, d.SaveSnapshots([]pb.Update{{ShardID: uint64(g), ReplicaID: 5, Snapshot: p}}))
	}
	d.remove(2, x.stores[1]) // that is not its log
	if _, err := d.of(2); err != nil {
		t.Error(err)
	}
	d.remove(2, x.stores[2])
	if _, err := d.of(2); err == nil {
		t.Error("a group is open after it was removed")
	}
	d.open(2, x.stores[2], 0, nil)
	for g, want := range map[uint64]uint64{1: 1, 2: 0} {
		if p, err := d.GetSnapshot(g, 5); err != nil || p.Index != want {
			t.Errorf("group %d has a snapshot at %d, want %d: %v", g, p.Index, want, err)
		}
	}
}

// TestAnotherGroup: nodes whose raft group is not the first have all under its number, and go on after a change of leader, a restart
// and a new member.
func TestAnotherGroup(t *testing.T) {
	c := &testCluster{t: t, dir: t.TempDir(), peers: map[format.Replica]string{1: freePair(t), 2: freePair(t), 3: freePair(t)}, group: 2}
	c.begin(1, 2, 3)
	const each = 20
	c.keep(each)
	leader := c.leader()
	must(t, c.sequencer(leader%3+1).MakeLead(context.Background(), 0, leader%3+1))
	c.compare(each)
	for _, node := range []format.Replica{1, 2, 3} {
		c.stop(node)
		c.start(node)
	}
	c.compare(each)
	c.peers[4], c.join = freePair(t), 4
	must(t, c.ask(c.leader(), askAdd, 4, c.peers[4]))
	c.start(4)
	c.until("it votes", func() bool { return c.ask(c.leader(), askPromote, 4, "") == nil })
	c.compare(each)
	for node := range c.nodes {
		s := c.sequencer(node)
		if all := s.log.Replicas(); s.Group() != 2 || len(all) != 1 || all[0].Group != 2 || all[0].Replica != node {
			t.Errorf("node %d of group %d holds %+v", node, s.Group(), all)
		}
	}
}
