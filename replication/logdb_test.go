package replication

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"reflect"
	"testing"
	"time"

	"github.com/lni/dragonboat/v4/raftio"
	pb "github.com/lni/dragonboat/v4/raftpb"

	"queen/engine/format"
	"queen/engine/logstore"
	"queen/engine/vfs"
)

var raftSteps = flag.Int("raft-steps", 6000, "steps of the random trace through the replication library's log interface")

var raftSeed = flag.Uint64("raft-seed", 77, "seed of that trace")

// raftModel is what the library must read back of one replica.
type raftModel struct {
	boot     *pb.Bootstrap
	state    pb.State
	saved    pb.State // as a crash leaves it
	snapshot pb.Snapshot
	dummies  []pb.Snapshot // since the start, the newest last
	durable  pb.Snapshot   // what a start begins with
	first    uint64        // of entries
	floor    uint64
	entries  []pb.Entry
}

func (m *raftModel) last() uint64 { return m.first + uint64(len(m.entries)) - 1 }

// raftTrace makes legal calls of the library's log interface on a few replicas and compares every answer
// with the models.
type raftTrace struct {
	t      *testing.T
	r      *rand.Rand
	fs     *vfs.Mem
	o      logstore.Options
	db     *LogDB
	models map[raftio.NodeInfo]*raftModel
	step   int
}

func (x *raftTrace) must(err error) {
	x.t.Helper()
	if err != nil {
		x.t.Fatalf("step %d: %v", x.step, err)
	}
}

// TestRaftTrace: append, overwrite, commit-only, vote, streamed install with and without entries behind
// it, dummy snapshot, remove and compact, removed replicas, imported snapshots, clean stops and crashes.
func TestRaftTrace(t *testing.T) {
	x := &raftTrace{t: t, r: rand.New(rand.NewPCG(*raftSeed, 1)), fs: vfs.NewMem(), models: map[raftio.NodeInfo]*raftModel{}}
	x.o = testOptions(x.fs)
	x.o.ExtentBytes, x.o.SaverBytes, x.o.BeaconEvery = 8<<10, 2048, time.Nanosecond
	x.db = NewLogDB(mustOpen(t, x.o), 0)
	for x.step = range *raftSteps {
		info := raftio.GetNodeInfo(uint64(1+x.r.IntN(3)), 5)
		m := x.models[info]
		if m == nil {
			m = &raftModel{first: 1}
			x.models[info] = m
			m.boot = &pb.Bootstrap{Type: pb.OnDiskStateMachine, Addresses: map[uint64]string{5: "h:1", 6: "h:2"}}
			x.must(x.db.SaveBootstrapInfo(info.ShardID, info.ReplicaID, *m.boot))
		}
		x.act(info, m)
		x.compare(info, m)
		if x.r.IntN(150) == 0 {
			x.restart()
		}
	}
	x.must(x.db.every.log.Close())
}

func (x *raftTrace) act(info raftio.NodeInfo, m *raftModel) {
	u := pb.Update{ShardID: info.ShardID, ReplicaID: info.ReplicaID}
	switch p := x.r.IntN(100); {
	case p < 40:
		x.appendAt(&u, m, m.last()+1)
	case p < 55 && m.last() > m.state.Commit:
		m.state.Term++
		x.appendAt(&u, m, m.state.Commit+1+uint64(x.r.IntN(int(m.last()-m.state.Commit))))
	case p < 65:
		m.state.Term, m.state.Vote = m.state.Term+1, uint64(5+x.r.IntN(2))
		u.State = m.state
	case p < 78 && m.last() > m.state.Commit:
		m.state.Commit += 1 + uint64(x.r.IntN(int(m.last()-m.state.Commit)))
		u.State = m.state
	case p < 84:
		x.install(&u, m)
	case p < 90:
		x.dummy(info, m)
		return
	case p < 92:
		x.raise(info, m)
		return
	case p < 94:
		x.must(x.db.RemoveEntriesTo(info.ShardID, info.ReplicaID, m.state.Commit))
		done, err := x.db.CompactEntriesTo(info.ShardID, info.ReplicaID, m.state.Commit)
		x.must(err)
		<-done
		return
	case p < 95:
		x.must(x.db.RemoveNodeData(info.ShardID, info.ReplicaID))
		*m = raftModel{first: 1}
		return
	case p < 96:
		ss := x.streamed(info, m.last()+10, m.state.Term+1)
		x.must(x.db.ImportSnapshot(ss, info.ReplicaID))
		state := pb.State{Term: ss.Term, Commit: ss.Index}
		*m = raftModel{
			boot:  &pb.Bootstrap{Join: true, Type: ss.Type, Addresses: map[uint64]string{}},
			state: state, saved: state, snapshot: ss, durable: ss, first: ss.Index + 1,
		}
		return
	}
	x.must(x.db.SaveRaftState([]pb.Update{u}, 1))
	if !pb.IsEmptyState(u.State) && (len(u.EntriesToSave) > 0 || !pb.IsEmptySnapshot(u.Snapshot) || u.State.Vote != m.saved.Vote ||
		u.State.Term != m.saved.Term) {
		m.saved = u.State
	}
}

