package keyed

import (
	"bytes"
	"context"
	"errors"
	"maps"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/dgraph-io/badger/v4"

	"queen/engine/clock"
)

// crash ends a store without the mark of a clean close, as a killed process would. badger is closed
// so that its files can be opened again; the process test kills for real.
func crash(t *testing.T, s *Store) {
	t.Helper()
	if s.closed.Swap(true) {
		t.Fatal("closed already")
	}
	if err := s.db.Close(); err != nil {
		t.Fatal(err)
	}
}

func put(f Family, i int, v string) Row { return Row{Key: kv(f, i), Value: []byte(v)} }

func del(f Family, i int) Row { return Row{Key: kv(f, i), Tombstone: true} }

// Goal: the rows of a flush that was never recorded do not show, and the next flush, at a lower or a
// higher version than the cut one, replaces them.
func TestCutFlushIsInvisible(t *testing.T) {
	for _, next := range []uint64{15, 20, 30} {
		dir, m := t.TempDir(), model{}
		s := openTest(t, Options{Dir: dir})
		m1 := record(t, flushOverlay(t, s, 10, m, overlayOf(t, put(1, 1, "one"), put(1, 2, "two"), put(1, 3, "three"))), 0)
		at10 := maps.Clone(m)
		// Index 20: 1 changed, 2 deleted, 4 new. Durable, never recorded.
		flushOverlay(t, s, 20, m, overlayOf(t, put(1, 1, "uno"), del(1, 2), put(1, 4, "four")))
		crash(t, s)

		s = openTest(t, Options{Dir: dir, Expect: m1})
		if r := s.Report(); r.CutFlushVersion != 20 || !r.Unclean {
			t.Fatalf("report %+v", r)
		}
		checkState(t, s, 10, at10, kv(1, 4))
		// The same history, cut at another index.
		m = maps.Clone(at10)
		o := overlayOf(t, put(1, 1, "uno"), del(1, 2), put(1, 4, "four"))
		m2 := record(t, flushOverlay(t, s, next, m, o), 10)
		checkState(t, s, next, m)
		checkState(t, s, 10, at10, kv(1, 4))
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		s = openTest(t, Options{Dir: dir, Expect: m2})
		checkState(t, s, next, m, kv(1, 2))
	}
}

// Goal: a key that a cut flush set and that died afterwards stays dead, although no checkpoint ever
// held it. Method: the same script with the tombstone and without it; without, it must come back, or
// the test proves nothing.
func TestTombstoneHidesCutFlush(t *testing.T) {
	for _, elide := range []bool{false, true} {
		dir, m := t.TempDir(), model{}
		s := openTest(t, Options{Dir: dir})
		m1 := record(t, flushOverlay(t, s, 10, m, overlayOf(t, put(1, 1, "base"))), 0)
		// 7 is set at index 15; the flush at 20 is cut.
		if _, err := s.FlushAt(context.Background(), 20, m.digests(), overlayOf(t, put(1, 7, "ghost")).Rows()); err != nil {
			t.Fatal(err)
		}
		crash(t, s)

		s = openTest(t, Options{Dir: dir, Expect: m1})
		// Replay: 7 is set at 15 and deleted at 25; the checkpoint comes at 30, not at 20.
		o := NewOverlay(OverlayLimits{})
		if !elide {
			o = overlayOf(t, put(1, 7, "ghost"), del(1, 7))
			if o.Len() != 1 {
				t.Fatal("the overlay dropped the tombstone of a key unknown to the checkpoint")
			}
		}
		record(t, flushOverlay(t, s, 30, m, o), 10)
		_, found, err := s.GetAt(30, kv(1, 7))
		if err != nil {
			t.Fatal(err)
		}
		if found != elide {
			t.Fatalf("elide %v: key found %v", elide, found)
		}
		ds, err := s.VerifyAt(context.Background(), 30)
		if err != nil {
			t.Fatal(err)
		}
		if ds.Equal(m.digests()) == elide {
			t.Fatalf("elide %v: digests %v", elide, ds)
		}
	}
}

