package format

import (
	"runtime"
	"strings"
	"testing"
)

// Goal: ValidateEntry accepts only entries whose regions and counts add up. Method: one good entry, bent
// in one place at a time; each refusal must name its own reason.
func TestValidateEntryRefuses(t *testing.T) {
	a, frame := oneMessage(10)
	good := func() (Entry, *CommandBuf) {
		var b CommandBuf
		b.AddTick()
		b.AddAppend(a, frame)
		return Entry{
			Commands: b.Commands, IDs: b.IDs, CommandCount: 2, Ordinals: 2,
			PayloadBase: EntryFixedHead, Len: EntryFixedHead + uint32(len(b.Payload)),
		}, &b
	}
	// The Append's body starts behind the Tick and its own kind and length: flags, count, payload length.
	const flagsAt, countAt, lengthAt = 4, 5, 6
	for reason, bend := range map[string]func(*Entry){
		"":                                  func(*Entry) {},
		"ordinals, the head says":           func(e *Entry) { e.Ordinals++ },
		"bytes of the payload region":       func(e *Entry) { e.Len++ },
		"bytes of the id region":            func(e *Entry) { e.IDs = append(e.IDs, 0) },
		"bytes after the last command":      func(e *Entry) { e.Commands = append(e.Commands, 0) },
		"commands missing":                  func(e *Entry) { e.CommandCount++ },
		"unknown command kind":              func(e *Entry) { e.Commands[0] = byte(MaxKind) + 1 },
		"message count out of bounds":       func(e *Entry) { e.Commands[countAt] = 0 },
		"frame longer than the payload":     func(e *Entry) { e.Commands[lengthAt]++ },
		"repeats a queue":                   func(e *Entry) { e.Commands[flagsAt] |= appendSame },
		"unknown frame kind":                func(e *Entry) { e.Commands[flagsAt] |= 7 << appendKindShift },
		"unknown id mode":                   func(e *Entry) { e.IDs[8] = 3 },
		"id region ends early":              func(e *Entry) { e.IDs = e.IDs[:len(e.IDs)-1] },
		"bitmap names messages that are no": func(e *Entry) { e.IDs[8], e.IDs[9] = byte(IDsSome), 2 },
		"no command":                        func(e *Entry) { *e = Entry{PayloadBase: e.PayloadBase, Len: e.PayloadBase} },
	} {
		e, _ := good()
		bend(&e)
		err := ValidateEntry(&e)
		if (err == nil) != (reason == "") || err != nil && !strings.Contains(err.Error(), reason) {
			t.Errorf("want %q: %v", reason, err)
		}
	}
}

// Goal: an entry's ordinals have a bound, however they are spread over its commands.
func TestOrdinalsAreBounded(t *testing.T) {
	a, frame := oneMessage(10)
	a.IDs, a.Hashes = IDsNone, nil
	for _, c := range []struct {
		ticks int
		count uint32
		ok    bool
	}{{0, MaxOrdinals, true}, {1, MaxOrdinals, false}, {1, MaxOrdinals - 1, true}, {0, MaxOrdinals + 1, false}} {
		var b CommandBuf
		for range c.ticks {
			b.AddTick()
		}
		a.Count = c.count
		b.AddAppend(a, frame)
		if err := b.Validate(); (err == nil) != c.ok {
			t.Errorf("%d commands and %d messages: %v", c.ticks, c.count, err)
		}
	}
}

// Goal: pieces of one entry join only in their order, each once.
func TestFragmentsJoinInOrder(t *testing.T) {
	h := RecordHead{Kind: RecordEntry, Group: 1, Index: 7, Term: 1}
	piece := func(i int) (RecordHead, []byte) {
		b, at := AppendFragment(make([]byte, 64), &h, i, nil, make([]byte, 3*FragmentBytes))
		head, body, err := ParseRecord(b[at:])
		if err != nil {
			t.Fatal(err)
		}
		return head, body
	}
	for _, order := range [][]int{{1}, {0, 2}, {0, 0, 2}, {0, 1, 1}} {
		var j Joiner
		for i, n := range order {
			head, body := piece(n)
			if _, err := j.Add(&head, body); (err != nil) != (i == len(order)-1) {
				t.Errorf("order %v, piece %d: %v", order, i, err)
			}
		}
	}
}

