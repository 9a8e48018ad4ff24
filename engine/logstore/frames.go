package logstore

import (
	"fmt"

	"queen/engine/format"
)

// ReadFrame appends the frame in bytes [off, off+n) of the record at pos to dst (ReadAt), and tells what
// its record says beside it: in a bulk segment everything, in the commit stream group, replica, index,
// term and origin. v.Frame is the frame, in dst's memory. Nothing verifies the frame's own checksum.
func (s *Store) ReadFrame(pos EntryPos, off, n uint32, dst []byte) (v format.StoredFrame, b []byte, err error) {
	g, end := s.readable(pos.Segment)
	if g == nil {
		return v, dst, fmt.Errorf("%w: %d", ErrReclaimed, pos.Segment)
	}
	if int64(pos.Pos) >= end {
		return v, dst, fmt.Errorf("%w: position %d of segment %d", ErrUnknown, pos.Pos, pos.Segment)
	}
	r, err := s.openRecord(g, pos.Pos, end, off, n)
	if err != nil {
		return v, dst, err
	}
	defer r.close()
	if uint64(off)+uint64(n) > uint64(r.entryBytes()) {
		return v, dst, fmt.Errorf("%w: [%d,+%d) of %d bytes", ErrRange, off, n, r.entryBytes())
	}
	v = format.StoredFrame{
		Group: r.head.Group, Replica: r.head.Replica, Index: r.head.Index, Term: r.head.Term,
		Origin: format.SegmentID(pos.Segment),
	}
	if r.head.Kind == format.RecordFrame {
		fields, err := r.read(nil, 0, r.prefix)
		if err == nil {
			v, err = format.ParseStoredFrame(&r.head, fields)
		}
		if err != nil {
			return v, dst, corrupt(g.name, int64(pos.Pos), "%w", err)
		}
	}
	at := len(dst)
	if b, err = r.read(dst, r.prefix+off, n); err != nil {
		return v, dst, err
	}
	v.Frame = b[at:]
	return v, b, nil
}

// WalkFrames calls fn for every frame of a bulk segment, in the order of the file, without its bytes:
// length is the frame's. It ends with fn's error. Refused is valid during the call.
func (s *Store) WalkFrames(seq uint32, fn func(pos EntryPos, length uint32, v *format.StoredFrame) error) error {
	g, end := s.readable(seq)
	if g == nil || !g.head.Segment.IsBulk() {
		return fmt.Errorf("%w: %d", ErrReclaimed, seq)
	}
	f, err := s.handles.pin(g)
	if err != nil {
		return err
	}
	defer s.handles.unpin(g)
	p := &replayer{s: s, g: g, w: newWindow(f, end, replayAhead)}
	k := newWalker(g, newWindow(f, end, replayAhead), 0, false)
	for k.next <= g.extents {
		h, err := k.head()
		if err == nil {
			err = k.visitHeads(&h, func(head *format.RecordHead, pos int64, body []byte) error {
				return p.frame(head, pos, body, fn)
			})
		}
		if err != nil {
			return fmt.Errorf("logstore: %s at %d: %w", g.name, k.pos, err)
		}
		k.step(&h)
	}
	return nil
}

// frame shows one record of a bulk segment, at the first fragment if it has several.
func (p *replayer) frame(
	head *format.RecordHead, pos int64, body []byte, fn func(EntryPos, uint32, *format.StoredFrame) error,
) error {
	joined := *head
	if head.Kind == format.RecordFragment {
		f, _, err := format.ParseFragment(head, body)
		if err != nil || f.Number != 0 {
			return err
		}
		if joined, body, err = p.joinedHead(uint32(pos)); err != nil {
			return err
		}
	}
	v, err := format.ParseStoredFrame(&joined, body)
	if err != nil {
		return err
	}
	v.Frame = nil
	return fn(EntryPos{p.g.seq(), uint32(pos)}, joined.Length-joined.Covered, &v)
}
