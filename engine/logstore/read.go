package logstore

import (
	"fmt"
	"io"

	"queen/engine/format"
	"queen/engine/vfs"
)

// smallRead is what one read of the file fetches at least: the record's head and what is likely wanted
// with it.
const smallRead = 64 << 10

// ReadAt appends bytes [off, off+n) of the entry at pos to dst and returns it. n of AllBytes means up to
// the entry's end. In a bulk segment pos is that of a stored frame, and off counts from the frame's start.
//
// Recent entries come from memory, others from their segment, which stays while they are read. The
// checksum of the (first) record is verified if the range touches what it covers, which is an entry's
// head, commands and ids. Payload is guarded by the frames' checksums, and those are the reader's to
// verify. ErrReclaimed: the segment is gone. ErrRange: the entry is shorter. A *CorruptionError: what is
// there is no entry.
func (s *Store) ReadAt(pos EntryPos, off, n uint32, dst []byte) ([]byte, error) {
	b, _, err := s.ReadIndexed(pos, off, n, dst)
	return b, err
}

// ReadIndexed is ReadAt and tells the index of the entry as well, which its record holds.
func (s *Store) ReadIndexed(pos EntryPos, off, n uint32, dst []byte) ([]byte, format.Index, error) {
	if n <= smallRead {
		if b, i, ok := s.tail.entry(dst, pos.Segment, pos.Pos, off, n); ok {
			return b, i, nil
		}
	}
	g, end := s.readable(pos.Segment)
	if g == nil {
		return dst, 0, fmt.Errorf("%w: %d", ErrReclaimed, pos.Segment)
	}
	if int64(pos.Pos) >= end {
		return dst, 0, fmt.Errorf("%w: position %d of segment %d", ErrUnknown, pos.Pos, pos.Segment)
	}
	r, err := s.openRecord(g, pos.Pos, end, off, n)
	if err != nil {
		return dst, 0, err
	}
	defer r.close()
	total := r.entryBytes()
	if n == AllBytes {
		n = total - min(off, total)
	}
	if uint64(off)+uint64(n) > uint64(total) {
		return dst, 0, fmt.Errorf("%w: [%d,+%d) of %d bytes", ErrRange, off, n, total)
	}
	b, err := r.read(dst, r.prefix+off, n)
	return b, r.head.Index, err
}

// AllBytes as the length of a read means up to the end.
const AllBytes = ^uint32(0)

// readable returns a segment and the position behind its last extent.
func (s *Store) readable(seq uint32) (*segment, int64) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	g := s.segment(seq)
	if g == nil {
		return nil, 0
	}
	return g, g.used
}

// recordReader reads the body of one record, joined if it lies in fragments.
type recordReader struct {
	s    *Store
	g    *segment
	pos  uint32
	end  int64
	head format.RecordHead // joined
	// prefix is how many bytes of the body precede the entry.
	prefix uint32

	recent *tailExtent // holds the record, or nil
	file   vfs.File    // pinned, or nil
	buf    []byte      // what was read of the file from the block of pos on
	have   int64       // how many bytes of it
}

var readBuffers = vfs.NewBufferPool(2*smallRead, 64)

// openRecord finds the record at pos, of which [off, off+n) is wanted.
func (s *Store) openRecord(g *segment, pos uint32, end int64, off, n uint32) (*recordReader, error) {
	r := &recordReader{s: s, g: g, pos: pos, end: end}
	if head, prefix, ok := s.heads.get(g.seq(), pos); ok && off > head.Covered {
		r.head, r.prefix = head, prefix
		return r, nil
	}
	b, err := r.start(int64(off) + int64(min(n, smallRead)))
	if err != nil {
		r.close()
		return nil, err
	}
	if err := r.parse(b, off); err != nil {
		r.close()
		return nil, corrupt(g.name, int64(pos), "%w", err)
	}
	if r.recent == nil {
		s.heads.put(g.seq(), pos, r.head, r.prefix)
	}
	return r, nil
}

