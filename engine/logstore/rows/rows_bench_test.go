package rows

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"syscall"
	"testing"

	"queen/engine/format"
	"queen/engine/vfs"
)

var benchRuns = flag.Int("bench-runs", 20, "segments in the benchmarks")
var benchRows = flag.Int("bench-rows", 40_000, "rows of a segment in the benchmarks; 700,000 is real")

// cpu reports processor time per op: it tells more than the clock on a machine that others use.
func cpu(b *testing.B, ops int) (stop func() float64) {
	used := func() int64 {
		var u syscall.Rusage
		if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
			b.Fatal(err)
		}
		return u.Utime.Nano() + u.Stime.Nano()
	}
	start := used()
	return func() float64 {
		ns := float64(used()-start) / float64(max(b.N, 1)*ops)
		b.ReportMetric(ns, "cpu-ns/op")
		return ns
	}
}

// benchIndex makes an index of one-message frames over partitions, all segments closed but the last.
func benchIndex(b *testing.B, partitions int) (x *Index, runs *Runs, newest []uint64) {
	dir := filepath.Join(b.TempDir(), "index")
	fs := vfs.NewOS(vfs.OSOptions{})
	if err := fs.MkdirAll(dir); err != nil {
		b.Fatal(err)
	}
	runs, err := Open(Options{FS: fs, Dir: dir})
	if err != nil {
		b.Fatal(err)
	}
	x = runs.Index(1)
	newest = make([]uint64, partitions)
	count := make([]format.Offset, partitions)
	rng := rand.New(rand.NewPCG(1, 1))
	n := uint64(0)
	for s := range *benchRuns + 1 {
		for i := range *benchRows {
			p := rng.IntN(partitions)
			n++
			x.Add([]Row{{
				Partition: format.PartitionID(64*(p+1) + 1), Base: count[p], Number: n, Prev: newest[p],
				W: format.Wall(n), Segment: uint32(s + 1), Pos: uint32(i/1000) * 262144, Off: uint32(i%1000) * 260, Len: 256,
				Count: 1, Kept: 1, Flags: Native,
			}})
			newest[p] = n
			count[p]++
		}
		if s < *benchRuns {
			if err := runs.Close(uint32(s + 1)); err != nil {
				b.Fatal(err)
			}
		}
	}
	for x.Compact() {
	}
	return x, runs, newest
}

func fileBytes(runs *Runs) (bytes, rows int64) {
	l := runs.acquire()
	defer l.release()
	for _, r := range l.runs {
		bytes += r.file.Size
		rows += int64(r.file.Trailer.Rows)
	}
	return bytes, rows
}

// BenchmarkAt: the newest row of a random partition, and any offset of it, in memory and in files, as
// closed and as merged.
func BenchmarkAt(b *testing.B) {
	for _, partitions := range []int{1, 1000, 100_000} {
		x, runs, newest := benchIndex(b, partitions)
		rng := rand.New(rand.NewPCG(2, 2))
		ask := func(b *testing.B, share float64) {
			defer cpu(b, 1)()
			for b.Loop() {
				p := rng.IntN(partitions)
				if newest[p] == 0 {
					continue
				}
				pid := format.PartitionID(64*(p+1) + 1)
				row, ok, err := x.At(pid, 0, newest[p])
				if share > 0 {
					end := float64(*benchRuns**benchRows) / float64(partitions)
					row, ok, err = x.At(pid, format.Offset(rng.Float64()*end*share), newest[p])
				}
				if err != nil || !ok && share == 0 {
					b.Fatal(row, ok, err)
				}
			}
		}
		b.Run(fmt.Sprintf("partitions=%d/oldest", partitions), func(b *testing.B) { ask(b, 0) })
		b.Run(fmt.Sprintf("partitions=%d/any", partitions), func(b *testing.B) { ask(b, 0.9) })
		for {
			if again, err := runs.Merge(); err != nil || !again {
				break
			}
		}
		b.Run(fmt.Sprintf("partitions=%d/any-merged", partitions), func(b *testing.B) { ask(b, 0.9) })
		bytes, rows := fileBytes(runs)
		b.Logf("partitions=%d: %.1f bytes a row in %d runs", partitions, float64(bytes)/float64(rows), len(runs.mu.list.runs))
		runs.Shut()
	}
}

// BenchmarkMemory: any offset of a partition in the open segment, and adding a row.
func BenchmarkMemory(b *testing.B) {
	for _, partitions := range []int{1, 1000, 100_000} {
		const rows = 700_000
		x := New(1)
		rng := rand.New(rand.NewPCG(1, 1))
		newest := make([]uint64, partitions)
		count := make([]format.Offset, partitions)
		n := uint64(0)
		add := func() {
			p := rng.IntN(partitions)
			n++
			x.Add([]Row{{Partition: format.PartitionID(64*(p+1) + 1), Base: count[p], Number: n, Prev: newest[p], Count: 1, Kept: 1}})
			newest[p] = n
			count[p]++
		}
		for range rows {
			add()
		}
		stop := cpu(b, rows)
		for x.Compact() {
		}
		b.Logf("partitions=%d: links made in %d ns a row", partitions, int(stop()))
		b.Run(fmt.Sprintf("partitions=%d/at", partitions), func(b *testing.B) {
			defer cpu(b, 1)()
			for b.Loop() {
				p := rng.IntN(partitions)
				if count[p] == 0 {
					continue
				}
				o := format.Offset(rng.Uint64N(uint64(count[p])))
				if _, ok, err := x.At(format.PartitionID(64*(p+1)+1), o, newest[p]); !ok || err != nil {
					b.Fatal(ok, err)
				}
			}
		})
		b.Run(fmt.Sprintf("partitions=%d/add", partitions), func(b *testing.B) {
			defer cpu(b, 1)()
			for b.Loop() {
				add()
			}
		})
	}
}

// BenchmarkClose: the index of one segment, per row.
func BenchmarkClose(b *testing.B) {
	fs := vfs.NewOS(vfs.OSOptions{})
	rng := rand.New(rand.NewPCG(1, 1))
	const partitions, rows = 10_000, 200_000
	for range b.N {
		b.StopTimer()
		runs, err := Open(Options{FS: fs, Dir: b.TempDir()})
		if err != nil {
			b.Fatal(err)
		}
		x := runs.Index(1)
		var count [partitions]format.Offset
		var newest [partitions]uint64
		for n := uint64(1); n <= rows; n++ {
			p := rng.IntN(partitions)
			x.Add([]Row{{
				Partition: format.PartitionID(64*(p+1) + 1), Base: count[p], Number: n, Prev: newest[p], Segment: 1, Pos: 8,
				Off: uint32(n), Len: 256, Count: 1, Kept: 1, W: format.Wall(n), Flags: Native,
			}})
			count[p]++
			newest[p] = n
		}
		stop := cpu(b, rows)
		b.StartTimer()
		if err := runs.Close(1); err != nil {
			b.Fatal(err)
		}
		b.StopTimer()
		stop()
		runs.Shut()
		b.StartTimer()
	}
}
