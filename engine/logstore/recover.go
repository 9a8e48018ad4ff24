package logstore

import (
	"fmt"
	"path"
	"strings"

	"queen/engine/format"
	"queen/engine/invariants"
	"queen/engine/vfs"
)

// Failpoints of opening, in order.
var (
	failOpenScanned = invariants.Register("logstore.open.scanned")
	failOpenFlushed = invariants.Register("logstore.open.tail-flushed")
)

// Open opens the log in Options.Dir, or begins a new one.
//
// It reads the footers of sealed segments, the heads of records of those that the resident index needs,
// and every byte of the segment that was being written. What it finds at the end and can not have been
// acknowledged is dropped; a *CorruptionError says that bytes which were durable are gone or wrong, and
// then nothing was changed. The tail is flushed before Open returns, so that everything readers get from
// then on is durable.
func Open(o Options) (*Store, error) {
	o = o.withDefaults()
	if err := o.Validate(); err != nil {
		return nil, err
	}
	s := &Store{opts: o, replicas: map[replicaKey]*replica{}, disk: o.Disk, boot: 1}
	s.tail = newTail(o.TailBytes, o.ExtentBytes)
	s.handles = newHandles(o.FS, o.OpenFiles)
	s.pool = newPool(o)
	s.writer = newWriter(s)
	l := &loader{s: s}
	if err := l.load(); err != nil {
		s.closeFiles()
		return nil, err
	}
	if o.inline {
		close(s.writer.beacon.done)
	} else {
		go s.writer.runBeacon()
	}
	go s.writer.run()
	return s, nil
}

// loader is the state of one Open.
type loader struct {
	s      *Store
	beacon format.Beacon
	pool   []string // names of files of the pool
	// leftovers are files that a crash left half made.
	leftovers []string
	tail      *segment // goes on being written; nil if a new one is begun
	// counted is how many extents of the tail a torn footer counts.
	counted uint32
}

func (l *loader) load() error {
	s := l.s
	if err := vfs.MkdirAllSync(s.opts.FS, s.opts.Dir); err != nil {
		return fmt.Errorf("logstore: directory: %w", err)
	}
	var err error
	if l.beacon, err = readBeacon(s.opts.FS, s.opts.Dir); err != nil {
		return err
	}
	if err := l.list(); err != nil {
		return err
	}
	if err := l.settleIdentity(); err != nil {
		return err
	}
	s.loading = true
	if err := l.loadSegments(); err != nil {
		return err
	}
	s.loading = false
	if err := l.prove(); err != nil {
		return err
	}
	invariants.Failpoint(failOpenScanned)
	return l.begin()
}

// list finds the segments and opens their heads.
func (l *loader) list() error {
	s := l.s
	names, err := s.opts.FS.List(s.opts.Dir)
	if err != nil {
		return fmt.Errorf("logstore: list: %w", err)
	}
	for _, name := range names {
		switch {
		case strings.HasPrefix(name, poolPrefix):
			l.pool = append(l.pool, name)
		case strings.HasPrefix(name, bulkPrefix):
			if err := l.listBulk(name); err != nil {
				return err
			}
		default:
			seq, ok := parseNumbered(name, segmentPrefix)
			if !ok {
				continue
			}
			if err := l.addSegment(seq); err != nil {
				return err
			}
		}
	}
	return nil
}

// addSegment reads block 0. It was durable before the file got its name, so it must be there.
func (l *loader) addSegment(seq uint32) error {
	s := l.s
	name := path.Join(s.opts.Dir, format.SegmentID(seq).FileName())
	f, err := s.opts.FS.Open(name, vfs.Direct)
	if err != nil {
		return fmt.Errorf("logstore: open segment: %w", err)
	}
	defer f.Close()
	size, err := f.Size()
	if err != nil {
		return err
	}
	block := make([]byte, format.BlockSize)
	if size < 2*format.BlockSize {
		return corrupt(name, 0, "file has %d bytes", size)
	}
	if _, err := f.ReadAt(block, 0); err != nil {
		return fmt.Errorf("logstore: read block 0 of %s: %w", name, err)
	}
	head, err := format.ParseSegmentHead(block)
	switch {
	case err != nil:
		return corrupt(name, 0, "%w", err)
	case head.Segment != format.SegmentID(seq):
		return corrupt(name, 0, "block 0 is that of segment %d", head.Segment)
	case int64(head.Size) != size:
		return corrupt(name, 0, "file has %d bytes, block 0 says %d", size, head.Size)
	}
	if n := len(s.segments); n > 0 && s.segments[n-1].seq()+1 != seq && !l.wasReclaimed(s.segments[n-1].seq()+1, seq) {
		return corrupt(name, 0, "segment %d is missing before it", seq-1)
	}
	s.segments = append(s.segments, newSegment(s.opts.Dir, head))
	return nil
}

// wasReclaimed reports that all segments from first up to before end are known to be gone.
func (l *loader) wasReclaimed(first, end uint32) bool {
	if l.s.opts.Reclaimed == nil {
		return false
	}
	for seq := first; seq < end; seq++ {
		if !l.s.opts.Reclaimed(seq) {
			return false
		}
	}
	return true
}

// settleIdentity finds out which data directory this is, and numbers this start.
func (l *loader) settleIdentity() error {
	s := l.s
	s.boot = max(l.beacon.Boot, s.opts.Boot) + 1
	for _, g := range s.segments {
		s.boot = max(s.boot, g.head.Boot+1)
		if s.disk.IsZero() {
			s.disk = g.head.Disk
		}
		if g.head.Disk != s.disk {
			return corrupt(g.name, 0, "belongs to data directory %s, this is %s", g.head.Disk, s.disk)
		}
	}
	if l.beacon.Sequence > 0 && s.disk.IsZero() {
		s.disk = l.beacon.Disk
	}
	if s.disk.IsZero() {
		s.opts.Rand.Fill(s.disk[:])
	}
	if l.beacon.Sequence > 0 && l.beacon.Disk != s.disk {
		return corrupt(path.Join(s.opts.Dir, beaconName), 0,
			"belongs to data directory %s, this is %s", l.beacon.Disk, s.disk)
	}
	return nil
}

