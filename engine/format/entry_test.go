package format

import (
	"errors"
	"reflect"
	"testing"
)

// Goal: whatever callers contribute comes back from the entry, with ordinals and frames in place.
// Method: random buffers of random commands; each command is decoded and compared.
func TestEntryGivesBackWhatWasAdded(t *testing.T) {
	for seed := range uint64(400) {
		g := newGen(seed)
		var b EntryBuilder
		header := EntryHeader{Term(g.u64()), Mono(g.i64()), Wall(g.i64()), g.u64()}
		b.Begin(header)
		var want []any
		var kinds []Kind
		for range 1 + g.IntN(4) {
			var buf CommandBuf
			before := len(want)
			for range g.IntN(8) {
				switch k := Kind(1 + g.IntN(int(MaxKind))); k {
				case KindMark, KindOrigin:
				case KindTxn, KindOnce:
					for _, c := range g.bracket(&buf, k) {
						kinds, want = append(kinds, c.kind), append(want, c.want)
					}
				default:
					kinds, want = append(kinds, k), append(want, g.command(&buf, k))
				}
			}
			if err := buf.Validate(); err != nil && buf.Count > 0 {
				t.Fatalf("seed %d: %v", seed, err)
			}
			number, ordinal := b.Add(&buf)
			if number != before || ordinal != b.Ordinals()-buf.Ordinals {
				t.Fatalf("seed %d: first command %d ordinal %d", seed, number, ordinal)
			}
		}
		if len(want) == 0 {
			continue
		}
		size := b.Size()
		raw := b.Finish(nil)
		if len(raw) != size {
			t.Fatalf("seed %d: size %d, finished %d", seed, size, len(raw))
		}
		checkEntry(t, seed, raw, header, kinds, want)
	}
}

func checkEntry(t *testing.T, seed uint64, raw []byte, header EntryHeader, kinds []Kind, want []any) {
	t.Helper()
	e, err := ParseEntry(raw)
	if err != nil {
		t.Fatalf("seed %d: %v", seed, err)
	}
	if e.Header != header || int(e.CommandCount) != len(want) {
		t.Fatalf("seed %d: header %+v", seed, e)
	}
	if err := ValidateEntry(&e); err != nil {
		t.Fatalf("seed %d: %v", seed, err)
	}
	r := e.Reader()
	next := Ordinal(0)
	for i, w := range want {
		if !r.Next() || r.Kind() != kinds[i] || r.Number() != i || r.Ordinal() != next {
			t.Fatalf("seed %d command %d: kind %d number %d ordinal %d want %d, %v", seed, i, r.Kind(), r.Number(),
				r.Ordinal(), next, r.Err())
		}
		got, err := decodeCurrent(&r)
		if err != nil {
			t.Fatalf("seed %d command %d: %v", seed, i, err)
		}
		next += checkCommand(t, raw, got, w, r.Ordinal())
	}
	if r.Next() || r.Err() != nil {
		t.Fatalf("seed %d: a command too many, %v", seed, r.Err())
	}
}

// checkCommand compares a decoded command and returns how many ordinals it consumed.
func checkCommand(t *testing.T, raw []byte, got, want any, first Ordinal) Ordinal {
	t.Helper()
	consumed := Ordinal(1)
	var a, w *Append
	switch v := got.(type) {
	case *Append:
		a, w = v, want.(*Append)
	case *Redrive:
		a, w = &v.Append, &want.(*Redrive).Append
	case *Fire:
		a, w = &v.Append, &want.(*Fire).Append
	case *EndTxn:
		a, w = &v.Append, &want.(*EndTxn).Append
	}
	if a != nil {
		consumed = Ordinal(a.Count)
		frame := raw[a.PayloadPos : a.PayloadPos+a.PayloadLen]
		h, _, err := ParseFrame(frame)
		if err != nil || h.FirstOrdinal != first || !h.Placed || h.Count != a.Count {
			t.Fatalf("frame %+v at ordinal %d: %v", h, first, err)
		}
		if PayloadSum(frame) != a.PayloadSum {
			t.Fatal("payload sum depends on the ordinal")
		}
		w.PayloadPos = a.PayloadPos
	}
	if !reflect.DeepEqual(normal(got), normal(want)) {
		t.Fatalf("got  %+v\nwant %+v", got, want)
	}
	return consumed
}

