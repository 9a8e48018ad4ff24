package format

import "encoding/binary"

// The footer of a sealed segment ends at the end of the file, so that it is found without a scan:
//
//	| extents ... | unused | position blocks | directory blocks | trailer block | end of file
//
// The trailer names the last extent and its checksum: a valid footer proves that every extent was
// durable, and a bad one among them is rot.
const (
	// PositionsPerBlock is how many positions a 4 KiB position block holds.
	PositionsPerBlock = BlockSize/4 - 1
	// MaxFooterDirectory bounds the directory, bytes.
	MaxFooterDirectory = 16 << 20

	footerComplete = 1
)

// FooterRange is a run of indexes without gap.
type FooterRange struct{ First, Last Index }

// FooterGroup is what a segment holds of one replica.
type FooterGroup struct {
	Group   RaftGroup
	Replica Replica
	// Cut is the lowest index that the segment overwrites of earlier segments; 0 when none. Loading drops
	// earlier entries at or above it before it takes Entries.
	Cut Index
	// Entries are the entries that the segment itself did not overwrite, ascending and disjoint;
	// Outcomes are the ranges of its outcome records, in the order of their records.
	Entries, Outcomes []FooterRange
	// FirstSlot is the number of the position of the first entry; the others follow in order.
	FirstSlot uint32
}

// Slot returns the number of the position of entry i; false when the segment does not hold it.
func (g *FooterGroup) Slot(i Index) (uint32, bool) {
	slot := g.FirstSlot
	for _, r := range g.Entries {
		if i < r.First {
			break
		}
		if i <= r.Last {
			return slot + uint32(i-r.First), true
		}
		slot += uint32(r.Last-r.First) + 1
	}
	return 0, false
}

// Count is the number of entries.
func (g *FooterGroup) Count() (n uint64) {
	for _, r := range g.Entries {
		n += uint64(r.Last-r.First) + 1
	}
	return n
}

// Footer is what sealing a segment writes.
type Footer struct {
	Segment SegmentID
	Nonce   uint64
	Boot    uint64
	// End is the position behind the last extent, LastExtent its number and LastChecksum its Checksum.
	End          uint64
	LastExtent   uint32
	LastChecksum uint64
	// Complete and Replaces are for bulk segments: only a complete one counts, and those it replaces no
	// longer do.
	Complete bool
	Replaces []SegmentID
	Groups   []FooterGroup
	// Positions are the positions of all entries (of the first fragment, where fragmented), by slot.
	Positions []uint32
}

// FooterTrailer is the parsed last block of a segment file.
type FooterTrailer struct {
	Segment      SegmentID
	Nonce        uint64
	Boot         uint64
	End          uint64
	LastExtent   uint32
	LastChecksum uint64
	Complete     bool
	// PositionBlocks blocks hold Slots positions; DirectoryBytes follow, padded to whole blocks.
	Slots          uint32
	DirectoryBytes uint32
	directorySum   uint64
}

// FooterRoom bounds the length of a footer from above: what a writer keeps free at a segment's end.
func FooterRoom(entries, groups, ranges, replaces int) int {
	directory := 16 + 40*groups + 20*ranges + 5*replaces
	return blocks(entries, PositionsPerBlock)*BlockSize + blocks(directory, BlockSize)*BlockSize + BlockSize
}

func blocks(n, per int) int { return (n + per - 1) / per }

// Append appends the whole footer to dst; it belongs into the file's last bytes.
func (f *Footer) Append(dst []byte) []byte {
	le := binary.LittleEndian
	for from := 0; from < len(f.Positions); from += PositionsPerBlock {
		at := len(dst)
		dst = appendZeros(dst, BlockSize)
		for i, pos := range f.Positions[from:min(len(f.Positions), from+PositionsPerBlock)] {
			le.PutUint32(dst[at+4+4*i:], pos)
		}
		le.PutUint32(dst[at:], positionSum(f.Segment, uint32(from/PositionsPerBlock), dst[at+4:]))
	}
	at := len(dst)
	dst = f.appendDirectory(dst)
	size := len(dst) - at
	dst = appendZeros(dst, -size&(BlockSize-1))
	sum := sum64(dst[at:])

	at = len(dst)
	dst = appendZeros(dst, BlockSize)
	b := dst[at:]
	copy(b, footerMagic[:])
	b[8], b[9], b[10] = SegmentVersion, SegmentMinReader, bit(f.Complete, footerComplete)
	le.PutUint32(b[12:], uint32(f.Segment))
	le.PutUint64(b[16:], f.Nonce)
	le.PutUint64(b[24:], f.End)
	le.PutUint64(b[32:], f.LastChecksum)
	le.PutUint32(b[40:], f.LastExtent)
	le.PutUint32(b[44:], uint32(len(f.Positions)))
	le.PutUint32(b[48:], uint32(size))
	le.PutUint64(b[56:], sum)
	le.PutUint64(b[64:], f.Boot)
	sealBlock(b)
	return dst
}

func (f *Footer) appendDirectory(b []byte) []byte {
	b = putUvarint(b, uint64(len(f.Replaces)))
	for _, s := range f.Replaces {
		b = putUvarint(b, uint64(s))
	}
	b = putUvarint(b, uint64(len(f.Groups)))
	for i := range f.Groups {
		g := &f.Groups[i]
		b = append(b, byte(g.Group))
		b = putUvarint(b, uint64(g.Replica))
		b = putUvarint(b, uint64(g.Cut))
		b = putUvarint(b, uint64(g.FirstSlot))
		b = putRanges(b, g.Entries)
		b = putRanges(b, g.Outcomes)
	}
	return b
}

