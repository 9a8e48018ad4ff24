package slab

import (
	"encoding/binary"
	"math/rand/v2"
	"testing"
)

// checkIndex walks every chain: slots filled from the front, overflow buckets with at least two rows, every row in
// the bucket that its tag says, and as many as counted.
func checkIndex(t *testing.T, x *Index) {
	t.Helper()
	rows := 0
	for i := range x.primary.used {
		b, overflow := x.primary.at(i), false
		for b != nil {
			var next *bucket
			n, ended := 0, false
			for k, s := range b {
				switch {
				case s == 0:
					ended = true
				case ended:
					t.Fatalf("bucket %d: slot %d is behind an empty one", i, k)
				case k == bucketSlots-1 && s&slotLink != 0:
					next = x.overflow.at(uint32(s) &^ slotLink)
				default:
					n++
					if x.bucketOf(uint32(s>>32)) != i {
						t.Fatalf("tag %#x lies in bucket %d, want %d", s>>32, i, x.bucketOf(uint32(s>>32)))
					}
				}
			}
			if overflow && n < 2 {
				t.Fatalf("bucket %d: an overflow bucket with %d rows", i, n)
			}
			rows += n
			b, overflow = next, true
		}
	}
	if rows != x.Len() {
		t.Fatalf("%d rows in buckets, %d counted", rows, x.Len())
	}
}

// TestIndexModel inserts, finds and deletes beside a map, with good hashes, with hashes of which only 9 bits differ
// (long chains) and with one hash for all.
func TestIndexModel(t *testing.T) {
	for name, hash := range map[string]func(x *Index, key uint64) uint64{
		"good": func(x *Index, key uint64) uint64 { return x.Hash(binary.LittleEndian.AppendUint64(nil, key)) },
		"poor": func(_ *Index, key uint64) uint64 { return key % 512 << 40 },
		"none": func(*Index, uint64) uint64 { return 0 },
	} {
		t.Run(name, func(t *testing.T) {
			x, rng := NewIndex(99), rand.New(rand.NewPCG(3, 3))
			keys := map[Handle]uint64{}
			byKey := map[uint64]Handle{}
			steps, space := 60000, uint64(30000)
			if name == "none" {
				steps, space = 2000, 500
			}
			for step := range steps {
				key := rng.Uint64N(space)
				got := x.Find(hash(x, key), func(h Handle) bool {
					if _, ok := keys[h]; !ok {
						t.Fatalf("match asked about %#x, which is not there", h)
					}
					return keys[h] == key
				})
				if got != byKey[key] {
					t.Fatalf("key %d: found %d, want %d", key, got, byKey[key])
				}
				switch {
				case got == 0:
					h := Handle(step + 1)
					x.Insert(hash(x, key), h)
					keys[h], byKey[key] = key, h
				case rng.IntN(2) == 0 || step > steps*3/4:
					if !x.Delete(hash(x, key), got) || x.Delete(hash(x, key), got) {
						t.Fatalf("delete of key %d", key)
					}
					delete(keys, got)
					delete(byKey, key)
				}
				if step%(steps/4) == 0 {
					checkIndex(t, x)
				}
			}
			for key, h := range byKey {
				if !x.Delete(hash(x, key), h) {
					t.Fatalf("delete of key %d", key)
				}
			}
			checkIndex(t, x)
			if x.Len() != 0 || int(x.overflow.used) != len(x.spare) {
				t.Fatalf("%d rows left, %d of %d overflow buckets spare", x.Len(), len(x.spare), x.overflow.used)
			}
		})
	}
}

// TestIndexRefuses: handles that a slot can not hold.
func TestIndexRefuses(t *testing.T) {
	x := NewIndex(1)
	mustBreak(t, "insert of none", func() { x.Insert(1, 0) })
	mustBreak(t, "insert above HandleMax", func() { x.Insert(1, HandleMax+1) })
	x.Insert(1<<32, HandleMax)
	found := x.Find(1<<32, func(Handle) bool { return true })
	if found != HandleMax || x.Delete(1<<32, 5) || x.Delete(2<<32, HandleMax) {
		t.Error("the highest handle is not kept")
	}
}

// TestIndexBytes holds the size of a row to the promise, at the emptiest and at the fullest moment of a doubling.
func TestIndexBytes(t *testing.T) {
	x := NewIndex(1)
	worst := 0.0
	for i := range 400000 {
		x.Insert(x.Hash(binary.LittleEndian.AppendUint32(nil, uint32(i))), Handle(i+1))
		if i > 100000 {
			worst = max(worst, float64(x.Bytes())/float64(i+1))
		}
	}
	t.Logf("at most %.2f bytes per row", worst)
	if worst > 14 {
		t.Errorf("%.2f bytes per row", worst)
	}
}