// Goal: history goes only through Recorded, only once, only below an older checkpoint, and what the
// older checkpoint needs survives compaction.
func TestDiscardNeedsRecord(t *testing.T) {
	p := newTables(t)
	states := map[uint64]model{}
	flush := func(c uint64, even, odd string) *Flushed {
		o := NewOverlay(OverlayLimits{})
		for i := range 100 {
			_ = o.Put(kv(1, 2*i), []byte(even))
			_ = o.Put(kv(1, 2*i+1), []byte(odd))
			if odd == "" {
				_ = o.Delete(kv(1, 2*i+1))
			}
		}
		f := flushOverlay(t, p.s, c, p.m, o)
		states[c] = maps.Clone(p.m)
		return f
	}
	first := flush(10, "a", "a")
	if err := first.Recorded(10); !errors.Is(err, ErrVersion) {
		t.Fatalf("discard at the flush's own version: %v", err)
	}
	p.expect = record(t, first, 0)
	p.reopen()
	unrecorded := flush(20, "b", "")
	compact(t, p.s)
	checkState(t, p.s, 10, states[10])
	third := flush(30, "c", "c")
	if err := unrecorded.Recorded(10); !errors.Is(err, ErrStaleFlush) {
		t.Fatalf("a replaced flush was recorded: %v", err)
	}
	p.expect = record(t, third, 10)
	p.reopen()
	compact(t, p.s)
	checkState(t, p.s, 10, states[10])
	checkState(t, p.s, 30, states[30])
	if n := versions(p.s, 10); n < 200 {
		t.Fatalf("%d rows of version 10 are left before any may go", n)
	}
	fourth := flush(40, "d", "")
	p.expect = record(t, fourth, 0)
	p.reopen()
	// The rows of 50 must lie in a table while the discard version holds, which a reopening forgets:
	// the first flush is cut off, the second one repeats it.
	flush(50, "e", "")
	p.reopen()
	fifth := flush(50, "e", "")
	p.expect = record(t, fifth, 40)
	compact(t, p.s)
	checkState(t, p.s, 40, states[40])
	checkState(t, p.s, 50, states[50])
	if n := versions(p.s, 10); n > 0 {
		t.Fatalf("compaction left %d rows of version 10: the test proves nothing", n)
	}
	if _, _, err := p.s.GetAt(10, kv(1, 1)); !errors.Is(err, ErrDiscarded) {
		t.Fatalf("read of discarded history: %v", err)
	}
	err := p.s.ScanAt(39, []byte{1}, nil, 10, func(_, _ []byte) bool { return true })
	if !errors.Is(err, ErrDiscarded) {
		t.Fatalf("scan of discarded history: %v", err)
	}
}

// tables is a store with rows in two levels of badger's tree, so that compact really merges. Each
// reopening without a clean close turns what is in memory into a table.
type tables struct {
	t      *testing.T
	dir    string
	s      *Store
	m      model
	expect *Manifest
}

func newTables(t *testing.T) *tables {
	t.Helper()
	p := &tables{t: t, dir: t.TempDir(), m: model{}}
	p.s = openTest(t, Options{Dir: p.dir})
	for c := uint64(1); c < 6; c++ {
		p.expect = record(t, flushOverlay(t, p.s, c, p.m, overlayOf(t, put(2, int(c), "filler"))), 0)
		p.reopen()
	}
	compact(t, p.s)
	return p
}

func (p *tables) reopen() {
	p.t.Helper()
	crash(p.t, p.s)
	p.s = openTest(p.t, Options{Dir: p.dir, Expect: p.expect})
}

// compact pushes memtables and tables down, so that what may be dropped is dropped.
func compact(t *testing.T, s *Store) {
	t.Helper()
	if err := s.db.Flatten(2); err != nil {
		t.Fatal(err)
	}
}

// versions counts the rows stored at exactly this version, shadowed or not.
func versions(s *Store, c uint64) (n int) {
	txn := s.db.NewTransactionAt(math.MaxUint64, false)
	defer txn.Discard()
	it := txn.NewIterator(badger.IteratorOptions{AllVersions: true})
	defer it.Close()
	for it.Rewind(); it.Valid(); it.Next() {
		if it.Item().Version() == c {
			n++
		}
	}
	return n
}

// Goal: an early discard is what loses history; the token is no formality. Method: go around it.
func TestEarlyDiscardLosesHistory(t *testing.T) {
	for _, early := range []bool{false, true} {
		p := newTables(t)
		p.expect = record(t, flushOverlay(t, p.s, 10, p.m, overlayOf(t, put(1, 1, "old"), put(1, 2, "old"))), 0)
		p.reopen()
		compact(t, p.s)
		at10 := p.m.digests()
		flushOverlay(t, p.s, 20, p.m, overlayOf(t, put(1, 1, "new"), del(1, 2)))
		p.reopen()
		if early {
			p.s.db.SetDiscardTs(20)
		}
		compact(t, p.s)
		ds, err := p.s.VerifyAt(context.Background(), 10)
		if err != nil {
			t.Fatal(err)
		}
		if ds.Equal(at10) == early {
			t.Fatalf("early %v: at 10 there is %v", early, ds)
		}
	}
}

