package format

import "encoding/binary"

// Layout of an entry (FORMAT.md, "Entry"):
//
//	| 64 B fixed head | command region | id region | payload region |
//	|<------------- under the head's crc32c ------>|<- frames, each with its own crc32c
//
// Byte 0 is what the replication library puts before each proposal (no compression); it is part of
// the stored bytes on a single node as well, so that both kinds of log are byte-equal.
const (
	// EntryFixedHead is how many bytes EntryHeadLen needs.
	EntryFixedHead = 64
	// EntryVersion is the format version written into every entry.
	EntryVersion = 1
	// MaxEntryBytes bounds a whole entry; no decoder allocates or reads on behalf of a larger one.
	MaxEntryBytes = 128 << 20
)

// Entry is a parsed entry. Commands and IDs alias the bytes that were parsed.
type Entry struct {
	Header        EntryHeader
	Commands, IDs []byte
	CommandCount  uint32
	// Ordinals is how many ordinals all commands consume together.
	Ordinals Ordinal
	// PayloadBase is the position of the payload region in the entry's bytes; the id region ends here.
	PayloadBase uint32
	// Len is the length of the whole entry in bytes.
	Len uint32
}

// EntryHeadLen tells from the first EntryFixedHead bytes how many bytes head, command region and
// id region take together: what replay reads, and where the payload region starts.
func EntryHeadLen(b []byte) (int, error) {
	e, err := parseFixedHead(b)
	if err != nil {
		return 0, err
	}
	return int(e.PayloadBase), nil
}

// ParseEntry parses a whole entry and verifies the checksum over everything but the payload region.
func ParseEntry(b []byte) (Entry, error) {
	e, err := ParseEntryHead(b)
	if err == nil && int(e.Len) != len(b) {
		return Entry{}, errorf("entry", 56, "length %d want %d", len(b), e.Len)
	}
	return e, err
}

// ParseEntryHead is ParseEntry for bytes that may end anywhere behind the id region.
func ParseEntryHead(b []byte) (Entry, error) {
	e, err := parseFixedHead(b)
	if err != nil {
		return Entry{}, err
	}
	if uint64(len(b)) < uint64(e.PayloadBase) {
		return Entry{}, errorf("entry", len(b), "ends before its id region does at %d", e.PayloadBase)
	}
	want := binary.LittleEndian.Uint32(b[4:])
	if got := crc32cPair(b[:4], b[8:e.PayloadBase]); got != want {
		return Entry{}, errorf("entry", 4, "checksum %#x want %#x", got, want)
	}
	commandEnd := EntryFixedHead + binary.LittleEndian.Uint32(b[48:])
	e.Commands = b[EntryFixedHead:commandEnd:commandEnd]
	e.IDs = b[commandEnd:e.PayloadBase:e.PayloadBase]
	return e, nil
}

// parseFixedHead reads the fixed head without the regions and without the checksum, which covers both.
func parseFixedHead(b []byte) (e Entry, err error) {
	if len(b) < EntryFixedHead {
		return e, errorf("entry", len(b), "shorter than its head of %d bytes", EntryFixedHead)
	}
	if b[0] != 0 {
		return e, errorf("entry", 0, "compression byte %#x want 0", b[0])
	}
	if b[1] != EntryVersion {
		return e, errorf("entry", 1, "version %d, this reader knows %d", b[1], EntryVersion)
	}
	le := binary.LittleEndian
	if le.Uint16(b[2:]) != 0 || le.Uint32(b[60:]) != 0 {
		return e, errorf("entry", 2, "reserved bytes are not zero")
	}
	e.Header = EntryHeader{
		Epoch: Term(le.Uint64(b[8:])), T: Mono(le.Uint64(b[16:])),
		W: Wall(le.Uint64(b[24:])), Fuse: le.Uint64(b[32:]),
	}
	e.CommandCount = le.Uint32(b[40:])
	e.Ordinals = Ordinal(le.Uint32(b[44:]))
	if e.Ordinals > MaxOrdinals {
		return e, errorf("entry", 44, "%d ordinals, at most %d", e.Ordinals, MaxOrdinals)
	}
	base := EntryFixedHead + uint64(le.Uint32(b[48:])) + uint64(le.Uint32(b[52:]))
	size := base + uint64(le.Uint32(b[56:]))
	if size > MaxEntryBytes {
		return e, errorf("entry", 48, "%d bytes, at most %d", size, MaxEntryBytes)
	}
	e.PayloadBase, e.Len = uint32(base), uint32(size)
	return e, nil
}

