package logstore

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"queen/engine/format"
	"queen/engine/invariants"
	"queen/engine/vfs"
)

// Failpoints of a bulk segment, in order.
var (
	failBulkExtent  = invariants.Register("logstore.bulk.extent-written")
	failBulkSynced  = invariants.Register("logstore.bulk.extents-synced")
	failBulkFooter  = invariants.Register("logstore.bulk.footer-written")
	failBulkVisible = invariants.Register("logstore.bulk.renamed")
)

// BulkOptions configures a bulk segment.
type BulkOptions struct {
	// Number of the segment, without format.BulkBit; never used before in this directory.
	Number uint32
	// Replaces names the bulk segments whose live frames it takes over. The origins of its frames are
	// added to them.
	Replaces []format.SegmentID
	// BytesPerSecond bounds the rate of writing, so that it does not hurt the commit stream; 0 is no bound.
	BytesPerSecond int64
}

// BulkWriter writes a segment outside the commit stream: relocated, fetched or compacted frames. Nothing
// of it is durable or visible before Finish. It is used by one goroutine.
type BulkWriter struct {
	s    *Store
	o    BulkOptions
	f    vfs.File
	name string // of the finished file
	head format.SegmentHead

	buf      []byte // the extent in the making
	records  uint32
	end      int64 // behind the last extent
	extents  uint32
	checksum uint64
	groups   []*bulkGroup
	total    int // entries with a position
	started  int64
	written  int64
	err      error
}

type bulkGroup struct {
	format.FooterGroup
	positions []uint32
}

// NewBulk begins a bulk segment.
func (s *Store) NewBulk(o BulkOptions) (*BulkWriter, error) {
	if err := s.usable(); err != nil {
		return nil, err
	}
	id := format.SegmentID(o.Number) | format.BulkBit
	w := &BulkWriter{
		s: s, o: o, name: path.Join(s.opts.Dir, id.FileName()), end: format.BlockSize, started: s.opts.Clock.Mono(),
		head: format.SegmentHead{
			Segment: id, Nonce: s.opts.Rand.Uint64(), Disk: s.disk, Size: uint64(s.opts.SegmentBytes), Boot: s.boot,
		},
	}
	if o.Number == 0 || id.Number() != o.Number || s.bulkSegment(uint32(id)) != nil {
		return nil, fmt.Errorf("%w: bulk segment %d", ErrInvalid, o.Number)
	}
	var err error
	w.o.Replaces = slices.Clone(o.Replaces)
	if w.f, err = s.opts.FS.Open(w.name+tmpSuffix, vfs.Write|vfs.Create|vfs.Truncate|vfs.Direct); err != nil {
		return nil, fmt.Errorf("logstore: begin bulk segment: %w", err)
	}
	w.reset()
	return w, nil
}

func (w *BulkWriter) reset() {
	if w.buf == nil {
		w.buf = vfs.AlignedBuffer(w.s.opts.ExtentBytes)
	}
	w.buf = w.buf[:format.ExtentHeadSize]
	w.records = 0
}

// Add puts a frame into the segment and returns where it will be: ReadAt with offset 0 gives the stored
// frame. Frames of a raft group come in the order of their indexes. ErrTooLarge: the segment is full
// (Finish it, and begin the next), or the frame does not fit into any.
func (w *BulkWriter) Add(v *format.StoredFrame) (EntryPos, error) {
	if w.err != nil {
		return EntryPos{}, w.err
	}
	g, err := w.group(v)
	if err != nil {
		return EntryPos{}, err
	}
	head, fields := v.Record()
	body := len(fields) + len(v.Frame)
	parts := format.FragmentCount(body)
	if !w.fits(body, parts) {
		return EntryPos{}, fmt.Errorf("%w: frame of %d bytes", ErrTooLarge, len(v.Frame))
	}
	pos := EntryPos{Segment: uint32(w.head.Segment)}
	for n := range parts {
		size := recordSize(body)
		if parts > 1 {
			size = recordSize(format.FragmentHeadSize + min(format.FragmentBytes, body-n*format.FragmentBytes))
		}
		if len(w.buf)+size+8 > cap(w.buf) {
			if w.err = w.flush(); w.err != nil {
				return EntryPos{}, w.err
			}
		}
		var at int
		if parts == 1 {
			w.buf, at = format.AppendRecord(w.buf, &head, fields, v.Frame)
		} else {
			w.buf, at = format.AppendFragment(w.buf, &head, n, fields, v.Frame)
		}
		w.records++
		if n == 0 {
			pos.Pos = uint32(w.end) + uint32(at)
		}
	}
	w.note(g, v.Index, pos.Pos)
	if !w.replaces(v.Origin) {
		w.o.Replaces = append(w.o.Replaces, v.Origin)
	}
	return pos, nil
}

