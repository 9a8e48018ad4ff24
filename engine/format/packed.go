package format

import (
	"encoding/binary"
	"math/bits"
)

// A packed block holds sorted rows in 4 KiB. Every column is stored as the difference to its smallest
// value in the block, in as many bits as the largest difference needs, so a column that does not change
// costs nothing and row i is found by arithmetic, without decoding the rows before it.
//
//	| crc32c u32 | version u8 | columns u8 | rows u16 | heap bytes u16 | 0 (6) |
//	| smallest value u64 per column | width in bits u8 per column | zeros to a multiple of 8 |
//	| rows, row after row, low bit first | zeros | heap, last item first |
//
// The checksum covers everything behind itself.
const (
	packedVersion    = 1
	packedFixed      = 16
	packedColumnsMax = 12
	// PackedRowsMax bounds the rows of one block.
	PackedRowsMax = 4095
)

type packedRow [packedColumnsMax]uint64

// packer fills one block.
type packer struct {
	columns  int
	low, top packedRow
	rowBits  int // of a row between low and top
	rows     []packedRow
	heap     []byte // in the order of the items; laid out backwards from the block's end
	heapEnds []int
}

func (p *packer) reset() {
	p.rows, p.heap, p.heapEnds = p.rows[:0], p.heap[:0], p.heapEnds[:0]
}

// heapRef is what the next heap item will be found by: its distance from the end of the block.
func (p *packer) heapRef(item []byte) uint64 { return uint64(len(p.heap) + len(item)) }

// add takes the row unless the block would overflow. A row always fits into an empty block.
func (p *packer) add(row *packedRow, item []byte) bool {
	n, rowBits, within := len(p.rows)+1, p.rowBits, p.within(row)
	var low, top packedRow
	if !within {
		low, top = *row, *row
		if n > 1 {
			for i := range p.columns {
				low[i], top[i] = min(p.low[i], row[i]), max(p.top[i], row[i])
			}
		}
		rowBits = 0
		for i := range p.columns {
			rowBits += bits.Len64(top[i] - low[i])
		}
	}
	size := packedHeadSize(p.columns) + (n*rowBits+7)/8 + len(p.heap) + len(item)
	if size > BlockSize || n > PackedRowsMax {
		return false
	}
	if !within {
		p.low, p.top, p.rowBits = low, top, rowBits
	}
	p.rows = append(p.rows, *row)
	if len(item) > 0 {
		p.heap = append(p.heap, item...)
		p.heapEnds = append(p.heapEnds, len(p.heap))
	}
	return true
}

// within reports that the row needs no column to be wider, as most rows of a block do.
func (p *packer) within(row *packedRow) bool {
	if len(p.rows) == 0 {
		return false
	}
	for i := range p.columns {
		if row[i] < p.low[i] || row[i] > p.top[i] {
			return false
		}
	}
	return true
}

func packedHeadSize(columns int) int { return packedFixed + (9*columns+7)&^7 }

// encode writes the block into the first BlockSize bytes of dst.
func (p *packer) encode(dst []byte) {
	b := dst[:BlockSize]
	clear(b)
	le := binary.LittleEndian
	b[4], b[5] = packedVersion, byte(p.columns)
	le.PutUint16(b[6:], uint16(len(p.rows)))
	le.PutUint16(b[8:], uint16(len(p.heap)))
	widths := b[packedFixed+8*p.columns:]
	for i := range p.columns {
		le.PutUint64(b[packedFixed+8*i:], p.low[i])
		widths[i] = byte(bits.Len64(p.top[i] - p.low[i]))
	}
	at := 8 * packedHeadSize(p.columns)
	for r := range p.rows {
		for i := range p.columns {
			putBits(b, at, int(widths[i]), p.rows[r][i]-p.low[i])
			at += int(widths[i])
		}
	}
	start := 0
	for _, end := range p.heapEnds {
		copy(b[BlockSize-end:], p.heap[start:end])
		start = end
	}
	le.PutUint32(b, crc32c(b[4:]))
}

// putBits ors the width low bits of v, which has no others, into zeroed b from bit at on.
func putBits(b []byte, at, width int, v uint64) {
	if first := at / 8; first+9 <= len(b) {
		p, shift := b[first:first+9], at%8
		binary.LittleEndian.PutUint64(p, binary.LittleEndian.Uint64(p)|v<<shift)
		if shift+width > 64 {
			p[8] |= byte(v >> (64 - shift))
		}
		return
	}
	for width > 0 {
		n := min(8-at%8, width)
		b[at/8] |= byte(v&(1<<n-1)) << (at % 8)
		v >>= n
		at += n
		width -= n
	}
}

func getBits(b []byte, at, width int) uint64 {
	if first := at / 8; first+9 <= len(b) {
		p, shift := b[first:first+9], at%8
		v := binary.LittleEndian.Uint64(p)>>shift | uint64(p[8])<<(64-shift)
		return v & (1<<width - 1)
	}
	var v uint64
	for got := 0; got < width; {
		n := min(8-at%8, width-got)
		v |= uint64(b[at/8]>>(at%8)) & (1<<n - 1) << got
		at += n
		got += n
	}
	return v
}

// packed is a parsed block; it aliases the input.
type packed struct {
	b       []byte
	rows    int
	heap    int
	first   int // bit position of row 0
	rowBits int
	low     packedRow
	at      [packedColumnsMax]int // bit position of the column in its row
	width   [packedColumnsMax]int
}

func parsePacked(what string, b []byte, columns int) (p packed, err error) {
	if len(b) != BlockSize {
		return p, errorf(what, 0, "length %d want %d", len(b), BlockSize)
	}
	le := binary.LittleEndian
	if got, want := crc32c(b[4:]), le.Uint32(b); got != want {
		return p, errorf(what, 0, "checksum %#x want %#x", got, want)
	}
	if b[4] != packedVersion || int(b[5]) != columns || !isZero(b[10:packedFixed]) {
		return p, errorf(what, 4, "version %d, %d columns", b[4], b[5])
	}
	p = packed{b: b, rows: int(le.Uint16(b[6:])), heap: int(le.Uint16(b[8:])), first: 8 * packedHeadSize(columns)}
	widths := b[packedFixed+8*columns:]
	for i := range columns {
		p.low[i] = le.Uint64(b[packedFixed+8*i:])
		p.at[i], p.width[i] = p.rowBits, int(widths[i])
		p.rowBits += p.width[i]
		if p.width[i] > 64 {
			return p, errorf(what, packedFixed+8*columns+i, "column of %d bits", p.width[i])
		}
	}
	if p.rows == 0 || p.rows > PackedRowsMax || (p.first+p.rows*p.rowBits+7)/8+p.heap > BlockSize {
		return p, errorf(what, 6, "%d rows of %d bits and a heap of %d bytes", p.rows, p.rowBits, p.heap)
	}
	return p, nil
}

// get is column c of row i, which must be in 0..rows-1.
func (p *packed) get(i, c int) uint64 {
	return p.low[c] + getBits(p.b, p.first+i*p.rowBits+p.at[c], p.width[c])
}

// item is the heap from the item's start on; nil when ref is none of the block's.
func (p *packed) item(ref uint64) []byte {
	if ref == 0 || ref > uint64(p.heap) {
		return nil
	}
	return p.b[BlockSize-int(ref):]
}
