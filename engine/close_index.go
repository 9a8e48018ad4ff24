package engine

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"

	"queen/engine/format"
	"queen/engine/invariants"
	"queen/engine/logstore"
	"queen/engine/logstore/rows"
	"queen/sidecar"
)

// Failpoints of index-close, in order.
var (
	failCloseRows    = invariants.Register("engine.close.rows-written")
	failCloseSidecar = invariants.Register("engine.close.sidecar-written")
)

// storedBytes is what an entry stored of a queue.
type storedBytes struct {
	segment uint32
	queue   format.QueueID
	bytes   uint64
	w       format.Wall
}

// noteStored counts frames among what their segment stores of their queue.
func (f *files) noteStored(s *storedBytes) {
	if s.bytes == 0 {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.mu.closed[s.segment] {
		return // replayed: its sidecar counts it
	}
	of := f.mu.stored[s.segment]
	if of == nil {
		of = map[format.QueueID]*sidecar.Queue{}
		f.mu.stored[s.segment] = of
	}
	q := of[s.queue]
	if q == nil {
		q = &sidecar.Queue{Queue: s.queue}
		of[s.queue] = q
	}
	q.Bytes += s.bytes
	q.NewestW = max(q.NewestW, s.w)
}

// noteChunk remembers a chunk for the sidecar of the segment that holds its Mark.
func (f *files) noteChunk(segment uint32, c sidecar.Chunk) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.mu.closed[segment] {
		f.mu.chunks[segment] = append(f.mu.chunks[segment], c)
	}
}

// isClosed reports that a segment has its row index and its sidecar.
func (f *files) isClosed(segment uint32) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.mu.closed[segment]
}

// closeSegments gives every sealed segment whose entries are all applied its index files, oldest
// first. From then on its rows leave memory, and the log forgets what only replay would need.
func (f *files) closeSegments() error {
	indexed := format.Index(f.indexed.Load())
	segments := f.n.seq.Log().Segments()
	for i := range segments {
		s := &segments[i]
		if !s.Sealed || lastOf(s, f.n.seq.Group()) > indexed {
			break
		}
		if f.isClosed(s.Segment) {
			continue
		}
		if ok, err := f.outcomesDurable(lastOf(s, f.n.seq.Group())); !ok || err != nil {
			return err
		}
		if err := f.closeSegment(s); err != nil {
			return err
		}
	}
	return f.mergeRuns()
}

// mergeRuns keeps the number of index files small: a piece of a merge in a turn, so that checkpoints and reclaim do not
// wait for the whole of it.
func (f *files) mergeRuns() (err error) {
	f.merging, err = f.runs.Merge()
	if f.merging {
		f.poke()
	}
	return err
}

// lastOf is the highest entry of a group in a segment, 0 when there is none.
func lastOf(s *logstore.SegmentInfo, group format.RaftGroup) (last format.Index) {
	for i := range s.Groups {
		if g := &s.Groups[i]; g.Group == group {
			last = max(last, g.Last())
		}
	}
	return last
}

// outcomesDurable reports whether the outcomes of entries up to last are on disk, after writing those
// that wait. The newest one may still be on its way from apply; the next turn finds it.
func (f *files) outcomesDurable(last format.Index) (bool, error) {
	for range 2 {
		newest := format.Index(0)
		for _, s := range f.n.seq.Log().Segments() {
			for i := range s.Groups {
				for _, o := range s.Groups[i].Outcomes {
					if s.Groups[i].Group == f.n.seq.Group() {
						newest = max(newest, o.Last)
					}
				}
			}
		}
		if newest >= last {
			return true, nil
		}
		if err := f.n.seq.FlushOutcomes(); err != nil {
			return false, err
		}
	}
	return false, nil
}

// closeSegment writes the row index, then the sidecar; the next checkpoint records both.
func (f *files) closeSegment(s *logstore.SegmentInfo) error {
	if err := f.runs.Close(s.Segment); err != nil {
		return err
	}
	invariants.Failpoint(failCloseRows)
	side := f.sidecarOf(s)
	if err := sidecar.Write(f.n.cfg.FS, f.n.cfg.Dir, &side); err != nil {
		return err
	}
	invariants.Failpoint(failCloseSidecar)
	f.mu.Lock()
	f.mu.closed[s.Segment] = true
	delete(f.mu.stored, s.Segment)
	delete(f.mu.chunks, s.Segment)
	f.mu.Unlock()
	return f.n.seq.Log().MarkClosed(s.Segment)
}