// Goal: what decompresses to more than its head promises does not get the memory.
func TestDecompressionIsBounded(t *testing.T) {
	frame := EncodeFrame(nil, []FrameMessage{{Payload: make([]byte, 16<<20)}}, FrameOptions{Compress: true})
	h, body, err := ParseFrame(frame)
	if err != nil {
		t.Fatal(err)
	}
	h.RawLen = 1000
	h.Decompress(nil, body[:0:0]) // the decoder's own states are made once
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, err = h.Decompress(nil, body)
	runtime.ReadMemStats(&after)
	if got := after.TotalAlloc - before.TotalAlloc; err == nil || got > 4<<20 {
		t.Fatalf("%d bytes allocated, %v", got, err)
	}
}

// Goal: an outcome record names each index at most once, inside its range.
func TestOutcomeRefuses(t *testing.T) {
	refused := []byte{0, byte(CodeMoved)}
	for name, entries := range map[string][]byte{
		"twice":       {1, 2, 0, 1, 0, 2, 0, 1},
		"behind last": {4, 2, 0, 1},
		"no reason":   {1, 2, 0, 0},
		"left over":   {1, 3, 0, 1, 9},
	} {
		var b OutcomeBuilder
		b.Begin(70, 0)
		for range 3 {
			b.Add(nil)
		}
		h, body := b.Record(1, 1)
		body = append(body, entries...)
		h.Length, h.Covered = uint32(len(body)), uint32(len(body))
		r, err := ParseOutcome(&h, body)
		if err != nil {
			t.Fatal(err)
		}
		for o := (EntryOutcome{}); ; {
			if _, ok := r.Next(&o); !ok {
				break
			}
		}
		if r.Err() == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	for name, canonical := range map[string][]byte{
		"kept all in a partial one": {1, 1<<2 | outcomePartial, 1, 65, 5, 0},
		"bitmap beyond the count":   {1, 1<<2 | outcomePartial, 2, 65, 5, 4},
		"bitmap of another count":   {1, 1<<2 | outcomePartial, 2, 65, 5, 3},
		"no message":                {1, outcomeWhole, 65, 5},
		"code OK":                   {1, outcomeCode},
		"left over":                 append([]byte{1, 1<<2 | outcomeNone, 65}, refused...),
	} {
		f, _, err := ParseEntryOutcome(canonical)
		for o := (FrameOutcome{}); err == nil && f.Next(&o); {
		}
		if err == nil && f.Err() == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

// Goal: ids of times before 1970 round down like all others.
func TestWallMillis(t *testing.T) {
	for w, want := range map[Wall]int64{0: 0, 999: 0, 1000: 1, -1: -1, -1000: -1, -1001: -2} {
		if got := wallMillis(w); got != want {
			t.Errorf("%d is %d ms, want %d", w, got, want)
		}
	}
}

// Goal: a Retain is encoded in one way only: a number of aborted ranges that is there is above zero.
func TestRetainRejects(t *testing.T) {
	for _, c := range []struct {
		body []byte
		ok   bool
	}{{[]byte{6, 4, 2}, true}, {[]byte{6, 4, 2, 9}, true}, {[]byte{6, 4, 2, 0}, false}, {[]byte{6, 4, 2, 9, 9}, false}} {
		e := Entry{Commands: append([]byte{byte(KindRetain), byte(len(c.body))}, c.body...), CommandCount: 1, PayloadBase: 64, Len: 64}
		r := e.Reader()
		if !r.Next() {
			t.Fatal(r.Err())
		}
		if err := r.Retain(new(Retain)); (err == nil) != c.ok {
			t.Errorf("% x: %v", c.body, err)
		}
	}
}
