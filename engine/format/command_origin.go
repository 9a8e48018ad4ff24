package format

// Origin says which of the commands behind it other nodes handed over: it stands first in its entry, and where it
// does, each of these nodes finds the verdicts of its own callers in its own apply. It changes no state.
type Origin struct{ Parts []OriginPart }

// OriginPart is what one call of one node contributed.
type OriginPart struct {
	// Node is the replica whose call it was, Request the number that it gave it, which it never uses again.
	Node    Replica
	Request uint64
	// First and Count are the commands, Ordinal the first ordinal of them.
	First, Count uint32
	Ordinal      Ordinal
}

// MaxOriginParts bounds an Origin.
const MaxOriginParts = 1 << 16

// AddOrigin adds v, which has at least one part.
func (b *CommandBuf) AddOrigin(v *Origin) {
	at := b.begin(KindOrigin)
	c := putUvarint(b.Commands, uint64(len(v.Parts)))
	for i := range v.Parts {
		p := &v.Parts[i]
		c = putUvarint(c, uint64(p.Node))
		c = putUvarint(c, p.Request)
		c = putUvarint(c, uint64(p.First))
		c = putUvarint(c, uint64(p.Count))
		c = putUvarint(c, uint64(p.Ordinal))
	}
	b.Commands = c
	b.end(at, 1)
}

// Origin decodes the current command, using the memory of v.Parts again.
func (r *CommandReader) Origin(v *Origin) error {
	d := r.open(KindOrigin)
	v.Parts = v.Parts[:0]
	n := d.count(5)
	if n == 0 || n > MaxOriginParts || r.number != 0 {
		d.fail("an origin without parts, with too many, or not in front")
		return r.done(&d)
	}
	end := uint64(1)
	for range n {
		p := OriginPart{Node: Replica(d.uvarint()), Request: d.uvarint(), First: d.uvarint32(), Count: d.uvarint32(),
			Ordinal: Ordinal(d.uvarint32())}
		if p.Count == 0 || uint64(p.First) < end {
			d.fail("parts of an origin are empty or out of order")
		}
		if end = uint64(p.First) + uint64(p.Count); end > uint64(r.left)+1 {
			d.fail("an origin of commands that the entry lacks")
		}
		v.Parts = append(v.Parts, p)
	}
	return r.done(&d)
}
