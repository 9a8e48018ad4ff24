package keyed

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
)

// scanView reads a prefix through a view, page by page.
func scanView(t *testing.T, v View, prefix []byte, page int) (keys []string, got model) {
	t.Helper()
	got = model{}
	var after []byte
	for {
		n := 0
		err := v.ScanPrefix(prefix, after, page, func(key, value []byte) bool {
			keys, after = append(keys, string(key)), bytes.Clone(key)
			got[string(key)] = string(value)
			n++
			return true
		})
		if err != nil {
			t.Fatal(err)
		}
		if n < page {
			return keys, got
		}
	}
}

func checkView(t *testing.T, v View, m model, rng *rand.Rand) {
	t.Helper()
	prefixes := [][]byte{{1}, {2}, {3}, kv(1, 10)[:9], kv(2, 0)[:10]}
	for _, prefix := range prefixes {
		var want []string
		for key := range m {
			if strings.HasPrefix(key, string(prefix)) {
				want = append(want, key)
			}
		}
		slices.Sort(want)
		keys, got := scanView(t, v, prefix, 1+rng.IntN(200))
		if !slices.Equal(keys, want) {
			t.Fatalf("prefix %x: %d keys, want %d", prefix, len(keys), len(want))
		}
		for key, value := range got {
			if m[key] != value {
				t.Fatalf("prefix %x: key %x has the wrong value", prefix, key)
			}
		}
	}
	for range 100 {
		key := kv(Family(1+rng.IntN(3)), rng.IntN(viewKeys+5))
		value, found, err := v.Get(key)
		if err != nil {
			t.Fatal(err)
		}
		if want, ok := m[string(key)]; found != ok || string(value) != want {
			t.Fatalf("get %x: %q %v, want %q %v", key, value, found, want, ok)
		}
	}
}

const viewKeys = 400

// Goal: the view over live overlay, frozen overlay and store is the current state, in the middle of
// a flush too, and an older view stays what it was until its history is given up. Method: random
// changes against a map, with freezes, flushes, records and reopenings in between.
func TestViewAgainstModel(t *testing.T) {
	rng := rand.New(rand.NewPCG(42, 1))
	dir, m := t.TempDir(), model{}
	s := openTest(t, Options{Dir: dir})
	live := NewOverlay(OverlayLimits{})
	var frozen *Overlay
	var c, at, older uint64
	var frozenState model
	rounds := 40
	if testing.Short() {
		rounds = 10
	}
	for round := range rounds {
		for range rng.IntN(300) {
			c++
			key, value := kv(Family(1+rng.IntN(3)), rng.IntN(viewKeys)), fmt.Appendf(nil, "v%d", c)
			if rng.IntN(3) == 0 {
				delete(m, string(key))
				if err := live.Delete(key); err != nil {
					t.Fatal(err)
				}
				continue
			}
			m[string(key)] = string(value)
			if err := live.Put(key, value); err != nil {
				t.Fatal(err)
			}
		}
		checkView(t, NewView(live, frozen, s, at), m, rng)
		switch {
		case frozen == nil && c > at:
			frozen, live, frozenState = live, NewOverlay(OverlayLimits{}), maps.Clone(m)
		case frozen != nil:
			old := NewView(live, frozen, s, at)
			flushed := c
			f, err := s.FlushAt(t.Context(), flushed, frozenState.digests(), frozen.Rows())
			if err != nil {
				t.Fatal(err)
			}
			checkView(t, old, m, rng)
			expect := record(t, f, older)
			older, at, frozen = at, flushed, nil
			checkView(t, old, m, rng)
			if round%5 == 0 {
				crash(t, s)
				s = openTest(t, Options{Dir: dir, Expect: expect})
				if err := s.checkSentinel(expect); err != nil {
					t.Fatal(err)
				}
			}
		}
		checkView(t, NewView(live, frozen, s, at), m, rng)
	}
	if len(m) < viewKeys/4 || at == 0 {
		t.Fatalf("the run was too tame: %d rows, flushed at %d", len(m), at)
	}
	checkView(t, NewView(nil, nil, s, at), frozenState, rng)
}

func TestViewWithoutStore(t *testing.T) {
	o := overlayOf(t, put(1, 1, "a"), del(1, 2), put(2, 1, "b"))
	v := NewView(o, nil, nil, 0)
	if keys, _ := scanView(t, v, []byte{1}, 10); len(keys) != 1 {
		t.Fatal(keys)
	}
	if _, found, err := v.Get(kv(1, 2)); found || err != nil {
		t.Fatal(found, err)
	}
	if _, found, err := v.Get(kv(1, 9)); found || err != nil {
		t.Fatal(found, err)
	}
	if err := v.ScanPrefix(nil, nil, 1, nil); !errors.Is(err, ErrKey) {
		t.Fatal(err)
	}
	if err := v.ScanPrefix([]byte{1}, nil, 0, nil); !errors.Is(err, ErrLimit) {
		t.Fatal(err)
	}
}