func (w *BulkWriter) replaces(s format.SegmentID) bool {
	n := len(w.o.Replaces)
	return n > 0 && w.o.Replaces[n-1] == s || slices.Contains(w.o.Replaces, s)
}

// Number is the number of the segment, with format.BulkBit.
func (w *BulkWriter) Number() format.SegmentID { return w.head.Segment }

// Bytes is what the segment would take if it were finished now, at least.
func (w *BulkWriter) Bytes() int64 { return w.end + int64(len(w.buf)) }

func (w *BulkWriter) group(v *format.StoredFrame) (*bulkGroup, error) {
	for _, g := range w.groups {
		if g.Group != v.Group || g.Replica != v.Replica {
			continue
		}
		if n := len(g.Entries); n > 0 && v.Index < g.Entries[n-1].Last {
			return nil, fmt.Errorf("%w: frame of entry %d after one of %d", ErrInvalid, v.Index, g.Entries[n-1].Last)
		}
		return g, nil
	}
	g := &bulkGroup{FooterGroup: format.FooterGroup{Group: v.Group, Replica: v.Replica}}
	w.groups = append(w.groups, g)
	return g, nil
}

// note takes down where the first frame of an entry is.
func (w *BulkWriter) note(g *bulkGroup, i format.Index, pos uint32) {
	n := len(g.Entries)
	switch {
	case n > 0 && g.Entries[n-1].Last == i:
		return
	case n > 0 && g.Entries[n-1].Last+1 == i:
		g.Entries[n-1].Last = i
	default:
		g.Entries = append(g.Entries, format.FooterRange{First: i, Last: i})
	}
	g.positions = append(g.positions, pos)
	w.total++
}

// fits reports that a frame and the footer fit behind what is there.
func (w *BulkWriter) fits(body, parts int) bool {
	ranges := 1
	for _, g := range w.groups {
		ranges += len(g.Entries)
	}
	room := format.FooterRoom(w.total+1, len(w.groups)+1, ranges, len(w.o.Replaces)+1)
	pending := vfs.RoundUp(int64(len(w.buf)))
	need := int64(body + parts*(2*format.BlockSize+format.FragmentHeadSize))
	return w.end+pending+need+int64(room) <= int64(w.head.Size) && recordSize(body/parts)+format.BlockSize <= cap(w.buf)
}

// flush writes the extent in the making, without making it durable.
func (w *BulkWriter) flush() error {
	if w.records == 0 {
		return nil
	}
	head := format.ExtentHead{
		Segment: w.head.Segment, Number: w.extents + 1, Nonce: w.head.Nonce, Previous: w.checksum,
		Records: w.records, Boot: w.s.boot,
	}
	b := format.FinishExtent(w.buf, &head)
	if _, err := w.f.WriteAt(b, w.end); err != nil {
		return fmt.Errorf("logstore: write extent %d of %s: %w", head.Number, w.name, err)
	}
	invariants.Failpoint(failBulkExtent)
	w.end += int64(len(b))
	w.extents++
	w.checksum = head.Checksum()
	w.written += int64(len(b))
	w.reset()
	w.pace()
	return nil
}

// pace waits until the rate allows what was written.
func (w *BulkWriter) pace() {
	if w.o.BytesPerSecond <= 0 {
		return
	}
	due := w.started + w.written*1_000_000/w.o.BytesPerSecond
	if wait := due - w.s.opts.Clock.Mono(); wait > 0 {
		t := w.s.opts.Clock.NewTimer(time.Duration(wait) * time.Microsecond)
		<-t.C()
		t.Stop()
	}
}

// Finish makes the segment complete: extents, then block 0 and footer, then its name, each durable before
// the next. From then on ReadAt finds it, and the next Open too.
func (w *BulkWriter) Finish() error {
	if w.err == nil {
		w.err = w.finish()
	}
	if w.err != nil {
		w.Abort()
		return w.err
	}
	w.err = ErrClosed
	return nil
}

