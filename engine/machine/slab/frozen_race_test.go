package slab

import (
	"sync"
	"testing"
)

// TestSlabFreezeRace lets a writer pack on its own goroutine while apply changes rows as fast as it can: run it with
// -race. The image must be that of the freeze, byte for byte.
func TestSlabFreezeRace(t *testing.T) {
	m := newSlabModel(11)
	for range 30000 {
		m.alloc(t)
	}
	for round := range 6 {
		for range 20000 {
			m.touch()
		}
		scope := Scope(round % 2)
		delta, base := m.snapshot()
		image := m.Freeze(scope)
		var writer sync.WaitGroup
		emitDelta, gotDelta := collect(t, func() {})
		emitBase, gotBase := collect(t, func() {})
		var errs [2]error
		done := make(chan struct{})
		writer.Go(func() {
			defer close(done)
			errs[0] = image.Delta(emitDelta)
			if scope == Base {
				errs[1] = image.Base(emitBase)
			}
			image.Release()
		})
		for steps := 0; ; steps++ {
			m.step(t, 0.5)
			if steps%64 == 0 && steps > 5000 {
				select {
				case <-done:
				default:
					continue
				}
				break
			}
		}
		writer.Wait()
		if errs[0] != nil || errs[1] != nil {
			t.Fatal(errs)
		}
		same(t, "delta", gotDelta, delta)
		if scope == Base {
			same(t, "base", gotBase, base)
		}
		m.check(t)
	}
}

// TestNamesFreezeRace is the same for names.
func TestNamesFreezeRace(t *testing.T) {
	m := newNamesModel(12)
	for range 20000 {
		m.put(t)
	}
	for round := range 4 {
		for range 5000 {
			m.step(t)
		}
		scope := Scope(round % 2)
		delta, base := m.snapshot()
		image := m.Freeze(scope)
		var writer sync.WaitGroup
		emitDelta, gotDelta := collect(t, func() {})
		emitBase, gotBase := collect(t, func() {})
		var errs [2]error
		writer.Go(func() {
			errs[0] = image.Delta(emitDelta)
			if scope == Base {
				errs[1] = image.Base(emitBase)
			}
			image.Release()
		})
		for range 10000 {
			m.step(t)
		}
		writer.Wait()
		if errs[0] != nil || errs[1] != nil {
			t.Fatal(errs)
		}
		same(t, "delta", gotDelta, delta)
		if scope == Base {
			same(t, "base", gotBase, base)
		}
	}
}

// TestRingImageRace reads an image while the ring appends and drops.
func TestRingImageRace(t *testing.T) {
	r := NewRing(eventCodec)
	for i := range uint64(5000) {
		r.Append(event{i + 1, i}, 3000)
	}
	image := r.Freeze(Base)
	var reader sync.WaitGroup
	var err error
	n := uint64(0)
	reader.Go(func() {
		err = image.Base(func(pos uint64, row []byte) error {
			n++
			return checkEvent(pos, row)
		})
	})
	for i := range uint64(20000) {
		r.Append(event{i + 5001, i}, 3000)
	}
	reader.Wait()
	if err != nil || n != 3000 {
		t.Fatalf("%d events, %v", n, err)
	}
}

// TestIDChunkRace sorts closed chunks while the table goes on and drops them.
func TestIDChunkRace(t *testing.T) {
	r := NewRecentIDs(5)
	var readers sync.WaitGroup
	errs := make([]error, 12)
	for k := range 12 {
		for i := range 3000 {
			r.Add(idOf(uint64(i%2000), uint64(k*3000+i)))
		}
		chunk := r.Close(uint64(k))
		readers.Go(func() {
			var last ID
			errs[k] = chunk.Each(func(id ID) error {
				err := checkOrder(last, id)
				last = id
				return err
			})
		})
	}
	readers.Wait()
	for _, err := range errs {
		if err != nil {
			t.Fatal(err)
		}
	}
}
