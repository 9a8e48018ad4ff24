package format

import (
	"bytes"
	"encoding/binary"
	"os"
	"path/filepath"
	"reflect"
	"testing"
)

// The fuzz targets feed every decoder with hostile bytes. Checksums would turn nearly all of them away,
// so a target repairs the checksum first and then asks the decoder: no panic, and what is accepted comes
// back equal after it was encoded again. The golden files and random samples are the seeds.

// seedGoldens adds the bytes of the golden files whose names match.
func seedGoldens(f *testing.F, pattern string) {
	f.Helper()
	names, err := filepath.Glob(filepath.Join("testdata", "golden", pattern))
	if err != nil || len(names) == 0 {
		f.Fatal(pattern, err)
	}
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(parseGoldenBytes(text))
	}
}

func parseGoldenBytes(text []byte) []byte { return parseGolden(new(testing.T), text) }

func FuzzEntry(f *testing.F) {
	seedGoldens(f, "entry.hex")
	for seed := range uint64(8) {
		f.Add(sampleEntry(seed))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		ParseEntry(b)
		b = bytes.Clone(b)
		if n, err := EntryHeadLen(b); err == nil && n <= len(b) {
			binary.LittleEndian.PutUint32(b[4:], crc32cPair(b[:4], b[8:n]))
		}
		e, err := ParseEntry(b)
		if err != nil || ValidateEntry(&e) != nil {
			// Walking an entry that Validate refuses must be safe as well.
			walkEntry(&e)
			return
		}
		again := reencode(t, &e, b)
		e2, err := ParseEntry(again)
		if err != nil || ValidateEntry(&e2) != nil {
			t.Fatalf("accepted, but not after encoding it again: %v", err)
		}
		r, r2 := e.Reader(), e2.Reader()
		for r.Next() {
			if !r2.Next() || r.Ordinal() != r2.Ordinal() {
				t.Fatal("a command is missing", r2.Err())
			}
			v, _ := decodeCurrent(&r)
			v2, _ := decodeCurrent(&r2)
			if a, ok := v.(*Append); ok {
				a.PayloadPos, v2.(*Append).PayloadPos = 0, 0
				a.PayloadSum, v2.(*Append).PayloadSum = 0, 0
				a.Sealed, v2.(*Append).Sealed = false, false // taken from the frame, which is noise here
			}
			if a, ok := v.(*Redrive); ok {
				a.Append.PayloadPos, v2.(*Redrive).Append.PayloadPos = 0, 0
				a.Append.PayloadSum, v2.(*Redrive).Append.PayloadSum = 0, 0
				a.Append.Sealed, v2.(*Redrive).Append.Sealed = false, false
			}
			if a, ok := v.(*Fire); ok {
				a.Append.PayloadPos, v2.(*Fire).Append.PayloadPos = 0, 0
				a.Append.PayloadSum, v2.(*Fire).Append.PayloadSum = 0, 0
			}
			if a, ok := v.(*EndTxn); ok {
				a.Append.PayloadPos, v2.(*EndTxn).Append.PayloadPos = 0, 0
				a.Append.PayloadSum, v2.(*EndTxn).Append.PayloadSum = 0, 0
				a.Append.Sealed, v2.(*EndTxn).Append.Sealed = false, false
			}
			if !reflect.DeepEqual(normal(v), normal(v2)) {
				t.Fatalf("%+v\n%+v", v, v2)
			}
		}
	})
}

func walkEntry(e *Entry) {
	r := e.Reader()
	for r.Next() {
		if _, err := decodeCurrent(&r); err != nil {
			return
		}
	}
}

// reencode decodes every command of e, whose bytes are b, and builds the entry anew.
func reencode(t *testing.T, e *Entry, b []byte) []byte {
	t.Helper()
	var buf CommandBuf
	r := e.Reader()
	for r.Next() {
		v, err := decodeCurrent(&r)
		if err != nil {
			t.Fatal(err)
		}
		addCommand(&buf, r.Kind(), v, b)
	}
	var builder EntryBuilder
	builder.Begin(e.Header)
	builder.Add(&buf)
	return builder.Finish(nil)
}

