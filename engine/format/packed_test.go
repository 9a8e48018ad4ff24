package format

import (
	"reflect"
	"sort"
	"testing"
)

func (g gen) row() Row {
	r := Row{
		PartitionID(g.u64()), Offset(g.u64()), g.u32(), SegmentID(g.u32()), g.u32() &^ 7, g.u32(), g.u32(),
		Wall(g.i64()), RowFlags(g.Uint32()) &^ RowPartial, g.u32(), 0, 0, nil,
	}
	if g.IntN(4) == 0 {
		r.Flags |= RowPartial
		r.From, r.Span = g.u32(), uint32(1+g.IntN(300))
		r.Refused = make([]byte, (r.Span+7)/8)
		copy(r.Refused, g.bytes(len(r.Refused)))
	}
	return r
}

// Goal: rows of any shape come back from the blocks they were packed into, and are found by key.
func TestRowBlocksGiveBackRows(t *testing.T) {
	for seed := range uint64(100) {
		g := newGen(seed)
		rows := make([]Row, 1+g.IntN(900))
		for i := range rows {
			if rows[i] = g.row(); seed%2 == 0 {
				rows[i].Partition %= 5
			}
		}
		sort.Slice(rows, func(i, j int) bool { return rows[i].Less(&rows[j]) })
		var p RowPacker
		left := rows
		for i := range rows {
			if !p.Add(&rows[i]) {
				left = checkRowBlock(t, &p, left)
				p.Reset()
				if !p.Add(&rows[i]) {
					t.Fatal("a row does not fit an empty block")
				}
			}
		}
		if left = checkRowBlock(t, &p, left); len(left) != 0 {
			t.Fatalf("seed %d: %d rows missing", seed, len(left))
		}
	}
}

// checkRowBlock encodes, parses and compares; it returns the rows after those of the block.
func checkRowBlock(t *testing.T, p *RowPacker, want []Row) []Row {
	t.Helper()
	block := make([]byte, BlockSize)
	p.Encode(block)
	b, err := ParseRowBlock(block)
	if err != nil || b.Len() != p.Len() {
		t.Fatal(b.Len(), p.Len(), err)
	}
	for i := range b.Len() {
		var r Row
		if err := b.At(i, &r); err != nil || !reflect.DeepEqual(r, want[i]) {
			t.Fatalf("row %d: %+v want %+v: %v", i, r, want[i], err)
		}
		found := b.Find(r.Partition, r.Base)
		if pid, base := b.Key(found); pid != r.Partition || base != r.Base {
			t.Fatalf("row %d found at %d", i, found)
		}
	}
	if first := want[0]; first.Partition > 0 && b.Find(first.Partition-1, 1<<64-1) != -1 {
		t.Fatal("found a row below the first")
	}
	block[len(block)/2] ^= 4
	if _, err := ParseRowBlock(block); err == nil {
		t.Fatal("a flipped bit passed")
	}
	return want[b.Len():]
}

// Goal: the shape the design counts with (one message per frame, one frame per partition, one segment)
// costs about 12 bytes a row.
func TestRowSize(t *testing.T) {
	g := newGen(1)
	var p RowPacker
	for i := 0; ; i++ {
		entry := g.IntN(1000)
		r := Row{
			Partition: PartitionID(4000+i*5)<<6 | 1, Base: Offset(g.IntN(1000)), Count: 1, Segment: 77,
			Pos: uint32(g.IntN(256<<20)) &^ 7, EntryOffset: uint32(g.IntN(256 << 10)),
			Length: uint32(300 + g.IntN(60)), Created: Wall(1_700_000_000_000_000 + entry*2500), Flags: RowNative,
		}
		if !p.Add(&r) {
			break
		}
	}
	if perRow := float64(BlockSize) / float64(p.Len()); perRow > 12 {
		t.Fatalf("%.1f bytes a row", perRow)
	}
}

// Goal: the rows of a partial frame cover its kept messages exactly, also above what one row holds.
func TestSplitPartial(t *testing.T) {
	for seed := range uint64(30) {
		g := newGen(seed)
		count := uint32(1 + g.IntN(3*RowSpanMax))
		refused := make([]byte, (count+7)/8)
		want := map[Offset]uint32{}
		base := Offset(100)
		for i := range count {
			if g.flip() || i > 2000 && i < 17000 {
				refused[i/8] |= 1 << (i % 8)
			} else {
				want[base] = i
				base++
			}
		}
		for _, r := range SplitPartial(nil, Row{Base: 100}, count, refused) {
			var p RowPacker
			if !p.Add(&r) {
				t.Fatal("does not fit a block")
			}
			o := r.Base
			for i := range r.Span {
				if r.Refused[i/8]>>(i%8)&1 == 0 {
					if want[o] != r.From+i {
						t.Fatalf("seed %d: offset %d is message %d want %d", seed, o, r.From+i, want[o])
					}
					delete(want, o)
					o++
				}
			}
			if o != r.Base+Offset(r.Count) {
				t.Fatalf("seed %d: count %d", seed, r.Count)
			}
		}
		if len(want) != 0 {
			t.Fatalf("seed %d: %d messages without a row", seed, len(want))
		}
	}
}
