package slab

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"testing"
)

type idKey struct {
	pid  uint64
	hash [16]byte
}

// idOf makes the id of key number n, stored as the seq-th message; three messages share an entry.
func idOf(n, seq uint64) ID {
	id := ID{PID: n % 7, Offset: seq, Index: seq / 3, Ordinal: uint32(seq % 3), W: int64(seq/3) * 10}
	binary.LittleEndian.PutUint64(id.Hash[:], n/7*0x9e3779b97f4a7c15)
	binary.LittleEndian.PutUint64(id.Hash[8:], n/14) // pairs that differ in one half only
	return id
}

func checkOrder(a, b ID) error {
	if cmp.Or(cmp.Compare(a.Index, b.Index), cmp.Compare(a.Ordinal, b.Ordinal)) > 0 {
		return fmt.Errorf("%+v before %+v", a, b)
	}
	return nil
}

// TestRecentIDsModel adds keys, some again and again, beside a map per chunk, and closes chunks of very different
// sizes. The rows' numbers start close to where they wrap. A second table loaded from the closed chunks must answer
// the same.
func TestRecentIDsModel(t *testing.T) {
	r, rng := NewRecentIDs(4), rand.New(rand.NewPCG(8, 8))
	r.oldest, r.next = 3*idHandle-20000, 3*idHandle-20000
	r.window[0].chunk.first = r.next
	chunks := []map[idKey]ID{{}}
	gone := 0 // closed chunks that were forgotten before their turn
	lookup := func(k idKey) (ID, bool) {
		for i := len(chunks) - 1; i >= 0; i-- {
			if id, ok := chunks[i][k]; ok {
				return id, true
			}
		}
		return ID{}, false
	}
	seq := uint64(0)
	for mark := range uint64(60) {
		for range rng.IntN(1 + []int{3000, 20, 600}[mark%3]) {
			id := idOf(rng.Uint64N(8000), seq)
			seq++
			r.Warm([]ID{id, idOf(seq, seq)})
			r.Add(id)
			chunks[len(chunks)-1][idKey{id.PID, id.Hash}] = id
		}
		for n := range uint64(8100) {
			probe := idOf(n, 0)
			got, ok := r.Find(probe.PID, probe.Hash)
			if want, has := lookup(idKey{probe.PID, probe.Hash}); ok != has || got != want {
				t.Fatalf("mark %d: key %d is %+v (%v), want %+v (%v)", mark, n, got, ok, want, has)
			}
		}
		closed := r.Close(mark)
		if closed.Mark() != mark {
			t.Fatalf("closed as %d, want %d", closed.Mark(), mark)
		}
		if chunks = append(chunks, map[idKey]ID{}); len(chunks) > RecentChunks+1 {
			chunks = chunks[1:]
		}
		if mark%7 == 6 {
			n, asked := rng.IntN(len(chunks)), 0
			r.Forget(func(*IDChunk) bool {
				asked++
				return asked <= n
			})
			chunks = chunks[n:]
			gone += n
		}
		if mark%10 == 9 {
			checkLoaded(t, r, chunks, lookup)
		}
	}
	if gone == 0 {
		t.Fatal("nothing was forgotten")
	}
	live := 0
	for _, w := range r.window {
		live += w.indexed
	}
	if live != r.index.Len() {
		t.Fatalf("%d rows indexed, %d counted", r.index.Len(), live)
	}
}