func addCommand(b *CommandBuf, k Kind, v any, entry []byte) {
	switch v := v.(type) {
	case nil:
		b.AddTick()
	case *Genesis:
		b.AddGenesis(v)
	case *TermCmd:
		b.AddTerm(v)
	case *Append:
		b.AddAppend(v, entry[v.PayloadPos:][:v.PayloadLen])
	case *Pop:
		b.AddPop(v)
	case *Ack:
		b.AddAck(v)
	case *Extend:
		b.AddExtend(v)
	case *Release:
		b.AddRelease(v)
	case *Skip:
		b.AddSkip(v)
	case *TrimLease:
		b.AddTrimLease(v)
	case *SetOffset:
		b.AddSetOffset(v)
	case *Register:
		b.AddRegister(v)
	case *Redrive:
		b.AddRedrive(v, entry[v.Append.PayloadPos:][:v.Append.PayloadLen])
	case *Reveal:
		b.AddReveal(v)
	case *Retain:
		b.AddRetain(v)
	case *Trim:
		b.AddTrim(v)
	case *Configure:
		b.AddConfigure(v)
	case *Delete:
		b.AddDelete(v)
	case *Sweep:
		b.AddSweep(v)
	case *Mark:
		b.AddMark(v)
	case *Purge:
		b.AddPurge(v)
	case *Admin:
		b.AddAdmin(v)
	case *Group:
		b.AddGroup(v)
	case *Txn:
		b.AddTxn(v)
	case *Once:
		b.AddOnce(v)
	case *KV:
		b.AddKV(v)
	case *Lock:
		b.AddLock(v)
	case *Timer:
		b.AddTimer(v)
	case *Fire:
		b.AddFire(v, entry[v.Append.PayloadPos:][:v.Append.PayloadLen])
	case *Producer:
		b.AddProducer(v)
	case *EndTxn:
		b.AddEndTxn(v, entry[v.Append.PayloadPos:][:v.Append.PayloadLen])
	case *Opaque:
		b.AddOpaque(v)
	}
}

// FuzzCommand reaches the body decoders at once: one command of any kind, ids and payload beside it.
func FuzzCommand(f *testing.F) {
	for seed := range uint64(3) {
		for k := KindGenesis; k <= MaxKind; k++ {
			var buf CommandBuf
			newGen(seed).command(&buf, k)
			f.Add(buf.Commands, buf.IDs, uint32(len(buf.Payload)))
		}
	}
	f.Fuzz(func(t *testing.T, commands, ids []byte, payload uint32) {
		if payload > 1<<20 {
			return
		}
		e := Entry{Commands: commands, IDs: ids, CommandCount: 1, PayloadBase: EntryFixedHead, Len: EntryFixedHead + payload}
		walkEntry(&e)
	})
}

func FuzzFrame(f *testing.F) {
	seedGoldens(f, "frame*.hex")
	f.Fuzz(func(t *testing.T, b []byte) {
		b = bytes.Clone(b)
		if len(b) >= FrameHeadSize {
			binary.LittleEndian.PutUint32(b[frameCRCAt:], crc32cPair(b[frameSumFrom:frameCRCAt], b[FrameHeadSize:]))
			// The bound on a promised length is tested in TestHostileLengths; here it would only cost memory.
			if binary.LittleEndian.Uint32(b[12:]) > 1<<22 {
				return
			}
		}
		if h, body, err := ParseFrame(b); err == nil && h.Sealed {
			if s, err := h.OpenSeal(body); err == nil && len(s.Nonce)+len(s.Text)+4 != len(body) {
				t.Fatalf("%d bytes of a body of %d", len(s.Nonce)+len(s.Text)+4, len(body))
			}
		}
		var scratch []byte
		h, r, err := ReadFrame(b, &scratch)
		if err != nil || h.Kind != FrameNative {
			return
		}
		var msgs []FrameMessage
		for m := (FrameMessage{}); r.Next(&m); {
			msgs = append(msgs, m)
			for headers, v := ReadHeaders(m.Headers), (Header{}); headers.Next(&v); {
			}
		}
		if r.Err() != nil {
			return
		}
		if len(msgs) != int(h.Count) {
			t.Fatalf("%d messages, the head says %d", len(msgs), h.Count)
		}
		var again []byte
		_, r2, err := ReadFrame(EncodeFrame(nil, msgs, FrameOptions{}), &again)
		for i := 0; err == nil && i < len(msgs); i++ {
			var m FrameMessage
			if !r2.Next(&m) || !reflect.DeepEqual(normal(&m), normal(&msgs[i])) {
				t.Fatalf("message %d: %+v want %+v", i, m, msgs[i])
			}
		}
	})
}

