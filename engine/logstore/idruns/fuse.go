package idruns

import (
	"math"
	"math/bits"
)

// fuse is a static filter over 64-bit hashes: it says yes to every one that it was made of, and to one
// in 4,096 of the others. It is a binary fuse filter of arity 3 with 12-bit fingerprints, two in three
// bytes: about 14.5 bits a hash at fuseRows. The three fingerprints of a hash xor to its own.
type fuse struct {
	seed   uint64
	mask   uint32 // length of a segment, less one; lengths are powers of two
	spread uint32 // number of possible first positions
	prints []byte // 12 bits each, and a byte to spare
}

const (
	// fuseRows is how many rows one filter covers: what making it needs stays in the processor's cache.
	fuseRows  = 1 << 15
	fuseTries = 64
	printMask = 1<<12 - 1
)

// mix spreads a hash; it is the finalizer of a 64-bit multiply-shift hash.
func mix(h uint64) uint64 {
	h ^= h >> 32
	h *= 0xd6e8feb86659fd93
	h ^= h >> 32
	h *= 0xd6e8feb86659fd93
	return h ^ h>>32
}

// places are the three positions of a mixed hash.
func (f *fuse) places(h uint64) (a, b, c uint32) {
	hi, _ := bits.Mul64(h, uint64(f.spread))
	a = uint32(hi)
	b = a + f.mask + 1
	c = b + f.mask + 1
	return a, b ^ uint32(h>>18)&f.mask, c ^ uint32(h)&f.mask
}

func printOf(h uint64) uint32 { return uint32(h^h>>32) & printMask }

func (f *fuse) print(i uint32) uint32 {
	at := i + i>>1
	v := uint32(f.prints[at]) | uint32(f.prints[at+1])<<8
	return v >> (i & 1 * 4)
}

func (f *fuse) setPrint(i, v uint32) {
	at := i + i>>1
	if i&1 == 0 {
		f.prints[at] = byte(v)
		f.prints[at+1] = f.prints[at+1]&0xf0 | byte(v>>8)
		return
	}
	f.prints[at] = f.prints[at]&0x0f | byte(v<<4)
	f.prints[at+1] = byte(v >> 4)
}

// has reports whether the hash may be one of the filter's.
func (f *fuse) has(hash uint64) bool {
	h := mix(hash + f.seed)
	a, b, c := f.places(h)
	return (f.print(a)^f.print(b)^f.print(c)^printOf(h))&printMask == 0
}

// fuseMaker makes filters and keeps its memory.
type fuseMaker struct {
	spots []spot
	queue []uint32
	order []peeled
}

// spot is a position: how many hashes have it, and their xor.
type spot struct {
	xor   uint64
	count uint32
}

type peeled struct {
	hash uint64
	at   uint32
}

// build returns a filter of hashes, which are all different. Nil means that none was found: chance
// makes a try fail, and different tries are independent, so it does not happen.
func (m *fuseMaker) build(hashes []uint64) *fuse {
	f := new(fuse)
	n := f.size(len(hashes))
	if cap(m.spots) < n {
		m.spots = make([]spot, n)
	}
	m.spots = m.spots[:n]
	f.prints = make([]byte, n+n/2+2)
	for try := range uint64(fuseTries) {
		f.seed = try * 0x9e3779b97f4a7c15
		if m.peel(f, hashes) {
			m.assign(f)
			return f
		}
	}
	return nil
}

// size chooses the geometry for n hashes and returns the number of positions.
func (f *fuse) size(n int) int {
	n = max(n, 2)
	length := uint32(1) << int(math.Floor(math.Log(float64(n))/math.Log(3.33)+2.25))
	length = min(length, 1<<18)
	factor := max(1.125, 0.875+0.25*math.Log(1e6)/math.Log(float64(n)))
	capacity := uint32(math.Round(float64(n) * factor))
	segments := max(1, int((capacity+length-1)/length)-2)
	f.mask = length - 1
	f.spread = uint32(segments) * length
	return (segments + 2) * int(length)
}

// peel finds an order in which every hash has a position of its own when the later ones are settled.
func (m *fuseMaker) peel(f *fuse, hashes []uint64) bool {
	clear(m.spots)
	for _, hash := range hashes {
		h := mix(hash + f.seed)
		a, b, c := f.places(h)
		for _, i := range [...]uint32{a, b, c} {
			m.spots[i].xor ^= h
			m.spots[i].count++
		}
	}
	m.queue, m.order = m.queue[:0], m.order[:0]
	for i := range m.spots {
		if m.spots[i].count == 1 {
			m.queue = append(m.queue, uint32(i))
		}
	}
	for len(m.queue) > 0 {
		i := m.queue[len(m.queue)-1]
		m.queue = m.queue[:len(m.queue)-1]
		if m.spots[i].count != 1 {
			continue
		}
		h := m.spots[i].xor
		m.order = append(m.order, peeled{h, i})
		a, b, c := f.places(h)
		m.take(a, h)
		m.take(b, h)
		m.take(c, h)
	}
	return len(m.order) == len(hashes)
}

func (m *fuseMaker) take(i uint32, h uint64) {
	s := &m.spots[i]
	s.xor ^= h
	if s.count--; s.count == 1 {
		m.queue = append(m.queue, i)
	}
}

func (m *fuseMaker) assign(f *fuse) {
	clear(f.prints)
	for i := len(m.order) - 1; i >= 0; i-- {
		h, at := m.order[i].hash, m.order[i].at
		a, b, c := f.places(h)
		// The position's own print is still 0: no settled hash uses it.
		f.setPrint(at, (f.print(a)^f.print(b)^f.print(c)^printOf(h))&printMask)
	}
}

func (f *fuse) bytes() int64 { return int64(len(f.prints)) + 48 }
