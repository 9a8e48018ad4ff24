package format

import "encoding/binary"

// An outcome record is what applying a range of entries decided, as far as the log alone can not tell
// it: where each frame was stored. It is a pure function of the log, equal on all replicas.
//
// Body: | version u8 | 0 | 0 0 | frames before u64 | last index u64 | entries |; the record head's
// index is the first of the range, its term the term of all entries in it. Entries of the range that decided nothing are absent; the others are
// | distance from the entry before, uvarint | length, uvarint | canonical outcome |.
const (
	// OutcomeVersion is the version byte of outcome records.
	OutcomeVersion = 1
	// MaxOutcomeBody bounds the body of one outcome record (joined from fragments when large).
	MaxOutcomeBody = MaxEntryBytes

	outcomeFixed = 20
)

// FrameOutcome is where one frame was stored, or why it was not.
type FrameOutcome struct {
	// Code is not CodeOK when the command was refused; nothing else is set then.
	Code      Code
	Partition PartitionID
	// Base is the offset of the first stored message; 0 when Kept is 0.
	Base Offset
	// Count messages were proposed, Kept of them stored.
	Count, Kept uint32
	// Refused has a bit per proposed message, low bit first, set for refused ones; empty when all or
	// none were kept.
	Refused []byte
	// Controls are the offsets that an EndTxn took; IsEnd says that the command was one. Partition and what follows it
	// are not set then.
	IsEnd    bool
	Controls []ControlOutcome
}

// ControlOutcome is one offset that the end of a transaction took.
type ControlOutcome struct {
	Partition PartitionID
	Offset    Offset
}

// EntryOutcome is what applying one entry decided about its frames.
type EntryOutcome struct {
	Index Index
	// Refused is not CodeOK when the whole entry was refused; it has no frames then.
	Refused Code
	// Frames iterates the outcomes of its Append, Redrive, Fire and EndTxn commands, in command order, then of its
	// Txn and Once commands.
	Frames FrameOutcomes
}

// Tags in the two low bits of a frame outcome's first number.
const (
	outcomeWhole   = 0 // | count<<2 | partition | base
	outcomePartial = 1 // | kept<<2 | count | partition | base | refused bitmap
	outcomeNone    = 2 // | count<<2 | partition: all messages were duplicates
	outcomeCode    = 3 // | code<<2

	// outcomeEnd in the place of a code: the command is an EndTxn that took place, and a list follows.
	// | outcomeEnd<<2 | count | {partition | offset}
	outcomeEnd = 256
)

// AppendOutcome appends the canonical outcome of one entry: what chunk hashes cover, and what a replay
// compares. It is empty for an entry that decided nothing about frames and brackets and was not refused.
func AppendOutcome(dst []byte, r *Results) []byte {
	if r.Refused != CodeOK {
		return append(dst, 0, byte(r.Refused))
	}
	frames, brackets := 0, 0
	for i := range r.Items {
		if r.Items[i].storesFrame() {
			frames++
		}
		if r.Items[i].isBracket() {
			brackets++
		}
	}
	switch {
	case frames > 0:
		dst = putUvarint(dst, uint64(frames))
	case brackets > 0:
		dst = append(dst, 0, byte(CodeOK))
	}
	for i := range r.Items {
		item := &r.Items[i]
		switch {
		case !item.storesFrame():
		case item.Code != CodeOK:
			dst = putUvarint(dst, uint64(item.Code)<<2|outcomeCode)
		case item.Kind == KindEndTxn:
			dst = appendEndOutcome(dst, r.ControlsOf(&r.Ends[item.At]))
		default:
			dst = appendFrameOutcome(dst, &r.Appends[item.At])
		}
	}
	if brackets == 0 {
		return dst
	}
	dst = putUvarint(dst, uint64(brackets))
	for i := range r.Items {
		if r.Items[i].isBracket() {
			dst = append(dst, byte(r.Items[i].Code))
		}
	}
	return dst
}

// ControlsOf are the offsets that an EndTxn took.
func (r *Results) ControlsOf(e *EndTxnResult) []ControlRow { return r.Controls[e.From:e.To] }

func appendEndOutcome(dst []byte, controls []ControlRow) []byte {
	dst = putUvarint(dst, outcomeEnd<<2|outcomeCode)
	dst = putUvarint(dst, uint64(len(controls)))
	for i := range controls {
		dst = putUvarint(putUvarint(dst, uint64(controls[i].Partition)), uint64(controls[i].Offset))
	}
	return dst
}

func (r *Result) storesFrame() bool { return r.Kind.StoresFrame() }

func (r *Result) isBracket() bool { return r.Kind == KindTxn || r.Kind == KindOnce }

