package slab

import "math/bits"

// bitset is one bit per row of a chunk with a summary, so that a walk over few set bits costs little.
//
// INVARIANT: bit w of any is set iff words[w] is not zero (model tests: a walk through any finds what was set).
type bitset struct {
	any   [chunkWords / 64]uint64
	words [chunkWords]uint64
}

// set sets the bit of a row.
func (b *bitset) set(row uint32) {
	w, bit := row/64%chunkWords, uint64(1)<<(row%64)
	if b.words[w]&bit == 0 {
		b.words[w] |= bit
		b.any[w/64] |= 1 << (w % 64)
	}
}

// merge adds every bit of other.
func (b *bitset) merge(other *bitset) {
	for i, s := range other.any {
		b.any[i] |= s
		for ; s != 0; s &= s - 1 {
			w := i*64 + bits.TrailingZeros64(s)
			b.words[w] |= other.words[w]
		}
	}
}

// next returns the first word at or after w that is not zero, or chunkWords.
func (b *bitset) next(w int) int {
	for i := w / 64; i < len(b.any); i++ {
		s := b.any[i]
		if i == w/64 {
			s &= ^uint64(0) << (w % 64)
		}
		if s != 0 {
			return i*64 + bits.TrailingZeros64(s)
		}
	}
	return chunkWords
}

// clear empties one word.
func (b *bitset) clear(w int) {
	b.words[w] = 0
	b.any[w/64] &^= 1 << (w % 64)
}