// EntryBuilder packs what several callers contribute into one entry. It keeps capacity over Begin
// and is used by one goroutine at a time.
type EntryBuilder struct {
	header   EntryHeader
	commands []byte
	ids      []byte
	payloads [][]byte
	payload  int
	count    int
	ordinals Ordinal
}

// Begin starts a new, empty entry.
func (e *EntryBuilder) Begin(h EntryHeader) {
	clear(e.payloads)
	*e = EntryBuilder{
		header: h, commands: e.commands[:0], ids: e.ids[:0], payloads: e.payloads[:0],
	}
}

// Add appends the commands of b, writes each frame's first ordinal into the frame's head, and
// returns the number and the ordinal of the first command. The caller keeps Ordinals and Size
// within their bounds, and leaves b alone until the entry is written: its payload is not copied.
func (e *EntryBuilder) Add(b *CommandBuf) (firstCommand int, firstOrdinal Ordinal) {
	firstCommand, firstOrdinal = e.count, e.ordinals
	for _, f := range b.frames {
		patchFrameOrdinal(b.Payload[f.pos:], firstOrdinal+f.ordinal)
	}
	e.commands = append(e.commands, b.Commands...)
	e.ids = append(e.ids, b.IDs...)
	if len(b.Payload) > 0 {
		e.payloads = append(e.payloads, b.Payload)
		e.payload += len(b.Payload)
	}
	e.count += b.Count
	e.ordinals += b.Ordinals
	return firstCommand, firstOrdinal
}

// Size is how many bytes Finish would append now.
func (e *EntryBuilder) Size() int {
	return EntryFixedHead + len(e.commands) + len(e.ids) + e.payload
}

// Count is the number of commands added so far.
func (e *EntryBuilder) Count() int { return e.count }

// Ordinals is how many ordinals the commands added so far consume.
func (e *EntryBuilder) Ordinals() Ordinal { return e.ordinals }

// HeadLen is how many bytes Head would append now.
func (e *EntryBuilder) HeadLen() int { return EntryFixedHead + len(e.commands) + len(e.ids) }

// Payloads are the pieces of the payload region, in order; valid until the next Begin.
func (e *EntryBuilder) Payloads() [][]byte { return e.payloads }

// Finish appends the entry to dst. The builder may be read and started anew afterwards.
func (e *EntryBuilder) Finish(dst []byte) []byte {
	dst = e.Head(dst)
	for _, p := range e.payloads {
		dst = append(dst, p...)
	}
	return dst
}

// Head appends the entry up to its payload region, which the entry's bytes lack then.
func (e *EntryBuilder) Head(dst []byte) []byte {
	start := len(dst)
	var head [EntryFixedHead]byte
	le := binary.LittleEndian
	head[1] = EntryVersion
	le.PutUint64(head[8:], uint64(e.header.Epoch))
	le.PutUint64(head[16:], uint64(e.header.T))
	le.PutUint64(head[24:], uint64(e.header.W))
	le.PutUint64(head[32:], e.header.Fuse)
	le.PutUint32(head[40:], uint32(e.count))
	le.PutUint32(head[44:], uint32(e.ordinals))
	le.PutUint32(head[48:], uint32(len(e.commands)))
	le.PutUint32(head[52:], uint32(len(e.ids)))
	le.PutUint32(head[56:], uint32(e.payload))
	dst = append(dst, head[:]...)
	dst = append(dst, e.commands...)
	dst = append(dst, e.ids...)
	crc := crc32cPair(dst[start:start+4], dst[start+8:])
	le.PutUint32(dst[start+4:], crc)
	return dst
}
