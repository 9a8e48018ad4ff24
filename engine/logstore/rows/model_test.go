package rows

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sort"
	"testing"

	"queen/engine/format"
	"queen/engine/vfs"
)

// model is what an index must answer: the frames ever stored, in order of number, and nothing clever.
type model struct {
	rng     *rand.Rand
	frames  map[format.RaftGroup][]frame
	chains  map[format.PartitionID][]uint64 // row numbers of a partition
	newest  map[format.PartitionID]uint64
	next    map[format.PartitionID]format.Offset
	closed  uint32 // segments up to here
	segment uint32
	pos     uint32
	w       format.Wall
	big     bool // make frames that files split
}

// frame is a row with the number it has; gone when its segment was reclaimed without a copy.
type frame struct {
	Row
	gone bool
	was  *Row // before a relocation that may not have been finished
}

func newModel(seed uint64) *model {
	return &model{
		rng: rand.New(rand.NewPCG(seed, 1)), frames: map[format.RaftGroup][]frame{}, segment: 1,
		chains: map[format.PartitionID][]uint64{},
		newest: map[format.PartitionID]uint64{}, next: map[format.PartitionID]format.Offset{},
	}
}

func (m *model) partition() format.PartitionID {
	// A few busy partitions and many quiet ones, in two raft groups.
	n := m.rng.IntN(4)
	if m.rng.IntN(3) == 0 {
		n = m.rng.IntN(200)
	}
	return format.PartitionID((1+n/2)*64 + 1 + n%2)
}

// append makes the next frame.
func (m *model) append() Row {
	pid := m.partition()
	g := pid.RaftGroup()
	m.w += format.Wall(m.rng.IntN(1000))
	m.pos += 8 * uint32(1+m.rng.IntN(100))
	count := uint32(1 + m.rng.IntN(5))
	if m.big && m.rng.IntN(50) == 0 {
		count = uint32(1 + m.rng.IntN(3*format.RowSpanMax))
	}
	r := Row{
		Partition: pid, Base: m.next[pid], Number: uint64(len(m.frames[g]) + 1), Prev: m.newest[pid], W: m.w,
		Index: format.Index(m.pos), First: 3, Segment: m.segment, Pos: m.pos, Off: uint32(m.rng.IntN(9000)),
		Len: uint32(m.rng.IntN(9000)), Count: count, Kept: count, Flags: Native,
	}
	if m.rng.IntN(5) == 0 {
		r.Refused = make([]byte, (count+7)/8)
		for i := range count {
			if i > 0 && m.rng.IntN(2) == 0 {
				r.Refused[i/8] |= 1 << (i % 8)
				r.Kept--
			}
		}
		r.Flags |= Partial
	}
	m.frames[g] = append(m.frames[g], frame{Row: r})
	m.chains[pid] = append(m.chains[pid], r.Number)
	m.newest[pid], m.next[pid] = r.Number, r.End()
	return r
}

// at is the frame of pid that holds offset o, or the first one above it.
func (m *model) at(pid format.PartitionID, o format.Offset, newest uint64) *frame {
	frames, chain := m.frames[pid.RaftGroup()], m.chains[pid]
	k := sort.Search(len(chain), func(i int) bool { return frames[chain[i]-1].End() > o })
	for _, n := range chain[k:] {
		if f := &frames[n-1]; !f.gone && n <= newest {
			return f
		}
	}
	return nil
}

// message tells which message of the frame has offset o; count of none.
func message(r *Row, o format.Offset) (i uint32) {
	for at := r.Base; i < r.Count; i++ {
		if r.IsRefused(i) {
			continue
		}
		if at == o {
			break
		}
		at++
	}
	return i
}

// same checks that row leads offset o to the message that the model says.
func same(row *Row, f *frame, o format.Offset) error {
	want := [...]any{f.Segment, f.Pos, f.Off, f.Len, f.W, f.Partition, f.Flags, message(&f.Row, o)}
	if row.Segment != f.Segment && f.was != nil {
		old := frame{Row: *f.was}
		return same(row, &old, o)
	}
	got := [...]any{row.Segment, row.Pos, row.Off, row.Len, row.W, row.Partition, row.Flags, message(row, o)}
	if got != want || o < row.Base || o >= row.End() {
		return fmt.Errorf("partition %d offset %d: %v of %+v, want %v", f.Partition, o, got, *row, want)
	}
	return nil
}

