package logstore

import (
	"bytes"
	"errors"
	"io/fs"
	"path"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"queen/engine/clock"
	"queen/engine/format"
	"queen/engine/vfs"
)

// TestPoolFilesAreWholeAndSynced cuts the power at every call of a first open: a file with a pool name has
// its size, whatever was lost.
func TestPoolFilesAreWholeAndSynced(t *testing.T) {
	for n := int64(1); ; n++ {
		mem := vfs.NewMem()
		mem.PowerOffAt(n)
		s, err := Open(testOptions(mem))
		if err == nil {
			_ = s.Close()
		}
		after := mem.Crash(vfs.DropUnsynced())
		names, listErr := after.List("/log")
		if listErr != nil && !errors.Is(listErr, fs.ErrNotExist) {
			t.Fatal(listErr)
		}
		for _, name := range names {
			if _, ok := parseNumbered(name, poolPrefix); !ok && !strings.HasPrefix(name, segmentPrefix) {
				continue
			}
			if info, err := after.Stat(path.Join("/log", name)); err != nil || info.Size != testOptions(nil).SegmentBytes {
				t.Fatalf("call %d: %s has %d bytes: %v", n, name, info.Size, err)
			}
		}
		o := testOptions(after)
		s = mustOpen(t, o)
		if err := s.Append(&Save{Group: 1, Replica: 1, Entries: []Entry{entry(1, 1, encoded(1, 1, 1))}}); err != nil {
			t.Fatal(err)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		if names, _ := after.List("/log"); len(names) > 6 {
			t.Fatalf("call %d: orphans are left: %v", n, names)
		}
		if !mem.PoweredOff() {
			break
		}
	}
}

// TestFullDisk fills the disk: appends go on from the pool and its reserve without meeting it, PoolLow
// says so, an append that finds the pool empty waits and goes on when there is space again.
func TestFullDisk(t *testing.T) {
	d := newFullDisk(t)
	s := d.store
	s.FillPool()
	s.pool.waitReady(s.pool.want)
	d.fill()
	for range 4 { // the whole pool, reserve included
		d.roll(0)
	}
	d.tickUntil(s.PoolLow)
	var rolled sync.WaitGroup
	rolled.Go(func() { d.roll(0) })
	// The append waits for a segment. Reclaiming one gives it.
	if err := s.Reclaim(s.Segments()[0].Segment); err != nil {
		t.Fatal(err)
	}
	rolled.Wait()
	d.mem.SetCapacity(0)
	d.tickUntil(func() bool { return !s.PoolLow() && s.pool.readyCount() > 0 })
}

// TestFullDiskOfASlowNode: a node that writes little keeps fewer files than the reserve. After a full disk it has what it
// wants when it has those again, and when it comes to want no more than it has.
func TestFullDiskOfASlowNode(t *testing.T) {
	d := newFullDisk(t)
	s := d.store
	const slow = 2 * time.Minute // for each of the dozen extents of a segment
	if !s.pool.waitReady(idleReady) {
		t.Fatal("not one file at birth")
	}
	d.fill()
	d.roll(slow)
	d.told(1)
	if !s.PoolLow() {
		t.Fatal("not low without a file")
	}
	d.clock.WaitArmed(1)
	d.mem.SetCapacity(0)
	d.clock.Advance(poolRetryEvery)
	d.told(2)
	if s.PoolLow() {
		t.Fatal("still low with the file it wants")
	}
	s.FillPool()
	s.pool.waitReady(s.pool.want)
	d.fill()
	for s.pool.readyCount() > s.pool.reserve {
		d.roll(0)
	}
	d.clock.WaitArmed(1)
	d.clock.Advance(poolRetryEvery)
	d.told(3)
	d.clock.WaitArmed(1)
	d.clock.Advance(2 * idleSegment)
	for s.pool.readyCount() > idleReady {
		d.roll(slow)
	}
	d.tickUntil(func() bool { return !s.PoolLow() })
	d.told(4)
	if n := s.pool.readyCount(); n != idleReady {
		t.Fatalf("%d files, where one is wanted", n)
	}
}

// fullDisk is a store on a disk that can be full, and what it told of its pool.
type fullDisk struct {
	t     *testing.T
	mem   *vfs.Mem
	clock *clock.Fake
	store *Store
	index format.Index

	mu      sync.Mutex
	changed *sync.Cond
	events  int
}

func newFullDisk(t *testing.T) *fullDisk {
	d := &fullDisk{t: t, mem: vfs.NewMem(), clock: clock.NewFake(0)}
	d.changed = sync.NewCond(&d.mu)
	o := testOptions(d.mem)
	o.SegmentBytes, o.PoolReady, o.PoolReserve, o.inline, o.Clock = 64<<10, 2, 2, false, d.clock
	o.Fatal = func(err error) { t.Errorf("fatal: %v", err) }
	o.Events = &Events{PoolLow: func(low bool, err error) {
		d.mu.Lock()
		defer d.mu.Unlock()
		if low && !errors.Is(err, vfs.ErrNoSpace) {
			t.Errorf("low because of %v", err)
		}
		d.events++
		d.changed.Broadcast()
	}}
	d.store = mustOpen(t, o)
	t.Cleanup(func() { _ = d.store.Close() }) // what is left of it is looked at by no test
	return d
}

// fill leaves no space for one more byte.
func (d *fullDisk) fill() {
	d.t.Helper()
	free, err := d.mem.Free("/log")
	if err != nil {
		d.t.Fatal(err)
	}
	d.mem.SetCapacity(free.Total - free.Available)
}

// told waits until the pool told n times that it is low or no longer.
func (d *fullDisk) told(n int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for d.events < n {
		d.changed.Wait()
	}
}

// tickUntil moves the clock, by which the pool tries again, until something holds.
func (d *fullDisk) tickUntil(holds func() bool) {
	for !holds() {
		d.clock.Advance(poolRetryEvery)
		runtime.Gosched()
	}
}

// roll appends until there is a new segment, each time after a pause.
func (d *fullDisk) roll(pause time.Duration) {
	newest := func() uint32 {
		all := d.store.Segments()
		return all[len(all)-1].Segment
	}
	for before := newest(); newest() == before; {
		d.index++
		d.clock.Advance(pause)
		v := &Save{Group: 1, Replica: 1, Entries: []Entry{entry(d.index, 1, encoded(1, 2000, 1))}, Floor: d.index - 1}
		if err := d.store.Append(v); err != nil {
			d.t.Errorf("append: %v", err)
			return
		}
	}
}

// waitReady waits until the pool has so many files, and no more are made.
func (p *pool) waitReady(n int) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for len(p.mu.ready) < n {
		p.mu.wake.Wait()
	}
	return len(p.mu.ready) == n && p.mu.target <= n
}