// sidecarOf is what was noted while the segment's entries were applied.
func (f *files) sidecarOf(s *logstore.SegmentInfo) sidecar.Sidecar {
	f.mu.Lock()
	defer f.mu.Unlock()
	side := sidecar.Sidecar{Segment: format.SegmentID(s.Segment), End: uint64(s.Used), Checksum: s.Checksum,
		Chunks: slices.Clone(f.mu.chunks[s.Segment])}
	for _, q := range f.mu.stored[s.Segment] {
		side.Queues = append(side.Queues, *q)
	}
	slices.SortFunc(side.Queues, func(a, b sidecar.Queue) int { return cmp.Compare(a.Queue, b.Queue) })
	return side
}

// manifestSegments is the log as the manifest lists it: sealed segments, and which of them are closed; then
// bulk segments, which come complete.
func (f *files) manifestSegments() (list []format.ManifestSegment) {
	log := f.n.seq.Log()
	for _, s := range append(log.Segments(), log.Bulks()...) {
		id := format.SegmentID(s.Segment)
		if !s.Sealed || f.giveAway[s.Segment] {
			continue
		}
		m := format.ManifestSegment{Segment: id, State: format.SegmentSealed, End: uint64(s.Used), Checksum: s.Checksum}
		if id.IsBulk() || f.isClosed(s.Segment) {
			m.State = format.SegmentClosed
		}
		for i := range s.Groups {
			g := &s.Groups[i]
			m.Groups = append(m.Groups, format.ManifestRange{Group: g.Group, First: g.First(), Last: g.Last(), Cut: g.Cut})
		}
		list = append(list, m)
	}
	return list
}

// sidecars finds which closed segments have theirs. A lost one is made again: where the log still
// shows the segment's entries, by closing it once more; else from its rows, without chunk hashes.
func (r *restorer) sidecars() error {
	names, err := r.n.cfg.FS.List(r.n.cfg.Dir)
	if err != nil {
		return err
	}
	for _, s := range r.n.seq.Log().Segments() {
		if !s.Sealed || !r.f.runs.Holds(s.Segment) {
			continue
		}
		if slices.Contains(names, sidecar.FileName(format.SegmentID(s.Segment))) {
			r.f.mu.closed[s.Segment] = true
			continue
		}
		if lastOf(&s, r.n.seq.Group()) > r.f.group().Floor {
			continue
		}
		if _, err := r.f.readSidecar(&s); err != nil {
			return err
		}
		r.f.mu.closed[s.Segment] = true
	}
	return nil
}

// readSidecar reads a segment's sidecar, making it again when it is damaged.
func (f *files) readSidecar(s *logstore.SegmentInfo) (sidecar.Sidecar, error) {
	side, err := sidecar.Read(f.n.cfg.FS, f.n.cfg.Dir, format.SegmentID(s.Segment))
	if err == nil && side.Checksum == s.Checksum {
		return side, nil
	}
	f.n.event("sidecar damaged, counted again", errors.Join(err, fmt.Errorf("segment %d", s.Segment)))
	queues := map[format.QueueID]*sidecar.Queue{}
	err = f.runs.Walk(format.SegmentID(s.Segment), func(row *rows.Row) error {
		f.n.state.RLock()
		id, _ := f.n.state.m.QueueOf(row.Partition)
		f.n.state.RUnlock()
		q := queues[id]
		if q == nil {
			q = &sidecar.Queue{Queue: id}
			queues[id] = q
		}
		q.Bytes += uint64(row.Len)
		q.NewestW = max(q.NewestW, row.W)
		return nil
	})
	if err != nil {
		return side, err
	}
	side = sidecar.Sidecar{Segment: format.SegmentID(s.Segment), End: uint64(s.Used), Checksum: s.Checksum}
	for _, id := range slices.Sorted(maps.Keys(queues)) {
		side.Queues = append(side.Queues, *queues[id])
	}
	return side, sidecar.Write(f.n.cfg.FS, f.n.cfg.Dir, &side)
}
