package idruns

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"queen/engine/format"
	"queen/engine/vfs"
)

// history is what was ever stored, by key: the model.
type history struct {
	rng    *rand.Rand // of the rows
	ask    *rand.Rand // of the questions
	rows   map[Key][]format.IDRow
	keys   []Key
	next   map[format.PartitionID]format.Offset
	mark   Mark
	window format.Wall
	gone   format.Wall  // rows older than it may be forgotten: an enlarged window brings none back
	places format.Index // the newest; each entry stores one id
	chunks []uint64     // the mark that ends the chunk of each place
}

func newHistory(seed uint64) *history {
	return &history{
		rng: rand.New(rand.NewPCG(seed, 3)), ask: rand.New(rand.NewPCG(seed, 4)),
		rows: map[Key][]format.IDRow{}, next: map[format.PartitionID]format.Offset{},
		window: 600, mark: Mark{W: 1000},
	}
}

func newKey(rng *rand.Rand) Key {
	k := Key{Partition: format.PartitionID(64*(1+rng.IntN(6)) + 5)}
	binary.BigEndian.PutUint64(k.Hash[:], rng.Uint64()>>(rng.IntN(2)*60)) // some share their first half
	binary.BigEndian.PutUint64(k.Hash[8:], rng.Uint64())
	return k
}

// chunk makes the rows up to the next mark, in no order.
func (h *history) chunk() []format.IDRow {
	if h.rng.IntN(40) == 0 {
		h.window = format.Wall(200 + h.rng.IntN(1000))
	}
	var rows []format.IDRow
	n := h.rng.IntN(300)
	if h.rng.IntN(6) == 0 {
		n = 0
	}
	for range n {
		k := newKey(h.rng)
		if len(h.keys) > 0 && h.rng.IntN(4) == 0 {
			k = h.keys[h.rng.IntN(len(h.keys))]
		}
		if h.rows[k] == nil {
			h.keys = append(h.keys, k)
		}
		h.places++
		h.chunks = append(h.chunks, h.mark.Number+1)
		r := format.IDRow{
			Partition: k.Partition, Hash: k.Hash, Offset: h.next[k.Partition],
			Place: format.Place{Index: h.places, Ordinal: 7}, W: h.mark.W + format.Wall(h.rng.IntN(10)),
		}
		h.next[k.Partition]++
		h.rows[k] = append(h.rows[k], r)
		rows = append(rows, r)
	}
	h.mark.Number++
	h.mark.W += 10
	h.mark.Horizon = h.mark.W - h.window
	h.gone = max(h.gone, h.mark.Horizon)
	return rows
}

// check compares look-ups: the newest row, or, once it was older than a horizon, that or nothing.
func (h *history) check(s *Set, upto uint64) error {
	var keys []Key
	for range 40 {
		if len(h.keys) > 0 && h.ask.IntN(3) > 0 {
			keys = append(keys, h.keys[h.ask.IntN(len(h.keys))])
		} else {
			keys = append(keys, newKey(h.ask))
		}
	}
	got := make([]Original, len(keys))
	if err := s.ProbeBatch(keys, upto, got); err != nil {
		return err
	}
	for i, k := range keys {
		row, found, err := s.Probe(k.Partition, k.Hash)
		if err != nil {
			return err
		}
		if upto >= s.ClearTo() && (got[i] != Original{row, found}) {
			return fmt.Errorf("%v: batch says %+v, alone %v %+v", k, got[i], found, row)
		}
		all := h.rows[k]
		if len(all) == 0 {
			if found || got[i].Found {
				return fmt.Errorf("%v: found %+v", k, row)
			}
			continue
		}
		for len(all) > 1 && h.chunks[all[len(all)-1].Place.Index-1] > s.ClearTo() {
			all = all[:len(all)-1] // in no run yet
		}
		want := all[len(all)-1]
		if h.chunks[want.Place.Index-1] > s.ClearTo() {
			if found || got[i].Found {
				return fmt.Errorf("%v: found %+v, of which no run was written", k, row)
			}
			continue
		}
		if h.chunks[want.Place.Index-1] <= upto && want.W >= h.gone && (got[i] != Original{want, true}) {
			return fmt.Errorf("%v, clear up to %d: %+v, want %+v", k, upto, got[i], want)
		}
		if found && row != want || !found && want.W >= h.gone {
			return fmt.Errorf("%v: found %v %+v, want %+v", k, found, row, want)
		}
	}
	return nil
}

