package replication

import (
	"bytes"
	"errors"
	"maps"
	"slices"
	"sync"

	"github.com/lni/dragonboat/v4/config"
	"github.com/lni/dragonboat/v4/raftio"
	pb "github.com/lni/dragonboat/v4/raftpb"

	"queen/engine/format"
	"queen/engine/logstore"
)

// logDBName and the binary format are compared with what the library wrote into its directory at its first
// start: neither ever changes.
const logDBName = "queen-logstore"

// LogDB is dragonboat's log storage over the node's own log: raft's entries are the records that messages
// are read from, so that a payload is written once per replica. Each raft group has its log (grouplog.go).
//
// It keeps nothing but what the store keeps, and the library's newest snapshot records (floor.go). Entries are never removed at
// the library's wish, which is advice; the node gives segments away itself when nothing needs them.
//
// The library reports every error of it as a panic of the process, which is what a failed write or flush
// has to be.
type LogDB struct {
	every *groupLog // the log of all groups; nil where each has its own

	logs struct {
		sync.RWMutex
		of map[format.RaftGroup]*groupLog
	}
	mu struct {
		sync.Mutex
		held map[raftio.NodeInfo]*held
	}
}

var _ raftio.ILogDB = (*LogDB)(nil)

// NewLogDB puts the library's interface onto log, which stays its owner's to close: that of every raft group. committed is an index
// up to which entries are known to be committed by other means than the saved commit index, 0 for none.
func NewLogDB(log *logstore.Store, committed format.Index) *LogDB {
	d := newLogDB()
	d.every = &groupLog{log: log, known: committed, writing: &sync.Mutex{}}
	return d
}

// newLogDB has no log yet: each raft group opens its own.
func newLogDB() *LogDB {
	d := &LogDB{}
	d.logs.of = map[format.RaftGroup]*groupLog{}
	d.mu.held = map[raftio.NodeInfo]*held{}
	return d
}

// logDBFactory hands one LogDB to the library.
type logDBFactory struct{ db *LogDB }

func (f logDBFactory) Name() string { return logDBName }

func (f logDBFactory) Create(config.NodeHostConfig, config.LogDBCallback, []string, []string) (raftio.ILogDB, error) {
	return f.db, nil
}

// Name implements raftio.ILogDB.
func (d *LogDB) Name() string { return logDBName }

// Close implements raftio.ILogDB; the stores stay open, since reads go on.
func (d *LogDB) Close() error { return nil }

// BinaryFormat implements raftio.ILogDB.
func (d *LogDB) BinaryFormat() uint32 { return raftio.PlainLogDBBinVersion }

// ListNodeInfo implements raftio.ILogDB.
func (d *LogDB) ListNodeInfo() (all []raftio.NodeInfo, err error) {
	for _, r := range d.replicas() {
		if r.Bootstrap != nil {
			all = append(all, raftio.GetNodeInfo(uint64(r.Group), uint64(r.Replica)))
		}
	}
	return all, nil
}

func saveOf(shard, replica uint64) *logstore.Save {
	return &logstore.Save{Group: format.RaftGroup(shard), Replica: format.Replica(replica)}
}

// SaveBootstrapInfo implements raftio.ILogDB.
func (d *LogDB) SaveBootstrapInfo(shard, replica uint64, b pb.Bootstrap) error {
	v := saveOf(shard, replica)
	v.Bootstrap = &format.Bootstrap{Group: v.Group, Replica: v.Replica, Join: b.Join, Type: uint8(b.Type),
		Members: membersOf(format.MemberVoter, b.Addresses)}
	return d.append(v)
}

// GetBootstrapInfo implements raftio.ILogDB.
func (d *LogDB) GetBootstrapInfo(shard, replica uint64) (b pb.Bootstrap, err error) {
	st, err := d.replica(shard, replica)
	if err != nil {
		return b, err
	}
	if st.Bootstrap == nil {
		return b, raftio.ErrNoBootstrapInfo
	}
	b = pb.Bootstrap{Join: st.Bootstrap.Join, Type: pb.StateMachineType(st.Bootstrap.Type), Addresses: map[uint64]string{}}
	for _, m := range st.Bootstrap.Members {
		b.Addresses[uint64(m.Replica)] = m.Address
	}
	return b, nil
}

// SaveRaftState implements raftio.ILogDB: when it returns, everything but a commit index on its own is durable.
// The library calls it with nothing to save as often as not, and with the updates of all groups at once.
func (d *LogDB) SaveRaftState(updates []pb.Update, _ uint64) error {
	var all []batch
	for i := range updates {
		l, err := d.of(format.RaftGroup(updates[i].ShardID))
		if err != nil {
			return err
		}
		if v := d.saveOfUpdate(l, &updates[i]); v != nil {
			all = addSave(all, l, v)
		}
	}
	return writeAll(all)
}

