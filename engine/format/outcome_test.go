package format

import (
	"bytes"
	"reflect"
	"testing"
)

// results is a random verdict over one entry, and the frame outcomes it must leave behind.
func (g gen) results() (_ *Results, frames []FrameOutcome, brackets []Code) {
	r := &Results{}
	if g.IntN(8) == 0 {
		r.Refused = CodeMoved
		return r, nil, nil
	}
	var want []FrameOutcome
	for range g.IntN(6) {
		switch g.IntN(7) {
		case 3:
			e := EndTxnResult{From: uint32(len(r.Controls))}
			o := FrameOutcome{IsEnd: true, Controls: []ControlOutcome{}}
			for range g.IntN(4) {
				c := ControlOutcome{PartitionID(g.u64()), Offset(g.u64())}
				o.Controls = append(o.Controls, c)
				r.Controls = append(r.Controls, ControlRow{Partition: c.Partition, Offset: c.Offset})
			}
			e.To = uint32(len(r.Controls))
			r.Items = append(r.Items, Result{Kind: KindEndTxn, At: uint32(len(r.Ends))})
			r.Ends = append(r.Ends, e)
			want = append(want, o)
		case 0:
			r.Items = append(r.Items, Result{Kind: KindAck})
		case 2:
			code := Code(g.IntN(int(CodeMismatch)))
			r.Items = append(r.Items, Result{Kind: []Kind{KindTxn, KindOnce}[g.IntN(2)], Code: code})
			brackets = append(brackets, code)
		case 1:
			r.Items = append(r.Items, Result{Kind: KindAppend, Code: CodeStaleEvidence})
			want = append(want, FrameOutcome{Code: CodeStaleEvidence})
		default:
			a := AppendResult{Partition: PartitionID(g.u64()), Base: Offset(g.u64()), Count: uint32(1 + g.IntN(40))}
			var refused []byte
			for i := range a.Count {
				if g.IntN(3) == 0 {
					a.Dups = append(a.Dups, DupResult{At: i})
				}
			}
			a.Kept = a.Count - uint32(len(a.Dups))
			if a.Kept == 0 {
				a.Base = 0
			} else if a.Kept < a.Count {
				refused = make([]byte, (a.Count+7)/8)
				for _, d := range a.Dups {
					refused[d.At/8] |= 1 << (d.At % 8)
				}
			}
			r.Items = append(r.Items, Result{Kind: KindAppend, At: uint32(len(r.Appends))})
			r.Appends = append(r.Appends, a)
			want = append(want, FrameOutcome{Partition: a.Partition, Base: a.Base, Count: a.Count, Kept: a.Kept, Refused: refused})
		}
	}
	return r, want, brackets
}

// Goal: an outcome record gives back, per entry, exactly what apply decided; silent entries stay silent.
func TestOutcomeGivesBackResults(t *testing.T) {
	var b OutcomeBuilder
	for seed := range uint64(300) {
		g := newGen(seed)
		first := Index(1 + g.u64()>>2)
		before := g.u64()
		b.Term = Term(seed)
		b.Begin(first, before)
		want := map[Index][]FrameOutcome{}
		refused := map[Index]bool{}
		brackets := map[Index][]Code{}
		canonical := map[Index][]byte{}
		n := 1 + g.IntN(10)
		for i := range n {
			index := first + Index(i)
			r, frames, codes := g.results()
			b.AddResults(r)
			refused[index] = r.Refused != CodeOK
			want[index], brackets[index] = frames, codes
			canonical[index] = AppendOutcome(nil, r)
		}
		h, body := b.Record(5, 1)
		r, err := ParseOutcome(&h, body)
		if err != nil || r.First != first || r.Last != first+Index(n)-1 || r.FramesBefore != before ||
			r.Term != Term(seed) {
			t.Fatalf("seed %d: %+v %v", seed, r, err)
		}
		var o EntryOutcome
		for {
			bytesOf, ok := r.Next(&o)
			if !ok {
				break
			}
			if !bytes.Equal(bytesOf, canonical[o.Index]) || (o.Refused != CodeOK) != refused[o.Index] {
				t.Fatalf("seed %d index %d: %x", seed, o.Index, bytesOf)
			}
			var got []FrameOutcome
			for f := (FrameOutcome{}); o.Frames.Next(&f); {
				got = append(got, f)
			}
			if err := o.Frames.Err(); err != nil || !reflect.DeepEqual(got, want[o.Index]) {
				t.Fatalf("seed %d index %d: %+v want %+v: %v", seed, o.Index, got, want[o.Index], err)
			}
			var codes []Code
			for c := (Code(0)); o.Frames.NextBracket(&c); {
				codes = append(codes, c)
			}
			if !reflect.DeepEqual(codes, brackets[o.Index]) {
				t.Fatalf("seed %d index %d: %v want %v", seed, o.Index, codes, brackets[o.Index])
			}
			delete(canonical, o.Index)
		}
		if r.Err() != nil {
			t.Fatal(r.Err())
		}
		for index, c := range canonical {
			if len(c) != 0 {
				t.Fatalf("seed %d: index %d decided %x and is missing", seed, index, c)
			}
		}
	}
}

// Goal: the cost stays at what the design counts with: about ten bytes for a frame of one message.
func TestOutcomeSize(t *testing.T) {
	r := &Results{}
	for i := range 1000 {
		r.Items = append(r.Items, Result{Kind: KindAppend, At: uint32(i)})
		r.Appends = append(r.Appends, AppendResult{
			Partition: PartitionID(1_000_000+i)<<6 | 1, Base: Offset(100_000 + i), Count: 1, Kept: 1,
		})
	}
	if n := len(AppendOutcome(nil, r)); n > 9*1000 {
		t.Fatalf("%d bytes for 1000 frames", n)
	}
}