func appendFrameOutcome(dst []byte, a *AppendResult) []byte {
	switch a.Kept {
	case a.Count:
		dst = putUvarint(dst, uint64(a.Count)<<2|outcomeWhole)
		dst = putUvarint(dst, uint64(a.Partition))
		return putUvarint(dst, uint64(a.Base))
	case 0:
		dst = putUvarint(dst, uint64(a.Count)<<2|outcomeNone)
		return putUvarint(dst, uint64(a.Partition))
	}
	dst = putUvarint(dst, uint64(a.Kept)<<2|outcomePartial)
	dst = putUvarint(dst, uint64(a.Count))
	dst = putUvarint(dst, uint64(a.Partition))
	dst = putUvarint(dst, uint64(a.Base))
	at := len(dst)
	dst = appendZeros(dst, (int(a.Count)+7)/8)
	for i := range a.Dups {
		dst[at+int(a.Dups[i].At/8)] |= 1 << (a.Dups[i].At % 8)
	}
	return dst
}

// OutcomeBuilder collects the outcomes of consecutive entries into the body of one record. Reset keeps
// its capacity.
type OutcomeBuilder struct {
	// Term is the raft term of every entry in the range; it goes into the record's head. A new term starts
	// a new record: so an outcome never meets an entry that was overwritten.
	Term Term

	first, last, newest Index
	body                []byte
	scratch             []byte
}

// Begin starts the range at first; framesBefore is the number of frames the raft group had stored
// before that entry (AppendResult.Row counts on from it).
func (b *OutcomeBuilder) Begin(first Index, framesBefore uint64) {
	b.first, b.last, b.newest = first, first-1, first-1
	b.body = append(b.body[:0], OutcomeVersion, 0, 0, 0)
	b.body = putU64(b.body, framesBefore)
	b.body = putU64(b.body, 0)
}

// Add appends the outcome of entry Last()+1, in canonical form; empty when it decided nothing.
func (b *OutcomeBuilder) Add(canonical []byte) {
	b.last++
	if len(canonical) > 0 {
		b.body = putUvarint(b.body, uint64(b.last-b.newest))
		b.body = putBytes(b.body, canonical)
		b.newest = b.last
	}
}

// AddResults is Add of AppendOutcome.
func (b *OutcomeBuilder) AddResults(r *Results) {
	b.scratch = AppendOutcome(b.scratch[:0], r)
	b.Add(b.scratch)
}

// First and Last bound the range; Last is First-1 while it is empty.
func (b *OutcomeBuilder) First() Index { return b.first }

// Last is the index of the newest entry added.
func (b *OutcomeBuilder) Last() Index { return b.last }

// Size is the length of the body so far.
func (b *OutcomeBuilder) Size() int { return len(b.body) }

// Record returns head and body of the record; the body is valid until the next Begin.
func (b *OutcomeBuilder) Record(g RaftGroup, r Replica) (RecordHead, []byte) {
	binary.LittleEndian.PutUint64(b.body[12:], uint64(b.last))
	return RecordHead{
		Kind: RecordOutcome, Group: g, Replica: r, Index: b.first, Term: b.Term,
		Length: uint32(len(b.body)), Covered: uint32(len(b.body)),
	}, b.body
}

// OutcomeReader walks the entries of an outcome record that decided something.
type OutcomeReader struct {
	First, Last Index
	// Term is that of all entries in the range.
	Term Term
	// FramesBefore is the number of frames the raft group had stored before First.
	FramesBefore uint64

	d     decoder
	index Index
}

// ParseOutcome reads an outcome record, joined if it was fragmented.
func ParseOutcome(h *RecordHead, body []byte) (r OutcomeReader, err error) {
	if err := plainRecord(h, body, RecordOutcome, 0); err != nil {
		return r, err
	}
	if len(body) < outcomeFixed || body[0] != OutcomeVersion || !isZero(body[1:4]) {
		return r, errorf("outcome", 0, "length %d, or unknown version", len(body))
	}
	le := binary.LittleEndian
	r = OutcomeReader{
		First: h.Index, Term: h.Term, Last: Index(le.Uint64(body[12:])), FramesBefore: le.Uint64(body[4:]),
		d: decoder{b: body, pos: outcomeFixed}, index: h.Index - 1,
	}
	if r.First == 0 || r.Last < r.First {
		return r, errorf("outcome", 12, "range %d to %d", r.First, r.Last)
	}
	return r, nil
}