// FuzzExtent walks an extent whose checksums hold.
func FuzzExtent(f *testing.F) {
	seedGoldens(f, "extent.hex")
	for seed := range uint64(8) {
		g := newGen(seed)
		b, _ := packExtent(&ExtentHead{Segment: 1, Number: 1}, []record{g.record(), g.record(), g.record()})
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		b = bytes.Clone(b)
		if len(b) < ExtentHeadSize {
			return
		}
		binary.LittleEndian.PutUint32(b[60:], crc32c(b[:60]))
		h, err := ParseExtentHead(b)
		if err != nil || len(b) < h.Size() {
			return
		}
		h.Sum = sum64(b[ExtentHeadSize:h.Size()])
		h.Encode(b)
		if h, err = VerifyExtent(b); err != nil {
			t.Fatal(err)
		}
		r := h.ReadRecords(b)
		var j Joiner
		for r.Next() {
			parseAnyRecord(r.Head(), r.Body(), &j)
		}
	})
}

// FuzzRecord reaches the parsers behind a record's checksum.
func FuzzRecord(f *testing.F) {
	seedGoldens(f, "record_*.hex")
	f.Fuzz(func(t *testing.T, b []byte) {
		b = bytes.Clone(b)
		h, err := ParseRecordHead(b)
		if err != nil || len(b) < RecordHeadSize+int(h.Covered) {
			return
		}
		binary.LittleEndian.PutUint32(b, crc32c(b[4:RecordHeadSize+int(h.Covered)]))
		h, body, err := ParseRecord(b)
		if err != nil {
			t.Fatal(err)
		}
		NextRecord(8, append(b, make([]byte, 8)...))
		if len(body) == int(h.Length) {
			parseAnyRecord(&h, body, new(Joiner))
		}
	})
}

// parseAnyRecord asks every parser about every record: only the right one may accept it.
func parseAnyRecord(h *RecordHead, body []byte, j *Joiner) {
	if h.Kind != RecordFragment || len(body) < 16 || binary.LittleEndian.Uint32(body[12:]) < 4<<20 {
		if done, err := j.Add(h, body); err == nil && done {
			j.Record()
		}
	}
	ParseHardState(h, body)
	ParseSnapshot(h, body)
	ParseBootstrap(h, body)
	ParsePosition(h, body)
	ParseStoredFrame(h, body)
	ParseEntryRecord(h, body)
	walkOutcome(h, body)
}

func walkOutcome(h *RecordHead, body []byte) {
	r, err := ParseOutcome(h, body)
	if err != nil {
		return
	}
	for o := (EntryOutcome{}); ; {
		if _, ok := r.Next(&o); !ok {
			return
		}
		for v := (FrameOutcome{}); o.Frames.Next(&v); {
		}
	}
}

// FuzzBlocks feeds the parsers of 4 KiB blocks, whose checksum stands in the last four bytes.
func FuzzBlocks(f *testing.F) {
	for _, s := range sealedBlocks() {
		f.Add(s.block[:256])
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		block := make([]byte, BlockSize)
		copy(block, b)
		sealBlock(block)
		if h, err := ParseSegmentHead(block); err == nil {
			sameBlock(t, &h, block)
		}
		if v, err := ParseBeacon(block); err == nil {
			sameBlock(t, &v, block)
		}
		if h, err := ParseRunHead(block); err == nil {
			sameBlock(t, &h, block)
		}
		if v, err := ParseRunTrailer(block, 2*BlockSize); err == nil {
			sameBlock(t, &v, block)
		}
		if h, err := ParseCheckpointHead(block); err == nil {
			sameBlock(t, &h, block)
		}
		ParseFooterTrailer(block)
	})
}

// sameBlock compares all but the version bytes, which a newer writer may have set, and the checksum.
func sameBlock(t *testing.T, v interface{ Encode([]byte) }, block []byte) {
	t.Helper()
	again := make([]byte, BlockSize)
	v.Encode(again)
	again[8], again[9] = block[8], block[9]
	if !bytes.Equal(again[:BlockSize-4], block[:BlockSize-4]) {
		t.Fatalf("%+v encodes to other bytes", v)
	}
}