func (x *raftTrace) appendAt(u *pb.Update, m *raftModel, from uint64) {
	if m.state.Term == 0 {
		m.state.Term = 1
	}
	m.entries = m.entries[:from-m.first]
	for i := range 1 + x.r.IntN(6) {
		e := pb.Entry{
			Index: from + uint64(i), Term: m.state.Term, Type: pb.EncodedEntry, Key: x.r.Uint64(), ClientID: x.r.Uint64() | 1,
			Cmd: encoded(x.r.IntN(40), x.r.IntN(2500), x.r.Uint64()),
		}
		switch x.r.IntN(8) {
		case 0:
			e = pb.Entry{Index: e.Index, Term: e.Term, Type: pb.ApplicationEntry}
		case 1:
			e.Type, e.ClientID, e.Cmd = pb.ConfigChangeEntry, 0, []byte("a membership change")
		}
		u.EntriesToSave = append(u.EntriesToSave, e)
	}
	m.entries = append(m.entries, u.EntriesToSave...)
	if x.r.IntN(2) == 0 {
		m.state.Commit = max(m.state.Commit, from+uint64(x.r.IntN(len(u.EntriesToSave))))
	}
	u.State = m.state
}

func (x *raftTrace) streamed(info raftio.NodeInfo, index, term uint64) pb.Snapshot {
	return pb.Snapshot{
		Filepath: "/snapshots/x", FileSize: 100, Index: index, Term: term, ShardID: info.ShardID, Type: pb.OnDiskStateMachine,
		Membership: pb.Membership{ConfigChangeId: 3, Addresses: map[uint64]string{5: "h:1", 6: "h:2"},
			NonVotings: map[uint64]string{7: "h:3"}, Removed: map[uint64]bool{4: true}},
		OnDiskIndex: index, Checksum: []byte{1, 2, 3},
	}
}

func (x *raftTrace) install(u *pb.Update, m *raftModel) {
	// Often below the end of a log that conflicts with it: what lies above must never come back.
	index := m.state.Commit + 1 + uint64(x.r.IntN(8))
	m.state.Term++
	u.Snapshot = x.streamed(raftio.GetNodeInfo(u.ShardID, u.ReplicaID), index, m.state.Term)
	m.snapshot, m.durable, m.dummies, m.first, m.entries, m.state.Commit = u.Snapshot, u.Snapshot, nil, index+1, nil, index
	u.State = m.state
	if x.r.IntN(2) == 0 {
		x.appendAt(u, m, index+1)
	}
}

func (x *raftTrace) dummy(info raftio.NodeInfo, m *raftModel) {
	at := m.state.Commit
	if at < m.first || at <= m.snapshot.Index {
		return
	}
	m.snapshot = x.streamed(info, at, m.entries[at-m.first].Term)
	m.snapshot.Dummy = true
	u := pb.Update{ShardID: info.ShardID, ReplicaID: info.ReplicaID, Snapshot: m.snapshot}
	m.dummies = append(m.dummies, m.snapshot)
	x.must(x.db.SaveSnapshots([]pb.Update{u}))
}

