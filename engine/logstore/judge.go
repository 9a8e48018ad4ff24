package logstore

import (
	"fmt"
	"path"

	"queen/engine/format"
	"queen/engine/invariants"
)

// judgeEnd decides what the first extent that does not verify means: the end of the log, a torn write, or
// rot.
//
// INVARIANT: an extent is dropped only if nothing proves that it was durable. One extent is outstanding at
// a time, so a bad one with a good one behind it was durable; so was one that the beacon counts, and all
// before a footer. Everything else was never acknowledged (TestTornExtent, TestRot).
func (l *loader) judgeEnd(g *segment, k *walker, h *format.ExtentHead, why error) error {
	if isReadError(why) {
		return corrupt(g.name, k.pos, "%w", why)
	}
	b := &l.beacon
	if b.Sequence > 0 && b.Segment == g.head.Segment && b.Extent >= k.next {
		return corrupt(g.name, k.pos, "extent %d was durable by the beacon: %w", k.next, why)
	}
	if l.counted >= k.next {
		return corrupt(g.name, k.pos, "extent %d was durable by the footer: %w", k.next, why)
	}
	later, found, err := laterExtent(g, k.w, k.pos, g.size(), k.next)
	if err != nil {
		return fmt.Errorf("logstore: read %s: %w", g.name, err)
	}
	if found {
		return corrupt(g.name, k.pos, "extent %d is bad though one at %d is whole: %w", k.next, later, why)
	}
	begun := h.Segment == g.head.Segment && h.Nonce == g.head.Nonce && h.Number == k.next
	if f := l.s.opts.Events.Torn; f != nil && begun {
		f(g.seq(), k.pos, why)
	}
	return nil
}

// prove compares the end of the log with what is known from elsewhere to have been durable.
func (l *loader) prove() error {
	if err := l.proveBeacon(); err != nil {
		return err
	}
	if err := l.checkGaps(); err != nil {
		return err
	}
	s := l.s
	for group, index := range s.opts.Proven {
		last := format.Index(0)
		if r := s.liveReplica(group); r != nil {
			last = r.raftLast()
		}
		if last < index {
			name, pos := s.opts.Dir, int64(0)
			if n := len(s.segments); n > 0 {
				name, pos = s.segments[n-1].name, s.segments[n-1].used
			}
			return corrupt(name, pos, "the log of group %d ends at entry %d, but %d was durable", group, last, index)
		}
	}
	return nil
}

// checkGaps accepts missing entries only where raft's floor allows that their segment was reclaimed.
func (l *loader) checkGaps() error {
	for _, gap := range l.s.gaps {
		r := l.s.replicas[gap.key]
		if r != nil && gap.before > gap.after+1 && r.floor < gap.before-1 {
			return corrupt(gap.at.g.name, int64(gap.at.pos),
				"group %d replica %d: entry %d follows %d, the floor is %d",
				r.group, r.replica, gap.before, gap.after, r.floor)
		}
	}
	l.s.gaps = nil
	return nil
}

func (l *loader) proveBeacon() error {
	s, b := l.s, &l.beacon
	if b.Sequence == 0 {
		return nil
	}
	newest := uint32(0)
	if n := len(s.segments); n > 0 {
		newest = s.segments[n-1].seq()
	}
	if uint32(b.Segment) > newest {
		return corrupt(path.Join(s.opts.Dir, b.Segment.FileName()), 0, "the segment is missing, the beacon knows it")
	}
	g := s.segment(uint32(b.Segment))
	if g == nil {
		return nil // reclaimed since: the beacon is old
	}
	switch {
	case g.head.Nonce != b.Nonce:
		return corrupt(g.name, 0, "nonce %#x, the beacon says %#x", g.head.Nonce, b.Nonce)
	case g.extents < b.Extent:
		return corrupt(g.name, g.used, "%d extents, the beacon counts %d", g.extents, b.Extent)
	case g.extents == b.Extent && g.extents > 0 && (g.sum != b.Checksum || uint64(g.used) != b.End):
		return corrupt(g.name, g.used, "last extent has checksum %#x, the beacon says %#x", g.sum, b.Checksum)
	case b.Clean && b.Extent > 0 && !g.sealed:
		return corrupt(g.name, g.size()-format.BlockSize, "no footer, though the store was closed in order")
	}
	return nil
}

// begin makes the log writable. Until here nothing on disk was changed.
func (l *loader) begin() error {
	s, w := l.s, l.s.writer
	if l.tail != nil {
		// What a process wrote and did not flush before it died is readable and not yet durable.
		if err := l.tail.file.Sync(); err != nil {
			return fmt.Errorf("logstore: flush %s: %w", l.tail.name, err)
		}
	}
	invariants.Failpoint(failOpenFlushed)
	for _, name := range l.leftovers {
		if err := s.opts.FS.Remove(path.Join(s.opts.Dir, name)); err != nil {
			return fmt.Errorf("logstore: leftover: %w", err)
		}
	}
	if err := s.pool.adopt(l.pool); err != nil {
		return fmt.Errorf("logstore: pool: %w", err)
	}
	if err := s.pool.start(); err != nil {
		return fmt.Errorf("logstore: pool: %w", err)
	}
	err := w.openBeacon(&l.beacon)
	if err == nil {
		err = l.beginSegment()
	}
	if err != nil {
		s.pool.close()
		if w.beacon.file != nil {
			w.beacon.file.Close()
		}
		return err
	}
	s.mode = w.file.Mode().String()
	return nil
}

func (l *loader) beginSegment() error {
	s, w := l.s, l.s.writer
	if l.tail != nil {
		w.seg, w.file = l.tail, l.tail.file
		w.rate.used, w.rate.at = l.tail.used, s.opts.Clock.Mono()
		return nil
	}
	next := max(s.opts.FirstSegment, 1)
	if n := len(s.segments); n > 0 {
		next, s.chainBefore = s.segments[n-1].seq()+1, s.segments[n-1].sum
	}
	return w.begin(format.SegmentID(next))
}