// saveOfUpdate is nil when there is nothing to save.
func (d *LogDB) saveOfUpdate(l *groupLog, u *pb.Update) *logstore.Save {
	v := saveOf(u.ShardID, u.ReplicaID)
	some := false
	if !pb.IsEmptyState(u.State) {
		v.Commit, some = format.Index(u.State.Commit), true
		state := logstore.HardState{Term: format.Term(u.State.Term), Vote: format.Replica(u.State.Vote)}
		if st, _ := l.log.Replica(v.Group, v.Replica); st.State != state {
			v.State = &state // a commit on its own need not be written at once
		}
	}
	if !pb.IsEmptySnapshot(u.Snapshot) {
		v.Snapshot, v.Install, some = recordOf(u.ShardID, u.ReplicaID, &u.Snapshot), true, true
		d.forget(u.ShardID, u.ReplicaID)
	}
	if n := len(u.EntriesToSave); n > 0 {
		v.Entries, some = make([]logstore.Entry, n), true
		for i := range u.EntriesToSave {
			e := &u.EntriesToSave[i]
			v.Entries[i] = logstore.Entry{Index: format.Index(e.Index), Term: format.Term(e.Term), Type: format.EntryType(e.Type),
				Key: e.Key, ClientID: e.ClientID, SeriesID: e.SeriesID, RespondedTo: e.RespondedTo, Data: e.Cmd}
		}
	}
	if !some {
		return nil
	}
	return v
}

// localClient stands in for the client, and the key, of entries that a single node wrote: the library panics on a proposal
// without them, and no client of its own has this number.
const localClient = 1

// IterateEntries implements raftio.ILogDB. It includes the entry with which maxSize is exceeded, and counts it.
func (d *LogDB) IterateEntries(ents []pb.Entry, size, shard, replica, low, high, maxSize uint64) ([]pb.Entry, uint64, error) {
	group, rep := format.RaftGroup(shard), format.Replica(replica)
	l, err := d.of(group)
	if err != nil {
		return ents, size, err
	}
	if st, _ := l.log.Replica(group, rep); format.Index(low) < st.First || format.Index(low) > st.Last {
		return ents, size, nil
	}
	if maxSize == 0 {
		// The library asks for a term, also while it holds its locks: the command is not read.
		if t, ok := l.log.Term(group, rep, format.Index(low)); ok {
			ents = append(ents, pb.Entry{Index: low, Term: uint64(t)})
		}
		return ents, size + uint64((&pb.Entry{}).SizeUpperLimit()), nil
	}
	start := size
	count := func(e *logstore.Entry) uint64 {
		n := uint64((&pb.Entry{Cmd: e.Data}).SizeUpperLimit())
		size += n
		return n
	}
	got, err := l.log.Entries(nil, group, rep, format.Index(low), format.Index(high), maxSize-min(start, maxSize), count)
	for i := range got {
		e := &got[i]
		p := pb.Entry{Index: uint64(e.Index), Term: uint64(e.Term), Type: pb.EntryType(e.Type),
			Key: e.Key, ClientID: e.ClientID, SeriesID: e.SeriesID, RespondedTo: e.RespondedTo, Cmd: e.Data}
		if p.Type == pb.EncodedEntry && p.ClientID == 0 {
			p.ClientID, p.Key = localClient, localClient
		}
		ents = append(ents, p)
	}
	return ents, size, err
}

// ReadRaftState implements raftio.ILogDB. The commit index it gives lies between lastIndex, that of the snapshot
// handed out before, and the last entry: the library panics on any other.
func (d *LogDB) ReadRaftState(shard, replica, lastIndex uint64) (rs raftio.RaftState, err error) {
	l, err := d.of(format.RaftGroup(shard))
	if err != nil {
		return rs, err
	}
	st, ok := l.log.Replica(format.RaftGroup(shard), format.Replica(replica))
	d.letGo(shard, replica, lastIndex) // a start reads no further back than the snapshot it was given
	if !ok || st.State == (logstore.HardState{}) && st.Last == 0 {
		return rs, raftio.ErrNoSavedLog
	}
	commit := uint64(min(max(st.Commit, l.known), st.Last))
	rs.State = pb.State{Term: uint64(st.State.Term), Vote: uint64(st.State.Vote), Commit: max(commit, lastIndex)}
	if last := uint64(st.Last); last > lastIndex && st.Last >= st.First {
		rs.FirstIndex, rs.EntryCount = lastIndex+1, last-lastIndex
	}
	return rs, nil
}

