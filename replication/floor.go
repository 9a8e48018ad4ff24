package replication

import (
	"errors"
	"fmt"
	"time"

	"github.com/lni/dragonboat/v4"
	"github.com/lni/dragonboat/v4/raftio"
	pb "github.com/lni/dragonboat/v4/raftpb"

	"queen/engine/format"
	"queen/engine/invariants"
)

// Failpoints of the floor, in order.
var (
	failFloorRecord = invariants.Register("replication.floor.record-kept")
	failFloorSaved  = invariants.Register("replication.floor.saved")
)

// held is what is kept in memory of one replica. The library serves entries from behind the snapshot that it was given at its
// start, and wants to see the newest one whenever it asks later. So its snapshots, which are an index and the membership there,
// stay in memory, and only the one that becomes the floor is made durable: a start begins there, and serves all that is held.
type held struct {
	dummies []pb.Snapshot // the newest last
	removed uint64        // the library asks for nothing at or below it
}

// maxDummies bounds the records that wait for the floor, while it is held back for who is away; then every other one goes.
const maxDummies = 128

// heldOf finds, or begins, what is held of a replica. mu is held.
func (d *LogDB) heldOf(shard, replica uint64) *held {
	info := raftio.GetNodeInfo(shard, replica)
	h := d.mu.held[info]
	if h == nil {
		h = &held{}
		d.mu.held[info] = h
	}
	return h
}

// forget lets go of what is held of a replica whose log is replaced.
func (d *LogDB) forget(shard, replica uint64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.mu.held, raftio.GetNodeInfo(shard, replica))
}

// letGo notes that the library asks for nothing at or below an index.
func (d *LogDB) letGo(shard, replica, index uint64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	h := d.heldOf(shard, replica)
	h.removed = max(h.removed, index)
}

// SaveSnapshots implements raftio.ILogDB: a newer record replaces an older one, entries stay. A record without files tells what
// the log tells as well, and is only kept in memory: nothing is lost with it.
func (d *LogDB) SaveSnapshots(updates []pb.Update) error {
	for i := range updates {
		u := &updates[i]
		switch {
		case pb.IsEmptySnapshot(u.Snapshot):
		case u.Snapshot.Dummy:
			d.addDummy(u)
		default:
			v := saveOf(u.ShardID, u.ReplicaID)
			v.Snapshot = recordOf(u.ShardID, u.ReplicaID, &u.Snapshot)
			if err := d.append(v); err != nil {
				return err
			}
		}
	}
	return nil
}

func (d *LogDB) addDummy(u *pb.Update) {
	d.mu.Lock()
	defer d.mu.Unlock()
	h := d.heldOf(u.ShardID, u.ReplicaID)
	if n := len(h.dummies); n > 0 && h.dummies[n-1].Index >= u.Snapshot.Index {
		return
	}
	if len(h.dummies) >= maxDummies {
		n := 0
		for i := 1; i < len(h.dummies); i += 2 {
			h.dummies[n] = h.dummies[i]
			n++
		}
		clear(h.dummies[n:])
		h.dummies = h.dummies[:n]
	}
	h.dummies = append(h.dummies, u.Snapshot)
}

// dummyAt is the newest record at or below an index that is kept in memory.
func (d *LogDB) dummyAt(shard, replica, upto uint64) (p pb.Snapshot, ok bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if h := d.mu.held[raftio.GetNodeInfo(shard, replica)]; h != nil {
		for i := range h.dummies {
			if h.dummies[i].Index <= upto {
				p, ok = h.dummies[i], true
			}
		}
	}
	return p, ok
}