// checkLoaded exports the closed chunks in order, loads them into a new table, and compares answers.
func checkLoaded(t *testing.T, r *RecentIDs, chunks []map[idKey]ID, lookup func(idKey) (ID, bool)) {
	t.Helper()
	fresh := NewRecentIDs(77)
	if got := len(r.Closed()); got != len(chunks)-1 {
		t.Fatalf("%d closed chunks", got)
	}
	for i, c := range r.Closed() {
		var rows []ID
		err := c.Each(func(id ID) error {
			if len(rows) > 0 {
				if err := checkOrder(rows[len(rows)-1], id); err != nil {
					return err
				}
			}
			rows = append(rows, id)
			return nil
		})
		if err != nil || len(rows) != c.Len() {
			t.Fatalf("chunk %d: %d rows of %d, %v", i, len(rows), c.Len(), err)
		}
		newest := map[idKey]ID{}
		for _, id := range rows {
			newest[idKey{id.PID, id.Hash}] = id
		}
		if fmt.Sprint(newest) != fmt.Sprint(chunks[i]) {
			t.Fatalf("chunk %d holds other rows", i)
		}
		fresh.LoadChunk(c.Mark(), rows)
	}
	if fresh.Len() != r.Len() || fresh.index.Len() != r.index.Len() {
		t.Fatalf("loaded %d rows, %d keys; want %d, %d", fresh.Len(), fresh.index.Len(), r.Len(), r.index.Len())
	}
	for n := range uint64(8100) {
		probe := idOf(n, 0)
		got, ok := fresh.Find(probe.PID, probe.Hash)
		if want, has := lookup(idKey{probe.PID, probe.Hash}); ok != has || got != want {
			t.Fatalf("loaded: key %d is %+v (%v), want %+v (%v)", n, got, ok, want, has)
		}
	}
}

// TestRecentIDsCompareWholeKeys looks for keys that differ in one part only and fall on one slot tag, and tells them
// apart.
func TestRecentIDsCompareWholeKeys(t *testing.T) {
	for name, vary := range map[string]func(id *ID, n uint64){
		"pid":        func(id *ID, n uint64) { id.PID = n },
		"first half": func(id *ID, n uint64) { binary.LittleEndian.PutUint64(id.Hash[:], n) },
		"last half":  func(id *ID, n uint64) { binary.LittleEndian.PutUint64(id.Hash[8:], n) },
	} {
		r := NewRecentIDs(6)
		seen := map[uint32]uint64{}
		for n := uint64(1); ; n++ {
			if n == 2_000_000 {
				t.Fatalf("%s: no two keys on one tag", name)
			}
			var a, b ID
			vary(&b, n)
			lo, hi := halves(&b.Hash)
			tag := tagOf(r.hash(b.PID, lo, hi))
			other, ok := seen[tag]
			if seen[tag] = n; !ok {
				continue
			}
			vary(&a, other)
			a.Offset, b.Offset = 1, 2
			r.Add(a)
			if _, ok := r.Find(b.PID, b.Hash); ok {
				t.Errorf("%s: another key was found", name)
			}
			r.Add(b)
			if got, ok := r.Find(a.PID, a.Hash); !ok || got != a {
				t.Errorf("%s: found %+v (%v), want %+v", name, got, ok, a)
			}
			break
		}
	}
}

// TestRecentIDsMemory: closing chunk after chunk of equal size, the table does not grow, though nothing is ever
// deleted from it.
func TestRecentIDsMemory(t *testing.T) {
	r := NewRecentIDs(4)
	var settled int64
	for mark := range uint64(60) {
		for i := range uint64(5000) {
			r.Add(idOf(mark*5000+i, mark*5000+i))
		}
		r.Close(mark)
		if mark == 20 {
			settled = r.Bytes()
		}
	}
	if now := r.Bytes(); now > settled*11/10 {
		t.Errorf("%d bytes after 60 chunks, %d after 20", now, settled)
	}
	for mark := range uint64(RecentChunks + 1) {
		r.Close(mark)
	}
	if r.Len() != 0 || r.index.Len() != 0 {
		t.Errorf("%d rows, %d keys in a table whose chunks are all empty", r.Len(), r.index.Len())
	}
	if r.Forget(func(*IDChunk) bool { return true }); r.Bytes() > 256<<10 {
		t.Errorf("%d bytes in a table that was told to forget everything", r.Bytes())
	}
}