// parse reads the head, and verifies it unless memory holds it or too much would have to be read for a
// range behind what its checksum covers.
func (r *recordReader) parse(b []byte, off uint32) error {
	head, err := format.ParseRecordHead(b)
	if err != nil {
		return err
	}
	covered := format.RecordHeadSize + int(head.Covered)
	if r.recent == nil && (covered <= len(b) || off <= head.Covered) {
		whole, err := r.more(b, covered)
		if err == nil {
			head, _, err = format.ParseRecord(whole)
		}
		if err != nil {
			return err
		}
	}
	if head.Kind == format.RecordFragment {
		if len(b) < format.RecordHeadSize+format.FragmentHeadSize {
			return io.ErrUnexpectedEOF
		}
		f, _, err := format.ParseFragment(&head, b[format.RecordHeadSize:])
		if err != nil {
			return err
		}
		if f.Number != 0 {
			return fmt.Errorf("fragment %d, want the first", f.Number)
		}
		head = f.Joined(&head)
	}
	switch r.head = head; head.Kind {
	case format.RecordEntry:
		r.prefix = uint32(format.EntryBytesPos(head.Flags))
	case format.RecordFrame:
		r.prefix = head.Covered // the fields in front of the frame, and nothing else
	default:
		return fmt.Errorf("record of kind %d, want an entry or a frame", head.Kind)
	}
	return nil
}

// start returns the bytes at pos: of the extent in memory, or of the file.
func (r *recordReader) start(ahead int64) ([]byte, error) {
	if r.recent = r.s.tail.find(r.g.seq(), r.pos); r.recent != nil {
		return r.recent.buf[r.pos-r.recent.pos:], nil
	}
	var err error
	if r.file, err = r.s.handles.pin(r.g); err != nil {
		return nil, err
	}
	r.buf = readBuffers.Get()
	first := int64(r.pos) &^ (format.BlockSize - 1)
	skip := int64(r.pos) - first
	want := vfs.RoundUp(skip + format.RecordHeadSize + format.FragmentHeadSize + proposalBytes + min(ahead, smallRead))
	want = min(want, r.end-first)
	n, err := r.file.ReadAt(r.buf[:want], first)
	if err != nil && err != io.EOF {
		return nil, corrupt(r.g.name, first, "%w", err)
	}
	if int64(n) < want {
		return nil, corrupt(r.g.name, first, "file ends at %d", first+int64(n))
	}
	r.have = want
	return r.buf[skip:want], nil
}

// more returns n bytes from the record's start on: b if it is long enough, else a new piece of the file.
func (r *recordReader) more(b []byte, n int) ([]byte, error) {
	if n <= len(b) {
		return b[:n], nil
	}
	if r.recent != nil || int64(r.pos)+int64(n) > r.end {
		return nil, io.ErrUnexpectedEOF
	}
	p := make([]byte, n)
	if _, err := r.file.ReadAt(p, int64(r.pos)); err != nil && err != io.EOF {
		return nil, err
	}
	return p, nil
}

func (r *recordReader) entryBytes() uint32 { return r.head.Length - r.prefix }

// read appends bytes [off, off+n) of the joined body.
func (r *recordReader) read(dst []byte, off, n uint32) ([]byte, error) {
	if r.head.Length <= format.FragmentBytes {
		return r.readRaw(dst, r.pos+format.RecordHeadSize+off, n)
	}
	parts, err := r.s.fragments(r.g, r.pos, r.end)
	if err != nil {
		return dst, err
	}
	base := uint32(0)
	for _, f := range parts {
		if n > 0 && off < base+f.length {
			from := off - base
			take := min(n, f.length-from)
			if dst, err = r.readRaw(dst, f.data+from, take); err != nil {
				return dst, err
			}
			off, n = off+take, n-take
		}
		base += f.length
	}
	if n > 0 {
		return dst, corrupt(r.g.name, int64(r.pos), "fragments end at %d of %d bytes", base, r.head.Length)
	}
	return dst, nil
}