// TestPoolGrowsWithUse: a node that writes little keeps one file besides the one it writes, one that fills
// segments fast keeps all it may, before it has used the first one up, and falls back when it is slow again.
func TestPoolGrowsWithUse(t *testing.T) {
	mem := vfs.NewMem()
	fake := clock.NewFake(0)
	o := testOptions(mem)
	o.SegmentBytes, o.PoolReady, o.PoolReserve, o.inline, o.Clock, o.TailBytes = 64<<10, 3, 2, false, fake, -1
	s := mustOpen(t, o)
	defer s.Close()
	index := format.Index(0)
	fill := func(pause time.Duration, until func() bool) {
		for !until() {
			index++
			v := &Save{Group: 1, Replica: 1, Entries: []Entry{entry(index, 1, encoded(1, 2000, 1))}, Floor: index - 1}
			if err := s.Append(v); err != nil {
				t.Fatal(err)
			}
			fake.Advance(pause)
		}
	}
	segments := func(n int) func() bool { return func() bool { return len(s.Segments()) == n } }
	if !s.pool.waitReady(1) {
		t.Fatal("not one file at birth")
	}
	const slow = 2 * time.Minute // for each of the dozen extents of a segment
	fill(slow, segments(3))
	if !s.pool.waitReady(1) {
		t.Fatal("more than one file at a low rate")
	}
	fill(time.Second, func() bool { return s.Segments()[2].Used > 30<<10 })
	if !s.pool.waitReady(5) || len(s.Segments()) > 3 {
		t.Fatal("not all files at a high rate, or not in time")
	}
	fill(slow, segments(8))
	s.pool.waitReady(1) // one under way would come on top of the reclaimed one
	if err := s.Reclaim(s.Segments()[0].Segment); err != nil {
		t.Fatal(err)
	}
	if !s.pool.waitReady(1) {
		t.Fatal("more than one file at a low rate again")
	}
	s.FillPool()
	if !s.pool.waitReady(5) {
		t.Fatal("not all files when asked for")
	}
}

// TestReclaimWaitsForReaders holds a pin on a segment while it is reclaimed.
func TestReclaimWaitsForReaders(t *testing.T) {
	mem := vfs.NewMem()
	o := testOptions(mem)
	o.SegmentBytes, o.TailBytes = 64<<10, -1
	s := mustOpen(t, o)
	defer s.Close()
	var first EntryPos
	for i := format.Index(1); len(s.Segments()) < 3; i++ {
		v := &Save{Group: 1, Replica: 1, Entries: []Entry{entry(i, 1, encoded(1, 6000, 1))}, Floor: i - 1}
		if err := s.Append(v); err != nil {
			t.Fatal(err)
		}
		if i == 1 {
			first = v.Placed[0]
		}
	}
	if err := s.Reclaim(3); !errors.Is(err, ErrInvalid) {
		t.Fatalf("the newest segment: %v", err)
	}
	g, _ := s.readable(1)
	f, err := s.handles.pin(g)
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error)
	go func() { done <- s.Reclaim(1) }()
	for gone := false; !gone; { // until Reclaim has taken the segment away
		s.handles.mu.Lock()
		gone = g.gone
		s.handles.mu.Unlock()
	}
	if _, err := mem.Stat(g.name); err != nil {
		t.Fatalf("the file is gone while it is read: %v", err)
	}
	if _, err := f.ReadAt(make([]byte, 10), 0); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-done:
		t.Fatalf("reclaim did not wait: %v", err)
	default:
	}
	if _, err := s.ReadAt(first, 0, 1, nil); !errors.Is(err, ErrReclaimed) {
		t.Fatalf("a new reader: %v", err)
	}
	s.handles.unpin(g)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if _, err := mem.Stat(g.name); !errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("the file is there: %v", err)
	}
}