// Goal: bytes and limits of an overlay are counted through puts, overwrites and deletes.
func TestOverlayBytes(t *testing.T) {
	o := NewOverlay(OverlayLimits{Bytes: 10_000, Rows: 50})
	rng := rand.New(rand.NewPCG(3, 3))
	rows := map[string]int{}
	for range 2000 {
		key := kv(1, rng.IntN(40))
		size := rng.IntN(100)
		err := o.Put(key, make([]byte, size))
		if rng.IntN(3) == 0 {
			size, err = 0, o.Delete(key)
		}
		if err != nil {
			t.Fatal(err)
		}
		rows[string(key)] = size
		want := int64(0)
		for key, size := range rows {
			want += int64(len(key) + size + overlayRowOverhead)
		}
		if o.Bytes() != want || o.Len() != len(rows) || o.Full() != (want >= 10_000) {
			t.Fatalf("%d bytes, %d rows, full %v; want %d and %d", o.Bytes(), o.Len(), o.Full(), want, len(rows))
		}
	}
	for i := range 50 {
		if o.Full() && o.Bytes() < 10_000 && o.Len() < 50 {
			t.Fatal("full too early")
		}
		_ = o.Put(kv(2, i), nil)
	}
	if !o.Full() {
		t.Fatal("not full")
	}
	if err := o.Put(nil, nil); !errors.Is(err, ErrKey) {
		t.Fatal(err)
	}
	if err := o.Delete([]byte{0}); !errors.Is(err, ErrKey) {
		t.Fatal(err)
	}
}

// Goal: readers beside the writer (for the race detector), and no row seen twice or missed that was
// there all the time.
func TestOverlayConcurrentScan(t *testing.T) {
	o := NewOverlay(OverlayLimits{})
	for i := range 1000 {
		_ = o.Put(kv(1, 2*i), []byte("stays"))
	}
	stop := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
				_ = o.Put(kv(1, 2*(i%1000)+1), []byte("comes"))
				_ = o.Delete(kv(1, 2*((i+500)%1000)+1))
			}
		}
	})
	for range 50 {
		stayed, last := 0, ""
		err := NewView(o, nil, nil, 0).ScanPrefix([]byte{1}, nil, 10_000, func(key, value []byte) bool {
			if string(key) <= last {
				t.Errorf("%q after %q", key, last)
			}
			last = string(key)
			if string(value) == "stays" {
				stayed++
			}
			return true
		})
		if err != nil || stayed != 1000 {
			t.Fatalf("%d rows of 1000, %v", stayed, err)
		}
	}
	close(stop)
	wg.Wait()
}

// TestSnapshotKeepsItsRows: what is written after a snapshot shows in the view and not in the snapshot, in
// either order of reading; a row below the live overlay is read from below.
func TestSnapshotKeepsItsRows(t *testing.T) {
	key := func(i int) []byte { return fmt.Appendf([]byte{byte(FamilyKV)}, "key %05d", i) }
	live, frozen := NewOverlay(OverlayLimits{}), NewOverlay(OverlayLimits{})
	put := func(o *Overlay, i int, value string) {
		if err := o.Put(key(i), []byte(value)); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 1000 {
		put(live, i, "old")
	}
	put(frozen, 5000, "frozen")
	v := NewView(live, frozen, nil, 0)
	snap := v.Snapshot()
	for i := range 2000 {
		put(live, i*2, "new")
	}
	if err := live.Delete(key(7)); err != nil {
		t.Fatal(err)
	}
	seen := 0
	err := snap.ScanPrefix([]byte{byte(FamilyKV)}, nil, 1<<20, func(_, value []byte) bool {
		if seen++; string(value) == "new" {
			t.Fatal("a row written after the snapshot")
		}
		return true
	})
	if err != nil || seen != 1001 {
		t.Fatalf("%d rows, %v", seen, err)
	}
	if got, found, _ := v.Get(key(7)); found {
		t.Fatalf("the view still has %q", got)
	}
	if got, found, _ := snap.Get(key(7)); !found || string(got) != "old" {
		t.Fatalf("the snapshot has %q, %v", got, found)
	}
	if _, in := v.Live(key(5000)); in {
		t.Fatal("a frozen row counts as live")
	}
	if row, in := v.Live(key(7)); !in || !row.Tombstone {
		t.Fatal("a deletion does not show as one")
	}
	if _, found, _ := v.Below().Get(key(1)); found {
		t.Fatal("a live row lies below")
	}
	if got, found, _ := v.Below().Get(key(5000)); !found || string(got) != "frozen" {
		t.Fatalf("below lies %q, %v", got, found)
	}
}
