package format

import (
	"bytes"
	"errors"
	"reflect"
	"testing"
)

// record is what the tests put into extents: a head, and the body as one piece.
type record struct {
	head RecordHead
	body []byte
}

func (g gen) record() record {
	h := RecordHead{Group: RaftGroup(1 + g.IntN(63)), Replica: Replica(g.u64()), Index: Index(g.u64()), Term: Term(g.u64())}
	var body []byte
	switch g.IntN(6) {
	case 0:
		s := HardState{h.Group, h.Replica, h.Term, Replica(g.u64()), h.Index}
		h, body = s.Record()
	case 1:
		s := g.snapshot()
		h, body = s.Record()
	case 2:
		b := Bootstrap{h.Group, h.Replica, g.flip(), uint8(g.u32()), g.members()}
		h, body = b.Record()
	case 3:
		h = PositionRecord([]RecordKind{RecordFloor, RecordCut, RecordRemoved}[g.IntN(3)], h.Group, h.Replica, h.Index)
	case 4:
		e := g.entryRecord(g.bytes(6000))
		var scratch [proposalSize]byte
		var prefix []byte
		h, prefix = e.Head(&scratch)
		body = append(bytes.Clone(prefix), e.Bytes...)
	case 5:
		_, frame := g.frame(3)
		f := g.storedFrame(&h, frame)
		var fields []byte
		h, fields = f.Record()
		body = append(fields, frame...)
	}
	h.Length = uint32(len(body))
	return record{h, body}
}

func (g gen) storedFrame(h *RecordHead, frame []byte) StoredFrame {
	f := StoredFrame{Group: h.Group, Replica: h.Replica, Index: h.Index, Term: h.Term, Partition: PartitionID(g.u64()),
		Base: Offset(g.u64()), W: Wall(g.i64()), Origin: SegmentID(g.u32()), Count: 1 + uint32(g.IntN(40)), Flags: RowNative,
		Frame: frame}
	if f.Count > 1 && g.flip() {
		f.Flags |= RowPartial
		f.Refused = make([]byte, bitmapBytes(f.Count))
		f.Refused[0] = 1
	}
	return f
}

func (g gen) members() (m []Member) {
	for range g.IntN(4) {
		m = append(m, Member{MemberRole(1 + g.IntN(4)), Replica(g.u64()), string(g.bytes(20))})
	}
	return m
}

func (g gen) snapshot() Snapshot {
	return Snapshot{
		RaftGroup(1 + g.IntN(63)), Replica(g.u64()), Index(g.u64()), Term(g.u64()), Index(g.u64()), g.flip(),
		Index(g.u64()), g.members(), g.bytes(50),
	}
}

func (g gen) entryRecord(cmd []byte) EntryRecord {
	e := EntryRecord{
		RaftGroup(1 + g.IntN(63)), Replica(g.u64()), Index(g.u64()), Term(g.u64()), EntryType(g.IntN(4)), Proposal{}, cmd,
	}
	if g.flip() {
		e.Proposal = Proposal{g.u64(), g.u64(), g.u64(), g.u64() | 1}
	}
	return e
}

// extent packs records and finishes the extent; it returns the records' positions.
func packExtent(h *ExtentHead, records []record) ([]byte, []int) {
	b := make([]byte, ExtentHeadSize)
	var at []int
	for i := range records {
		pos := 0
		// In two parts, as a writer would hand them over.
		half := len(records[i].body) / 2
		b, pos = AppendRecord(b, &records[i].head, records[i].body[:half], records[i].body[half:])
		at = append(at, pos)
	}
	h.Records = uint32(len(records))
	return FinishExtent(b, h), at
}

