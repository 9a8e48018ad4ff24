package replication

import (
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	pb "github.com/lni/dragonboat/v4/raftpb"

	"queen/engine"
	"queen/engine/clock"
	"queen/engine/format"
	"queen/engine/logstore"
	"queen/engine/vfs"
)

// floorLog is a log as the library fills it, with a dummy snapshot now and then.
type floorLog struct {
	db   *LogDB
	last uint64
}

var voters = map[uint64]string{5: "h:1", 6: "h:2"}

func openFloorLog(o logstore.Options) (*floorLog, error) {
	log, err := logstore.Open(o)
	if err != nil {
		return nil, err
	}
	l := &floorLog{db: NewLogDB(log, 0)}
	if st, err := l.db.replica(1, 5); err == nil && st.Last > 0 {
		l.last = uint64(st.Last)
		return l, l.begin()
	}
	return l, l.db.SaveBootstrapInfo(1, 5, pb.Bootstrap{Type: pb.OnDiskStateMachine, Addresses: voters})
}

// begin is what the library does at its start.
func (l *floorLog) begin() error {
	ss, err := l.db.GetSnapshot(1, 5)
	if err == nil {
		_, err = l.db.ReadRaftState(1, 5, ss.Index)
	}
	return err
}

func (l *floorLog) append(n int) error {
	for range n {
		l.last++
		e := pb.Entry{Index: l.last, Term: 1, Type: pb.EncodedEntry, Key: 1, ClientID: 1, Cmd: encoded(10, 2000, l.last)}
		u := pb.Update{ShardID: 1, ReplicaID: 5, State: pb.State{Term: 1, Vote: 5, Commit: l.last}, EntriesToSave: []pb.Entry{e}}
		if err := l.db.SaveRaftState([]pb.Update{u}, 1); err != nil {
			return err
		}
	}
	return nil
}