// check compares an At and a Range of a random partition.
func (m *model) check(x map[format.RaftGroup]*Index) error {
	pid := m.partition()
	if m.undecided(pid) {
		return nil
	}
	end := m.next[pid]
	from := format.Offset(m.rng.Uint64N(uint64(end) + 2))
	to := from + format.Offset(m.rng.IntN(20))
	newest := m.newest[pid]
	index := x[pid.RaftGroup()]
	row, ok, err := index.At(pid, from, newest)
	if err != nil {
		return err
	}
	want := m.at(pid, from, newest)
	if ok != (want != nil) {
		return fmt.Errorf("At(%d, %d): %v %+v, want %+v", pid, from, ok, row, want)
	}
	if ok {
		if err := same(&row, want, max(from, want.Base)); err != nil {
			return fmt.Errorf("At(%d, %d): %w", pid, from, err)
		}
	}
	found, err := index.Range(pid, from, to, newest)
	if err != nil {
		return err
	}
	at := from
	for i := range found {
		r := &found[i]
		if r.End() <= at || r.Base >= to {
			return fmt.Errorf("Range(%d, %d, %d): row %d..%d after %d", pid, from, to, r.Base, r.End(), at)
		}
		for o := max(at, r.Base); o < min(to, r.End()); o++ {
			f := m.at(pid, o, newest)
			if f == nil {
				return fmt.Errorf("Range(%d, %d, %d): offset %d does not exist", pid, from, to, o)
			}
			if err := same(r, f, o); err != nil {
				return fmt.Errorf("Range: %w", err)
			}
		}
		if err := m.nothing(pid, at, min(to, r.Base), newest); err != nil {
			return err
		}
		at = r.End()
	}
	return m.nothing(pid, at, to, newest)
}

// undecided reports whether a frame of pid may be there or not, since a relocation was not finished.
func (m *model) undecided(pid format.PartitionID) bool {
	return slices.ContainsFunc(m.chains[pid], func(n uint64) bool {
		f := &m.frames[pid.RaftGroup()][n-1]
		return f.gone && f.was != nil
	})
}

// nothing checks that no offset of [from, to) exists.
func (m *model) nothing(pid format.PartitionID, from, to format.Offset, newest uint64) error {
	if f := m.at(pid, from, newest); from < to && f != nil && f.Base < to {
		return fmt.Errorf("partition %d: no row for offset %d", pid, max(from, f.Base))
	}
	return nil
}

// harness runs the model beside an index on a file system.
type harness struct {
	*model
	fs   vfs.FS
	runs *Runs
	x    map[format.RaftGroup]*Index
	bulk uint32
	// moving is set while a relocation was begun and not finished.
	moving *relocation
	down   bool // a restart failed
}

func (h *harness) options() Options {
	closed := []uint32{}
	for n := uint32(1); n <= h.closed; n++ {
		if h.needed(n) {
			closed = append(closed, n)
		}
	}
	return Options{FS: h.fs, Dir: "/index", Fanout: 3, MergeRows: 1 + h.rng.IntN(200), CacheBytes: 64 << 10, Closed: closed}
}

// needed reports whether segment n still holds frames.
func (h *harness) needed(n uint32) bool { return h.live(format.SegmentID(n)) }

func (h *harness) live(s format.SegmentID) bool {
	for _, frames := range h.frames {
		for i := range frames {
			if f := &frames[i]; f.Segment == uint32(s) && !f.gone || f.was != nil && f.was.Segment == uint32(s) {
				return true
			}
		}
	}
	return false
}

