package logstore

import (
	"bytes"
	"fmt"
	"maps"
	"slices"

	"github.com/lni/dragonboat/v4/config"
	"github.com/lni/dragonboat/v4/raftio"
	pb "github.com/lni/dragonboat/v4/raftpb"

	"queen/engine/format"
)

// testLogDB puts the replication library's log interface onto a store, for tests: the trace against a
// model, and a node of the library on a directory that a single node wrote.
type testLogDB struct {
	s    *Store
	keep bool // Close leaves the store open
}

var _ raftio.ILogDB = (*testLogDB)(nil)

type testLogDBFactory struct{ db *testLogDB }

func (f testLogDBFactory) Name() string { return "queen-logstore" }

func (f testLogDBFactory) Create(config.NodeHostConfig, config.LogDBCallback, []string, []string) (raftio.ILogDB, error) {
	return f.db, nil
}

func (d *testLogDB) Name() string { return testLogDBFactory{}.Name() }

func (d *testLogDB) Close() error {
	if d.keep {
		return nil
	}
	return d.s.Close()
}

func (d *testLogDB) BinaryFormat() uint32 { return raftio.PlainLogDBBinVersion }

func (d *testLogDB) ListNodeInfo() (all []raftio.NodeInfo, err error) {
	for _, r := range d.s.Replicas() {
		if r.Bootstrap != nil {
			all = append(all, raftio.GetNodeInfo(uint64(r.Group), uint64(r.Replica)))
		}
	}
	return all, nil
}

func saveOf(shard, replica uint64) *Save {
	return &Save{Group: format.RaftGroup(shard), Replica: format.Replica(replica)}
}

func (d *testLogDB) SaveBootstrapInfo(shard, replica uint64, b pb.Bootstrap) error {
	v := saveOf(shard, replica)
	v.Bootstrap = &format.Bootstrap{Group: v.Group, Replica: v.Replica, Join: b.Join, Type: uint8(b.Type)}
	v.Bootstrap.Members = members(format.MemberVoter, b.Addresses)
	return d.s.Append(v)
}

func members(role format.MemberRole, addresses map[uint64]string) (all []format.Member) {
	for _, id := range slices.Sorted(maps.Keys(addresses)) {
		all = append(all, format.Member{Role: role, Replica: format.Replica(id), Address: addresses[id]})
	}
	return all
}

func (d *testLogDB) GetBootstrapInfo(shard, replica uint64) (b pb.Bootstrap, err error) {
	st, _ := d.s.Replica(format.RaftGroup(shard), format.Replica(replica))
	if st.Bootstrap == nil {
		return b, raftio.ErrNoBootstrapInfo
	}
	b = pb.Bootstrap{Join: st.Bootstrap.Join, Type: pb.StateMachineType(st.Bootstrap.Type), Addresses: map[uint64]string{}}
	for _, m := range st.Bootstrap.Members {
		b.Addresses[uint64(m.Replica)] = m.Address
	}
	return b, nil
}

func (d *testLogDB) SaveRaftState(updates []pb.Update, _ uint64) error {
	var saves []*Save
	for _, u := range updates {
		v := saveOf(u.ShardID, u.ReplicaID)
		if !pb.IsEmptyState(u.State) {
			v.State, v.Commit = &HardState{format.Term(u.Term), format.Replica(u.Vote)}, format.Index(u.Commit)
			if st, _ := d.s.Replica(v.Group, v.Replica); st.State == *v.State {
				v.State = nil // a commit on its own need not be written at once
			}
		}
		if !pb.IsEmptySnapshot(u.Snapshot) {
			v.Snapshot, v.Install = snapshotToStore(u.ShardID, u.ReplicaID, u.Snapshot), true
		}
		for _, e := range u.EntriesToSave {
			v.Entries = append(v.Entries, Entry{
				Index: format.Index(e.Index), Term: format.Term(e.Term), Type: format.EntryType(e.Type),
				Key: e.Key, ClientID: e.ClientID, SeriesID: e.SeriesID, RespondedTo: e.RespondedTo, Data: e.Cmd,
			})
		}
		if v.needsWrite() || v.Commit != 0 {
			saves = append(saves, v)
		}
	}
	if len(saves) == 0 {
		return nil
	}
	return d.s.Append(saves...)
}