// GetSnapshot implements raftio.ILogDB: the durable record at a start, the newest one afterwards.
func (d *LogDB) GetSnapshot(shard, replica uint64) (p pb.Snapshot, err error) {
	st, err := d.replica(shard, replica)
	if err != nil {
		return p, err
	}
	if st.Snapshot != nil {
		p = snapshotOf(shard, st.Snapshot)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if h := d.mu.held[raftio.GetNodeInfo(shard, replica)]; h != nil {
		if n := len(h.dummies); n > 0 && h.dummies[n-1].Index > p.Index {
			return h.dummies[n-1], nil
		}
	}
	return p, nil
}

// keep makes the newest record at or below an index the durable one, and returns the index of the durable one, 0 for none.
func (d *LogDB) keep(shard, replica, upto uint64) (uint64, error) {
	kept := uint64(0)
	st, err := d.replica(shard, replica)
	if err != nil {
		return 0, err
	}
	if st.Snapshot != nil {
		kept = uint64(st.Snapshot.Index)
	}
	var next *pb.Snapshot
	d.mu.Lock()
	h := d.heldOf(shard, replica)
	for i := range h.dummies {
		// What it says of the state must hold at every start as well.
		if p := h.dummies[i]; p.Index > kept && max(p.Index, p.OnDiskIndex) <= upto {
			next = &p
		}
	}
	d.mu.Unlock()
	if next == nil {
		return kept, nil
	}
	record := *next
	record.Filepath, record.FileSize, record.Checksum = "", 0, nil // of a file that the library removes
	v := saveOf(shard, replica)
	v.Snapshot = recordOf(shard, replica, &record)
	if err := d.append(v); err != nil {
		return kept, err
	}
	invariants.Failpoint(failFloorRecord)
	d.mu.Lock()
	defer d.mu.Unlock()
	n := 0
	for n < len(h.dummies) && h.dummies[n].Index <= record.Index {
		n++
	}
	h.dummies = append([]pb.Snapshot(nil), h.dummies[n:]...)
	return record.Index, nil
}

// saveFloor raises the floor to the durable record once the library asks for nothing below it, and returns the floor.
func (d *LogDB) saveFloor(shard, replica uint64) (format.Index, error) {
	st, err := d.replica(shard, replica)
	if err != nil {
		return 0, err
	}
	d.mu.Lock()
	removed := d.heldOf(shard, replica).removed
	d.mu.Unlock()
	if st.Snapshot == nil || st.Snapshot.Index <= st.Floor || uint64(st.Snapshot.Index) > removed {
		return st.Floor, nil
	}
	v := saveOf(shard, replica)
	v.Floor = st.Snapshot.Index
	if err := d.append(v); err != nil {
		return st.Floor, err
	}
	invariants.Failpoint(failFloorSaved)
	return v.Floor, nil
}

// isRemoved reports that the library asks for nothing at or below an index.
func (d *LogDB) isRemoved(shard, replica, index uint64) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.heldOf(shard, replica).removed >= index
}

// want is a floor that the node could do with, and since when.
type want struct {
	index format.Index
	since int64 // monotonic
}

// SaveFloor raises the floor of the log towards i, below which the node itself needs nothing, and returns where it is: at an index
// at which the library took a snapshot, and no further than what every member has, or waits for no longer (Options.Hold). It stays while
// any node gives a copy of its state: the copy ends where the log has to go on, on whichever node leads then.
func (s *Sequencer) SaveFloor(i format.Index) (format.Index, error) {
	shard, node := uint64(s.group), uint64(s.o.Node)
	if s.isGiven() {
		st, _ := s.log.Replica(s.group, s.o.Node)
		return st.Floor, nil
	}
	floor, err := s.db.saveFloor(shard, node)
	h := s.hosted()
	if err != nil || h == nil || i <= floor {
		return floor, err
	}
	kept, err := s.db.keep(shard, node, uint64(s.holdBack(i)))
	if err != nil {
		return floor, err
	}
	s.mu.Lock()
	due := i > s.mu.dummyFor || kept > 0 && !s.db.isRemoved(shard, node, kept)
	s.mu.Unlock()
	if due {
		s.takeDummy(h, kept, i)
	}
	return floor, nil
}

// isGiven reports that a copy of the state is on its way, from this node or from one that said so last.
func (s *Sequencer) isGiven() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	given := s.mu.images > 0
	for _, r := range s.mu.reports {
		given = given || r.Flags&ReportGives != 0
	}
	return given
}