func putRanges(b []byte, ranges []FooterRange) []byte {
	b = putUvarint(b, uint64(len(ranges)))
	for _, r := range ranges {
		b = putUvarint(putUvarint(b, uint64(r.First)), uint64(r.Last-r.First))
	}
	return b
}

// ParseFooterTrailer parses the last block of a segment file. The caller compares Segment and Nonce with
// block 0: a recycled file keeps the footer of an earlier life until it is sealed again.
func ParseFooterTrailer(b []byte) (t FooterTrailer, err error) {
	if err := openBlock("footer", b, footerMagic, SegmentVersion); err != nil {
		return t, err
	}
	le := binary.LittleEndian
	if b[10]&^footerComplete != 0 || b[11] != 0 || le.Uint32(b[52:]) != 0 || !isZero(b[72:BlockSize-4]) {
		return t, errorf("footer", 10, "reserved bytes are not zero")
	}
	t = FooterTrailer{
		Segment: SegmentID(le.Uint32(b[12:])), Nonce: le.Uint64(b[16:]), End: le.Uint64(b[24:]),
		LastChecksum: le.Uint64(b[32:]), LastExtent: le.Uint32(b[40:]), Slots: le.Uint32(b[44:]),
		DirectoryBytes: le.Uint32(b[48:]), directorySum: le.Uint64(b[56:]), Boot: le.Uint64(b[64:]),
		Complete: b[10] != 0,
	}
	if t.DirectoryBytes > MaxFooterDirectory || t.End%BlockSize != 0 ||
		t.End+uint64(t.Size()) > MaxSegmentBytes {
		return t, errorf("footer", 24, "end %d, %d positions, directory of %d bytes", t.End, t.Slots, t.DirectoryBytes)
	}
	return t, nil
}

// DirectorySize is the length of the directory blocks; they end where the trailer starts.
func (t *FooterTrailer) DirectorySize() int {
	return blocks(int(t.DirectoryBytes), BlockSize) * BlockSize
}

// Size is the length of the whole footer: with it, the file's size gives the place of every block.
func (t *FooterTrailer) Size() int {
	return blocks(int(t.Slots), PositionsPerBlock)*BlockSize + t.DirectorySize() + BlockSize
}

// ParseDirectory parses the DirectorySize bytes in front of the trailer.
func (t *FooterTrailer) ParseDirectory(b []byte) (groups []FooterGroup, replaces []SegmentID, err error) {
	if len(b) != t.DirectorySize() {
		return nil, nil, errorf("footer directory", 0, "length %d want %d", len(b), t.DirectorySize())
	}
	if got := sum64(b); got != t.directorySum {
		return nil, nil, errorf("footer directory", 0, "checksum %#x want %#x", got, t.directorySum)
	}
	d := decoder{b: b[:t.DirectoryBytes]}
	replaces = make([]SegmentID, d.count(1))
	for i := range replaces {
		replaces[i] = SegmentID(d.uvarint32())
	}
	groups = make([]FooterGroup, d.count(6))
	slots := uint64(0)
	for i := range groups {
		g := &groups[i]
		g.Group, g.Replica = RaftGroup(d.u8()), Replica(d.uvarint())
		g.Cut, g.FirstSlot = Index(d.uvarint()), d.uvarint32()
		g.Entries = d.ranges(true)
		g.Outcomes = d.ranges(false)
		if uint64(g.FirstSlot) != slots {
			d.fail("slots out of order")
		}
		for _, r := range g.Entries {
			n := uint64(r.Last - r.First)
			if n >= uint64(t.Slots)-slots {
				d.fail("more entries than positions")
				break
			}
			slots += n + 1
		}
	}
	if slots != uint64(t.Slots) {
		d.fail("fewer entries than positions")
	}
	return groups, replaces, d.close("footer directory", 0)
}

func (d *decoder) ranges(ascending bool) []FooterRange {
	ranges := make([]FooterRange, d.count(2))
	for i := range ranges {
		first := Index(d.uvarint())
		ranges[i] = FooterRange{first, first + Index(d.uvarint())}
		if first == 0 || ranges[i].Last < first || ascending && i > 0 && first <= ranges[i-1].Last {
			d.fail("index ranges empty, overlapping or out of order")
		}
	}
	return ranges
}

// PositionBlock is where slot's position stands: the number of the block, from the footer's start, and
// the place in it.
func PositionBlock(slot uint32) (block, at uint32) {
	return slot / PositionsPerBlock, slot % PositionsPerBlock
}

// ParsePosition verifies position block number block of the segment and returns the position at place at.
func (t *FooterTrailer) ParsePosition(b []byte, block, at uint32) (uint32, error) {
	if len(b) != BlockSize || at >= PositionsPerBlock {
		return 0, errorf("position block", 0, "length %d, place %d", len(b), at)
	}
	want := binary.LittleEndian.Uint32(b)
	if got := positionSum(t.Segment, block, b[4:]); got != want {
		return 0, errorf("position block", 0, "checksum %#x want %#x", got, want)
	}
	return binary.LittleEndian.Uint32(b[4+4*at:]), nil
}

// positionSum covers segment and block number as well, so that a block in a wrong place is found.
func positionSum(s SegmentID, block uint32, b []byte) uint32 {
	var where [8]byte
	binary.LittleEndian.PutUint32(where[:], uint32(s))
	binary.LittleEndian.PutUint32(where[4:], block)
	return crc32cPair(where[:], b)
}
