package slab

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"testing"
)

type event struct{ PID, Next uint64 }

var eventCodec = Codec[event]{
	Size: 16,
	Encode: func(dst []byte, e *event) {
		binary.LittleEndian.PutUint64(dst, e.PID)
		binary.LittleEndian.PutUint64(dst[8:], e.Next)
	},
	Decode: func(src []byte, e *event) {
		e.PID = binary.LittleEndian.Uint64(src)
		e.Next = binary.LittleEndian.Uint64(src[8:])
	},
}

// checkEvent wants an event whose PID is its position.
func checkEvent(pos uint64, row []byte) error {
	if binary.LittleEndian.Uint64(row) != pos {
		return fmt.Errorf("position %d holds %x", pos, row)
	}
	return nil
}

type ringWalk func(emit func(pos uint64, row []byte) error) error

func loadRing(t *testing.T, r *Ring[event], walk ringWalk, image *RingImage[event]) (n int) {
	t.Helper()
	err := walk(func(pos uint64, row []byte) error {
		n++
		if err := checkEvent(pos, row); err != nil {
			return err
		}
		return r.Load(pos, row)
	})
	if err == nil {
		err = r.LoadBounds(image.Bounds())
	}
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func sameRing(t *testing.T, a, b *Ring[event]) {
	t.Helper()
	if a.Start() != b.Start() || a.End() != b.End() {
		t.Fatalf("[%d, %d), want [%d, %d)", a.Start(), a.End(), b.Start(), b.End())
	}
	for pos := a.Start(); pos < a.End(); pos++ {
		if *a.At(pos) != *b.At(pos) {
			t.Fatalf("position %d holds %v, want %v", pos, *a.At(pos), *b.At(pos))
		}
	}
}

// TestRingModel appends with limits that rise and fall and drops by hand, beside a slice; one replica follows by
// deltas from the start, another begins anew from each base.
func TestRingModel(t *testing.T) {
	r, follower, rng := NewRing(eventCodec), NewRing(eventCodec), rand.New(rand.NewPCG(5, 5))
	var all []event // all[i] has position i+1
	start := uint64(1)
	for range 300 {
		limit := uint64(1 + rng.IntN(500))
		for range rng.IntN(400) {
			ev := event{uint64(len(all) + 1), rng.Uint64()}
			all = append(all, ev)
			if pos := r.Append(ev, limit); pos != uint64(len(all)) {
				t.Fatalf("append gave %d, want %d", pos, len(all))
			}
			start = max(start, uint64(len(all))+1-min(limit, uint64(len(all))))
		}
		if rng.IntN(4) == 0 {
			to := start + rng.Uint64N(600)
			r.DropBefore(to)
			start = max(start, min(to, uint64(len(all)+1)))
		}
		if r.Start() != start || r.End() != uint64(len(all)+1) || r.Len() != r.End()-start {
			t.Fatalf("[%d, %d) of %d, want [%d, %d)", r.Start(), r.End(), r.Len(), start, len(all)+1)
		}
		for pos := r.Start(); pos < r.End(); pos++ {
			if *r.At(pos) != all[pos-1] {
				t.Fatalf("position %d holds %v, want %v", pos, *r.At(pos), all[pos-1])
			}
		}
		if most := int(r.Len()/ringBlock) + 2; len(r.blocks) > most {
			t.Fatalf("%d blocks for %d events", len(r.blocks), r.Len())
		}
		appended := r.End() - max(follower.End(), r.Start())
		image := r.Freeze(Scope(rng.IntN(2)))
		n := loadRing(t, follower, image.Delta, &image)
		if uint64(n) != appended {
			t.Fatalf("delta of %d events, want %d", n, appended)
		}
		sameRing(t, follower, r)
		base := r.Freeze(Base)
		fresh := NewRing(eventCodec)
		loadRing(t, fresh, base.Base, &base)
		sameRing(t, fresh, r)
		again := fresh.Freeze(Delta)
		if err := again.Delta(func(pos uint64, _ []byte) error { return fmt.Errorf("position %d", pos) }); err != nil {
			t.Fatalf("dirty after load: %v", err)
		}
	}
}

// TestRingRefuses: positions outside, and images that do not fit.
func TestRingRefuses(t *testing.T) {
	r := NewRing(eventCodec)
	mustBreak(t, "at of an empty ring", func() { r.At(1) })
	for i := range uint64(100) {
		r.Append(event{PID: i + 1}, 10)
	}
	mustBreak(t, "at before start", func() { r.At(90) })
	mustBreak(t, "at end", func() { r.At(101) })
	delta := r.Freeze(Delta)
	r.Append(event{PID: 101}, 500)
	delta = r.Freeze(Delta)
	mustBreak(t, "base of a delta", func() { _ = delta.Base(func(uint64, []byte) error { return nil }) })
	row := make([]byte, 16)
	if r.Load(101, row) == nil || r.Load(102, row[1:]) == nil || r.Load(^uint64(0), row) == nil {
		t.Error("a bad event was loaded")
	}
	for _, bad := range [][2]uint64{{0, 102}, {102, 101}, {91, 101}, {91, 103}, {5, 102}} {
		if r.LoadBounds(bad[0], bad[1]) == nil {
			t.Errorf("bounds %v taken", bad)
		}
	}
	if r.LoadBounds(200, 200) != nil || r.Start() != 200 || r.Append(event{}, 1) != 200 {
		t.Error("an empty ring does not keep its position")
	}
}
