package logstore

import (
	"fmt"

	"queen/engine/format"
)

// Verify reads every byte of a segment and checks it against its checksums, and the footer against the
// log. nil says that the segment is what was written; a *CorruptionError names the first damage. It reads
// through one window and can be paced by calling it for one segment at a time.
func (s *Store) Verify(seq uint32) error {
	s.mu.RLock()
	g := s.segment(seq)
	if g == nil {
		s.mu.RUnlock()
		return fmt.Errorf("%w: %d", ErrReclaimed, seq)
	}
	end, extents, sum, sealed := g.used, g.extents, g.sum, g.sealed
	s.mu.RUnlock()
	f, err := s.handles.pin(g)
	if err != nil {
		return err
	}
	defer s.handles.unpin(g)
	block := make([]byte, format.BlockSize)
	if _, err := f.ReadAt(block, 0); err != nil {
		return corrupt(g.name, 0, "%w", err)
	}
	if head, err := format.ParseSegmentHead(block); err != nil || head != g.head {
		return corrupt(g.name, 0, "block 0 changed: %v", err)
	}
	k := newWalker(g, newWindow(f, end, scanAhead), 0, true)
	for k.next <= extents {
		h, b, err := k.verified()
		if err == nil {
			err = k.visitVerified(&h, b, func(*format.RecordHead, int64, []byte) error { return nil })
		}
		if err != nil {
			return corrupt(g.name, k.pos, "%w", err)
		}
		k.step(&h)
	}
	if k.prev != sum && extents > 0 || k.pos != end {
		return corrupt(g.name, k.pos, "extents end with checksum %#x at %d, want %#x at %d", k.prev, k.pos, sum, end)
	}
	if !sealed {
		return nil
	}
	return g.verifyFooter(newWindow(f, g.size(), scanAhead))
}

// verifyFooter checks every block of the footer.
func (g *segment) verifyFooter(w *window) error {
	t, err := readFooter(w.f, &g.head)
	if err != nil {
		return err
	}
	if t == nil {
		return corrupt(g.name, g.size()-format.BlockSize, "the footer is gone")
	}
	start := g.size() - int64(t.Size())
	for slot := uint32(0); slot < t.Slots; slot += format.PositionsPerBlock {
		block, at := format.PositionBlock(slot)
		pos := start + int64(block)*format.BlockSize
		b, err := w.bytes(pos, format.BlockSize)
		if err == nil {
			_, err = t.ParsePosition(b, block, at)
		}
		if err != nil {
			return corrupt(g.name, pos, "%w", err)
		}
	}
	return nil
}
