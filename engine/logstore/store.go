package logstore

import (
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"queen/engine/format"
)

// Store is the node's log. Open makes one.
type Store struct {
	opts    Options
	pool    *pool
	tail    *tail
	heads   heads
	handles *handles
	writer  *writer
	stats   stats
	failed  atomic.Pointer[error]
	closed  atomic.Bool

	loading bool     // inside Open
	gaps    []logGap // met while loading

	disk        format.UUID
	boot        uint64
	mode        string
	chainBefore uint64 // checksum of the last extent before the open segment; the writer's

	// mu guards the index. Only the writer changes it after Open, except for the commit index and what
	// MarkClosed and Reclaim take away. Order of locks: mu before tail.mu, pool.mu and handles.mu;
	// writer.queue alone.
	mu       sync.RWMutex
	replicas map[replicaKey]*replica
	sorted   []*replica // nil after a change of replicas
	segments []*segment // of the commit stream, by number
	bulks    []*segment // complete bulk segments, by number
}

// Append makes the saves durable, all of them when it returns nil. Saves of one replica take effect in the
// order in which Append was called for them; a caller that must know the order waits for one call before
// it makes the next. Concurrent callers share extents, and thereby flushes.
//
// ErrGap, ErrTooLarge and ErrInvalid refuse the call: nothing of it was written. ErrFailed means that it
// is unknown what became durable and that nothing more will; ErrClosed that nothing was written.
//
// Data is read until Append returns and not kept.
func (s *Store) Append(saves ...*Save) error {
	write := false
	for _, v := range saves {
		if err := v.validate(s.maxEntry()); err != nil {
			return err
		}
		write = write || v.needsWrite()
	}
	if err := s.usable(); err != nil {
		return err
	}
	if !write && s.keepCommits(saves) {
		return nil
	}
	v := newSaver(saves)
	if len(v.pieces) == 0 {
		return nil
	}
	for i := range v.pieces {
		if v.pieces[i].size > s.opts.ExtentBytes-format.BlockSize {
			return fmt.Errorf("%w: record of %d bytes, extents of %d",
				ErrTooLarge, v.pieces[i].size, s.opts.ExtentBytes)
		}
	}
	return s.writer.submit(v)
}

func (s *Store) usable() error {
	if err := s.failed.Load(); err != nil {
		return fmt.Errorf("%w: %w", ErrFailed, *err)
	}
	if s.closed.Load() {
		return ErrClosed
	}
	return nil
}

// keepCommits takes commit indexes into memory; they are written with the next extent, whoever asks for
// it. False if a replica is not known yet.
func (s *Store) keepCommits(saves []*Save) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, v := range saves {
		if v.Commit != 0 && s.replicas[replicaKey{v.Group, v.Replica}] == nil {
			return false
		}
	}
	for _, v := range saves {
		if r := s.replicas[replicaKey{v.Group, v.Replica}]; r != nil {
			r.commit = max(r.commit, v.Commit)
		}
	}
	return true
}

// MaxEntry is the largest entry Append takes, in bytes.
func (s *Store) MaxEntry() int64 { return s.maxEntry() }

// maxEntry leaves an eighth of the segment to what the first extent repeats and to the footer; the rest is
// shared by fragments, each in an extent of its own. Where extents are too small for a fragment, in tests,
// an entry is one record.
func (s *Store) maxEntry() int64 {
	const overhead = 2 * format.BlockSize // heads and padding of an extent
	if s.opts.ExtentBytes < format.FragmentBytes+overhead {
		return int64(s.opts.ExtentBytes - format.BlockSize)
	}
	room := s.opts.SegmentBytes - s.opts.SegmentBytes/8
	return min(room/(format.FragmentBytes+overhead)*format.FragmentBytes, format.MaxEntryBytes)
}

// Close seals the open segment, writes the beacon and flushes both: a clean stop, after which any damage
// is found at the next Open. Appends that wait are written first. Readers that are at work are waited for.
// Close of a failed store writes nothing.
func (s *Store) Close() error {
	if s.closed.Swap(true) {
		return ErrClosed
	}
	w := s.writer
	w.queue.Lock()
	w.queue.closing = true
	w.queue.wake.Signal()
	w.queue.Unlock()
	s.pool.close()
	<-w.done
	s.closeFiles()
	_ = w.beacon.file.Close() // it was flushed, or the store failed
	if err := s.failed.Load(); err != nil {
		return fmt.Errorf("%w: %w", ErrFailed, *err)
	}
	return nil
}