// takeDummy has the library take a snapshot, which is no more than a record, and ask for nothing at or below kept from then on.
// What it refuses it is asked for again.
func (s *Sequencer) takeDummy(h *dragonboat.NodeHost, kept uint64, wanted format.Index) {
	o := dragonboat.SnapshotOption{OverrideCompactionOverhead: kept > 0, CompactionIndex: kept}
	rs, err := h.RequestSnapshot(uint64(s.group), o, proposeWithin)
	if err != nil {
		s.o.Log.Debug("no snapshot was taken", "err", err)
		return
	}
	s.loops.Add(1)
	go func() {
		defer s.loops.Done()
		select {
		case r := <-rs.ResultC():
			if r.Completed() {
				s.mu.Lock()
				s.mu.dummyFor = max(s.mu.dummyFor, wanted)
				s.mu.Unlock()
			}
			rs.Release()
		case <-s.ended:
		}
	}()
}

// holdBack is how far the floor may rise towards i: as far as every other member has applied, whose log begins no later then; and
// as far as has been wanted for longer than anybody is waited for.
func (s *Sequencer) holdBack(i format.Index) format.Index {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.o.Clock.Mono()
	if n := len(s.mu.wants); n == 0 || s.mu.wants[n-1].index < i {
		s.mu.wants = append(s.mu.wants, want{i, now})
	}
	overdue := format.Index(0)
	if s.o.Hold > 0 {
		for len(s.mu.wants) > 0 && time.Duration(now-s.mu.wants[0].since)*time.Microsecond >= s.o.Hold {
			s.mu.overdue = s.mu.wants[0].index
			s.mu.wants = s.mu.wants[1:]
		}
		overdue = s.mu.overdue
	} else if n := len(s.mu.wants); n > 1 {
		s.mu.wants = s.mu.wants[n-1:] // nothing is ever overdue
	}
	least := i
	if len(s.mu.members.Voters) == 0 {
		least = 0
	}
	for _, part := range []map[format.Replica]string{s.mu.members.Voters, s.mu.members.Followers} {
		for node := range part {
			if node != s.o.Node {
				least = min(least, format.Index(s.mu.heard[node]))
			}
		}
	}
	return max(least, min(overdue, i))
}

// startsAbove refuses a state that is older than what the log can bring up to date.
func (s *Sequencer) startsAbove(applied format.Index) error {
	st, _ := s.log.Replica(s.group, s.o.Node)
	if applied >= st.Floor {
		return nil
	}
	return fmt.Errorf("replication: the state is that of entry %d, and the log begins behind entry %d: what lies between was given away. "+
		"Remove this node from its cluster and add it under a new number (queen cluster remove, add; --peer-join)", applied, st.Floor)
}

// behindRounds is for how many rounds of the census a node is behind what the leader holds before it gives up: who leads may change.
const behindRounds = 5

// errBehind ends a node that nobody can bring up to date while it runs.
var errBehind = errors.New("replication: the leader's log begins behind the end of this node's, which was away or slow for longer " +
	"than log is held (peer.hold): its next start pulls a copy of another node's state")

// watchBehind ends this node when it has been left behind.
func (s *Sequencer) watchBehind(reports map[format.Replica]Report) {
	st, _ := s.log.Replica(s.group, s.o.Node)
	left := false
	for _, r := range reports {
		left = left || r.Flags&ReportLeads != 0 && format.Index(r.Floor) > st.Last
	}
	if !left {
		s.leftRounds = 0
		return
	}
	if s.leftRounds++; s.leftRounds == behindRounds {
		s.fatal(errBehind)
	}
}

// noteLeftBehind tells once of each node that came back after its end of the log was given away here, where the log began behind
// floor when they were asked.
func (s *Sequencer) noteLeftBehind(reports map[format.Replica]Report, floor format.Index) {
	for node, r := range reports {
		s.mu.Lock()
		behind := r.Flags&ReportPart != 0 && format.Index(r.Last) < floor
		tell := behind && !s.mu.behind[node]
		s.mu.behind[node] = behind
		s.mu.Unlock()
		if tell {
			s.peer.Alarm(fmt.Sprintf("node %d was away for too long", node), fmt.Errorf("its log ends at entry %d, and this node's begins "+
				"behind %d: it catches up when it is started again", r.Last, floor))
		}
	}
}
