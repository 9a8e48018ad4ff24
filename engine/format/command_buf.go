package format

import "slices"

// CommandBuf is what one caller contributes to an entry: encoded commands with their ids and frames.
// The zero value is empty and ready. It is used by one goroutine at a time.
type CommandBuf struct {
	Commands, IDs, Payload []byte
	// Count is the number of commands, Ordinals how many ordinals they consume.
	Count    int
	Ordinals Ordinal

	frames     []framePlace
	tenant     Tenant
	queue      []byte
	queueKnown bool
}

// framePlace is where a frame starts in Payload, and its first ordinal counted from the buffer's.
type framePlace struct {
	pos     uint32
	ordinal Ordinal
}

// Reset empties b and keeps its capacity.
func (b *CommandBuf) Reset() {
	*b = CommandBuf{
		Commands: b.Commands[:0], IDs: b.IDs[:0], Payload: b.Payload[:0],
		frames: b.frames[:0], queue: b.queue[:0],
	}
}

// Size is how many bytes of an entry the commands take, without the entry's head.
func (b *CommandBuf) Size() int { return len(b.Commands) + len(b.IDs) + len(b.Payload) }

// Validate decodes every command again: what an edge asks before it lets the commands of a caller
// share an entry with others, since one malformed command makes the whole entry malformed.
func (b *CommandBuf) Validate() error {
	e := Entry{
		Commands: b.Commands, IDs: b.IDs, CommandCount: uint32(b.Count), Ordinals: b.Ordinals,
		PayloadBase: EntryFixedHead, Len: EntryFixedHead + uint32(len(b.Payload)),
	}
	return ValidateEntry(&e)
}

// Prepend puts the commands of head, which hold no frames, in front of those of b: a bracket counts parts
// that are known only once they are encoded.
func (b *CommandBuf) Prepend(head *CommandBuf) {
	b.Commands = slices.Insert(b.Commands, 0, head.Commands...)
	b.Count += head.Count
	b.Ordinals += head.Ordinals
	for i := range b.frames {
		b.frames[i].ordinal += head.Ordinals
	}
}

// begin writes the kind and leaves one byte for the body's length.
func (b *CommandBuf) begin(k Kind) (bodyAt int) {
	b.Commands = append(b.Commands, byte(k), 0)
	return len(b.Commands)
}

// end fills in the length of the body that starts at bodyAt, making room when one byte is too few.
func (b *CommandBuf) end(bodyAt int, ordinals Ordinal) {
	size := len(b.Commands) - bodyAt
	if size < 0x80 {
		b.Commands[bodyAt-1] = byte(size)
	} else {
		var tmp [10]byte
		head := putUvarint(tmp[:0], uint64(size))
		b.Commands = append(b.Commands, head[1:]...)
		copy(b.Commands[bodyAt+len(head)-1:], b.Commands[bodyAt:bodyAt+size])
		copy(b.Commands[bodyAt-1:], head)
	}
	b.Count++
	b.Ordinals += ordinals
}
