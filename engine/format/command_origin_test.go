package format

import (
	"reflect"
	"strings"
	"testing"
)

// originEntry is an entry with an Origin in front of as many Ticks as wanted.
func originEntry(o *Origin, ticks int) Entry {
	var buf CommandBuf
	buf.AddOrigin(o)
	for range ticks {
		buf.AddTick()
	}
	return Entry{Commands: buf.Commands, CommandCount: uint32(buf.Count), Ordinals: buf.Ordinals, PayloadBase: EntryFixedHead, Len: EntryFixedHead}
}

// TestOrigin: parts come back as they were added; those that point outside of the entry, overlap, or stand anywhere but
// in front are refused.
func TestOrigin(t *testing.T) {
	want := Origin{Parts: []OriginPart{{Node: 3, Request: 1 << 60, First: 1, Count: 2, Ordinal: 1}, {Node: 2, Request: 9, First: 4, Count: 1, Ordinal: 77}}}
	e := originEntry(&want, 4)
	if err := ValidateEntry(&e); err != nil {
		t.Fatal(err)
	}
	r := e.Reader()
	var got Origin
	if !r.Next() || r.Origin(&got) != nil || !reflect.DeepEqual(got, want) {
		t.Fatalf("%+v, want %+v: %v", got, want, r.Err())
	}
	for name, bad := range map[string]Entry{
		"lacks":            originEntry(&want, 3),
		"without parts":    originEntry(&Origin{}, 3),
		"out of order":     originEntry(&Origin{Parts: []OriginPart{{Node: 1, First: 2, Count: 2}, {Node: 1, First: 3, Count: 1}}}, 9),
		"empty or out":     originEntry(&Origin{Parts: []OriginPart{{Node: 1, First: 1}}}, 9),
		"are empty or out": originEntry(&Origin{Parts: []OriginPart{{Node: 1, First: 0, Count: 1}}}, 9),
	} {
		if err := ValidateEntry(&bad); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
	var late CommandBuf
	late.AddTick()
	late.AddOrigin(&Origin{Parts: []OriginPart{{Node: 1, First: 1, Count: 1}}})
	if err := late.Validate(); err == nil || !strings.Contains(err.Error(), "in front") {
		t.Errorf("behind another command: %v", err)
	}
}

// TestCommandsTravel: what one node encoded is what another puts into an entry, frames and their ordinals included; every
// cut and every false length is refused.
func TestCommandsTravel(t *testing.T) {
	for seed := range uint64(100) {
		g := newGen(seed)
		var buf CommandBuf
		for range 1 + g.IntN(6) {
			switch k := Kind(1 + g.IntN(int(MaxKind))); k {
			case KindMark, KindOrigin, KindTxn, KindOnce:
			default:
				g.command(&buf, k)
			}
		}
		if buf.Count == 0 {
			continue
		}
		raw := buf.AppendTo(nil)
		var got CommandBuf
		if err := got.Parse(raw); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		if a, b := entryOf(&buf), entryOf(&got); !reflect.DeepEqual(a, b) {
			t.Fatalf("seed %d: other bytes", seed)
		}
		for cut := range len(raw) {
			if err := new(CommandBuf).Parse(raw[:cut]); err == nil {
				t.Fatalf("seed %d: cut at %d of %d passed", seed, cut, len(raw))
			}
		}
	}
}

func entryOf(b *CommandBuf) []byte {
	var e EntryBuilder
	e.Begin(EntryHeader{Epoch: 1, T: 2, W: 3, Fuse: 4})
	e.Add(&CommandBuf{Commands: []byte{byte(KindTick), 0}, Count: 1, Ordinals: 1})
	e.Add(b)
	return e.Finish(nil)
}

// FuzzCommandsTravel: bytes from another node make an error or valid commands, never a panic.
func FuzzCommandsTravel(f *testing.F) {
	var buf CommandBuf
	buf.AddTick()
	f.Add(buf.AppendTo(nil))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, raw []byte) {
		var b CommandBuf
		if b.Parse(raw) != nil {
			return
		}
		if b.Validate() == nil {
			entryOf(&b)
		}
	})
}
