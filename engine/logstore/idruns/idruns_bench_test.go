package idruns

import (
	"encoding/binary"
	"flag"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"syscall"
	"testing"

	"queen/engine/format"
	"queen/engine/vfs"
)

var benchMarks = flag.Int("bench-marks", 64, "chunks in the benchmarks")
var benchRows = flag.Int("bench-rows", 20_000, "ids of a chunk in the benchmarks; 200,000 is real")

func cpuTime(b *testing.B) int64 {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return u.Utime.Nano() + u.Stime.Nano()
}

func benchSet(b *testing.B, filters int64) *Set {
	dir := filepath.Join(b.TempDir(), "ids")
	fs := vfs.NewOS(vfs.OSOptions{})
	if err := fs.MkdirAll(dir); err != nil {
		b.Fatal(err)
	}
	s, err := Open(Options{FS: fs, Dir: dir, Group: 1, FilterBytes: filters})
	if err != nil {
		b.Fatal(err)
	}
	return s
}

func benchChunk(rng *rand.Rand, rows []format.IDRow, m Mark) {
	for i := range rows {
		r := &rows[i]
		*r = format.IDRow{
			Partition: format.PartitionID(64*(1+rng.IntN(10_000)) + 1), Offset: format.Offset(m.Number*1000 + uint64(i)),
			Place: format.Place{Index: format.Index(m.Number*100 + uint64(i/1000)), Ordinal: format.Ordinal(i % 1000)}, W: m.W,
		}
		binary.LittleEndian.PutUint64(r.Hash[:], rng.Uint64())
		binary.LittleEndian.PutUint64(r.Hash[8:], rng.Uint64())
	}
}

// fill adds chunks in no order of keys, with all background work, and returns processor time per id of
// the adds and of the steps.
func fill(b *testing.B, s *Set, rng *rand.Rand) (add, step float64) {
	rows := make([]format.IDRow, *benchRows)
	m := Mark{W: 1 << 40}
	var adds, steps int64
	for range *benchMarks {
		m.Number++
		m.W += 1000
		m.Horizon = m.W - format.Wall(*benchMarks)*1000
		benchChunk(rng, rows, m)
		chunk := Slice(slices.Clone(rows))
		at := cpuTime(b)
		if err := s.Add(m, chunk); err != nil {
			b.Fatal(err)
		}
		adds += cpuTime(b) - at
		at = cpuTime(b)
		for {
			again, err := s.Step(1 << 16)
			if err != nil {
				b.Fatal(err)
			}
			if !again {
				break
			}
		}
		steps += cpuTime(b) - at
	}
	n := float64(*benchMarks * *benchRows)
	return float64(adds) / n, float64(steps) / n
}

// BenchmarkAdd: what an id costs for good: sorting, writing, merging, filters.
func BenchmarkAdd(b *testing.B) {
	var add, step float64
	for range b.N {
		s := benchSet(b, 0)
		add, step = fill(b, s, rand.New(rand.NewPCG(1, 1)))
		bytes, rows, filters, runs := int64(0), uint64(0), int64(0), 0
		for _, r := range s.mu.list.runs {
			bytes, rows, runs = bytes+r.size, rows+r.file.Trailer.Rows, runs+1
			filters += r.filter.Load().bytes()
		}
		b.Logf("%d ids in %d runs: %.1f bytes each, filters %.1f bits", rows, runs, float64(bytes)/float64(rows),
			8*float64(filters)/float64(rows))
		s.Close()
	}
	b.ReportMetric(add, "add-cpu-ns/id")
	b.ReportMetric(step, "merge-cpu-ns/id")
}

// BenchmarkProbe: batches of 400 unknown ids, alone, and with no filters.
func BenchmarkProbe(b *testing.B) {
	s := benchSet(b, 0)
	defer s.Close()
	rng := rand.New(rand.NewPCG(1, 1))
	fill(b, s, rng)
	rows := make([]format.IDRow, 400)
	keys := make([]Key, len(rows))
	got := make([]Original, len(rows))
	draw := func() {
		benchChunk(rng, rows, Mark{})
		for i := range rows {
			keys[i] = Key{rows[i].Partition, rows[i].Hash}
		}
	}
	runs := float64(len(s.mu.list.runs))
	batch := func(b *testing.B) {
		used := int64(0)
		for range b.N {
			draw()
			at := cpuTime(b)
			if err := s.ProbeBatch(keys, ^uint64(0), got); err != nil {
				b.Fatal(err)
			}
			used += cpuTime(b) - at
		}
		each := float64(used) / float64(b.N*len(keys))
		b.ReportMetric(each, "cpu-ns/id")
		b.ReportMetric(each/runs, "cpu-ns/id/run")
	}
	b.Run("batch", batch)
	b.Run("alone", func(b *testing.B) {
		used := int64(0)
		for range b.N {
			draw()
			at := cpuTime(b)
			for i := range keys {
				if _, _, err := s.Probe(keys[i].Partition, keys[i].Hash); err != nil {
					b.Fatal(err)
				}
			}
			used += cpuTime(b) - at
		}
		b.ReportMetric(float64(used)/float64(b.N*len(keys)), "cpu-ns/id")
	})
	for _, r := range s.mu.list.runs {
		r.filter.Store(nil)
	}
	b.Run("batch-without-filters", batch)
}
