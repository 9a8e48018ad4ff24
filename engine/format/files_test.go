package format

import (
	"bytes"
	"reflect"
	"sort"
	"testing"
)

func (g gen) footer() Footer {
	f := Footer{
		Segment: SegmentID(g.u32()), Nonce: g.u64(), Boot: g.u64(), End: uint64(1+g.IntN(1000)) * BlockSize,
		LastExtent: g.u32(), LastChecksum: g.u64(), Complete: g.flip(),
	}
	for range g.IntN(4) {
		f.Replaces = append(f.Replaces, SegmentID(g.u32()))
	}
	for range g.IntN(5) {
		group := FooterGroup{
			Group: RaftGroup(1 + g.IntN(63)), Replica: Replica(g.u64()), Cut: Index(g.u64()),
			FirstSlot: uint32(len(f.Positions)),
		}
		next := Index(1 + g.u64()>>8)
		for range g.IntN(4) {
			r := FooterRange{next, next + Index(g.IntN(900))}
			group.Entries = append(group.Entries, r)
			for range r.Last - r.First + 1 {
				f.Positions = append(f.Positions, g.u32())
			}
			next = r.Last + 1 + Index(g.IntN(5))
		}
		for range g.IntN(3) {
			first := Index(1 + g.u64()>>8)
			group.Outcomes = append(group.Outcomes, FooterRange{first, first + Index(g.IntN(99))})
		}
		f.Groups = append(f.Groups, group)
	}
	return f
}

// Goal: every entry of a sealed segment is found through the footer, and each flipped bit is found.
func TestFooterFindsEveryEntry(t *testing.T) {
	for seed := range uint64(60) {
		g := newGen(seed)
		f := g.footer()
		b := f.Append(nil)
		ranges := 0
		for i := range f.Groups {
			ranges += len(f.Groups[i].Entries) + len(f.Groups[i].Outcomes)
		}
		if room := FooterRoom(len(f.Positions), len(f.Groups), ranges, len(f.Replaces)); len(b) > room || len(b)%BlockSize != 0 {
			t.Fatalf("seed %d: %d bytes, room for %d", seed, len(b), room)
		}
		tr, err := ParseFooterTrailer(b[len(b)-BlockSize:])
		if err != nil || tr.Size() != len(b) || tr.Segment != f.Segment || tr.Nonce != f.Nonce || tr.End != f.End ||
			tr.LastExtent != f.LastExtent || tr.LastChecksum != f.LastChecksum || tr.Complete != f.Complete || tr.Boot != f.Boot {
			t.Fatalf("seed %d: %+v %v", seed, tr, err)
		}
		directory := b[len(b)-BlockSize-tr.DirectorySize() : len(b)-BlockSize]
		groups, replaces, err := tr.ParseDirectory(directory)
		if err != nil || !reflect.DeepEqual(normal(&groups), normal(&f.Groups)) ||
			!reflect.DeepEqual(normal(&replaces), normal(&f.Replaces)) {
			t.Fatalf("seed %d: %+v %v", seed, groups, err)
		}
		slot := uint32(0)
		for i := range groups {
			for _, r := range groups[i].Entries {
				for index := r.First; index <= r.Last; index++ {
					s, ok := groups[i].Slot(index)
					block, at := PositionBlock(s)
					pos, err := tr.ParsePosition(b[block*BlockSize:][:BlockSize], block, at)
					if !ok || s != slot || err != nil || pos != f.Positions[slot] {
						t.Fatalf("seed %d index %d: slot %d want %d: %v", seed, index, s, slot, err)
					}
					slot++
				}
				if _, ok := groups[i].Slot(r.First - 1); ok && i == 0 && r == groups[i].Entries[0] {
					t.Fatal("found an entry below the first")
				}
			}
		}
		if len(f.Positions) > 0 {
			b[0] ^= 1
			if _, err := tr.ParsePosition(b[:BlockSize], 0, 0); err == nil {
				t.Fatal("a rotten position passed")
			}
			b[0] ^= 1
			if _, err := tr.ParsePosition(b[:BlockSize], 1, 0); err == nil {
				t.Fatal("a position block passed for another")
			}
		}
		directory[0] ^= 1
		if _, _, err := tr.ParseDirectory(directory); err == nil {
			t.Fatal("a rotten directory passed")
		}
	}
}

// Goal: beacon slots come back.
func TestBeacon(t *testing.T) {
	block := make([]byte, BlockSize)
	for seed := range uint64(60) {
		g := newGen(seed)
		v := Beacon{g.u64(), g.uuid(), g.u64(), g.flip(), SegmentID(g.u32()), g.u64(), g.u64(), g.u32(), g.u64(), nil}
		for range g.IntN(64) {
			v.Groups = append(v.Groups, BeaconGroup{RaftGroup(1 + g.IntN(63)), Replica(g.u64()), Index(g.u64()), Index(g.u64())})
		}
		v.Encode(block)
		if got, err := ParseBeacon(block); err != nil || !reflect.DeepEqual(got, v) {
			t.Fatalf("%+v want %+v: %v", got, v, err)
		}
	}
}

