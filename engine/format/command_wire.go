package format

// AppendTo appends b as one node hands it to another, which Parse reads: the counts, then the three regions.
func (b *CommandBuf) AppendTo(dst []byte) []byte {
	dst = putUvarint(dst, uint64(b.Count))
	dst = putUvarint(dst, uint64(b.Ordinals))
	dst = putUvarint(dst, uint64(len(b.frames)))
	for _, f := range b.frames {
		dst = putUvarint(dst, uint64(f.pos))
		dst = putUvarint(dst, uint64(f.ordinal))
	}
	dst = putBytes(dst, b.Commands)
	dst = putBytes(dst, b.IDs)
	return putBytes(dst, b.Payload)
}

// Parse makes b what AppendTo wrote. The regions alias raw, which must stay as it is. Whether the commands are well formed
// Validate says; that every frame lies in the payload and has a head Parse checks itself, since adding them to an
// entry writes into it.
func (b *CommandBuf) Parse(raw []byte) error {
	d := decoder{b: raw}
	*b = CommandBuf{Count: int(d.uvarint32()), Ordinals: Ordinal(d.uvarint32())}
	n := d.count(2)
	for range n {
		b.frames = append(b.frames, framePlace{pos: d.uvarint32(), ordinal: Ordinal(d.uvarint32())})
	}
	b.Commands, b.IDs, b.Payload = d.bytes(), d.bytes(), d.bytes()
	for _, f := range b.frames {
		if uint64(f.pos)+FrameHeadSize > uint64(len(b.Payload)) || f.ordinal >= b.Ordinals {
			d.fail("a frame outside of the payload")
		}
	}
	if b.Count == 0 || b.Ordinals > MaxOrdinals || uint64(b.Count) > uint64(b.Ordinals) {
		d.fail("no command, or too many")
	}
	return d.close("commands", 0)
}