// Kill ends the store as the death of its process would, as far as that is possible inside one: nothing more is
// written and whoever waits is refused. A write that is under way is not waited for, and files stay open. For
// tests.
func (s *Store) Kill() {
	if s.closed.Swap(true) {
		return
	}
	s.markFailed(errKilled)
	q := &s.writer.queue
	q.Lock()
	q.closing = true
	q.wake.Signal()
	q.Unlock()
	s.pool.end()
}

// closeFiles waits for readers and closes every segment. The writer has ended or was never started.
func (s *Store) closeFiles() {
	s.mu.RLock()
	segments := append(slices.Clone(s.bulks), s.segments...)
	s.mu.RUnlock()
	if n := len(segments); n > 0 && !segments[n-1].sealed && segments[n-1].file != nil {
		s.handles.unpin(segments[n-1]) // the writer's
	}
	s.handles.end(segments)
}

// Segments describes all segments, the oldest first. The last one is being written.
func (s *Store) Segments() []SegmentInfo {
	s.mu.RLock()
	defer s.mu.RUnlock()
	all := make([]SegmentInfo, len(s.segments))
	for i, g := range s.segments {
		all[i] = g.info()
	}
	return all
}

// segment finds a segment of either kind. mu is held.
func (s *Store) segment(seq uint32) *segment {
	all := s.segments
	if format.SegmentID(seq).IsBulk() {
		all = s.bulks
	}
	n, ok := slices.BinarySearchFunc(all, seq, func(g *segment, seq uint32) int { return compare(g.seq(), seq) })
	if !ok {
		return nil
	}
	return all[n]
}

// Disk names the data directory, and says how often its log was opened: a directory that comes back with a lower number
// was restored from an older copy.
func (s *Store) Disk() (id format.UUID, boot uint64) { return s.disk, s.boot }

// PoolLow reports that the segment files made in advance are used up and can not be replaced: the node
// refuses what adds data and goes on with the rest, which the reserve is for.
func (s *Store) PoolLow() bool { return s.pool.isLow() }

// FillPool has all segment files made that Options ask for, reserve included, though the node writes little:
// space is getting scarce, and they are what the log goes on with when it has run out.
func (s *Store) FillPool() { s.pool.grow() }

// MarkClosed says that a sealed segment is index-closed: every entry in it is applied or superseded and
// found by other means. The resident index forgets what raft does not need.
func (s *Store) MarkClosed(seq uint32) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	g := s.segment(seq)
	if g == nil {
		return ErrReclaimed
	}
	if !g.sealed {
		return fmt.Errorf("%w: segment %d is being written", ErrInvalid, seq)
	}
	g.closed = true
	s.trim()
	return nil
}

// trim drops refs below a replica's floor that lie in closed segments. mu is held.
func (s *Store) trim() {
	for key, r := range s.replicas {
		keep := r.floor + 1
		for _, g := range s.segments {
			if in := g.groups[key]; in != nil && !g.closed && len(in.entries) > 0 {
				keep = min(keep, in.entries[0].First)
			}
		}
		r.dropBelow(keep)
	}
}