// sealedBlocks are the parsers of blocks whose last four bytes are their checksum.
func sealedBlocks() map[string]struct {
	block []byte
	parse func([]byte) error
} {
	type entry = struct {
		block []byte
		parse func([]byte) error
	}
	blockOf := func(v interface{ Encode([]byte) }) []byte {
		b := make([]byte, BlockSize)
		v.Encode(b)
		return b
	}
	footer := (&Footer{Segment: 5, Nonce: 6, End: BlockSize}).Append(nil)
	return map[string]entry{
		"segment": {blockOf(&SegmentHead{Segment: 3, Size: 2 * BlockSize}), func(b []byte) error {
			_, err := ParseSegmentHead(b)
			return err
		}},
		"footer": {footer[len(footer)-BlockSize:], func(b []byte) error {
			_, err := ParseFooterTrailer(b)
			return err
		}},
		"beacon": {blockOf(&Beacon{Sequence: 3, Groups: []BeaconGroup{{1, 1, 2, 3}}}), func(b []byte) error {
			_, err := ParseBeacon(b)
			return err
		}},
		"run head": {blockOf(&RunHead{Kind: RunIDs, Group: 1}), func(b []byte) error {
			_, err := ParseRunHead(b)
			return err
		}},
		"run trailer": {blockOf(&RunTrailer{}), func(b []byte) error {
			_, err := ParseRunTrailer(b, 2*BlockSize)
			return err
		}},
		"checkpoint": {blockOf(&CheckpointHead{Kind: CheckpointBase, Group: 1}), func(b []byte) error {
			_, err := ParseCheckpointHead(b)
			return err
		}},
	}
}

// Goal: rot, reserved bytes and newer versions are refused in every head block. A reader takes a file of the next
// version that says it can be read, and refuses one that needs the next reader.
func TestSealedBlocks(t *testing.T) {
	for name, s := range sealedBlocks() {
		if err := s.parse(s.block); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		for i := range BlockSize * 8 {
			s.block[i/8] ^= 1 << (i % 8)
			if s.parse(s.block) == nil {
				t.Fatalf("%s: bit %d flipped", name, i)
			}
			s.block[i/8] ^= 1 << (i % 8)
		}
		next := s.block[8] + 1
		for _, c := range []struct {
			at   int
			v    byte
			want bool
		}{{8, next, true}, {9, next, false}, {8, 0, false}, {4000, 1, false}} {
			b := bytes.Clone(s.block)
			b[c.at] = c.v
			sealBlock(b)
			if err := s.parse(b); (err == nil) != c.want {
				t.Fatalf("%s: byte %d = %d: %v", name, c.at, c.v, err)
			}
		}
		if s.parse(s.block[:BlockSize-1]) == nil {
			t.Fatalf("%s: cut short", name)
		}
	}
}

// Goal: a run is read back through its fences, whatever key is asked for.
func TestRowRun(t *testing.T) {
	g := newGen(3)
	rows := make([]Row, 40_000)
	for i := range rows {
		rows[i] = Row{
			Partition: PartitionID(1+g.IntN(3000))<<6 | 1, Base: Offset(g.IntN(1 << 20)), Count: 1, Segment: 4,
			Pos: uint32(g.IntN(1<<28)) &^ 7, EntryOffset: g.u32(), Length: 100, Created: Wall(g.u32()), Flags: RowNative,
		}
	}
	sort.Slice(rows, func(i, j int) bool { return rows[i].Less(&rows[j]) })
	var w RunWriter
	head := RunHead{Kind: RunRows, Number: 7, First: 7, Last: 7}
	file := bytes.Clone(w.Begin(head))
	for i := range rows {
		file = append(file, w.AddRow(&rows[i])...)
	}
	file = append(file, w.Finish()...)

	if h, err := ParseRunHead(file[:BlockSize]); err != nil || h != head {
		t.Fatal(h, err)
	}
	tr, err := ParseRunTrailer(file[len(file)-BlockSize:], int64(len(file)))
	if err != nil || tr.Rows != uint64(len(rows)) {
		t.Fatalf("%+v %v", tr, err)
	}
	fences := readFences(t, file, tr, RunRows)
	for i := range rows {
		n := FindBlock(RunRows, fences, Fence{Partition: rows[i].Partition, Base: rows[i].Base})
		b, err := ParseRowBlock(file[(1+n)*BlockSize:][:BlockSize])
		if err != nil {
			t.Fatal(err)
		}
		var r Row
		if err := b.At(b.Find(rows[i].Partition, rows[i].Base), &r); err != nil || r.Partition != rows[i].Partition || r.Base != rows[i].Base {
			t.Fatalf("row %d: %+v want %+v: %v", i, r, rows[i], err)
		}
	}
	if FindBlock(RunRows, fences, Fence{}) != -1 {
		t.Fatal("found a block for a key below the first")
	}
}