// TestTailBuffersAreNotReused reads recent entries while the tail is far too small for what is written.
func TestTailBuffersAreNotReused(t *testing.T) {
	o := testOptions(vfs.NewMem())
	o.SegmentBytes, o.TailBytes = 1<<20, 32<<10
	s := mustOpen(t, o)
	defer s.Close()
	var mu sync.Mutex
	var placed []EntryPos
	var wg sync.WaitGroup
	const entries = 400
	data := func(i int) []byte { return encoded(1, 500+i*7%9000, uint64(i)) }
	for r := range 3 {
		wg.Add(1)
		go func() {
			defer wg.Done()
			for n := 0; n < entries; {
				mu.Lock()
				n = len(placed)
				var pos EntryPos
				i := max(0, n-1-r*3)
				if n > 0 {
					pos = placed[i]
				}
				mu.Unlock()
				if n == 0 {
					continue
				}
				got, err := s.ReadAt(pos, 0, AllBytes, nil)
				if err != nil || !bytes.Equal(got, data(i)) {
					t.Errorf("entry %d: %d bytes: %v", i, len(got), err)
					return
				}
			}
		}()
	}
	for i := range entries {
		v := &Save{Group: 1, Replica: 1, Entries: []Entry{entry(format.Index(i+1), 1, data(i))}}
		if err := s.Append(v); err != nil {
			t.Fatal(err)
		}
		mu.Lock()
		placed = append(placed, v.Placed[0])
		mu.Unlock()
	}
	wg.Wait()
}

// TestFailedStoreStaysFailed fails one write and lets everything after it succeed.
func TestFailedStoreStaysFailed(t *testing.T) {
	mem := vfs.NewMem()
	o := testOptions(mem)
	fatal := 0
	o.Fatal = func(error) { fatal++ }
	s := mustOpen(t, o)
	boom := errors.New("boom")
	mem.SetHook(func(op vfs.Op) error {
		if op.Kind == vfs.OpPersist {
			return boom
		}
		return nil
	})
	v := &Save{Group: 1, Replica: 1, Entries: []Entry{entry(1, 1, encoded(1, 1, 1))}}
	if err := s.Append(v); !errors.Is(err, ErrFailed) || !errors.Is(err, boom) {
		t.Fatal(err)
	}
	mem.SetHook(nil)
	ops := mem.Ops()
	for range 3 {
		if err := s.Append(v); !errors.Is(err, ErrFailed) {
			t.Fatal(err)
		}
	}
	if err := s.Close(); !errors.Is(err, ErrFailed) {
		t.Fatal(err)
	}
	if mem.Ops() != ops || fatal != 1 {
		t.Fatalf("%d calls after the failure, fatal %d times", mem.Ops()-ops, fatal)
	}
}

// TestCloseWhileAppendWaitsForSpace closes the store while an append waits for a segment: the append is
// answered, nothing is fatal, and what was acknowledged is there.
func TestCloseWhileAppendWaitsForSpace(t *testing.T) {
	mem := vfs.NewMem()
	o := testOptions(mem)
	o.SegmentBytes, o.PoolReady, o.PoolReserve, o.inline = 64<<10, 1, 1, false
	o.Fatal = func(err error) { t.Errorf("fatal: %v", err) }
	s := mustOpen(t, o)
	s.FillPool()
	s.pool.mu.Lock()
	for len(s.pool.mu.ready) < s.pool.want {
		s.pool.mu.wake.Wait()
	}
	s.pool.mu.Unlock()
	free, err := mem.Free("/log")
	if err != nil {
		t.Fatal(err)
	}
	mem.SetCapacity(free.Total - free.Available)
	acked := format.Index(0)
	done := make(chan error)
	go func() {
		for {
			v := &Save{Group: 1, Replica: 1, Entries: []Entry{entry(acked+1, 1, encoded(1, 6000, 1))}}
			if err := s.Append(v); err != nil {
				done <- err
				return
			}
			acked++
		}
	}()
	for waiting := false; !waiting; { // until every file is used and the last segment is sealed
		all := s.Segments()
		waiting = len(all) == 3 && all[2].Sealed
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-done; !errors.Is(err, ErrClosed) {
		t.Fatal(err)
	}
	mem.SetCapacity(0)
	s = mustOpen(t, o)
	defer s.Close()
	if st, _ := s.Replica(1, 1); st.Last != acked {
		t.Fatalf("%d entries, %d were acknowledged", st.Last, acked)
	}
}
