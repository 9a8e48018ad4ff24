package slab

import (
	"encoding/binary"
	"math/rand/v2"
	"testing"
)

// row48 has the size of a partition or cursor record.
type row48 [6]uint64

var codec48 = Codec[row48]{
	Size: 48,
	Encode: func(dst []byte, r *row48) {
		for i, v := range r {
			binary.LittleEndian.PutUint64(dst[i*8:], v)
		}
	},
	Decode: func(src []byte, r *row48) {
		for i := range r {
			r[i] = binary.LittleEndian.Uint64(src[i*8:])
		}
	},
}

const benchRows = 1 << 20

func benchSlab() (*Slab[row48], []Handle) {
	s := New(codec48)
	for range benchRows {
		s.Alloc()
	}
	s.Freeze(Delta).Release()
	s.Mark(func(Handle, []byte) {})
	order := make([]Handle, benchRows)
	for i, n := range rand.New(rand.NewPCG(1, 1)).Perm(benchRows) {
		order[i] = Handle(n + 1)
	}
	return s, order
}

func BenchmarkSlab(b *testing.B) {
	s, order := benchSlab()
	b.Run("GetHot", func(b *testing.B) {
		sum := uint64(0)
		for i := 0; b.Loop(); i++ {
			sum += s.Get(order[i%1024])[0]
		}
	})
	b.Run("TouchHot", func(b *testing.B) {
		for i := 0; b.Loop(); i++ {
			s.Touch(order[i%1024])[0]++
		}
	})
	b.Run("TouchSameChunk", func(b *testing.B) {
		for i := 0; b.Loop(); i++ {
			s.Touch(Handle(i%64*100 + 1))[0]++
		}
	})
	b.Run("GetRandom", func(b *testing.B) {
		sum := uint64(0)
		for i := 0; b.Loop(); i++ {
			sum += s.Get(order[i%benchRows])[0]
		}
	})
	b.Run("TouchRandom", func(b *testing.B) {
		for i := 0; b.Loop(); i++ {
			s.Touch(order[i%benchRows])[0]++
		}
	})
	b.Run("TouchRandomFrozenBase", func(b *testing.B) {
		image := s.Freeze(Base)
		defer image.Release()
		for i := 0; b.Loop(); i++ {
			s.Touch(order[i%benchRows])[0]++
		}
	})
	b.Run("FreeAlloc", func(b *testing.B) {
		for i := 0; b.Loop(); i++ {
			s.Free(order[i%1024])
			s.Alloc()
		}
	})
	b.Run("FreezeAndReleaseAllDirty", func(b *testing.B) {
		for b.Loop() {
			b.StopTimer()
			for i := range s.t.chunks {
				s.Touch(Handle(i<<chunkShift + 1))
			}
			b.StartTimer()
			s.Freeze(Delta).Release()
		}
	})
	b.Run("DeltaPerRow", func(b *testing.B) {
		var image *Frozen
		for i := 0; b.Loop(); i++ {
			if i%100000 == 0 {
				b.StopTimer()
				for k := range 100000 {
					s.Touch(order[k])
				}
				image = s.Freeze(Delta)
				b.StartTimer()
				if err := image.Delta(func(Handle, []byte) error { return nil }); err != nil {
					b.Fatal(err)
				}
				image.Release()
			}
		}
	})
}

func BenchmarkNames(b *testing.B) {
	n := NewNames()
	name := []byte("customer-000000000001234")
	var refs []Ref
	for range benchRows {
		r, _ := n.Put(name)
		refs = append(refs, r)
	}
	rng := rand.New(rand.NewPCG(1, 1))
	rng.Shuffle(len(refs), func(i, j int) { refs[i], refs[j] = refs[j], refs[i] })
	b.Run("GetRandom", func(b *testing.B) {
		sum := 0
		for i := 0; b.Loop(); i++ {
			sum += int(n.Get(refs[i%benchRows])[3])
		}
	})
	b.Run("FreePut", func(b *testing.B) {
		for i := 0; b.Loop(); i++ {
			n.Free(refs[i%1024])
			refs[i%1024], _ = n.Put(name)
		}
	})
}

func BenchmarkIndex(b *testing.B) {
	x := NewIndex(1)
	key := func(i int) []byte { return binary.LittleEndian.AppendUint64(make([]byte, 0, 8), uint64(i)) }
	for i := range benchRows {
		x.Insert(x.Hash(key(i)), Handle(i+1))
	}
	b.ReportMetric(float64(x.Bytes())/benchRows, "B/row")
	b.Run("Hit", func(b *testing.B) {
		for i := 0; b.Loop(); i++ {
			n := i * 7919 % benchRows
			if x.Find(x.Hash(key(n)), func(h Handle) bool { return h == Handle(n+1) }) == 0 {
				b.Fatal(n)
			}
		}
	})
	b.Run("Miss", func(b *testing.B) {
		for i := 0; b.Loop(); i++ {
			x.Find(x.Hash(key(benchRows+i)), func(h Handle) bool { return false })
		}
	})
	b.Run("DeleteInsert", func(b *testing.B) {
		for i := 0; b.Loop(); i++ {
			n := i * 7919 % benchRows
			hash := x.Hash(key(n))
			x.Delete(hash, Handle(n+1))
			x.Insert(hash, Handle(n+1))
		}
	})
	b.Run("Grow", func(b *testing.B) {
		x := NewIndex(1)
		for i := 0; b.Loop(); i++ {
			x.Insert(x.Hash(key(i)), Handle(i%int(HandleMax)+1))
		}
	})
}