// loadSegments decides how far the log goes and loads the index.
func (l *loader) loadSegments() error {
	s := l.s
	if err := l.readFooters(); err != nil {
		return err
	}
	floors, err := l.floors()
	if err != nil {
		return err
	}
	needed := l.firstNeeded(floors)
	for i, g := range s.segments {
		// The chain can not be followed over segments that were reclaimed.
		first := i == 0 || s.segments[i-1].seq()+1 != g.seq()
		if !first {
			s.chainBefore = s.segments[i-1].sum
		}
		switch {
		case !g.sealed:
			err = l.loadTail(g, first)
		case i >= needed:
			err = l.loadSealed(g, first)
		default:
			g.closed = true
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// readFooters reads the footers of all segments; only the last one may have none.
func (l *loader) readFooters() error {
	s := l.s
	for i, g := range s.segments {
		f, err := s.handles.pin(g)
		if err != nil {
			return err
		}
		t, err := readFooter(f, &g.head)
		s.handles.unpin(g)
		last := i == len(s.segments)-1
		switch {
		case err != nil && t != nil && last:
			// A seal that a crash tore. The segment goes on; that its extents were durable is known
			// nevertheless.
			l.counted = t.LastExtent
		case err != nil:
			return err
		case t != nil:
			if err := g.takeFooter(t); err != nil {
				return corrupt(g.name, g.size()-format.BlockSize, "%w", err)
			}
		case !last:
			return corrupt(g.name, g.size()-format.BlockSize,
				"no footer, though segment %d was begun after it", g.seq()+1)
		}
	}
	return nil
}

// floors reads raft's floors from what the newest segments repeat at their start.
func (l *loader) floors() (map[replicaKey]format.Index, error) {
	s := l.s
	floors := map[replicaKey]format.Index{}
	for i := len(s.segments) - 1; i >= 0; i-- {
		g := s.segments[i]
		f, err := s.handles.pin(g)
		if err != nil {
			return nil, err
		}
		k := newWalker(g, newWindow(f, g.size(), replayAhead), 0, true)
		h, b, err := k.verified()
		if err == nil {
			err = k.visitVerified(&h, b, func(head *format.RecordHead, _ int64, _ []byte) error {
				if head.Kind == format.RecordFloor {
					floors[replicaKey{head.Group, head.Replica}] = head.Index
				}
				return nil
			})
		}
		s.handles.unpin(g)
		if err == nil {
			return floors, nil
		}
		if g.sealed {
			return nil, corrupt(g.name, format.BlockSize, "%w", err)
		}
	}
	return floors, nil
}

// firstNeeded is the number (in the list) of the first segment whose entries must be in the resident
// index: those that are not index-closed, and those with entries raft may ask for. Everything after it is
// loaded too.
func (l *loader) firstNeeded(floors map[replicaKey]format.Index) int {
	s := l.s
	for i, g := range s.segments {
		if s.opts.Closed == nil || !s.opts.Closed(g.seq()) || !g.sealed {
			return i
		}
		for key, in := range g.groups {
			if floor, ok := floors[key]; ok && in.last() > floor {
				return i
			}
		}
	}
	return len(s.segments)
}

// loadSealed takes the heads of a sealed segment's records into the index.
func (l *loader) loadSealed(g *segment, free bool) error {
	s := l.s
	f, err := s.handles.pin(g)
	if err != nil {
		return err
	}
	defer s.handles.unpin(g)
	groups := g.groups
	g.groups = map[replicaKey]*groupRange{} // built anew while loading, to be compared
	k := newWalker(g, newWindow(f, g.used, replayAhead), s.chainBefore, free)
	for k.next <= g.extents {
		h, err := k.head()
		if err == nil {
			err = k.visitHeads(&h, l.visit(g))
		}
		if err != nil {
			return corrupt(g.name, k.pos, "%w", err)
		}
		k.step(&h)
	}
	if k.prev != g.sum || k.pos != g.used {
		return corrupt(g.name, k.pos, "extents end with checksum %#x at %d, the footer says %#x at %d",
			k.prev, k.pos, g.sum, g.used)
	}
	g.groups = groups
	g.closed = s.opts.Closed != nil && s.opts.Closed(g.seq())
	return nil
}

func (l *loader) visit(g *segment) recordVisitor {
	return func(head *format.RecordHead, pos int64, body []byte) error {
		_, err := l.s.apply(place{g, uint32(pos)}, head, body)
		return err
	}
}

// loadTail verifies every byte of the segment that was being written, and finds its end.
func (l *loader) loadTail(g *segment, free bool) error {
	s := l.s
	f, err := s.opts.FS.Open(g.name, vfs.Write|vfs.Direct)
	if err != nil {
		return fmt.Errorf("logstore: open segment: %w", err)
	}
	l.tail, g.file, g.pins = g, f, 1
	k := newWalker(g, newWindow(f, g.size(), scanAhead), s.chainBefore, free)
	for {
		h, b, err := k.verified()
		if err != nil {
			return l.judgeEnd(g, k, &h, err)
		}
		if err := k.visitVerified(&h, b, l.visit(g)); err != nil {
			return corrupt(g.name, k.pos, "%w", err)
		}
		k.step(&h)
		s.boot = max(s.boot, h.Boot+1)
		g.used, g.extents, g.sum = k.pos, k.next-1, k.prev
	}
}
