package rows

import (
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"

	"queen/engine/format"
	"queen/engine/vfs"
)

// TestConcurrent: look-ups beside adds, closes, merges and relocations see every row from the moment
// it was added, wherever it lies meanwhile. Run it with -race.
func TestConcurrent(t *testing.T) {
	m := newModel(9)
	var frames []Row // of group 1, in order
	for len(frames) < 30_000 {
		if len(frames)%1000 == 999 {
			m.segment = uint32(len(frames)/1000) + 2
		}
		if r := m.append(); r.Partition.RaftGroup() == 1 {
			frames = append(frames, r)
		}
	}
	fs := vfs.NewMem()
	if err := vfs.MkdirAllSync(fs, "/index"); err != nil {
		t.Fatal(err)
	}
	runs, err := Open(Options{FS: fs, Dir: "/index", Fanout: 3, CacheBytes: 100 << 10})
	if err != nil {
		t.Fatal(err)
	}
	defer runs.Shut()
	x := runs.Index(1)
	var added atomic.Int64
	var work sync.WaitGroup
	work.Add(1)
	go func() { // apply
		defer work.Done()
		for i := 0; i < len(frames); i += 10 {
			x.Add(frames[i:min(i+10, len(frames))])
			added.Store(int64(min(i+10, len(frames))))
			if i%1000 == 0 {
				x.Compact()
			}
		}
	}()
	work.Add(1)
	go func() { // the keeper of files
		defer work.Done()
		if err := keep(runs, &added, frames); err != nil {
			t.Error(err)
		}
	}()
	done := make(chan struct{})
	var readers sync.WaitGroup
	for seed := range uint64(3) {
		readers.Add(1)
		go func() {
			defer readers.Done()
			rng := rand.New(rand.NewPCG(seed, 5))
			for {
				select {
				case <-done:
					return
				default:
				}
				if n := added.Load(); n > 0 {
					lookUp(t, x, frames, m, rng, int(n))
				}
			}
		}()
	}
	work.Wait()
	close(done)
	readers.Wait()
	if l := runs.acquire(); len(l.runs) == 0 || l.runs[0].tier(3) < 2 {
		t.Errorf("%d runs", len(l.runs))
	}
}

// keep closes segments as they fill, merges, and once copies a segment elsewhere.
func keep(runs *Runs, added *atomic.Int64, frames []Row) error {
	next := uint32(1)
	for last := frames[len(frames)-1].Segment; next < last; {
		if n := added.Load(); n == 0 || frames[n-1].Segment <= next {
			if _, err := runs.Merge(); err != nil {
				return err
			}
			continue
		}
		if err := runs.Close(next); err != nil {
			return err
		}
		if next == 5 {
			var moved []Moved
			for i := range frames {
				if r := &frames[i]; r.Segment == 2 {
					moved = append(moved, movedTo(r, format.BulkBit|1, r.Pos)...)
				}
			}
			if err := runs.ReplaceSegments([]format.SegmentID{2}, moved, nil); err != nil {
				return err
			}
		}
		next++
	}
	for {
		if again, err := runs.Merge(); err != nil || !again {
			return err
		}
	}
}

// lookUp asks for an offset of a random partition as of one of the first n frames.
func lookUp(t *testing.T, x *Index, frames []Row, m *model, rng *rand.Rand, n int) {
	f := &frames[rng.IntN(n)]
	o := format.Offset(rng.Uint64N(uint64(f.End())))
	row, ok, err := x.At(f.Partition, o, f.Number)
	if err != nil || !ok {
		t.Errorf("At(%d, %d, %d): %v %v", f.Partition, o, f.Number, ok, err)
		return
	}
	want := m.at(f.Partition, o, f.Number)
	if row.Segment == uint32(format.BulkBit|1) {
		row.Segment, row.Off = 2, want.Off
	}
	if err := same(&row, want, o); err != nil {
		t.Error(err)
	}
	found, err := x.Range(f.Partition, o, o+9, f.Number)
	if err != nil || len(found) == 0 {
		t.Errorf("Range(%d, %d, %d): %d rows, %v", f.Partition, o, f.Number, len(found), err)
	}
	for i := 1; i < len(found); i++ {
		if found[i].Base != found[i-1].End() {
			t.Errorf("Range(%d, %d): %d after %d", f.Partition, o, found[i].Base, found[i-1].End())
		}
	}
}