func BenchmarkRing(b *testing.B) {
	r := NewRing(eventCodec)
	b.Run("Append", func(b *testing.B) {
		for i := uint64(0); b.Loop(); i++ {
			r.Append(event{i, i}, 65536)
		}
	})
}

// BenchmarkDue is the life of leases: a million pending, each claimed for a minute and most cancelled.
func BenchmarkDue(b *testing.B) {
	fill := func() *Due {
		d, rng := NewDue(), rand.New(rand.NewPCG(1, 1))
		for i := range benchRows {
			d.Add(int64(rng.IntN(60_000_000)), Handle(i+1), 1)
		}
		return d
	}
	d := fill()
	b.ReportMetric(float64(d.Bytes())/benchRows, "B/item")
	b.Run("Leases", func(b *testing.B) {
		// 300,000 claims a second, each settled after a tenth of one.
		d := NewDue()
		now := int64(0)
		for i := 0; b.Loop(); i++ {
			now += 3
			d.Add(now+60_000_000, Handle(i%30_000+1), 1)
			if i >= 15_000 {
				d.Cancel(Handle((i-15_000)%30_000+1), 1)
			}
		}
	})
	b.Run("CancelAddLate", func(b *testing.B) {
		for i := 0; b.Loop(); i++ {
			h := Handle(i*7919%benchRows + 1)
			d.Cancel(h, 1)
			d.Add(int64(60_000_000+i), h, 1)
		}
	})
	b.Run("CancelAddRandom", func(b *testing.B) {
		rng := rand.New(rand.NewPCG(2, 1))
		for i := 0; b.Loop(); i++ {
			h := Handle(i*7919%benchRows + 1)
			d.Cancel(h, 1)
			d.Add(int64(rng.IntN(60_000_000)), h, 1)
		}
	})
	b.Run("PopAdd", func(b *testing.B) {
		for b.Loop() {
			d.PopDue(1<<62, 1, func(it DueItem) { d.Add(it.Due+60_000_000, it.Handle, it.Kind) })
		}
	})
}

func BenchmarkRecentIDs(b *testing.B) {
	const perChunk = 250_000
	r := NewRecentIDs(9)
	seq := uint64(0)
	next := func() ID {
		id := ID{PID: seq % 100_000, Offset: seq, Index: seq / 50, Ordinal: uint32(seq % 50), W: int64(seq / 50)}
		binary.LittleEndian.PutUint64(id.Hash[:], seq*0x9e3779b97f4a7c15)
		binary.LittleEndian.PutUint64(id.Hash[8:], seq*0xd6e8feb86659fd93)
		seq++
		return id
	}
	for mark := range uint64(12) {
		for range perChunk {
			r.Add(next())
		}
		r.Close(mark)
	}
	b.ReportMetric(float64(r.Bytes())/float64(r.Len()), "B/row")
	b.Run("Miss", func(b *testing.B) {
		var id ID
		for i := uint64(1); b.Loop(); i++ {
			binary.LittleEndian.PutUint64(id.Hash[:], i*0xbf58476d1ce4e5b9)
			if _, ok := r.Find(i, id.Hash); ok {
				b.Fatal(i)
			}
		}
	})
	b.Run("MissWarmedBy16", func(b *testing.B) {
		var ids [16]ID
		for i := uint64(1); b.Loop(); i++ {
			if i%16 == 1 {
				for k := range ids {
					binary.LittleEndian.PutUint64(ids[k].Hash[:], (i+uint64(k))*0xbf58476d1ce4e5b9)
				}
				r.Warm(ids[:])
			}
			if _, ok := r.Find(0, ids[(i-1)%16].Hash); ok {
				b.Fatal(i)
			}
		}
	})
	b.Run("Hit", func(b *testing.B) {
		closed := r.Closed()
		for i := 0; b.Loop(); i++ {
			c := closed[i%len(closed)]
			id := c.id(i * 7919 % c.len)
			if _, ok := r.Find(id.PID, id.Hash); !ok {
				b.Fatal(i)
			}
		}
	})
	b.Run("AddAndClose", func(b *testing.B) {
		for i := 1; b.Loop(); i++ {
			r.Add(next())
			if i%perChunk == 0 {
				r.Close(uint64(i))
			}
		}
	})
	b.Run("CloseOnly", func(b *testing.B) {
		for i := uint64(0); b.Loop(); i++ {
			r.Close(i)
		}
	})
}

// BenchmarkMemory is the yardstick for the others: one read at random in 32 MiB, and a branch on it.
func BenchmarkMemory(b *testing.B) {
	lines := make([][8]uint64, 32<<20/64)
	for i := range lines {
		lines[i][0] = uint64(i) * 0x9e3779b97f4a7c15
	}
	sum := uint64(0)
	for i := uint64(0); b.Loop(); i++ {
		if s := lines[(i*0xbf58476d1ce4e5b9)>>40%uint64(len(lines))][0]; s>>63 == 1 {
			sum += s
		} else {
			sum = sum*3 + i
		}
	}
}