// Reclaim gives the files of sealed segments away, oldest first: into the pool, or unlinked. The caller asserts that
// nothing in them is needed any more, by state, raft, checkpoints, backups or readers to come. Readers that are at
// work are waited for. The names are gone durably when it returns. What raft could still ask for is refused
// (ErrInvalid), and nothing happens then. If an older segment stays, Open must be told (Options.Reclaimed). A failed
// call on the file system fails the store, as a failed write does: which names are left is not known then.
func (s *Store) Reclaim(seqs ...uint32) error {
	if err := s.usable(); err != nil {
		return err
	}
	s.mu.Lock()
	var gone []*segment
	for _, seq := range seqs {
		g := s.segment(seq)
		if g == nil {
			s.mu.Unlock()
			return fmt.Errorf("%w: %d", ErrReclaimed, seq)
		}
		if err := s.reclaimable(g); err != nil {
			s.mu.Unlock()
			return err
		}
		gone = append(gone, g)
	}
	isGone := func(g *segment) bool { return slices.Contains(gone, g) }
	s.segments, s.bulks = slices.DeleteFunc(s.segments, isGone), slices.DeleteFunc(s.bulks, isGone)
	for _, r := range s.replicas {
		for _, g := range gone {
			if in := g.groups[r.replicaKey]; in != nil && in.last() != 0 {
				r.dropBelow(min(in.last(), r.floor) + 1)
			}
		}
	}
	s.mu.Unlock()
	slices.SortFunc(gone, func(a, b *segment) int { return compare(a.seq(), b.seq()) })
	for _, g := range gone {
		s.tail.forget(g.seq())
		s.handles.retire(g)
		if err := s.pool.recycle(g.head.Segment.FileName()); err != nil {
			err = fmt.Errorf("logstore: reclaim %s: %w", g.name, err)
			s.fail(err)
			return err
		}
	}
	return nil
}

// fail makes the store refuse everything from now on and reports the first error.
func (s *Store) fail(err error) {
	if s.markFailed(err) {
		s.opts.Fatal(err)
	}
}

// markFailed remembers the first error; true if this is it.
func (s *Store) markFailed(err error) bool {
	q := &s.writer.queue
	q.Lock()
	defer q.Unlock()
	if q.failed != nil {
		return false
	}
	q.failed = err
	s.failed.Store(&err)
	return true
}

// reclaimable checks what the store itself knows. mu is held.
func (s *Store) reclaimable(g *segment) error {
	if g.head.Segment.IsBulk() {
		return nil
	}
	if !g.sealed || len(s.segments) > 0 && s.segments[len(s.segments)-1] == g {
		return fmt.Errorf("%w: segment %d is the newest", ErrInvalid, g.seq())
	}
	for key, in := range g.groups {
		r := s.replicas[key]
		if r == nil {
			continue
		}
		for _, e := range in.entries {
			for i := max(e.First, r.floor+1); i <= e.Last; i++ {
				if ref, ok := r.find(i); ok && ref.pos.Segment == g.seq() {
					return fmt.Errorf("%w: segment %d holds entry %d of group %d above its floor %d",
						ErrInvalid, g.seq(), i, key.group, r.floor)
				}
			}
		}
	}
	return nil
}

// Stats are counters since Open.
type Stats struct {
	Mode    string // how extents reach the disk
	Extents uint64 // durable writes, each with one flush
	Bytes   uint64 // written by them
	// WriteMicros is the time all of them took; Slowest that of the slowest.
	WriteMicros, Slowest uint64
	PoolReady            int
	TailBytes            int64
	Segments             int
	Entries              int // in the resident index
}

type stats struct{ extents, bytes, micros, slowest atomic.Uint64 }

func (t *stats) wrote(bytes int, micros int64) {
	t.extents.Add(1)
	t.bytes.Add(uint64(bytes))
	t.micros.Add(uint64(micros))
	if uint64(micros) > t.slowest.Load() {
		t.slowest.Store(uint64(micros)) // one writer
	}
}

// Stats returns the counters.
func (s *Store) Stats() Stats {
	st := Stats{
		Mode: s.mode, Extents: s.stats.extents.Load(), Bytes: s.stats.bytes.Load(),
		WriteMicros: s.stats.micros.Load(), Slowest: s.stats.slowest.Load(),
		PoolReady: s.pool.readyCount(), TailBytes: s.tail.bytes(),
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	st.Segments = len(s.segments)
	for _, r := range s.replicas {
		for _, run := range r.runs {
			st.Entries += run.n
		}
	}
	return st
}

// liveReplica returns the replica of a group; there is one on a node except while a removed one is
// replaced, then the newest.
func (s *Store) liveReplica(group format.RaftGroup) *replica {
	var live *replica
	for key := range maps.Keys(s.replicas) {
		if key.group == group && (live == nil || key.replica > live.replicaKey.replica) {
			live = s.replicas[key]
		}
	}
	return live
}