// Goal: head length and head parse need no payload byte; every flipped bit outside the payload is found.
func TestEntryHeadStandsAlone(t *testing.T) {
	raw := sampleEntry(3)
	n, err := EntryHeadLen(raw[:EntryFixedHead])
	if err != nil {
		t.Fatal(err)
	}
	whole, err := ParseEntry(raw)
	if err != nil || int(whole.PayloadBase) != n {
		t.Fatal(whole.PayloadBase, n, err)
	}
	head, err := ParseEntryHead(raw[:n])
	if err != nil || !reflect.DeepEqual(head, whole) {
		t.Fatalf("%+v\n%+v %v", head, whole, err)
	}
	if _, err := ParseEntryHead(raw[:n-1]); err == nil {
		t.Fatal("a head cut short passed")
	}
	if _, err := ParseEntry(raw[:len(raw)-1]); err == nil {
		t.Fatal("an entry cut short passed")
	}
	for i := range n * 8 {
		raw[i/8] ^= 1 << (i % 8)
		var e *Error
		if _, err := ParseEntry(raw); !errors.As(err, &e) {
			t.Fatalf("bit %d flipped: %v", i, err)
		}
		raw[i/8] ^= 1 << (i % 8)
	}
}

// sampleEntry is one entry with a command of every kind but Mark.
func sampleEntry(seed uint64) []byte {
	g := newGen(seed)
	var b EntryBuilder
	b.Begin(EntryHeader{Epoch: 1, T: 2, W: 3, Fuse: 4})
	var buf CommandBuf
	for k := KindGenesis; k <= MaxKind; k++ {
		switch k {
		case KindMark, KindOrigin:
		case KindTxn, KindOnce:
			g.bracket(&buf, k)
		default:
			g.command(&buf, k)
		}
	}
	b.Add(&buf)
	return b.Finish(nil)
}

// Goal: a mark is refused beside other commands, whatever their order.
func TestMarkStandsAlone(t *testing.T) {
	for _, with := range []bool{false, true} {
		var buf CommandBuf
		if with {
			buf.AddTick()
		}
		buf.AddMark(&Mark{Number: 1})
		if err := buf.Validate(); (err != nil) != with {
			t.Fatalf("with another command %v: %v", with, err)
		}
	}
}

// Goal: Acks that the contract forbids do not survive decoding.
func TestAckRunsAreSortedAndDisjoint(t *testing.T) {
	for _, runs := range [][]AckRun{
		{{First: 5, Count: 2, Status: AckRetry}, {First: 6, Count: 1, Status: AckRetry}},
		{{First: 5, Count: 0, Status: AckRetry}},
		{{First: 5, Count: 1, Status: 7}},
		{{First: 1<<64 - 1, Count: 2, Status: AckRetry}},
	} {
		var buf CommandBuf
		buf.AddAck(&Ack{Partition: 65, Group: []byte("g"), Runs: runs})
		if buf.Validate() == nil {
			t.Fatalf("%+v passed", runs)
		}
	}
}

// Goal: decoding allocates nothing per command once the caller's lists have room.
func TestDecodingDoesNotAllocate(t *testing.T) {
	raw := frameEntry(100, 256)
	var a Append
	allocs := testing.AllocsPerRun(10, func() {
		e, err := ParseEntry(raw)
		if err != nil {
			t.Fatal(err)
		}
		r := e.Reader()
		for r.Next() {
			if err := r.Append(&a); err != nil {
				t.Fatal(err)
			}
		}
	})
	if allocs != 0 {
		t.Fatalf("%v allocations", allocs)
	}
}

func frameEntry(frames, payload int) []byte {
	var b EntryBuilder
	b.Begin(EntryHeader{})
	var buf CommandBuf
	a, frame := oneMessage(payload)
	for range frames {
		buf.AddAppend(a, frame)
	}
	b.Add(&buf)
	return b.Finish(nil)
}

func oneMessage(payload int) (*Append, []byte) {
	id := []byte("0196b4c2-7d5e-7b1e-8f7a-2d4b5c6d7e8f")
	m := []FrameMessage{{TransactionID: id, HasID: true, Payload: make([]byte, payload)}}
	hash := HashID([16]byte{1}, id)
	return &Append{
		Tenant: DefaultTenant, Queue: []byte("orders"), Partition: []byte("customer-000017"),
		Frame: FrameNative, Count: 1, IDs: IDsAll, Hashes: hash[:],
	}, EncodeFrame(nil, m, FrameOptions{})
}