func readFences(t *testing.T, file []byte, tr RunTrailer, kind RunKind) (fences []Fence) {
	t.Helper()
	for i := range tr.FenceBlocks {
		var err error
		if fences, err = ParseFenceBlock(fences, kind, i, file[(1+tr.Blocks+i)*BlockSize:][:BlockSize]); err != nil {
			t.Fatal(err)
		}
		if _, err := ParseFenceBlock(nil, kind, i+1, file[(1+tr.Blocks+i)*BlockSize:][:BlockSize]); err == nil {
			t.Fatal("a fence block passed for another")
		}
	}
	if len(fences) != int(tr.Blocks) {
		t.Fatalf("%d fences for %d blocks", len(fences), tr.Blocks)
	}
	return fences
}

// Goal: checkpoint chunks come back, and neither a chunk of another place nor of another file passes.
func TestCheckpointChunks(t *testing.T) {
	g := newGen(6)
	h := CheckpointHead{
		CheckpointDelta, 3, 9, 8, g.u64(), Index(g.u64()), Mono(g.i64()), Wall(g.i64()), g.uuid(), 1, 2, g.uuid(),
	}
	block := make([]byte, BlockSize)
	h.Encode(block)
	if got, err := ParseCheckpointHead(block); err != nil || got != h {
		t.Fatalf("%+v want %+v: %v", got, h, err)
	}
	for _, size := range []int{0, 1, BlockSize - ChunkHeadSize, BlockSize, ChunkBody} {
		for _, last := range []bool{true, false} {
			if !last && size != ChunkBody {
				continue
			}
			want := make([]byte, size)
			for i := range want {
				want[i] = byte(i >> 3)
			}
			chunk := h.FinishChunk(append(make([]byte, ChunkHeadSize), want...), 4, last)
			if len(chunk)%BlockSize != 0 || len(chunk) > ChunkBytes {
				t.Fatalf("chunk of %d bytes", len(chunk))
			}
			body, gotLast, err := h.ParseChunk(chunk, 4)
			if err != nil || gotLast != last || !bytes.Equal(body, want) {
				t.Fatalf("size %d: %d bytes, last %v: %v", size, len(body), gotLast, err)
			}
			if _, _, err := h.ParseChunk(chunk, 5); err == nil {
				t.Fatal("a chunk passed for another")
			}
			other := h
			other.Number++
			if _, _, err := other.ParseChunk(chunk, 4); err == nil {
				t.Fatal("a chunk of another file passed")
			}
			chunk[len(chunk)-1] ^= 1
			if _, _, err := h.ParseChunk(chunk, 4); err == nil {
				t.Fatal("a rotten chunk passed")
			}
		}
	}
}

func (g gen) manifest() Manifest {
	m := Manifest{Generation: g.u64(), Disk: g.uuid(), Cluster: g.uuid(), Boot: g.u64()}
	for range g.IntN(5) {
		s := ManifestSegment{SegmentID(g.u32()), SegmentState(1 + g.IntN(2)), g.u64(), g.u64(), nil}
		for range g.IntN(3) {
			s.Groups = append(s.Groups, ManifestRange{RaftGroup(1 + g.IntN(63)), Index(g.u64()), Index(g.u64()), Index(g.u64())})
		}
		m.Segments = append(m.Segments, s)
	}
	files := func() (f []ManifestFile) {
		for range g.IntN(4) {
			f = append(f, ManifestFile{FileKind(1 + g.IntN(4)), g.u64(), g.u64(), g.u64(), g.u64(), g.uuid()})
		}
		return f
	}
	m.RowRuns = files()
	for range g.IntN(4) {
		group := ManifestGroup{Group: RaftGroup(1 + g.IntN(63)), Replica: Replica(g.u64()), Floor: Index(g.u64())}
		for range g.IntN(4) {
			group.Marks = append(group.Marks, ManifestMark{g.u64(), Index(g.u64()), Wall(g.i64()), g.uuid(), g.uuid()})
		}
		for range g.IntN(3) {
			group.Checkpoints = append(group.Checkpoints, ManifestCheckpoint{g.u64(), Index(g.u64()), g.u64(), g.u64()})
		}
		group.Files = files()
		m.Groups = append(m.Groups, group)
	}
	return m
}

// Goal: a manifest comes back, and each flipped bit is found.
func TestManifest(t *testing.T) {
	for seed := range uint64(100) {
		m := newGen(seed).manifest()
		b := m.Append(nil)
		got, err := ParseManifest(b)
		if err != nil || !reflect.DeepEqual(normal(&got), normal(&m)) {
			t.Fatalf("seed %d: %+v want %+v: %v", seed, got, m, err)
		}
		for i := 0; i < len(b)*8; i += 1 + int(seed) {
			b[i/8] ^= 1 << (i % 8)
			if _, err := ParseManifest(b); err == nil {
				t.Fatalf("seed %d: bit %d flipped", seed, i)
			}
			b[i/8] ^= 1 << (i % 8)
		}
	}
	if ManifestName(4) == ManifestName(5) || ManifestName(4) != ManifestName(6) {
		t.Fatal("generations do not alternate")
	}
}