// readRaw appends bytes of the segment, from what is at hand already, from memory, or from the file.
func (r *recordReader) readRaw(dst []byte, pos, n uint32) ([]byte, error) {
	if n == 0 {
		return dst, nil
	}
	if r.recent != nil && pos >= r.recent.pos && int64(pos)+int64(n) <= int64(r.recent.pos)+int64(len(r.recent.buf)) {
		return append(dst, r.recent.buf[pos-r.recent.pos:][:n]...), nil
	}
	if r.buf != nil {
		first := r.pos &^ (format.BlockSize - 1)
		if at := int64(pos) - int64(first); at >= 0 && at+int64(n) <= r.have {
			return append(dst, r.buf[at:at+int64(n)]...), nil
		}
	}
	if e := r.s.tail.find(r.g.seq(), pos); e != nil {
		defer r.s.tail.release(e)
		return append(dst, e.buf[pos-e.pos:][:n]...), nil
	}
	if r.file == nil {
		var err error
		if r.file, err = r.s.handles.pin(r.g); err != nil {
			return dst, err
		}
	}
	at := len(dst)
	dst = append(dst, make([]byte, n)...)
	if _, err := r.file.ReadAt(dst[at:], int64(pos)); err != nil && err != io.EOF {
		return dst[:at], corrupt(r.g.name, int64(pos), "%w", err)
	}
	return dst, nil
}

func (r *recordReader) close() {
	if r.recent != nil {
		r.s.tail.release(r.recent)
	}
	if r.buf != nil {
		readBuffers.Put(r.buf)
	}
	if r.file != nil {
		r.s.handles.unpin(r.g)
	}
}

// fragments returns where the pieces of a record are, from memory or by walking the records behind the
// first one.
func (s *Store) fragments(g *segment, pos uint32, end int64) ([]fragment, error) {
	s.mu.RLock()
	parts := g.frags[pos]
	s.mu.RUnlock()
	if parts != nil {
		return parts, nil
	}
	f, err := s.handles.pin(g)
	if err != nil {
		return nil, err
	}
	defer s.handles.unpin(g)
	if parts, err = walkFragments(newWindow(f, end, format.BlockSize), int64(pos)); err != nil {
		return nil, corrupt(g.name, int64(pos), "%w", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	g.frags[pos] = parts
	return parts, nil
}

// walkFragments follows the records from the first fragment on. Other records, of other savers, lie between.
func walkFragments(w *window, pos int64) ([]fragment, error) {
	var parts []fragment
	var joined format.RecordHead
	for {
		head, body, err := readRecord(w, pos, w.size)
		if err != nil {
			return nil, err
		}
		if head.Kind == format.RecordFragment {
			f, _, err := format.ParseFragment(&head, body)
			if err != nil {
				return nil, err
			}
			if parts == nil {
				joined = f.Joined(&head)
			}
			if f.Joined(&head) == joined && int(f.Number) == len(parts) {
				parts = append(parts, fragment{
					data:   uint32(pos) + format.RecordHeadSize + format.FragmentHeadSize,
					length: head.Length - format.FragmentHeadSize,
				})
				if len(parts) == int(f.Count) {
					return parts, nil
				}
			}
		}
		if pos, err = nextRecord(w, pos+int64(head.Size())); err != nil {
			return nil, err
		}
	}
}

// nextRecord finds the record behind one that ends at pos: in the same extent or in the next. io.EOF if
// there is none.
func nextRecord(w *window, pos int64) (int64, error) {
	if pos >= w.size {
		return 0, io.EOF
	}
	b, err := w.bytes(pos, 8)
	if err != nil {
		return 0, err
	}
	next, step := format.NextRecord(pos, b)
	if step == format.StepRecord {
		return next, nil
	}
	if next >= w.size {
		return 0, io.EOF
	}
	if b, err = w.bytes(next, format.ExtentHeadSize); err != nil {
		return 0, err
	}
	if _, err = format.ParseExtentHead(b); err != nil {
		return 0, err
	}
	return next + format.ExtentHeadSize, nil
}