func FuzzFooterDirectory(f *testing.F) {
	for seed := range uint64(8) {
		footer := newGen(seed).footer()
		f.Add(footer.appendDirectory(nil), uint32(len(footer.Positions)))
	}
	f.Fuzz(func(t *testing.T, b []byte, slots uint32) {
		if len(b) > MaxFooterDirectory {
			return
		}
		tr := FooterTrailer{Slots: slots, DirectoryBytes: uint32(len(b))}
		padded := append(bytes.Clone(b), make([]byte, -len(b)&(BlockSize-1))...)
		tr.directorySum = sum64(padded)
		groups, replaces, err := tr.ParseDirectory(padded)
		if err != nil {
			return
		}
		for i := range groups {
			groups[i].Slot(Index(slots))
			groups[i].Count()
		}
		if again := (&Footer{Groups: groups, Replaces: replaces}).appendDirectory(nil); !bytes.Equal(again, b) {
			t.Fatalf("%x encodes to %x", b, again)
		}
	})
}

// FuzzPackedBlock feeds row and id blocks, and fence blocks.
func FuzzPackedBlock(f *testing.F) {
	seedGoldens(f, "*_block.hex")
	f.Fuzz(func(t *testing.T, b []byte) {
		block := make([]byte, BlockSize)
		copy(block, b)
		binary.LittleEndian.PutUint32(block, fenceSum(0, block[4:]))
		ParseFenceBlock(nil, RunRows, 0, block)
		binary.LittleEndian.PutUint32(block, crc32c(block[4:]))
		if rows, err := ParseRowBlock(block); err == nil {
			for i := range rows.Len() {
				rows.At(i, new(Row))
			}
			rows.Find(1, 2)
		}
		head := RunHead{Kind: RunIDs, Group: 1}
		for i := range head.IDs.Low {
			head.IDs.Low[i] = binary.LittleEndian.Uint64(block[64+8*i:])
			head.IDs.Top[i] = head.IDs.Low[i] + ^uint64(0)>>(block[128+i]%65)
		}
		if ids, err := ParseIDBlock(&head, block); err == nil {
			for i := range ids.Len() {
				ids.At(i, new(IDRow))
			}
			ids.Find(1)
		}
	})
}

func FuzzManifest(f *testing.F) {
	for seed := range uint64(8) {
		m := newGen(seed).manifest()
		f.Add(m.appendBody(nil))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		ParseManifest(b)
		d := decoder{b: b}
		m := d.manifest()
		if d.close("manifest", 0) != nil {
			return
		}
		if again := m.appendBody(nil); !bytes.Equal(again, b) {
			t.Fatalf("%x encodes to %x", b, again)
		}
	})
}

func FuzzCheckpointChunk(f *testing.F) {
	seedGoldens(f, "checkpoint_chunk.hex")
	f.Fuzz(func(t *testing.T, b []byte) {
		h := CheckpointHead{Number: 9, Group: 1}
		b = bytes.Clone(b)
		if len(b) >= ChunkHeadSize {
			binary.LittleEndian.PutUint64(b, h.chunkSum(b))
		}
		for number := range uint32(4) {
			if body, last, err := h.ParseChunk(b, number); err == nil {
				again := h.FinishChunk(append(make([]byte, ChunkHeadSize), body...), number, last)
				if !bytes.Equal(again, b) {
					t.Fatal("encodes to other bytes")
				}
			}
		}
	})
}

func FuzzOptions(f *testing.F) {
	for seed := range uint64(8) {
		o := newGen(seed).options(true)
		f.Add(AppendAllOptions(nil, &o))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		o, err := ParseAllOptions(b)
		if err != nil {
			return
		}
		again := AppendAllOptions(nil, &o)
		if mask, _ := binary.Uvarint(b); mask != uint64(optFirst) && mask != uint64(optSecond) {
			if !bytes.Equal(again, b) {
				t.Fatalf("%+v encodes to other bytes", o)
			}
		} else if back, err := ParseAllOptions(again); err != nil || back != o {
			t.Fatalf("%+v comes back as %+v, %v", o, back, err)
		}
	})
}

func FuzzMessageID(f *testing.F) {
	f.Add(make([]byte, 26))
	f.Fuzz(func(t *testing.T, b []byte) {
		var mask [10]byte
		var u UUID
		copy(u[:], b)
		copy(mask[:], b[min(16, len(b)):])
		group, ms, p, ok := ParseMessageID(mask, u)
		if ok && MessageID(mask, group, Wall(ms*1000), p) != u {
			t.Fatalf("%v is not the id of its own place", u)
		}
	})
}