// raise has the floor follow one of the records in memory, as SaveFloor does.
func (x *raftTrace) raise(info raftio.NodeInfo, m *raftModel) {
	if len(m.dummies) == 0 {
		return
	}
	n := x.r.IntN(len(m.dummies))
	d := m.dummies[n]
	upto := d.Index
	if n+1 == len(m.dummies) || m.dummies[n+1].Index > upto+1 {
		upto += uint64(x.r.IntN(2)) // between two
	}
	kept, err := x.db.keep(info.ShardID, info.ReplicaID, upto)
	x.must(err)
	if kept != d.Index {
		x.t.Fatalf("step %d: record %d was kept, want %d", x.step, kept, d.Index)
	}
	d.Filepath, d.FileSize, d.Checksum = "", 0, nil
	m.durable, m.dummies = d, m.dummies[n+1:]
	if len(m.dummies) == 0 {
		m.snapshot = d
	}
	m.saved.Commit = m.state.Commit // the newest commit goes with every extent
	if x.r.IntN(3) > 0 {
		x.must(x.db.RemoveEntriesTo(info.ShardID, info.ReplicaID, kept))
		floor, err := x.db.saveFloor(info.ShardID, info.ReplicaID)
		x.must(err)
		if uint64(floor) < kept {
			x.t.Fatalf("step %d: floor %d, want %d", x.step, floor, kept)
		}
		m.floor = uint64(floor)
	}
}

func (x *raftTrace) compare(info raftio.NodeInfo, m *raftModel) {
	t := x.t
	boot, err := x.db.GetBootstrapInfo(info.ShardID, info.ReplicaID)
	if m.boot == nil != errors.Is(err, raftio.ErrNoBootstrapInfo) || m.boot != nil && !reflect.DeepEqual(boot, *m.boot) {
		t.Fatalf("step %d: bootstrap %+v, want %+v: %v", x.step, boot, m.boot, err)
	}
	if m.boot == nil {
		delete(x.models, info)
	}
	ss, err := x.db.GetSnapshot(info.ShardID, info.ReplicaID)
	x.must(err)
	if fmt.Sprintf("%+v", ss) != fmt.Sprintf("%+v", m.snapshot) && !(pb.IsEmptySnapshot(ss) && pb.IsEmptySnapshot(m.snapshot)) {
		t.Fatalf("step %d: snapshot %+v, want %+v", x.step, ss, m.snapshot)
	}
	rs, err := x.db.ReadRaftState(info.ShardID, info.ReplicaID, ss.Index)
	if pb.IsEmptyState(m.state) && len(m.entries) == 0 {
		if !errors.Is(err, raftio.ErrNoSavedLog) {
			t.Fatalf("step %d: state of an empty log: %v", x.step, err)
		}
		return
	}
	x.must(err)
	want := raftio.RaftState{State: m.state}
	want.State.Commit = max(want.State.Commit, ss.Index)
	if m.last() > ss.Index {
		want.FirstIndex, want.EntryCount = ss.Index+1, m.last()-ss.Index
	}
	if rs != want {
		t.Fatalf("step %d: raft state %+v, want %+v", x.step, rs, want)
	}
	x.iterate(info, m)
}