// Goal: records come back from an extent in order, by the reader and by stepping from record to record.
func TestExtentGivesBackItsRecords(t *testing.T) {
	boundaries := 0
	for seed := range uint64(300) {
		g := newGen(seed)
		records := make([]record, g.IntN(20))
		for i := range records {
			records[i] = g.record()
		}
		h := ExtentHead{Segment: SegmentID(g.u32()), Number: g.u32(), Nonce: g.u64(), Previous: g.u64(), Boot: g.u64()}
		b, at := packExtent(&h, records)
		got, err := VerifyExtent(b)
		if err != nil || got != h || len(b) != h.Size() || len(b)%BlockSize != 0 {
			t.Fatalf("seed %d: %+v want %+v: %v", seed, got, h, err)
		}
		r := got.ReadRecords(b)
		for i := range records {
			if !r.Next() {
				t.Fatalf("seed %d record %d: %v", seed, i, r.Err())
			}
			if *r.Head() != records[i].head || !bytes.Equal(r.Body(), records[i].body) || r.Pos() != at[i] {
				t.Fatalf("seed %d record %d: %+v want %+v", seed, i, *r.Head(), records[i].head)
			}
		}
		if r.Next() || r.Err() != nil {
			t.Fatalf("seed %d: %v", seed, r.Err())
		}
		boundaries += walkByStep(t, b, at)
	}
	if boundaries == 0 {
		t.Fatal("no record met a block boundary: the walk over one went untested")
	}
}

// walkByStep follows NextRecord from the first record to the next extent, and counts boundaries met.
func walkByStep(t *testing.T, b []byte, at []int) (boundaries int) {
	t.Helper()
	if len(at) == 0 {
		return 0
	}
	next := append(bytes.Clone(b), make([]byte, BlockSize)...)
	(&ExtentHead{Number: 2}).Encode(next[len(b):])
	pos := int64(at[0])
	for i := range at {
		if pos != int64(at[i]) {
			t.Fatalf("record %d at %d, the walk came to %d", i, at[i], pos)
		}
		h, err := ParseRecordHead(next[pos:])
		if err != nil {
			t.Fatal(err)
		}
		end := pos + int64(h.Size())
		var step Step
		pos, step = NextRecord(end, next[end:])
		if pos == end+recordAlign && i+1 < len(at) {
			boundaries++
		}
		if (step == StepRecord) != (i+1 < len(at)) {
			t.Fatalf("record %d of %d: step %d", i, len(at), step)
		}
	}
	if pos != int64(len(b)) {
		t.Fatalf("the walk ended at %d, the next extent is at %d", pos, len(b))
	}
	return boundaries
}

// Goal: a flipped bit anywhere in an extent is found, and the checksum chains what came before.
func TestExtentRotIsFound(t *testing.T) {
	g := newGen(9)
	h := ExtentHead{Segment: 3, Number: 1, Nonce: 4}
	b, _ := packExtent(&h, []record{g.record(), g.record()})
	for i := range len(b) * 8 {
		b[i/8] ^= 1 << (i % 8)
		var e *Error
		if _, err := VerifyExtent(b); !errors.As(err, &e) {
			t.Fatalf("bit %d: %v", i, err)
		}
		b[i/8] ^= 1 << (i % 8)
	}
	other := h
	other.Previous++
	if h.Checksum() == other.Checksum() {
		t.Fatal("the checksum does not depend on the extent before")
	}
}

// Goal: the small records come back.
func TestMetaRecords(t *testing.T) {
	for seed := range uint64(200) {
		g := newGen(seed)
		state := HardState{RaftGroup(1 + g.IntN(63)), Replica(g.u64()), Term(g.u64()), Replica(g.u64()), Index(g.u64())}
		h, body := state.Record()
		h.Length = uint32(len(body))
		if got, err := ParseHardState(&h, body); err != nil || got != state {
			t.Fatal(got, state, err)
		}
		snapshot := g.snapshot()
		h, body = snapshot.Record()
		h.Length = uint32(len(body))
		if got, err := ParseSnapshot(&h, body); err != nil || !reflect.DeepEqual(normal(&got), normal(&snapshot)) {
			t.Fatalf("%+v want %+v: %v", got, snapshot, err)
		}
		boot := Bootstrap{state.Group, state.Replica, g.flip(), uint8(g.u32()), g.members()}
		h, body = boot.Record()
		h.Length = uint32(len(body))
		if got, err := ParseBootstrap(&h, body); err != nil || !reflect.DeepEqual(got, boot) {
			t.Fatalf("%+v want %+v: %v", got, boot, err)
		}
		h = PositionRecord(RecordCut, 2, 3, 4)
		if err := ParsePosition(&h, nil); err != nil {
			t.Fatal(err)
		}
		head := SegmentHead{SegmentID(g.u32()), g.u64(), g.uuid(), uint64(2+g.IntN(9)) * BlockSize, g.u64()}
		block := make([]byte, BlockSize)
		head.Encode(block)
		if got, err := ParseSegmentHead(block); err != nil || got != head {
			t.Fatalf("%+v want %+v: %v", got, head, err)
		}
	}
}