func open(t *testing.T, fs vfs.FS, files []format.ManifestFile, clearTo uint64, filters int64) *Set {
	t.Helper()
	if err := vfs.MkdirAllSync(fs, "/ids"); err != nil {
		t.Fatal(err)
	}
	s, err := Open(Options{FS: fs, Dir: "/ids", Group: 5, Files: files, ClearTo: clearTo, FilterBytes: filters, CacheBytes: 64 << 10})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestModel: three sets live through one history: one works ahead at random and restarts from what it
// listed at a mark, one never works ahead, one has no filters. All answer as the model does, and list
// the same files at every mark.
func TestModel(t *testing.T) {
	seeds := uint64(2)
	if testing.Short() {
		seeds = 1
	}
	for seed := range seeds {
		runHistory(t, seed, 300)
	}
}

func runHistory(t *testing.T, seed uint64, marks int) {
	h := newHistory(seed)
	disks := []*vfs.Mem{vfs.NewMem(), vfs.NewMem(), vfs.NewMem()}
	sets := []*Set{open(t, disks[0], nil, 0, 40_000), open(t, disks[1], nil, 0, 1<<30), open(t, disks[2], nil, 0, -1)}
	var kept []format.ManifestFile // a checkpoint's list
	var keptAt Mark
	var since [][]format.IDRow
	var marksSince []Mark
	for range marks {
		rows := h.chunk()
		since, marksSince = append(since, rows), append(marksSince, h.mark)
		for i, s := range sets {
			if err := s.Add(h.mark, Slice(rows)); err != nil {
				t.Fatalf("seed %d mark %d: %v", seed, h.mark.Number, err)
			}
			if !slices.Equal(s.Files(), sets[0].Files()) {
				t.Fatalf("seed %d mark %d: set %d has %v, set 0 %v", seed, h.mark.Number, i, s.Files(), sets[0].Files())
			}
			if err := h.check(s, []uint64{s.ClearTo(), s.ClearTo() / 2}[h.rng.IntN(2)]); err != nil {
				t.Fatalf("seed %d mark %d set %d: %v", seed, h.mark.Number, i, err)
			}
		}
		for range h.rng.IntN(8) {
			if _, err := sets[0].Step(1 + h.rng.IntN(500)); err != nil {
				t.Fatal(err)
			}
		}
		switch h.rng.IntN(25) {
		case 0: // a checkpoint
			kept, keptAt = sets[0].Files(), h.mark
			open := len(since) - int(h.mark.Number%ChunkGroup) // what no run holds yet is read from the log again
			since, marksSince = slices.Clone(since[max(0, open):]), slices.Clone(marksSince[max(0, open):])
			if err := sets[0].Discard(kept); err != nil {
				t.Fatal(err)
			}
		case 1: // a restart: the log since the checkpoint is replayed
			sets[0].Close()
			sets[0] = open(t, disks[0], kept, keptAt.Number, 40_000)
			for i := range since {
				if err := sets[0].Add(marksSince[i], Slice(since[i])); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	for _, s := range sets {
		s.Close()
	}
}

// TestRuns: how many runs there are, how often a row is written, and how much longer than the window
// it is kept, at slow and fast marks.
func TestRuns(t *testing.T) {
	for _, marks := range []int{40, 360, 1000} {
		fs := vfs.NewMem()
		s := open(t, fs, nil, 0, -1)
		window := format.Wall(marks * 10)
		m := Mark{W: 1e6}
		most, total, oldest := 0, 0, format.Wall(0)
		for i := range 2*marks + marks/2 {
			m.Number++
			m.W += 10
			m.Horizon = m.W - window
			row := format.IDRow{Partition: 69, Hash: format.IDHash{byte(i)}, Offset: format.Offset(i), W: m.W}
			if err := s.Add(m, Slice{row}); err != nil {
				t.Fatal(err)
			}
			if i < 2*marks {
				continue
			}
			l := s.acquire()
			most, total = max(most, len(l.runs)), total+len(l.runs)
			oldest = max(oldest, m.W-l.runs[0].file.Trailer.Low)
			l.release()
		}
		t.Logf("%d marks in a window: %.1f runs, at most %d; kept %.2f windows", marks, float64(total)/float64(marks/2), most,
			float64(oldest)/float64(window))
		if most > 30 || float64(oldest) > 1.3*float64(window) {
			t.Errorf("%d marks in a window: %d runs, oldest row %d of %d", marks, most, oldest, window)
		}
		s.Close()
	}
}
