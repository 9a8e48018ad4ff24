package format

import "encoding/binary"

// FragmentHeadSize is the length of the fields in front of a fragment's data.
const FragmentHeadSize = 24

// MaxJoined bounds what fragments may join to.
const MaxJoined = MaxEntryBytes + proposalSize

// FragmentHead says which piece of which record a fragment is. Raft group, replica, index and term
// stand in the record's head.
type FragmentHead struct {
	// Number counts from 0 to Count-1.
	Number, Count uint32
	// From is the position of the data in the joined body, Total the length of that body.
	From, Total uint32
	// Covered is the joined record's, so that a reader knows where its checked part ends.
	Covered uint32
	// Of and Flags are the joined record's kind (entry, outcome or frame) and flags.
	Of    RecordKind
	Flags uint8
}

// FragmentCount is how many fragments a body of n bytes needs; 1 means a plain record.
func FragmentCount(n int) int { return max(1, (n+FragmentBytes-1)/FragmentBytes) }

// AppendFragment appends fragment number of the record h whose body is a followed by b.
func AppendFragment(dst []byte, h *RecordHead, number int, a, b []byte) ([]byte, int) {
	total := len(a) + len(b)
	from := number * FragmentBytes
	to := min(total, from+FragmentBytes)
	var fields [FragmentHeadSize]byte
	le := binary.LittleEndian
	le.PutUint32(fields[0:], uint32(number))
	le.PutUint32(fields[4:], uint32(FragmentCount(total)))
	le.PutUint32(fields[8:], uint32(from))
	le.PutUint32(fields[12:], uint32(total))
	le.PutUint32(fields[16:], h.Covered)
	fields[20], fields[21] = byte(h.Kind), h.Flags

	covered := min(to, max(from, int(h.Covered))) - from
	f := RecordHead{
		Kind: RecordFragment, Group: h.Group, Replica: h.Replica, Index: h.Index, Term: h.Term,
		Covered: uint32(FragmentHeadSize + covered),
	}
	first := a[min(from, len(a)):min(to, len(a))]
	second := b[max(0, from-len(a)):max(0, to-len(a))]
	return AppendRecord(dst, &f, fields[:], first, second)
}

// ParseFragment reads the fields of a fragment record and returns its data, aliasing body. A body that
// was read up to its covered bytes only gives data cut short.
func ParseFragment(h *RecordHead, body []byte) (f FragmentHead, data []byte, err error) {
	if h.Kind != RecordFragment || h.Flags != 0 || len(body) < FragmentHeadSize {
		return f, nil, errorf("fragment", 4, "kind %d flags %#x length %d", h.Kind, h.Flags, len(body))
	}
	le := binary.LittleEndian
	f = FragmentHead{
		Number: le.Uint32(body), Count: le.Uint32(body[4:]), From: le.Uint32(body[8:]),
		Total: le.Uint32(body[12:]), Covered: le.Uint32(body[16:]), Of: RecordKind(body[20]), Flags: body[21],
	}
	size := uint64(h.Length) - FragmentHeadSize
	switch {
	case !f.Of.mayFragment() || body[22] != 0 || body[23] != 0:
		return f, nil, errorf("fragment", 20, "of kind %d, or reserved bytes set", f.Of)
	case f.Total > MaxJoined || f.Total <= FragmentBytes || f.Covered > f.Total:
		return f, nil, errorf("fragment", 12, "total length %d, covered %d", f.Total, f.Covered)
	case int(f.Count) != FragmentCount(int(f.Total)) || f.Number >= f.Count:
		return f, nil, errorf("fragment", 0, "number %d of %d", f.Number, f.Count)
	case f.From != f.Number*FragmentBytes || size != uint64(min(FragmentBytes, f.Total-f.From)):
		return f, nil, errorf("fragment", 8, "%d bytes from %d", size, f.From)
	}
	return f, body[FragmentHeadSize:], nil
}

// Joined is the head of the record that the fragments of h join to.
func (f *FragmentHead) Joined(h *RecordHead) RecordHead {
	return RecordHead{
		Kind: f.Of, Group: h.Group, Replica: h.Replica, Index: h.Index, Term: h.Term,
		Flags: f.Flags, Length: f.Total, Covered: f.Covered,
	}
}

// Joiner puts the fragments of one record together again. It allocates Total bytes, at most MaxJoined.
type Joiner struct {
	head RecordHead
	next uint32
	body []byte
}

// Add takes the next record of the same raft group that is a fragment. done reports that the record is
// whole. A fragment that does not continue what came before starts anew when it is number 0, since a
// later save overwrote the unfinished one, and is a fault otherwise.
func (j *Joiner) Add(h *RecordHead, body []byte) (done bool, err error) {
	f, data, err := ParseFragment(h, body)
	if err != nil {
		return false, err
	}
	head := f.Joined(h)
	if f.Number == 0 {
		*j = Joiner{head: head, body: make([]byte, 0, f.Total)}
	}
	if f.Number != j.next || head != j.head || len(data) != int(h.Length)-FragmentHeadSize {
		*j = Joiner{}
		return false, errorf("fragment", 0, "number %d of index %d does not continue the one before", f.Number, h.Index)
	}
	j.body = append(j.body, data...)
	j.next++
	return j.next == f.Count, nil
}

// Record returns the whole record after Add reported it done; the joiner keeps no reference.
func (j *Joiner) Record() (RecordHead, []byte) {
	h, body := j.head, j.body
	*j = Joiner{}
	return h, body
}

// mayFragment reports the kinds of records that may be larger than FragmentBytes.
func (k RecordKind) mayFragment() bool {
	return k == RecordEntry || k == RecordOutcome || k == RecordFrame
}
