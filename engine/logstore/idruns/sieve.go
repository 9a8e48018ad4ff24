package idruns

import (
	"encoding/binary"
	"math/bits"
)

// sieve says yes to every spread that it was made of, and to about one in 3,700 of the others. The spreads of a run
// come in order and lie evenly over all numbers, so it can be written down on the way: a spread's high part is its
// bucket, of which there is one for sieveRows rows, and the sixteen bits behind that are kept as its print. A bucket's
// prints lie side by side, and so do its neighbours': 17.2 bits a row, two places in memory to look one up.
//
// Measured against a fuse filter of 12 bits (14.7 bits a row, one false yes in 4,096): making that cost 60 to 90 ns a
// row at each merge, this 3.
type sieve struct {
	buckets uint64
	prints  []byte   // two bytes each, and six to spare
	groups  []uint32 // number of the first print of every 256th bucket
	starts  []uint16 // of each bucket, from that of its group on; one more for the end
}

const (
	sieveRows  = 16
	sieveGroup = 256
	printSpare = 6
)

// bucket is the number of a spread's bucket, and its print.
func (s *sieve) bucket(spread uint64) (at uint64, print uint16) {
	at, low := bits.Mul64(spread, s.buckets)
	return at, uint16(low >> 48)
}

// printsOf is where the prints of a bucket are.
func (s *sieve) printsOf(at uint64) (from, to uint32) {
	from = s.groups[at/sieveGroup] + uint32(s.starts[at])
	to = s.groups[(at+1)/sieveGroup] + uint32(s.starts[at+1])
	return from, to
}

// among reports whether a print is one of those in [from, to).
func (s *sieve) among(print uint16, from, to uint32) bool {
	// Four at a time: a word of x is 0 where one is equal. Prints of the next bucket may be among the last four.
	want := uint64(print) * 0x0001000100010001
	hit := uint64(0)
	for ; from < to; from += 4 {
		x := binary.LittleEndian.Uint64(s.prints[2*from:]) ^ want
		hit |= (x - 0x0001000100010001) &^ x & 0x8000800080008000
	}
	return hit != 0
}

// has reports whether the spread may be one of the sieve's.
func (s *sieve) has(spread uint64) bool {
	at, print := s.bucket(spread)
	from, to := s.printsOf(at)
	return s.among(print, from, to)
}

func (s *sieve) bytes() int64 {
	return int64(len(s.prints)) + 2*int64(len(s.starts)) + 4*int64(len(s.groups)) + 96
}

// sieveBytes is what the sieve of so many rows takes.
func sieveBytes(rows uint64) int64 { return int64(2*rows+rows/8+rows/1024) + 128 }

// sieveMaker makes a sieve of spreads that come in order.
type sieveMaker struct {
	s      *sieve
	at     uint64 // bucket of the newest print
	failed bool
}

// newSieveMaker expects at most that many rows, at least about half of them.
func newSieveMaker(rows uint64) *sieveMaker {
	s := &sieve{buckets: max(1, rows/sieveRows)}
	s.starts = make([]uint16, 1, s.buckets+1)
	s.groups = append(make([]uint32, 0, s.buckets/sieveGroup+1), 0)
	s.prints = make([]byte, 0, 2*rows+printSpare)
	return &sieveMaker{s: s}
}

func (m *sieveMaker) add(spread uint64) {
	at, print := m.s.bucket(spread)
	if at != m.at {
		m.begin(at)
	}
	m.s.prints = binary.LittleEndian.AppendUint16(m.s.prints, print)
}

// begin ends buckets up to number at. Prints so uneven that a group holds more than a start can tell make no sieve.
func (m *sieveMaker) begin(at uint64) {
	s, here := m.s, len(m.s.prints)/2
	for ; m.at < at; m.at++ {
		if (m.at+1)%sieveGroup == 0 {
			s.groups = append(s.groups, uint32(here))
		}
		start := here - int(s.groups[len(s.groups)-1])
		m.failed = m.failed || start > 1<<16-1
		s.starts = append(s.starts, uint16(start))
	}
}

// finish returns the sieve; nil if there is none for such rows, and look-ups do without.
func (m *sieveMaker) finish() *sieve {
	m.begin(m.s.buckets)
	m.s.prints = append(m.s.prints, make([]byte, printSpare)...)
	if m.failed || uint64(len(m.s.prints)) > 1<<32 {
		return nil
	}
	return m.s
}