// Goal: an entry larger than a record comes back from its fragments, at any size around the borders.
func TestFragmentsJoin(t *testing.T) {
	g := newGen(4)
	for _, size := range []int{
		FragmentBytes - proposalSize, FragmentBytes, FragmentBytes + 1, 2*FragmentBytes - 16, 2 * FragmentBytes,
		2*FragmentBytes + 16, 3*FragmentBytes + 12345,
	} {
		for range 2 {
			cmd := make([]byte, size)
			for i := range cmd {
				cmd[i] = byte(i >> 12)
			}
			want := g.entryRecord(cmd)
			b, _ := want.Append(make([]byte, ExtentHeadSize))
			got := joinRecords(t, b)
			if !reflect.DeepEqual(got, want) {
				t.Fatalf("size %d: %d bytes back", size, len(got.Bytes))
			}
		}
	}
}

func joinRecords(t *testing.T, b []byte) EntryRecord {
	t.Helper()
	var j Joiner
	pos := int64(ExtentHeadSize)
	for {
		h, body, err := ParseRecord(b[pos:])
		if err != nil {
			t.Fatal(err)
		}
		done := true
		if h.Kind == RecordFragment {
			if done, err = j.Add(&h, body); err != nil {
				t.Fatal(err)
			}
			if done {
				h, body = j.Record()
			}
		}
		if done {
			e, err := ParseEntryRecord(&h, body)
			if err != nil {
				t.Fatal(err)
			}
			return e
		}
		end := pos + int64(h.Size())
		pos, _ = NextRecord(end, b[end:])
	}
}

// Goal: fragments that do not belong together never join.
func TestFragmentsOfDifferentLivesDoNotJoin(t *testing.T) {
	pieces := func(term Term) (heads []RecordHead, bodies [][]byte) {
		cmd := make([]byte, 3*FragmentBytes)
		h := RecordHead{Kind: RecordEntry, Group: 1, Replica: 1, Index: 7, Term: term}
		for i := range 3 {
			b, at := AppendFragment(make([]byte, 64), &h, i, nil, cmd)
			head, body, err := ParseRecord(b[at:])
			if err != nil {
				t.Fatal(err)
			}
			heads, bodies = append(heads, head), append(bodies, body)
		}
		return heads, bodies
	}
	oldHeads, oldBodies := pieces(1)
	newHeads, newBodies := pieces(2)
	var j Joiner
	add := func(h *RecordHead, body []byte, ok, whole bool) {
		t.Helper()
		if done, err := j.Add(h, body); done != whole || (err == nil) != ok {
			t.Fatalf("term %d: done %v, %v", h.Term, done, err)
		}
	}
	add(&oldHeads[0], oldBodies[0], true, false)
	add(&oldHeads[1], oldBodies[1], true, false)
	add(&newHeads[2], newBodies[2], false, false) // another life's piece
	add(&oldHeads[2], oldBodies[2], false, false) // and the fault forgot what was there
	add(&oldHeads[0], oldBodies[0], true, false)
	add(&newHeads[0], newBodies[0], true, false) // an overwrite starts anew
	add(&newHeads[1], newBodies[1], true, false)
	add(&newHeads[2], newBodies[2], true, true)
}