// open opens the index and adds what is not in files, as a restart does.
func (h *harness) open() (err error) {
	h.down = true
	if h.runs, err = Open(h.options()); err != nil {
		return err
	}
	if lost := h.runs.Lost(); len(lost) > 0 {
		h.runs.Shut()
		return fmt.Errorf("lost: %w", lost[0].Err)
	}
	h.down = false
	h.x = map[format.RaftGroup]*Index{1: h.runs.Index(1), 2: h.runs.Index(2)}
	for g, frames := range h.frames {
		var rows []Row
		for i := range frames {
			if frames[i].Segment > h.closed && frames[i].Segment < 1<<31 && !frames[i].gone {
				r := frames[i].Row
				r.Prev = 77 // nobody knows
				rows = append(rows, r)
			}
		}
		next := uint64(len(frames) + 1)
		if len(rows) > 0 {
			next = rows[0].Number
		}
		h.x[g].Skip(next) // Forget may have taken the newest run
		h.x[g].Recover(rows)
	}
	return nil
}

func (h *harness) add(n int) {
	for range n {
		r := h.append()
		h.x[r.Partition.RaftGroup()].Add([]Row{r})
	}
}

func (h *harness) close() error {
	sealed := h.segment
	if h.rng.IntN(6) == 0 {
		sealed++ // and one without a frame
	}
	h.segment, h.pos = sealed+1, 0
	for n := h.closed + 1; n <= sealed; n++ {
		if err := h.runs.Close(n); err != nil {
			return err
		}
		h.closed = n
	}
	return nil
}

// relocation is what one ReplaceSegments was asked.
type relocation struct {
	gone  []format.SegmentID
	moved []Moved
}

// movedTo is what ReplaceSegments is told of a frame, for each of its rows in files.
func movedTo(r *Row, to format.SegmentID, pos uint32) (all []Moved) {
	rows, err := r.appendFormat(nil)
	if err != nil {
		panic(err)
	}
	for i := range rows {
		all = append(all, Moved{Partition: r.Partition, Base: rows[i].Base, Segment: to, Pos: pos, Origin: format.SegmentID(r.Segment)})
	}
	return all
}

// relocate moves half of the frames of a few closed segments to a bulk segment; the others are gone.
func (h *harness) relocate() error {
	if h.closed < 3 {
		return nil
	}
	low := 1 + h.rng.Uint32N(h.closed)
	var r relocation
	for n := low; n <= h.closed && n < low+3; n++ {
		r.gone = append(r.gone, format.SegmentID(n))
	}
	h.bulk++
	to := format.BulkBit | format.SegmentID(h.bulk)
	for _, g := range []format.RaftGroup{1, 2} {
		frames := h.frames[g]
		for i := range frames {
			f := &frames[i]
			if f.gone || !slices.Contains(r.gone, format.SegmentID(f.Segment)) {
				continue
			}
			was := f.Row
			f.was = &was
			if f.gone = h.rng.IntN(2) == 0; f.gone {
				continue
			}
			pos := 8 * h.rng.Uint32N(1000)
			r.moved = append(r.moved, movedTo(&f.Row, to, pos)...)
			f.Segment, f.Pos, f.Off = uint32(to), pos, 0
		}
	}
	h.rng.Shuffle(len(r.moved), func(i, j int) { r.moved[i], r.moved[j] = r.moved[j], r.moved[i] })
	h.moving = &r
	return h.finishRelocation()
}

// finishRelocation does, or repeats, the relocation under way.
func (h *harness) finishRelocation() error {
	if h.moving == nil {
		return nil
	}
	var live func(format.SegmentID) bool
	if h.rng.IntN(2) == 0 {
		live = h.live
	}
	if err := h.runs.ReplaceSegments(h.moving.gone, h.moving.moved, live); err != nil {
		return err
	}
	h.moving = nil
	for _, frames := range h.frames {
		for i := range frames {
			frames[i].was = nil
		}
	}
	for again := h.rng.IntN(2) == 0; again; {
		var err error
		if again, err = h.runs.Thin(h.live); err != nil {
			return err
		}
	}
	return h.runs.Forget(h.live)
}