func TestFlushRefusals(t *testing.T) {
	ctx := context.Background()
	s := openTest(t, Options{Dir: t.TempDir()})
	record(t, flushOverlay(t, s, 10, model{}, overlayOf(t, put(1, 1, "v"))), 0)
	long := make([]byte, KeyBytesMax+1)
	long[0] = 1
	cases := []struct {
		name string
		c    uint64
		ds   Digests
		rows []Row
		want error
	}{
		{"recorded version", 10, nil, nil, ErrVersion},
		{"lower version", 9, nil, nil, ErrVersion},
		{"zero", 0, nil, nil, ErrVersion},
		{"maximum", math.MaxUint64, nil, nil, ErrVersion},
		{"unsorted", 20, nil, []Row{put(1, 2, ""), put(1, 1, "")}, ErrUnsorted},
		{"twice", 20, nil, []Row{put(1, 2, ""), put(1, 2, "")}, ErrUnsorted},
		{"empty key", 20, nil, []Row{{}}, ErrKey},
		{"family 0", 20, nil, []Row{{Key: []byte{0, 1}}}, ErrKey},
		{"own family", 20, nil, []Row{{Key: []byte{0xff, 1}}}, ErrKey},
		{"badger's prefix", 20, nil, []Row{{Key: []byte("!badger!x")}}, ErrKey},
		{"long key", 20, nil, []Row{{Key: long}}, ErrKey},
		{"long value", 20, nil, []Row{{Key: []byte{1}, Value: make([]byte, ValueBytesMax+1)}}, ErrValueTooLarge},
		{"digest of no family", 20, Digests{0x30: {}}, nil, ErrKey},
	}
	for _, c := range cases {
		if _, err := s.FlushAt(ctx, c.c, c.ds, slices.Values(c.rows)); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", c.name, err, c.want)
		}
	}
	if _, _, err := s.GetAt(11, kv(1, 1)); !errors.Is(err, ErrVersion) {
		t.Errorf("read above the newest flush: %v", err)
	}
	if err := s.ScanAt(10, nil, nil, 1, nil); !errors.Is(err, ErrKey) {
		t.Errorf("scan of everything: %v", err)
	}
	if err := s.ScanAt(10, []byte{1}, nil, 0, nil); !errors.Is(err, ErrLimit) {
		t.Errorf("scan without limit: %v", err)
	}
	checkState(t, s, 10, model{string(kv(1, 1)): "v"})
}