func (l *floorLog) dummy(index, onDisk uint64) error {
	ss := pb.Snapshot{ShardID: 1, Index: index, Term: 1, OnDiskIndex: onDisk, Dummy: true, Type: pb.OnDiskStateMachine,
		Filepath: "/x", FileSize: 9, Membership: pb.Membership{ConfigChangeId: 1, Addresses: voters}}
	return l.db.SaveSnapshots([]pb.Update{{ShardID: 1, ReplicaID: 5, Snapshot: ss}})
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// TestFloorWaitsForTheLibrary: the floor follows a record only when the library has said that it asks for nothing below, or has
// begun there; of records in memory only such are made durable that lie low enough with all they say.
func TestFloorWaitsForTheLibrary(t *testing.T) {
	o := testOptions(vfs.NewMem())
	l, err := openFloorLog(o)
	must(t, err)
	must(t, l.append(30))
	must(t, l.dummy(10, 10))
	must(t, l.dummy(15, 22)) // taken while a start was catching up
	must(t, l.dummy(20, 20))
	expect := func(what string, wantRecord, wantFloor uint64) {
		t.Helper()
		floor, err := l.db.saveFloor(1, 5)
		must(t, err)
		st, _ := l.db.replica(1, 5)
		record := uint64(0)
		if st.Snapshot != nil {
			record = uint64(st.Snapshot.Index)
			if len(st.Snapshot.Extra) != 0 || !st.Snapshot.Dummy {
				t.Errorf("%s: the record names a file", what)
			}
		}
		if uint64(floor) != wantFloor || floor != st.Floor || record != wantRecord {
			t.Errorf("%s: record %d, floor %d; want %d, %d", what, record, floor, wantRecord, wantFloor)
		}
	}
	keep := func(upto, want uint64) {
		t.Helper()
		if got, err := l.db.keep(1, 5, upto); got != want || err != nil {
			t.Errorf("keep up to %d: %d, want %d: %v", upto, got, want, err)
		}
	}
	keep(9, 0)
	keep(19, 10)
	expect("nobody let go", 10, 0)
	must(t, l.db.RemoveEntriesTo(1, 5, 9))
	expect("not of the record", 10, 0)
	must(t, l.db.RemoveEntriesTo(1, 5, 10))
	expect("let go", 10, 10)
	if ss, _ := l.db.GetSnapshot(1, 5); ss.Index != 20 {
		t.Errorf("the newest record is %d", ss.Index)
	}
	keep(25, 20)
	expect("the next", 20, 10)
	must(t, l.db.every.log.Close())
	if l, err = openFloorLog(o); err != nil {
		t.Fatal(err)
	}
	defer l.db.every.log.Close()
	expect("a start from the record", 20, 20)
	if got, _, err := l.db.IterateEntries(nil, 0, 1, 5, 20, 21, 1<<20); len(got) != 0 || err != nil {
		t.Errorf("%d entries at the floor: %v", len(got), err)
	}
	if got, _, err := l.db.IterateEntries(nil, 0, 1, 5, 21, 31, 1<<20); len(got) != 10 || err != nil {
		t.Errorf("%d entries above the floor: %v", len(got), err)
	}
	for i := range uint64(3 * maxDummies) {
		must(t, l.append(1))
		must(t, l.dummy(l.last, l.last))
		if n := len(l.db.heldOf(1, 5).dummies); n > maxDummies {
			t.Fatalf("%d records in memory after %d", n, i)
		}
	}
	if ss, _ := l.db.GetSnapshot(1, 5); ss.Index != l.last {
		t.Errorf("the newest record is %d, want %d", ss.Index, l.last)
	}
}

// floorLife goes through the steps of SaveFloor and gives segments away while the power lasts, for some operations after the
// start; it returns the floor and the end of the log that were acknowledged, and how many operations it made.
func floorLife(fs *vfs.Mem, off int64) (floor format.Index, last uint64, ops int64, err error) {
	low := make(chan struct{}, 1)
	o := testOptions(fs)
	o.Events = &logstore.Events{PoolLow: func(bool, error) {
		select {
		case low <- struct{}{}:
		default:
		}
	}}
	l, err := openFloorLog(o)
	if err != nil {
		return 0, 0, 0, err
	}
	before := fs.Ops()
	fs.PowerOffAt(off)
	ended := make(chan struct{})
	go func() {
		select {
		case <-low: // nobody waits for segments that do not come
			l.db.every.log.Kill()
		case <-ended:
		}
	}()
	floor, last, err = l.live()
	close(ended)
	if err != nil {
		l.db.every.log.Kill()
		return floor, last, 0, err
	}
	return floor, last, fs.Ops() - before, l.db.every.log.Close()
}

func (l *floorLog) live() (floor format.Index, last uint64, err error) {
	for range 12 {
		if err = l.append(8); err != nil {
			return floor, l.last - 1, err
		}
		last = l.last
		if err = l.dummy(l.last, l.last); err != nil {
			return floor, last, err
		}
		kept, err := l.db.keep(1, 5, l.last-12)
		if err != nil {
			return floor, last, err
		}
		if err = l.db.RemoveEntriesTo(1, 5, kept); err != nil {
			return floor, last, err
		}
		f, err := l.db.saveFloor(1, 5)
		if err != nil {
			return floor, last, err
		}
		floor = f
		if err := reclaimOldest(l.db.every.log); err != nil && !strings.Contains(err.Error(), "invalid") {
			return floor, last, err
		}
	}
	return floor, last, nil
}

// TestFloorCrash: the power fails at any operation on the disk while the floor rises and segments are given away. What is left
// opens, holds everything that was acknowledged, and has all entries that a start asks for.
func TestFloorCrash(t *testing.T) {
	whole := vfs.NewMem()
	floor, last, ops, err := floorLife(whole, 0)
	must(t, err)
	if floor < 30 {
		t.Fatalf("floor %d of %d entries", floor, last)
	}
	step := int64(1)
	if testing.Short() {
		step = 7
	}
	for at := int64(1); at <= ops; at += step {
		for _, policy := range []vfs.CrashPolicy{vfs.DropUnsynced(), vfs.KeepAll(), vfs.RandomSubset(uint64(at))} {
			fs := vfs.NewMem()
			floor, last, _, err := floorLife(fs, at)
			if err == nil && !fs.PoweredOff() {
				continue // the last operations are the pool's
			}
			o := testOptions(fs.Crash(policy))
			l, err := openFloorLog(o)
			if err != nil {
				t.Fatalf("operation %d: %v", at, err)
			}
			ss, err := l.db.GetSnapshot(1, 5)
			st, _ := l.db.replica(1, 5)
			if err != nil || uint64(st.Floor) > ss.Index || st.Floor < floor || l.last < last {
				t.Fatalf("operation %d: record %d, floor %d of %d, last %d of %d: %v", at, ss.Index, st.Floor, floor, l.last, last, err)
			}
			got, _, err := l.db.IterateEntries(nil, 0, 1, 5, ss.Index+1, l.last+1, 1<<30)
			if err != nil || uint64(len(got)) != l.last-ss.Index {
				t.Fatalf("operation %d: %d entries of (%d, %d]: %v", at, len(got), ss.Index, l.last, err)
			}
			must(t, l.db.every.log.Close())
		}
	}
}

// still is a node that stands where it stands.
type still struct{ engine.Peer }

func (still) Standing() engine.Standing                 { return engine.Standing{} }
func (still) Draining() []format.Replica                { return nil }
func (still) DiskOf(format.Replica) (engine.Disk, bool) { return engine.Disk{}, false }

// TestFloorWaitsForCopies: the floor stays while this node, or another one, gives a copy of its state, and they tell each other.
func TestFloorWaitsForCopies(t *testing.T) {
	l, err := openFloorLog(testOptions(vfs.NewMem()))
	must(t, err)
	defer l.db.every.log.Close()
	must(t, l.append(10))
	must(t, l.dummy(8, 8))
	kept, err := l.db.keep(1, 5, 9)
	must(t, err)
	must(t, l.db.RemoveEntriesTo(1, 5, kept))
	s := &Sequencer{o: Options{Node: 5}.withDefaults(), group: 1, log: l.db.every.log, db: l.db, peer: still{}, deployment: new(atomic.Uint64)}
	expect := func(what string, want format.Index) {
		t.Helper()
		if floor, err := s.SaveFloor(9); err != nil || floor != want {
			t.Errorf("%s: the floor is %d, want %d: %v", what, floor, want, err)
		}
	}
	s.holdFloor(1)
	expect("this node gives a copy", 0)
	own := s.report(0)
	s.holdFloor(-1)
	s.mu.reports = map[format.Replica]Report{6: {Flags: ReportPart}, 7: own}
	expect("another one does", 0)
	s.mu.reports[7] = s.report(0)
	expect("nobody does", 8)
}

// TestHoldBack: the floor rises as far as every member has applied, and for who is away it waits as long as is set.
func TestHoldBack(t *testing.T) {
	fake := clock.NewFake(0)
	s := &Sequencer{o: Options{Node: 1, Hold: 10 * time.Second, Clock: fake}}
	s.mu.heard = map[format.Replica]uint64{}
	expect := func(want, i format.Index) {
		t.Helper()
		if got := s.holdBack(i); got != want {
			t.Errorf("the floor may rise to %d of %d, want %d", got, i, want)
		}
	}
	expect(0, 50) // nothing is known of anybody
	s.mu.members = Members{Voters: map[format.Replica]string{1: "", 2: ""}, Followers: map[format.Replica]string{4: ""}}
	expect(0, 50)
	s.mu.heard[2], s.mu.heard[4], s.mu.heard[9] = 70, 30, 1
	expect(30, 50)
	s.mu.heard[4] = 100
	expect(50, 50)
	expect(70, 80)
	fake.Advance(6 * time.Second)
	expect(70, 90)
	fake.Advance(5 * time.Second) // 80 has been wanted for 11 seconds, 90 for 5
	expect(80, 95)
	fake.Advance(5 * time.Second)
	expect(90, 95)
	s.o.Hold = 0
	s.mu.overdue = 0
	fake.Advance(time.Hour)
	expect(70, 99)
	if len(s.mu.wants) > 1 {
		t.Errorf("%d wants are kept for nothing", len(s.mu.wants))
	}
}

// TestWatchBehind: a node that the leader can not bring up to date gives up, unless that passes.
func TestWatchBehind(t *testing.T) {
	l, err := openFloorLog(testOptions(vfs.NewMem()))
	must(t, err)
	defer l.db.every.log.Close()
	must(t, l.append(10))
	var ended error
	s := &Sequencer{o: Options{Node: 5}, group: 1, log: l.db.every.log, fatal: func(err error) { ended = err }}
	lacks := map[format.Replica]Report{1: {Floor: 11, Flags: ReportLeads}, 2: {Floor: 3}}
	has := map[format.Replica]Report{1: {Floor: 11}, 2: {Floor: 10, Flags: ReportLeads}}
	for range behindRounds - 1 {
		s.watchBehind(lacks)
	}
	s.watchBehind(has)
	for range behindRounds - 1 {
		s.watchBehind(lacks)
	}
	if ended != nil {
		t.Fatal("it gave up too early")
	}
	s.watchBehind(lacks)
	if ended != errBehind {
		t.Errorf("it ended with %v", ended)
	}
}

// TestSources: a node pulls when who leads lacks what it needs, or nobody leads and all lack it; from followers first.
func TestSources(t *testing.T) {
	leads, part := Report{Floor: 20, Flags: ReportLeads}, Report{Floor: 20}
	for what, c := range map[string]struct {
		reports map[format.Replica]Report
		last    uint64
		want    []format.Replica
	}{
		"nobody answers":               {nil, 10, nil},
		"all lack it":                  {map[format.Replica]Report{1: part}, 10, []format.Replica{1}},
		"one has it, nobody leads":     {map[format.Replica]Report{1: part, 2: {Floor: 10}}, 10, nil},
		"who leads has it":             {map[format.Replica]Report{1: part, 2: {Floor: 10, Flags: ReportLeads}}, 10, nil},
		"who leads lacks it":           {map[format.Replica]Report{1: leads, 2: {Floor: 10}}, 9, []format.Replica{2, 1}},
		"new, and the log is whole":    {map[format.Replica]Report{1: {Flags: ReportLeads}, 2: part}, 0, nil},
		"new, and the log begins late": {map[format.Replica]Report{1: leads, 2: {}}, 0, []format.Replica{1}},
	} {
		if got := sources(c.reports, c.last); !slices.Equal(got, c.want) {
			t.Errorf("%s: from %v, want %v", what, got, c.want)
		}
	}
}

// TestStuckMembers: who does not get on, although its log reaches into the leader's.
func TestStuckMembers(t *testing.T) {
	own := logstore.ReplicaState{Floor: 10, Last: 50}
	before := map[format.Replica]Report{}
	now := map[format.Replica]Report{}
	for node, r := range map[format.Replica][2]Report{
		2: {{Last: 30, Flags: ReportPart}, {Last: 30, Flags: ReportPart}}, // it is
		3: {{Last: 30, Flags: ReportPart}, {Last: 31, Flags: ReportPart}}, // gets on
		4: {{Last: 9, Flags: ReportPart}, {Last: 9, Flags: ReportPart}},   // has to pull
		5: {{Last: 50, Flags: ReportPart}, {Last: 50, Flags: ReportPart}}, // has everything
		6: {{Last: 30}, {Last: 30, Flags: ReportPart}},                    // has just begun
		8: {{Last: 30, Flags: ReportPart}, {Last: 30}},                    // does not take part
	} {
		before[node], now[node] = r[0], r[1]
	}
	now[7] = Report{Last: 30, Flags: ReportPart} // was not there
	if got := stuckMembers(before, now, own); !slices.Equal(got, []format.Replica{2}) {
		t.Errorf("stuck are %v", got)
	}
}