// Next fills o with the next entry that decided something; false at the end or at a fault. canonical is
// the entry's outcome as AppendOutcome made it; all slices alias the record.
func (r *OutcomeReader) Next(o *EntryOutcome) (canonical []byte, ok bool) {
	if r.d.bad != "" || r.d.pos == len(r.d.b) {
		return nil, false
	}
	distance := r.d.uvarint()
	canonical = r.d.bytes()
	if r.d.bad == "" && (distance == 0 || distance > uint64(r.Last-r.index)) {
		r.d.fail("entry outside the range")
	}
	if r.d.bad != "" {
		return nil, false
	}
	r.index += Index(distance)
	frames, refused, err := ParseEntryOutcome(canonical)
	if err != nil {
		r.d.fail(err.Error())
		return nil, false
	}
	*o = EntryOutcome{Index: r.index, Refused: refused, Frames: frames}
	return canonical, true
}

// Err is nil after Next walked all entries.
func (r *OutcomeReader) Err() error { return r.d.close("outcome", 0) }

// FrameOutcomes iterates the frame outcomes of one entry.
type FrameOutcomes struct {
	d        decoder
	left     uint64
	brackets []byte
}

// ParseEntryOutcome reads a canonical outcome; empty bytes decided nothing.
func ParseEntryOutcome(b []byte) (f FrameOutcomes, refused Code, err error) {
	f.d.b = b
	if len(b) == 0 {
		return f, CodeOK, nil
	}
	if f.left = f.d.uvarint(); f.left == 0 {
		if refused = Code(f.d.u8()); refused == CodeOK && f.d.bad == "" {
			f.readBrackets() // an entry of brackets without frames
		}
		return f, refused, f.d.close("entry outcome", 0)
	}
	if f.d.bad != "" || f.left > MaxOrdinals {
		return f, CodeOK, errorf("entry outcome", 0, "%d frames", f.left)
	}
	return f, CodeOK, nil
}

// Len is the number of frames not yet walked.
func (f *FrameOutcomes) Len() int { return int(f.left) }

// Next fills o with the next frame's outcome; false at the end or at a fault.
func (f *FrameOutcomes) Next(o *FrameOutcome) bool {
	if f.left == 0 || f.d.bad != "" {
		return false
	}
	f.left--
	f.one(o)
	if f.left == 0 && f.d.bad == "" && f.d.pos < len(f.d.b) {
		f.readBrackets()
	}
	return f.d.bad == ""
}

func (f *FrameOutcomes) one(o *FrameOutcome) {
	d := &f.d
	v := d.uvarint()
	tag, n := v&3, v>>2
	if tag != outcomeCode && (n == 0 || n > MaxOrdinals) || tag == outcomeCode && (n == 0 || n > outcomeEnd) {
		d.fail("count or code out of bounds")
		return
	}
	*o = FrameOutcome{Count: uint32(n)}
	switch tag {
	case outcomeCode:
		if *o = (FrameOutcome{Code: Code(n)}); n == outcomeEnd {
			*o = FrameOutcome{IsEnd: true, Controls: make([]ControlOutcome, d.count(2))}
			for i := range o.Controls {
				o.Controls[i] = ControlOutcome{PartitionID(d.uvarint()), Offset(d.uvarint())}
			}
		}
	case outcomeWhole:
		o.Kept = o.Count
		o.Partition, o.Base = PartitionID(d.uvarint()), Offset(d.uvarint())
	case outcomeNone:
		o.Partition = PartitionID(d.uvarint())
	case outcomePartial:
		o.Kept = o.Count
		f.partial(o)
	}
}

func (f *FrameOutcomes) readBrackets() {
	n := f.d.count(1)
	if n == 0 {
		f.d.fail("no bracket where some are promised")
	}
	f.brackets = f.d.take(uint64(n))
}

// NextBracket reads the code of the next Txn or Once of the entry, in command order; false at the end. It
// comes after Next has walked all frames.
func (f *FrameOutcomes) NextBracket(code *Code) bool {
	if f.left > 0 || f.d.bad != "" || len(f.brackets) == 0 {
		return false
	}
	*code, f.brackets = Code(f.brackets[0]), f.brackets[1:]
	return true
}

func (f *FrameOutcomes) partial(o *FrameOutcome) {
	d := &f.d
	o.Count = d.uvarint32()
	o.Partition, o.Base = PartitionID(d.uvarint()), Offset(d.uvarint())
	if o.Count <= o.Kept || o.Count > MaxOrdinals {
		d.fail("kept more than were proposed")
		return
	}
	o.Refused = d.take(uint64(o.Count+7) / 8)
	if d.bad != "" {
		return
	}
	spare := o.Count % 8
	if spare != 0 && o.Refused[len(o.Refused)-1]>>spare != 0 || popcount(o.Refused) != int(o.Count-o.Kept) {
		d.fail("refused bitmap does not fit the counts")
	}
}

// Err is nil after Next walked all frames and nothing was left over.
func (f *FrameOutcomes) Err() error {
	if f.left > 0 && f.d.bad == "" {
		return nil
	}
	return f.d.close("entry outcome", 0)
}
