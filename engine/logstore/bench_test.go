package logstore

import (
	"fmt"
	"path"
	"testing"

	"queen/engine/format"
	"queen/engine/vfs"
)

// BenchmarkAppend compares a save with the floor: the same bytes in one raw write with its flush, into a
// file written before.
func BenchmarkAppend(b *testing.B) {
	for _, size := range []int{4 << 10, 64 << 10, 1 << 20, 4 << 20} {
		b.Run(fmt.Sprintf("floor/%dKiB", size>>10), func(b *testing.B) { benchFloor(b, size) })
		b.Run(fmt.Sprintf("store/%dKiB", size>>10), func(b *testing.B) { benchStore(b, size) })
	}
}

const benchSegment = 128 << 20

func benchFloor(b *testing.B, size int) {
	fs := vfs.NewOS(vfs.OSOptions{})
	f, err := fs.Open(path.Join(b.TempDir(), "f"), vfs.Write|vfs.Create|vfs.Direct)
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close()
	zeroes := vfs.AlignedBuffer(1 << 20)
	for pos := int64(0); pos < benchSegment; pos += int64(len(zeroes)) {
		if _, err := f.WriteAt(zeroes, pos); err != nil {
			b.Fatal(err)
		}
	}
	if err := f.Sync(); err != nil {
		b.Fatal(err)
	}
	data := vfs.AlignedBuffer(size)
	pos := int64(0)
	b.SetBytes(int64(size))
	for b.Loop() {
		if err := f.WriteAtSync(data, pos); err != nil {
			b.Fatal(err)
		}
		if pos += int64(size); pos+int64(size) > benchSegment {
			pos = 0
		}
	}
}

func benchStore(b *testing.B, size int) {
	s, err := Open(Options{
		FS: vfs.NewOS(vfs.OSOptions{}), Dir: b.TempDir(), SegmentBytes: benchSegment, PoolReady: 2, PoolReserve: 1, TailBytes: 64 << 20,
	})
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	s.pool.mu.Lock()
	for len(s.pool.mu.ready) < s.pool.want {
		s.pool.mu.wake.Wait()
	}
	s.pool.mu.Unlock()
	data := encoded(100, size-64-100-format.RecordHeadSize-format.ExtentHeadSize-16, 1)
	index := format.Index(0)
	v := &Save{Group: 1, Replica: 1, Entries: []Entry{{}}}
	b.SetBytes(int64(size))
	b.ReportAllocs()
	for b.Loop() {
		index++
		v.Entries[0] = entry(index, 1, data)
		v.Floor = index - 1
		if err := s.Append(v); err != nil {
			b.Fatal(err)
		}
		if index%64 == 0 {
			b.StopTimer()
			_ = benchReclaim(s)
			b.StartTimer()
		}
	}
	st := s.Stats()
	b.ReportMetric(float64(st.WriteMicros)/float64(st.Extents), "us/write")
}

// BenchmarkColdFrames reads frames of 24 KiB out of entries of about 1 MiB that only the disk has, one frame of each
// entry after the other, as consumers of many partitions do that are far behind: one by one, and every second one or
// every tenth one of 16 entries at once.
func BenchmarkColdFrames(b *testing.B) {
	const frame, frames, entries = 24 << 10, 40, 96
	s, err := Open(Options{
		FS: vfs.NewOS(vfs.OSOptions{}), Dir: b.TempDir(), SegmentBytes: benchSegment, PoolReady: 2, PoolReserve: 1, TailBytes: 8 << 20,
	})
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	var at []EntryPos
	for i := range format.Index(entries) {
		v := &Save{Group: 1, Replica: 1, Entries: []Entry{entry(i+1, 1, encoded(100, frame*frames, 1))}}
		if err := s.Append(v); err != nil {
			b.Fatal(err)
		}
		pos, _, err := s.Locate(1, 1, i+1)
		if err != nil {
			b.Fatal(err)
		}
		at = append(at, pos)
	}
	for _, known := range []bool{false, true} {
		b.Run(fmt.Sprintf("known=%v", known), func(b *testing.B) {
			b.SetBytes(frame)
			var dst []byte
			for i := 0; b.Loop(); i++ {
				if pos := at[i%(entries/2)]; !known {
					s.heads.slots[s.heads.slot(pos.Segment, pos.Pos)].segment = 0
				}
				off := uint32(200 + i/(entries/2)%frames*frame)
				if dst, err = s.ReadAt(at[i%(entries/2)], off, frame-400, dst[:0]); err != nil {
					b.Fatal(err)
				}
			}
		})
		for _, every := range []int{2, 10} {
			b.Run(fmt.Sprintf("known=%v/every=%d", known, every), func(b *testing.B) {
				const together = 16
				wants := make([]Want, together*frames/every)
				n := 0
				for i := 0; b.Loop(); i++ {
					first := i * together % (entries / 2)
					for k := range wants { // of each partition what all the entries have, and then of the next
						pos := at[first+k%together]
						if !known {
							s.heads.slots[s.heads.slot(pos.Segment, pos.Pos)].segment = 0
						}
						wants[k] = Want{Pos: pos, Off: uint32(200 + k/together*every*frame), N: frame - 400}
					}
					s.ReadMany(wants)
					for k := range wants {
						if wants[k].Err != nil {
							b.Fatal(wants[k].Err)
						}
						n++
					}
				}
				b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(n), "us/frame")
			})
		}
	}
}

func benchReclaim(s *Store) error {
	for _, in := range s.Segments() {
		if !in.Sealed {
			return nil
		}
		if err := s.Reclaim(in.Segment); err != nil {
			return err
		}
	}
	return nil
}