func (w *BulkWriter) finish() error {
	if err := w.flush(); err != nil {
		return err
	}
	slices.Sort(w.o.Replaces)
	w.head.Size = uint64(w.end) + uint64(len(w.footer()))
	block := vfs.AlignedBuffer(format.BlockSize)
	w.head.Encode(block)
	if _, err := w.f.WriteAt(block, 0); err != nil {
		return fmt.Errorf("logstore: write block 0 of %s: %w", w.name, err)
	}
	if err := w.f.Sync(); err != nil {
		return fmt.Errorf("logstore: flush %s: %w", w.name, err)
	}
	invariants.Failpoint(failBulkSynced)
	footer := vfs.AlignedBuffer(len(w.footer()))
	copy(footer, w.footer())
	if err := w.f.WriteAtSync(footer, w.end); err != nil {
		return fmt.Errorf("logstore: write footer of %s: %w", w.name, err)
	}
	invariants.Failpoint(failBulkFooter)
	if err := w.s.opts.FS.Rename(w.name+tmpSuffix, w.name); err != nil {
		return fmt.Errorf("logstore: finish %s: %w", w.name, err)
	}
	if err := w.s.opts.FS.SyncDir(w.s.opts.Dir); err != nil {
		return fmt.Errorf("logstore: finish %s: %w", w.name, err)
	}
	invariants.Failpoint(failBulkVisible)
	_ = w.f.Close() // everything is durable
	g, err := w.s.openBulk(w.name)
	if err != nil {
		return err
	}
	w.s.mu.Lock()
	defer w.s.mu.Unlock()
	w.s.addBulk(g)
	return nil
}

func (w *BulkWriter) footer() []byte {
	f := format.Footer{
		Segment: w.head.Segment, Nonce: w.head.Nonce, Boot: w.s.boot, End: uint64(w.end),
		LastExtent: w.extents, LastChecksum: w.checksum, Complete: true, Replaces: w.o.Replaces,
	}
	slices.SortFunc(w.groups, func(a, b *bulkGroup) int {
		return compareKeys(replicaKey{a.Group, a.Replica}, replicaKey{b.Group, b.Replica})
	})
	for _, g := range w.groups {
		g.FirstSlot = uint32(len(f.Positions))
		f.Groups = append(f.Groups, g.FooterGroup)
		f.Positions = append(f.Positions, g.positions...)
	}
	return f.Append(nil)
}

// Abort gives up the segment. What was written is removed, now or at the next Open.
func (w *BulkWriter) Abort() {
	if w.err == ErrClosed {
		return
	}
	_ = w.f.Close()
	_ = w.s.opts.FS.Remove(w.name + tmpSuffix)
	if w.err == nil {
		w.err = ErrClosed
	}
}

// openBulk reads block 0 and footer of a finished bulk segment. Its name became durable last, so it must
// be whole.
func (s *Store) openBulk(name string) (*segment, error) {
	f, err := s.opts.FS.Open(name, vfs.Direct)
	if err != nil {
		return nil, fmt.Errorf("logstore: open bulk segment: %w", err)
	}
	defer f.Close()
	block := make([]byte, format.BlockSize)
	if _, err := f.ReadAt(block, 0); err != nil {
		return nil, corrupt(name, 0, "%w", err)
	}
	head, err := format.ParseSegmentHead(block)
	if err != nil || path.Base(name) != head.Segment.FileName() {
		return nil, corrupt(name, 0, "block 0 of segment %d: %v", head.Segment, err)
	}
	t, err := readFooter(f, &head)
	if err != nil {
		return nil, corrupt(name, int64(head.Size), "%w", err)
	}
	if t == nil || !t.Complete {
		return nil, corrupt(name, int64(head.Size)-format.BlockSize, "no footer of a complete bulk segment")
	}
	g := newSegment(s.opts.Dir, head)
	if err := g.takeFooter(t); err != nil {
		return nil, corrupt(name, int64(head.Size)-format.BlockSize, "%w", err)
	}
	return g, nil
}

// addBulk shows a bulk segment to readers. mu is held, or the store is not yet open.
func (s *Store) addBulk(g *segment) {
	s.bulks = append(s.bulks, g)
	slices.SortFunc(s.bulks, func(a, b *segment) int { return compare(a.seq(), b.seq()) })
}

func (s *Store) bulkSegment(seq uint32) *segment {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.segment(seq)
}

// Bulks describes the complete bulk segments by number.
func (s *Store) Bulks() []SegmentInfo {
	s.mu.RLock()
	defer s.mu.RUnlock()
	all := make([]SegmentInfo, len(s.bulks))
	for i, g := range s.bulks {
		all[i] = g.info()
	}
	return all
}

// listBulk opens a bulk segment that a listing found; what is not finished is removed with the pool's
// leftovers.
func (l *loader) listBulk(name string) error {
	if strings.HasSuffix(name, tmpSuffix) {
		l.leftovers = append(l.leftovers, name)
		return nil
	}
	number, ok := parseNumbered(name, bulkPrefix)
	if !ok {
		return nil
	}
	g, err := l.s.openBulk(path.Join(l.s.opts.Dir, name))
	var bad *CorruptionError
	if needed := l.s.opts.BulkNeeded; errors.As(err, &bad) && needed != nil && !needed(number|uint32(format.BulkBit)) {
		l.leftovers = append(l.leftovers, name)
		return nil
	}
	if err != nil {
		return err
	}
	l.s.addBulk(g)
	return nil
}