// rebuild makes a range that one run covers again, from the frames.
func (h *harness) rebuild() error {
	l := h.runs.acquire()
	defer l.release()
	if len(l.runs) == 0 {
		return nil
	}
	r := l.runs[h.rng.IntN(len(l.runs))]
	b, err := h.runs.Rebuild(r.first, r.last)
	if err != nil {
		return err
	}
	for _, s := range r.census.segments {
		var rows []Row
		err := h.runs.Walk(s, func(row *Row) error {
			if row.From == 0 { // once per frame
				n := h.numberOf(row)
				f := h.frames[row.Partition.RaftGroup()][n-1].Row
				if format.SegmentID(f.Segment).IsBulk() {
					f.Number = 0 // nobody knows any more
				}
				if in, err := inRun(r, &f); err != nil {
					return err
				} else if in {
					rows = append(rows, f)
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
		if err := b.Add(rows); err != nil {
			return err
		}
	}
	return b.Finish()
}

func (h *harness) numberOf(row *Row) uint64 {
	chain := h.chains[row.Partition]
	k := sort.Search(len(chain), func(i int) bool { return h.frames[row.Partition.RaftGroup()][chain[i]-1].End() > row.Base })
	return chain[k]
}

// inRun reports whether the run has the frame's first row.
func inRun(r *run, f *Row) (bool, error) {
	row, ok, err := r.at(f.Partition, f.Base)
	return ok && row.Base == f.Base, err
}

func (h *harness) step() error {
	switch k := h.rng.IntN(100); {
	case k < 60:
		n := 1 + h.rng.IntN(40)
		if h.rng.IntN(100) == 0 {
			n = 2 * chunkRows
		}
		h.add(n)
		return nil
	case k < 75:
		return h.close()
	case k < 85:
		_, err := h.runs.Merge()
		return err
	case k < 90:
		for _, x := range h.x {
			x.Compact()
		}
		return nil
	case k < 93:
		return h.relocate()
	case k < 96:
		return h.rebuild()
	default:
		h.runs.Shut()
		return h.open()
	}
}

// TestModel: random appends, closes, merges, relocations, rebuilds and restarts answer as a plain list
// of frames does.
func TestModel(t *testing.T) {
	for seed := range seeds(4) {
		h := newHarness(t, vfs.NewMem(), seed)
		for i := range 400 {
			if err := h.step(); err != nil {
				t.Fatalf("seed %d step %d: %v", seed, i, err)
			}
			for range 6 {
				if err := h.check(h.x); err != nil {
					t.Fatalf("seed %d step %d: %v", seed, i, err)
				}
			}
			h.checkCensus(t)
		}
		h.runs.Shut()
	}
}

func newHarness(t *testing.T, fs vfs.FS, seed uint64) *harness {
	t.Helper()
	if err := vfs.MkdirAllSync(fs, "/index"); err != nil {
		t.Fatal(err)
	}
	h := &harness{model: newModel(seed), fs: fs}
	h.big = seed%3 == 0
	if err := h.open(); err != nil {
		t.Fatal(err)
	}
	return h
}

// checkCensus checks that every segment that rows name is in their run's census.
func (h *harness) checkCensus(t *testing.T) {
	t.Helper()
	l := h.runs.acquire()
	defer l.release()
	if h.rng.IntN(10) > 0 {
		return
	}
	for _, r := range l.runs {
		next := h.runs.source(r)
		var f format.Row
		for {
			ok, err := next(&f)
			if err != nil {
				t.Fatal(err)
			}
			if !ok {
				break
			}
			if !slices.Contains(r.census.segments, f.Segment) {
				t.Fatalf("%s: a row in segment %d, census %v", r.file.Name, f.Segment, r.census.segments)
			}
		}
	}
}

// TestAhead: a row number that was not added yet is an error, not an empty answer.
func TestAhead(t *testing.T) {
	x := New(1)
	m := newModel(1)
	r := m.append()
	x.Add([]Row{r})
	if _, err := x.Range(r.Partition, 0, 1, 2); !errors.Is(err, ErrAhead) {
		t.Fatal(err)
	}
	if _, _, err := x.At(r.Partition, 0, 2); !errors.Is(err, ErrAhead) {
		t.Fatal(err)
	}
}
