package format

import (
	"bytes"
	"encoding/binary"
	"runtime"
	"testing"
)

// Goal: a length that lies makes no decoder allocate more than DecodeGrowthMax bytes per byte of input.
// Method: the largest counts that each list field can hold, in short and in padded bodies.
func TestHostileLengths(t *testing.T) {
	for _, count := range []uint64{1 << 10, MaxListItems, MaxListItems + 1, 1 << 40, 1<<64 - 1} {
		for _, padding := range []int{0, 4000, 1 << 20} {
			list := append(putUvarint(nil, count), bytes.Repeat([]byte{1}, padding)...)
			for name, body := range hostileBodies(list) {
				checkAllocation(t, name, len(body.bytes), body.decode)
			}
		}
	}
}

type hostile struct {
	bytes  []byte
	decode func()
}

func hostileBodies(list []byte) map[string]hostile {
	command := func(kind Kind, prefix ...byte) hostile {
		body := append(bytes.Clone(prefix), list...)
		commands := putBytes([]byte{byte(kind)}, body)
		return hostile{commands, func() {
			e := Entry{Commands: commands, CommandCount: 1, PayloadBase: 64, Len: 64}
			ValidateEntry(&e)
		}}
	}
	plain := func(b []byte, decode func([]byte)) hostile { return hostile{b, func() { decode(b) }} }
	recordOf := func(k RecordKind, prefix ...byte) hostile {
		body := append(bytes.Clone(prefix), list...)
		h := RecordHead{Kind: k, Group: 1, Index: 1, Length: uint32(len(body)), Covered: uint32(len(body))}
		return plain(body, func(b []byte) { parseAnyRecord(&h, b, new(Joiner)) })
	}
	outcome := make([]byte, outcomeFixed)
	outcome[0], outcome[12] = OutcomeVersion, 9
	return map[string]hostile{
		"pop queues":        command(KindPop, flagDefaultTenant),
		"ack runs":          command(KindAck, flagQueueMode, 65),
		"release":           command(KindRelease, make([]byte, 16)...),
		"trim":              command(KindTrim, 0, 6, 2),
		"group positions":   command(KindGroup, flagDefaultTenant|flagQueueMode, byte(GroupCommit)),
		"configure":         command(KindConfigure, flagDefaultTenant, 0, 0, 1),
		"remembered parts":  plain(list, func(b []byte) { ParseParts(b, 0, new(Results)) }),
		"entry outcome":     plain(append([]byte{0, 0}, list...), func(b []byte) { ParseEntryOutcome(b) }),
		"snapshot members":  recordOf(RecordSnapshot, 1, 1),
		"bootstrap members": recordOf(RecordBootstrap, 1),
		"outcome":           recordOf(RecordOutcome, append(outcome, 1)...),
		"manifest":          plain(append(make([]byte, 33), list...), func(b []byte) { d := decoder{b: b}; d.manifest() }),
		"footer directory": plain(append([]byte{0}, list...), func(b []byte) {
			tr := FooterTrailer{DirectoryBytes: uint32(len(b))}
			padded := append(bytes.Clone(b), make([]byte, -len(b)&(BlockSize-1))...)
			tr.directorySum = sum64(padded)
			tr.ParseDirectory(padded)
		}),
		"frame messages": plain(list, func(b []byte) {
			r := FrameHead{Kind: FrameNative, Count: MaxOrdinals}.Messages(b)
			for m := (FrameMessage{}); r.Next(&m); {
			}
		}),
	}
}

func checkAllocation(t *testing.T, name string, size int, decode func()) {
	t.Helper()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	decode()
	runtime.ReadMemStats(&after)
	if got, limit := after.TotalAlloc-before.TotalAlloc, uint64(size*DecodeGrowthMax+64<<10); got > limit {
		t.Errorf("%s: %d bytes of input made it allocate %d, limit %d", name, size, got, limit)
	}
}

// Goal: the heads that promise lengths are refused before anything is allocated.
func TestPromisedLengthsAreChecked(t *testing.T) {
	frame := EncodeFrame(nil, []FrameMessage{{Payload: make([]byte, 5000)}}, FrameOptions{Compress: true})
	binary.LittleEndian.PutUint32(frame[12:], MaxFrameRaw+1)
	if _, err := ParseFrameHead(frame); err == nil {
		t.Error("frame: raw length over the bound")
	}
	entry := sampleEntry(1)
	binary.LittleEndian.PutUint32(entry[52:], MaxEntryBytes)
	if _, err := EntryHeadLen(entry); err == nil {
		t.Error("entry: id region over the bound")
	}
	h := RecordHead{Kind: RecordFragment, Group: 1, Index: 1}
	b, at := AppendFragment(make([]byte, 64), &RecordHead{Kind: RecordEntry, Group: 1, Index: 1}, 0, nil, make([]byte, FragmentBytes+9))
	h, body, err := ParseRecord(b[at:])
	if err != nil {
		t.Fatal(err)
	}
	binary.LittleEndian.PutUint32(body[12:], MaxJoined+1)
	if _, _, err := ParseFragment(&h, body); err == nil {
		t.Error("fragment: total over the bound")
	}
	extent := ExtentHead{Segment: 1, Number: 1, Bytes: MaxExtentBytes}
	head := make([]byte, ExtentHeadSize)
	extent.Encode(head)
	if _, err := ParseExtentHead(head); err == nil {
		t.Error("extent: over the bound")
	}
}
