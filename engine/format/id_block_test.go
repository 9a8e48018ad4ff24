package format

import (
	"bytes"
	"sort"
	"testing"
)

// idRun makes the bytes of a run of sorted rows.
func idRun(w *RunWriter, rows []IDRow) []byte {
	var bounds IDBounds
	for i := range rows {
		bounds.Add(&rows[i])
	}
	h := RunHead{Kind: RunIDs, Group: 1, Number: 2, First: 3, Last: 4, IDs: bounds.Layout()}
	file := bytes.Clone(w.Begin(h))
	for i := range rows {
		file = append(file, w.AddID(rows[i].Spread(), &rows[i])...)
	}
	return append(file, w.Finish()...)
}

// idRows makes sorted rows: ids of few or many partitions, some stored several times, columns narrow, wide or constant.
func idRows(g gen, n int) []IDRow {
	parts, offsets, places := 1+g.IntN(50), uint64(1)<<g.IntN(64), uint64(1)<<g.IntN(64)
	rows := make([]IDRow, n)
	for i := range rows {
		rows[i] = IDRow{PartitionID(1+g.IntN(parts))<<6 | 1, IDHash(g.uuid()), Offset(g.Uint64N(offsets)),
			Place{Index(g.Uint64N(places)), Ordinal(g.IntN(1 << 22))}, Wall(g.i64() >> g.IntN(60))}
		if i > 0 && g.IntN(5) == 0 {
			rows[i].Partition, rows[i].Hash = rows[i-1].Partition, rows[i-1].Hash
		}
	}
	sort.Slice(rows, func(i, j int) bool { return rows[i].Less(&rows[j]) })
	return rows
}

// Goal: equal id runs are equal byte for byte, rows of any shape come back, and each is found through the fences.
func TestIDRun(t *testing.T) {
	for seed, n := range []int{1, 71, 72, 73, 5000, 20_000, 4000, 4000, 4000, 4000} {
		rows := idRows(newGen(uint64(seed)), n)
		var w RunWriter
		file := idRun(&w, rows)
		if !bytes.Equal(file, idRun(&w, rows)) {
			t.Fatal("the same rows made another file")
		}
		h, err := ParseRunHead(file[:BlockSize])
		if err != nil {
			t.Fatal(err)
		}
		tr, err := ParseRunTrailer(file[len(file)-BlockSize:], int64(len(file)))
		if err != nil || tr.Rows != uint64(n) {
			t.Fatal(tr, err)
		}
		fences := readFences(t, file, tr, RunIDs)
		at := 0
		for block := range int(tr.Blocks) {
			b, err := ParseIDBlock(&h, file[(1+block)*BlockSize:][:BlockSize])
			if err != nil {
				t.Fatal(err)
			}
			for i := range b.Len() {
				want := &rows[at]
				var r IDRow
				if b.At(i, &r); r != *want || b.Spread(i) != want.Spread() {
					t.Fatalf("seed %d, row %d: %+v want %+v", seed, at, r, *want)
				}
				first := b.Find(r.Spread())
				if pid, hash := b.Key(first); first > i || pid != r.Partition || hash != r.Hash {
					t.Fatalf("seed %d, row %d found at %d of its block", seed, at, first)
				}
				// The last block that begins at or below the id holds its newest row.
				if last := FindBlock(RunIDs, fences, IDFence(r.Partition, r.Hash)); last < block {
					t.Fatalf("seed %d, row %d of block %d is looked for in block %d", seed, at, block, last)
				}
				at++
			}
		}
		if at != n {
			t.Fatalf("%d rows of %d", at, n)
		}
	}
}

// Goal: the layout of a merged run follows from the layouts of its parts alone, and is the one that their rows would get.
func TestIDBoundsOfRuns(t *testing.T) {
	for seed := range uint64(50) {
		var all, merged IDBounds
		for part := range uint64(3) {
			var b IDBounds
			for _, r := range idRows(newGen(seed*3+part), 30) {
				b.Add(&r)
				all.Add(&r)
			}
			l := b.Layout()
			merged.AddRun(&l)
		}
		if merged.Layout() != all.Layout() {
			t.Fatalf("seed %d: %v want %v", seed, merged.Layout(), all.Layout())
		}
	}
}

// Goal: a flipped bit, an impossible number of rows and a wrong length do not pass for a block.
func TestIDBlockRefusals(t *testing.T) {
	h, b := goldenIDs(IDRow{65, IDHash(goldenSum), 300, Place{70, 5}, goldenWall})
	for i := range b {
		bad := bytes.Clone(b)
		bad[i] ^= 1 << (i % 8)
		if _, err := ParseIDBlock(h, bad); err == nil {
			t.Fatalf("bit of byte %d flipped", i)
		}
	}
	if _, err := ParseIDBlock(h, b[:100]); err == nil {
		t.Fatal("short block")
	}
}

// Goal: an id row stays near the 28 bytes that the design counts with, on the shape of a busy node: 10,000 partitions,
// a few chunks of 65,536 entries.
func TestIDRowSize(t *testing.T) {
	g := newGen(1)
	var b IDBounds
	for range 100_000 {
		b.Add(&IDRow{PartitionID(4000+g.IntN(10_000))<<6 | 1, IDHash(g.uuid()), Offset(g.IntN(1 << 20)),
			Place{Index(1<<30 + g.IntN(1<<16)), Ordinal(g.IntN(4000))}, Wall(1_700_000_000_000_000 + g.IntN(1<<24))})
	}
	l := b.Layout()
	p := l.plan()
	if n := float64(BlockSize) / float64(p.limit); n > 29 {
		t.Fatalf("%.1f bytes a row", n)
	}
}