// Goal: after an error of the disk no later flush pretends to work, and reads still answer an error
// rather than crash.
func TestFailedFlushIsFinal(t *testing.T) {
	ctx := context.Background()
	s, err := Open(Options{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.db.Close(); err != nil {
		t.Fatal(err)
	}
	_, first := s.FlushAt(ctx, 1, nil, slices.Values([]Row{put(1, 1, "v")}))
	_, second := s.FlushAt(ctx, 1, nil, slices.Values([]Row{}))
	if first == nil || second == nil || !errors.Is(second, errors.Unwrap(errors.Unwrap(second))) {
		t.Fatalf("first %v, second %v", first, second)
	}
	if s.flush.failed == nil {
		t.Fatal("the failure did not stick")
	}
}

func TestClosed(t *testing.T) {
	s := openTest(t, Options{Dir: t.TempDir()})
	f := flushOverlay(t, s, 1, model{}, overlayOf(t, put(1, 1, "v")))
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	_, _, get := s.GetAt(1, kv(1, 1))
	_, flush := s.FlushAt(context.Background(), 2, nil, slices.Values([]Row{}))
	_, verify := s.VerifyAt(context.Background(), 1)
	for i, err := range []error{get, flush, verify, s.Close(), f.Recorded(0)} {
		if !errors.Is(err, ErrClosed) {
			t.Errorf("call %d on a closed store: %v", i, err)
		}
	}
	s.Metrics()
}

// Goal: below the reserve nothing is written at all; in the middle of a flush the gate stops it and
// the checkpoint before stays whole; with space the same flush goes through.
func TestFreeSpaceGate(t *testing.T) {
	ctx, dir := context.Background(), t.TempDir()
	free := []uint64{100, 100}
	last := uint64(100)
	o := Options{Dir: dir, ReserveBytes: 100, FreeBytes: func() (uint64, error) {
		if len(free) > 0 {
			last, free = free[0], free[1:]
		}
		return last, nil
	}}
	s := openTest(t, o)
	m := model{}
	record(t, flushOverlay(t, s, 10, m, overlayOf(t, put(1, 1, "v"))), 0)
	before := s.db.MaxVersion()
	big := NewOverlay(OverlayLimits{})
	want := maps.Clone(m)
	for i := range 3 * chunkRows {
		_ = big.Put(kv(1, i), []byte("w"))
		want[string(kv(1, i))] = "w"
	}
	free = []uint64{99}
	if _, err := s.FlushAt(ctx, 20, want.digests(), big.Rows()); !errors.Is(err, ErrNoSpace) {
		t.Fatalf("below the reserve: %v", err)
	}
	if got := s.db.MaxVersion(); got != before {
		t.Fatalf("something was written at %d", got)
	}
	free = []uint64{100, 50, 49}
	if _, err := s.FlushAt(ctx, 20, want.digests(), big.Rows()); !errors.Is(err, ErrNoSpace) {
		t.Fatalf("in the middle: %v", err)
	}
	checkState(t, s, 10, m)
	if n := s.Metrics().NoSpace; n != 2 {
		t.Fatalf("%d refusals counted", n)
	}
	free = []uint64{100}
	record(t, flushOverlay(t, s, 20, m, big), 10)
	checkState(t, s, 20, want)

	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	free = []uint64{99}
	if _, err := Open(o); !errors.Is(err, ErrNoSpace) {
		t.Fatalf("open on a full disk: %v", err)
	}
}

// Goal: the flush keeps to its rate and ends with its context. Method: a clock that stands still.
func TestPace(t *testing.T) {
	clk := clock.NewFake(0)
	s := openTest(t, Options{Dir: t.TempDir(), RowsPerSecond: 2 * chunkRows, Clock: clk})
	m := model{}
	record(t, flushOverlay(t, s, 10, m, overlayOf(t, put(1, 1, "v"))), 0)
	at10 := maps.Clone(m)
	o := NewOverlay(OverlayLimits{})
	for i := range 5 * chunkRows {
		_ = o.Put(kv(1, i), []byte("w"))
	}
	// Two chunks are the burst; the third waits half a second, and so do the fourth and the fifth.
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	flush := func() {
		_, err := s.FlushAt(ctx, 20, nil, o.Rows())
		done <- err
	}
	go flush()
	clk.WaitArmed(1)
	if due, _ := clk.NextDue(); due != 500_000 {
		t.Fatalf("third chunk waits until %d us", due)
	}
	clk.Advance(500 * time.Millisecond)
	clk.WaitArmed(1)
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Fatalf("cancelled flush: %v", err)
	}
	checkState(t, s, 10, at10)

	ctx = context.Background()
	clk.Advance(time.Minute)
	go flush()
	for range 3 {
		clk.WaitArmed(1)
		due, _ := clk.NextDue()
		clk.Advance(time.Duration(due-clk.Mono()) * time.Microsecond)
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}

// Goal: the longest and shortest keys, and values around every size at which something changes,
// survive a reopen, an overwrite by a small value and a delete; no second part is left behind.
func TestLimits(t *testing.T) {
	dir, m := t.TempDir(), model{}
	s := openTest(t, Options{Dir: dir})
	long := make([]byte, KeyBytesMax)
	for i := range long {
		long[i] = 0xff
	}
	long[0] = byte(FamilyLast)
	sizes := []int{0, 1, wholeBytesMax - 1, wholeBytesMax, wholeBytesMax + 1, 1<<20 - 1, 1 << 20, 1<<20 + 1, ValueBytesMax}
	o := NewOverlay(OverlayLimits{})
	for i, size := range sizes {
		value := make([]byte, size)
		for j := range value {
			value[j] = byte(j * (i + 3) >> 4)
		}
		if err := errors.Join(o.Put(kv(2, i), value), o.Put(long, value), o.Put([]byte{1}, value)); err != nil {
			t.Fatal(err)
		}
	}
	m1 := record(t, flushOverlay(t, s, 10, m, o), 0)
	checkState(t, s, 10, m)
	if n := len(s.flush.tails); n != 7 {
		t.Fatalf("%d values were cut, want 7", n)
	}
	if size := s.db.Opts().ValueThreshold; wholeBytesMax+headHeader >= size {
		t.Fatalf("a whole value would reach the value log: threshold %d", size)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = openTest(t, Options{Dir: dir, Expect: m1})
	checkState(t, s, 10, m)
	if n := len(s.flush.tails); n != 7 {
		t.Fatalf("%d tails after reopening, want 7", n)
	}
	at10 := maps.Clone(m)
	small := overlayOf(t, Row{Key: []byte{1}, Value: []byte("x")}, Row{Key: long, Tombstone: true})
	for i := range sizes {
		if err := small.Delete(kv(2, i)); err != nil {
			t.Fatal(err)
		}
	}
	m2 := record(t, flushOverlay(t, s, 20, m, small), 10)
	checkState(t, s, 20, m, long)
	checkState(t, s, 10, at10)
	if n := len(s.flush.tails); n != 0 {
		t.Fatalf("%d tails left behind", n)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = openTest(t, Options{Dir: dir, Expect: m2})
	checkState(t, s, 20, m)
}

// Goal: a cut value whose second part is missing or is another one is damage.
func TestCutValue(t *testing.T) {
	key := kv(1, 1)
	value := make([]byte, wholeBytesMax+100)
	tk := tailKey(key)
	set := func(stored []byte, kind byte) func(*badger.WriteBatch) error {
		return func(b *badger.WriteBatch) error {
			return b.SetEntry(&badger.Entry{Key: tk[:], Value: stored, UserMeta: kind})
		}
	}
	damage := map[string]func(*badger.WriteBatch) error{
		"missing":      func(b *badger.WriteBatch) error { return b.Delete(tk[:]) },
		"other kind":   set(encodeWhole(tk[:], value[wholeBytesMax:]), rowWhole),
		"shorter":      set(encodeWhole(tk[:], value[:99]), rowTail),
		"other bytes":  set(encodeWhole(tk[:], append(make([]byte, 99), 1)), rowTail),
		"bad checksum": set(make([]byte, 104), rowTail),
		"no damage":    func(*badger.WriteBatch) error { return nil },
	}
	for name, damage := range damage {
		s, m := openTest(t, Options{Dir: t.TempDir()}), model{}
		record(t, flushOverlay(t, s, 10, m, overlayOf(t, Row{Key: key, Value: value})), 0)
		batch := s.db.NewWriteBatchAt(10)
		if err := errors.Join(damage(batch), batch.Flush()); err != nil {
			t.Fatal(err)
		}
		_, _, err := s.GetAt(10, key)
		if isCorrupt(err) == (name == "no damage") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Goal: a flush cut between the two parts of a value does no harm, although its half becomes visible
// later beside the other half of an older flush. Method: the half is written by hand at 20; then
// checkpoints at 15, which holds the row, and at 25, which has no reason to write it again.
func TestFlushCutInsideAValue(t *testing.T) {
	key := kv(1, 1)
	value := bytes.Repeat([]byte("half"), wholeBytesMax/3)
	tk := tailKey(key)
	for _, tail := range []bool{true, false} {
		dir, m := t.TempDir(), model{}
		s := openTest(t, Options{Dir: dir})
		expect := record(t, flushOverlay(t, s, 10, m, overlayOf(t, put(1, 2, "v"))), 0)
		entry := &badger.Entry{Key: key, Value: encodeHead(key, value), UserMeta: rowHead}
		if tail {
			entry = &badger.Entry{Key: tk[:], Value: encodeWhole(tk[:], value[wholeBytesMax:]), UserMeta: rowTail}
		}
		batch := s.db.NewWriteBatchAt(20)
		if err := errors.Join(batch.SetEntry(entry), batch.Flush()); err != nil {
			t.Fatal(err)
		}
		crash(t, s)
		s = openTest(t, Options{Dir: dir, Expect: expect})
		checkState(t, s, 10, m, key)
		record(t, flushOverlay(t, s, 15, m, overlayOf(t, Row{Key: key, Value: value})), 10)
		checkState(t, s, 15, m)
		record(t, flushOverlay(t, s, 25, m, overlayOf(t, put(1, 2, "w"))), 15)
		checkState(t, s, 25, m)
		record(t, flushOverlay(t, s, 30, m, overlayOf(t, Row{Key: key, Value: []byte("small")})), 25)
		checkState(t, s, 30, m)
		if n := len(s.flush.tails); n != 0 {
			t.Fatalf("%d tails left", n)
		}
	}
}
