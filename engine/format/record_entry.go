package format

import "encoding/binary"

// EntryType is the raft library's entry type, stored in the low bits of an entry record's flags.
type EntryType uint8

const (
	// EntryApplication is a no-op of a new leader (empty), or a proposal without the header byte.
	EntryApplication EntryType = 0
	// EntryConfigChange is a membership change.
	EntryConfigChange EntryType = 1
	// EntryEncoded is a proposal: its bytes are an Entry of this package.
	EntryEncoded EntryType = 2
	// EntryMetadata exists on witnesses only.
	EntryMetadata EntryType = 3

	entryTypeMask = 3
	// entryHasProposal says that 32 bytes of proposal fields precede the entry's bytes.
	entryHasProposal = 1 << 2

	proposalSize = 32
)

// Proposal is what the raft library wants back with an entry, to complete a waiting client.
type Proposal struct{ Key, Client, Series, Responded uint64 }

// EntryRecord is an entry of a raft group as the log stores it.
type EntryRecord struct {
	Group    RaftGroup
	Replica  Replica
	Index    Index
	Term     Term
	Type     EntryType
	Proposal Proposal
	// Bytes is the entry as the raft library stores it, header byte included.
	Bytes []byte
}

// Head returns the record's head and the bytes that precede e.Bytes in the body, in scratch. Covered
// reaches to the end of the id region of an Entry, and over everything in other types.
func (e *EntryRecord) Head(scratch *[proposalSize]byte) (RecordHead, []byte) {
	h := RecordHead{
		Kind: RecordEntry, Group: e.Group, Replica: e.Replica, Index: e.Index, Term: e.Term,
		Flags: uint8(e.Type) & entryTypeMask,
	}
	var prefix []byte
	if e.Proposal != (Proposal{}) {
		h.Flags |= entryHasProposal
		prefix = scratch[:]
		le := binary.LittleEndian
		le.PutUint64(prefix, e.Proposal.Key)
		le.PutUint64(prefix[8:], e.Proposal.Client)
		le.PutUint64(prefix[16:], e.Proposal.Series)
		le.PutUint64(prefix[24:], e.Proposal.Responded)
	}
	covered := len(e.Bytes)
	if e.Type == EntryEncoded {
		if n, err := EntryHeadLen(e.Bytes); err == nil && n < covered {
			covered = n
		}
	}
	h.Length, h.Covered = uint32(len(prefix)+len(e.Bytes)), uint32(len(prefix)+covered)
	return h, prefix
}

// Append appends the record to an extent in the making, as fragments when it is too large for one
// record: all of them, so the caller splits by hand (AppendFragment) where extents must stay small.
func (e *EntryRecord) Append(b []byte) ([]byte, int) {
	var scratch [proposalSize]byte
	h, prefix := e.Head(&scratch)
	n := FragmentCount(len(prefix) + len(e.Bytes))
	if n == 1 {
		return AppendRecord(b, &h, prefix, e.Bytes)
	}
	at := 0
	for i := range n {
		pos := 0
		if b, pos = AppendFragment(b, &h, i, prefix, e.Bytes); i == 0 {
			at = pos
		}
	}
	return b, at
}

// EntryBytesPos is where the entry's bytes start in the body of an entry record with these flags.
func EntryBytesPos(flags uint8) int {
	if flags&entryHasProposal != 0 {
		return proposalSize
	}
	return 0
}

// ParseEntryRecord reads an entry record from its head and body (joined, if it was fragmented); the
// body may be cut short behind the covered bytes. Bytes aliases body.
func ParseEntryRecord(h *RecordHead, body []byte) (e EntryRecord, err error) {
	at := EntryBytesPos(h.Flags)
	if h.Kind != RecordEntry || h.Flags > entryHasProposal|entryTypeMask || len(body) < at {
		return e, errorf("entry record", 4, "kind %d flags %#x length %d", h.Kind, h.Flags, len(body))
	}
	e = EntryRecord{
		Group: h.Group, Replica: h.Replica, Index: h.Index, Term: h.Term,
		Type: EntryType(h.Flags & entryTypeMask), Bytes: body[at:],
	}
	if at > 0 {
		le := binary.LittleEndian
		e.Proposal = Proposal{le.Uint64(body), le.Uint64(body[8:]), le.Uint64(body[16:]), le.Uint64(body[24:])}
	}
	return e, nil
}