func (x *raftTrace) iterate(info raftio.NodeInfo, m *raftModel) {
	t := x.t
	first := max(m.first, m.floor+1)
	if first > m.last() {
		return
	}
	low := first + uint64(x.r.IntN(int(m.last()-first)+1))
	high := low + 1 + uint64(x.r.IntN(int(m.last()-low)+1))
	maxSize := uint64(x.r.IntN(6000))
	if maxSize < 500 {
		maxSize, high = 0, low+1
	}
	got, size, err := x.db.IterateEntries(nil, 0, info.ShardID, info.ReplicaID, low, high, maxSize)
	x.must(err)
	if maxSize == 0 {
		if len(got) != 1 || got[0].Index != low || got[0].Term != m.entries[low-m.first].Term {
			t.Fatalf("step %d: term of %d: %+v", x.step, low, got)
		}
		return
	}
	var want []pb.Entry
	wantSize := uint64(0)
	for i := low; i < high && wantSize <= maxSize; i++ {
		e := m.entries[i-m.first]
		wantSize += uint64(e.SizeUpperLimit())
		want = append(want, e)
	}
	if len(got) != len(want) || size != wantSize {
		t.Fatalf("step %d: [%d, %d) up to %d: %d entries of %d bytes, want %d of %d",
			x.step, low, high, maxSize, len(got), size, len(want), wantSize)
	}
	for i := range want {
		if !bytes.Equal(got[i].Cmd, want[i].Cmd) {
			t.Fatalf("step %d: entry %d: command differs", x.step, want[i].Index)
		}
		got[i].Cmd, want[i].Cmd = nil, nil
		if !reflect.DeepEqual(got[i], want[i]) {
			t.Fatalf("step %d: entry %+v, want %+v", x.step, got[i], want[i])
		}
	}
}

func (x *raftTrace) restart() {
	crash := x.r.IntN(2) == 0
	if crash {
		x.fs = x.fs.Crash(vfs.DropUnsynced())
		x.o.FS = x.fs
	}
	_ = x.db.every.log.Close()
	x.db = NewLogDB(mustOpen(x.t, x.o), 0)
	for info, m := range x.models {
		st, _ := x.db.every.log.Replica(format.RaftGroup(info.ShardID), format.Replica(info.ReplicaID))
		if got := uint64(st.Commit); crash && got >= m.saved.Commit && got <= m.state.Commit {
			m.state.Commit = got // commit-only saves need not survive a crash
		}
		m.saved = m.state
		m.snapshot, m.dummies = m.durable, nil
		x.compare(info, m)
		if m.boot != nil {
			floor, err := x.db.saveFloor(info.ShardID, info.ReplicaID)
			x.must(err)
			if want := max(m.floor, m.durable.Index); uint64(floor) != want {
				x.t.Fatalf("step %d: floor %d, want %d", x.step, floor, want)
			}
			m.floor = uint64(floor)
		}
	}
	_ = reclaimOldest(x.db.every.log)
}

// TestCommitsCarryNoOutcomes: a commit index on its own is not written at once, whatever apply has decided meanwhile; that goes
// with the next entries.
func TestCommitsCarryNoOutcomes(t *testing.T) {
	db := NewLogDB(mustOpen(t, testOptions(vfs.NewMem())), 0)
	defer db.every.log.Close()
	taken := 0
	db.every.take = func(format.RaftGroup, format.Replica) []logstore.Outcome { taken++; return nil }
	save := func(commit uint64, ents ...pb.Entry) {
		t.Helper()
		u := pb.Update{ShardID: 1, ReplicaID: 5, State: pb.State{Term: 1, Vote: 5, Commit: commit}, EntriesToSave: ents}
		if err := db.SaveRaftState([]pb.Update{u}, 1); err != nil {
			t.Fatal(err)
		}
	}
	at := func(i uint64) pb.Entry {
		return pb.Entry{Index: i, Term: 1, Type: pb.EncodedEntry, Key: 1, ClientID: 1, Cmd: encoded(10, 10, i)}
	}
	if err := db.SaveBootstrapInfo(1, 5, pb.Bootstrap{Type: pb.OnDiskStateMachine, Addresses: map[uint64]string{5: "h:1"}}); err != nil {
		t.Fatal(err)
	}
	save(0, at(1), at(2))
	extents := db.every.log.Stats().Extents
	save(1)
	save(2)
	if taken != 1 || db.every.log.Stats().Extents != extents {
		t.Errorf("outcomes were taken %d times, %d extents after %d", taken, db.every.log.Stats().Extents, extents)
	}
	save(2, at(3))
	if taken != 2 {
		t.Errorf("outcomes were taken %d times", taken)
	}
}