func (d *testLogDB) IterateEntries(
	ents []pb.Entry, size, shard, replica, low, high, maxSize uint64,
) ([]pb.Entry, uint64, error) {
	group, rep := format.RaftGroup(shard), format.Replica(replica)
	if st, _ := d.s.Replica(group, rep); format.Index(low) < st.First || format.Index(low) > st.Last {
		return ents, size, nil
	}
	if maxSize == 0 {
		// The library asks for a term. The command is not read.
		if t, ok := d.s.Term(group, rep, format.Index(low)); ok {
			ents = append(ents, pb.Entry{Index: low, Term: uint64(t)})
		}
		return ents, size + uint64((&pb.Entry{}).SizeUpperLimit()), nil
	}
	start := size
	count := func(e *Entry) uint64 {
		n := uint64((&pb.Entry{Cmd: e.Data}).SizeUpperLimit())
		size += n
		return n
	}
	got, err := d.s.Entries(nil, group, rep, format.Index(low), format.Index(high), maxSize-min(start, maxSize), count)
	for _, e := range got {
		p := pb.Entry{
			Index: uint64(e.Index), Term: uint64(e.Term), Type: pb.EntryType(e.Type),
			Key: e.Key, ClientID: e.ClientID, SeriesID: e.SeriesID, RespondedTo: e.RespondedTo, Cmd: e.Data,
		}
		if p.Type == pb.EncodedEntry && p.ClientID == 0 {
			p.ClientID = 1 // a single node's entry: the library panics on a proposal without a client
		}
		ents = append(ents, p)
	}
	return ents, size, err
}

func (d *testLogDB) ReadRaftState(shard, replica, lastIndex uint64) (rs raftio.RaftState, err error) {
	st, ok := d.s.Replica(format.RaftGroup(shard), format.Replica(replica))
	if !ok || st.State == (HardState{}) && st.Last == 0 {
		return rs, raftio.ErrNoSavedLog
	}
	rs.State = pb.State{Term: uint64(st.State.Term), Vote: uint64(st.State.Vote), Commit: max(uint64(st.Commit), lastIndex)}
	if last := uint64(st.Last); last > lastIndex && st.Last >= st.First {
		rs.FirstIndex, rs.EntryCount = lastIndex+1, last-lastIndex
	}
	return rs, nil
}

func (d *testLogDB) RemoveEntriesTo(uint64, uint64, uint64) error { return nil } // advice; the store keeps messages

func (d *testLogDB) CompactEntriesTo(uint64, uint64, uint64) (<-chan struct{}, error) {
	done := make(chan struct{})
	close(done)
	return done, nil
}

func (d *testLogDB) SaveSnapshots(updates []pb.Update) error {
	var saves []*Save
	for _, u := range updates {
		if !pb.IsEmptySnapshot(u.Snapshot) {
			v := saveOf(u.ShardID, u.ReplicaID)
			v.Snapshot = snapshotToStore(u.ShardID, u.ReplicaID, u.Snapshot)
			saves = append(saves, v)
		}
	}
	if len(saves) == 0 {
		return nil
	}
	return d.s.Append(saves...)
}

func snapshotToStore(shard, replica uint64, p pb.Snapshot) *format.Snapshot {
	s := &format.Snapshot{
		Group: format.RaftGroup(shard), Replica: format.Replica(replica), Index: format.Index(p.Index), Term: format.Term(p.Term),
		OnDisk: format.Index(p.OnDiskIndex), Dummy: p.Dummy, ConfigChange: format.Index(p.Membership.ConfigChangeId),
		Members: members(format.MemberVoter, p.Membership.Addresses),
	}
	if p.Filepath != "" {
		s.Extra = pb.MustMarshal(&p)
	}
	return s
}

func (d *testLogDB) GetSnapshot(shard, replica uint64) (p pb.Snapshot, err error) {
	st, _ := d.s.Replica(format.RaftGroup(shard), format.Replica(replica))
	s := st.Snapshot
	switch {
	case s == nil:
		return p, nil
	case len(s.Extra) > 0:
		pb.MustUnmarshal(&p, bytes.Clone(s.Extra))
		return p, nil
	}
	p = pb.Snapshot{
		ShardID: shard, Index: uint64(s.Index), Term: uint64(s.Term), OnDiskIndex: uint64(s.OnDisk), Dummy: s.Dummy,
		Type:       pb.OnDiskStateMachine,
		Membership: pb.Membership{ConfigChangeId: uint64(s.ConfigChange), Addresses: map[uint64]string{}},
	}
	for _, m := range s.Members {
		if m.Role == format.MemberVoter {
			p.Membership.Addresses[uint64(m.Replica)] = m.Address
		}
	}
	return p, nil
}

func (d *testLogDB) RemoveNodeData(shard, replica uint64) error {
	v := saveOf(shard, replica)
	v.Remove = true
	return d.s.Append(v)
}

func (d *testLogDB) ImportSnapshot(p pb.Snapshot, replica uint64) error {
	if p.Type == pb.UnknownStateMachine {
		return fmt.Errorf("unknown state machine type")
	}
	v := saveOf(p.ShardID, replica)
	v.Remove = true
	v.Bootstrap = &format.Bootstrap{Group: v.Group, Replica: v.Replica, Join: true, Type: uint8(p.Type)}
	v.State = &HardState{Term: format.Term(p.Term)}
	v.Snapshot, v.Install, v.Commit = snapshotToStore(p.ShardID, replica, p), true, format.Index(p.Index)
	return d.s.Append(v)
}
