package keyed

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
)

// model is a state: key -> value.
type model map[string]string

func (m model) digests() Digests {
	ds := Digests{}
	for k, v := range m {
		ds.Add([]byte(k), []byte(v))
	}
	return ds
}

// kv returns the i-th test key of a family.
func kv(f Family, i int) []byte { return fmt.Appendf([]byte{byte(f)}, "key-%06d", i) }

// openTest opens a store and closes it at the end of the test unless the test did.
func openTest(t *testing.T, o Options) *Store {
	t.Helper()
	s, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil && !errors.Is(err, ErrClosed) {
			t.Error(err)
		}
	})
	return s
}

// flushOverlay flushes o at c, applies it to m first, and returns the flush.
func flushOverlay(t *testing.T, s *Store, c uint64, m model, o *Overlay) *Flushed {
	t.Helper()
	for row := range o.Rows() {
		if row.Tombstone {
			delete(m, string(row.Key))
		} else {
			m[string(row.Key)] = string(row.Value)
		}
	}
	f, err := s.FlushAt(context.Background(), c, m.digests(), o.Rows())
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func record(t *testing.T, f *Flushed, older uint64) *Manifest {
	t.Helper()
	if err := f.Recorded(older); err != nil {
		t.Fatal(err)
	}
	m := f.Manifest()
	return &m
}

func overlayOf(t *testing.T, rows ...Row) *Overlay {
	t.Helper()
	o := NewOverlay(OverlayLimits{})
	for _, r := range rows {
		err := o.Put(r.Key, r.Value)
		if r.Tombstone {
			err = o.Delete(r.Key)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return o
}

// scanAll returns all rows of all families at c by ScanAt, in pages.
func scanAll(t *testing.T, s *Store, c uint64, page int) model {
	t.Helper()
	got := model{}
	for f := Family(1); f <= FamilyLast; f++ {
		var after []byte
		for {
			n := 0
			err := s.ScanAt(c, []byte{byte(f)}, after, page, func(key, value []byte) bool {
				if after != nil && bytes.Compare(key, after) <= 0 {
					t.Fatalf("scan went back: %x after %x", key, after)
				}
				got[string(key)], after = string(value), bytes.Clone(key)
				n++
				return true
			})
			if err != nil {
				t.Fatal(err)
			}
			if n < page {
				break
			}
		}
	}
	return got
}

// checkState compares everything the store shows at c with m: full scan, pages, point reads.
func checkState(t *testing.T, s *Store, c uint64, m model, absent ...[]byte) {
	t.Helper()
	got, err := s.VerifyAt(context.Background(), c)
	if err != nil {
		t.Fatal(err)
	}
	if err := got.Diff(m.digests()); err != nil {
		t.Fatalf("at %d: %v", c, err)
	}
	if got := scanAll(t, s, c, 777); !maps.Equal(got, m) {
		t.Fatalf("at %d: scan shows %d rows, want %d", c, len(got), len(m))
	}
	keys := slices.Sorted(maps.Keys(m))
	for i := 0; i < len(keys); i += 1 + len(keys)/500 {
		checkGet(t, s, c, keys[i], m)
	}
	for _, key := range absent {
		checkGet(t, s, c, string(key), m)
	}
}

func checkGet(t *testing.T, s *Store, c uint64, key string, m model) {
	t.Helper()
	value, found, err := s.GetAt(c, []byte(key))
	if err != nil {
		t.Fatal(err)
	}
	if want, ok := m[key]; found != ok || string(value) != want {
		t.Fatalf("get %x at %d: %d bytes, %v; want %d bytes, %v", key, c, len(value), found, len(want), ok)
	}
}

// Goal: what was flushed is what is read, at its version, before and after a reopen, with all value
// shapes mixed: empty, small, at the cut, above it, at the limit.
func TestFlushReadReopen(t *testing.T) {
	dir := t.TempDir()
	s := openTest(t, Options{Dir: dir})
	m, rng := model{}, rand.New(rand.NewPCG(1, 2))
	sizes := []int{0, 1, 100, wholeBytesMax - 1, wholeBytesMax, wholeBytesMax + 1, 1 << 20, ValueBytesMax}
	var older uint64
	var manifest *Manifest
	for c := uint64(10); c <= 40; c += 10 {
		before := maps.Clone(m)
		o := NewOverlay(OverlayLimits{})
		for range 300 {
			key := kv(Family(1+rng.IntN(6)), rng.IntN(200))
			size := rng.IntN(200)
			if rng.IntN(30) == 0 {
				size = sizes[rng.IntN(len(sizes))]
			}
			err := o.Put(key, bytes.Repeat([]byte{byte(rng.Uint32())}, size))
			if rng.IntN(5) < 2 {
				err = o.Delete(key)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		manifest = record(t, flushOverlay(t, s, c, m, o), older)
		checkState(t, s, c, m, kv(FamilyKV, 1000))
		if older > 0 {
			checkState(t, s, older, before)
		}
		older = c
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		s = openTest(t, Options{Dir: dir, Expect: manifest})
		if r := s.Report(); r.Fresh || r.Unclean || r.CutFlushVersion != 0 || len(r.Orphans) > 0 {
			t.Fatalf("report %+v", r)
		}
		checkState(t, s, c, m)
	}
}