// RemoveEntriesTo implements raftio.ILogDB: the store keeps messages as long as they are wanted, but that nobody asks for these
// entries again is what lets the floor rise.
func (d *LogDB) RemoveEntriesTo(shard, replica, index uint64) error {
	d.letGo(shard, replica, index)
	return nil
}

// CompactEntriesTo implements raftio.ILogDB.
func (d *LogDB) CompactEntriesTo(uint64, uint64, uint64) (<-chan struct{}, error) {
	done := make(chan struct{})
	close(done)
	return done, nil
}

// RemoveNodeData implements raftio.ILogDB: the replica's entries, and with them its messages, are given up.
func (d *LogDB) RemoveNodeData(shard, replica uint64) error {
	v := saveOf(shard, replica)
	v.Remove = true
	d.forget(shard, replica)
	return d.append(v)
}

// ImportSnapshot implements raftio.ILogDB.
func (d *LogDB) ImportSnapshot(p pb.Snapshot, replica uint64) error {
	if p.Type == pb.UnknownStateMachine {
		return errors.New("replication: a snapshot of an unknown type of state machine")
	}
	v := saveOf(p.ShardID, replica)
	v.Remove = true
	d.forget(p.ShardID, replica)
	v.Bootstrap = &format.Bootstrap{Group: v.Group, Replica: v.Replica, Join: true, Type: uint8(p.Type)}
	v.State = &logstore.HardState{Term: format.Term(p.Term)}
	v.Snapshot, v.Install, v.Commit = recordOf(p.ShardID, replica, &p), true, format.Index(p.Index)
	return d.append(v)
}

// recordOf is the store's form of a snapshot. One with files is kept as the library wrote it.
func recordOf(shard, replica uint64, p *pb.Snapshot) *format.Snapshot {
	s := &format.Snapshot{Group: format.RaftGroup(shard), Replica: format.Replica(replica), Index: format.Index(p.Index),
		Term: format.Term(p.Term), OnDisk: format.Index(p.OnDiskIndex), Dummy: p.Dummy,
		ConfigChange: format.Index(p.Membership.ConfigChangeId), Members: membersOfAll(&p.Membership)}
	if p.Filepath != "" {
		s.Extra = pb.MustMarshal(p)
	}
	return s
}

func snapshotOf(shard uint64, s *format.Snapshot) (p pb.Snapshot) {
	if len(s.Extra) > 0 {
		pb.MustUnmarshal(&p, bytes.Clone(s.Extra))
		return p
	}
	return pb.Snapshot{ShardID: shard, Index: uint64(s.Index), Term: uint64(s.Term), OnDiskIndex: uint64(s.OnDisk), Dummy: s.Dummy,
		Type: pb.OnDiskStateMachine, Membership: membershipOf(s)}
}

func membershipOf(s *format.Snapshot) pb.Membership {
	m := pb.Membership{ConfigChangeId: uint64(s.ConfigChange), Addresses: map[uint64]string{}}
	put := func(to *map[uint64]string, v format.Member) {
		if *to == nil {
			*to = map[uint64]string{}
		}
		(*to)[uint64(v.Replica)] = v.Address
	}
	for _, v := range s.Members {
		switch v.Role {
		case format.MemberVoter:
			put(&m.Addresses, v)
		case format.MemberNonVoter:
			put(&m.NonVotings, v)
		case format.MemberWitness:
			put(&m.Witnesses, v)
		case format.MemberRemoved:
			if m.Removed == nil {
				m.Removed = map[uint64]bool{}
			}
			m.Removed[uint64(v.Replica)] = true
		}
	}
	return m
}

func membersOf(role format.MemberRole, addresses map[uint64]string) (all []format.Member) {
	for _, id := range slices.Sorted(maps.Keys(addresses)) {
		all = append(all, format.Member{Role: role, Replica: format.Replica(id), Address: addresses[id]})
	}
	return all
}

// membersOfAll lists a membership in the order of the record: by role, then replica.
func membersOfAll(m *pb.Membership) []format.Member {
	all := slices.Concat(membersOf(format.MemberVoter, m.Addresses), membersOf(format.MemberNonVoter, m.NonVotings),
		membersOf(format.MemberWitness, m.Witnesses))
	for _, id := range slices.Sorted(maps.Keys(m.Removed)) {
		all = append(all, format.Member{Role: format.MemberRemoved, Replica: format.Replica(id)})
	}
	return all
}
