package logstore

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"sync"

	"queen/engine/format"
	"queen/engine/vfs"
)

// segment is one file of the commit stream.
//
//	| block 0 | extent 1 | extent 2 | ... | extent n |  free  | footer |
//	0         4096                                   used     footerPos  size
//
// What is guarded by Store.mu is said so; the rest does not change after the segment was begun or opened.
type segment struct {
	head format.SegmentHead
	name string // full path

	// Guarded by Store.mu.
	used    int64  // where the next extent begins
	extents uint32 // how many there are
	sum     uint64 // checksum of the last one
	sealed  bool
	closed  bool // index-closed
	groups  map[replicaKey]*groupRange
	entries int                   // upper bound of the entries the footer will name
	frags   map[uint32][]fragment // where the fragments of some records are, by the position of the first one

	replaces []format.SegmentID // of a bulk segment; set before it is shared

	// Guarded by handles.mu.
	file    vfs.File
	pins    int
	lastUse uint64
	gone    bool // reclaimed: no new reader
}

func (g *segment) seq() uint32 { return uint32(g.head.Segment) }

func (g *segment) size() int64 { return int64(g.head.Size) }

// fragment is one piece of a large entry in its segment.
type fragment struct {
	data   uint32 // position of its data
	length uint32 // of its data
}

// groupRange is what a segment holds of one replica.
type groupRange struct {
	entries  []format.FooterRange // as the segment leaves them: ascending and disjoint
	outcomes []format.FooterRange // in log order, neighbours joined
	cut      format.Index         // the lowest index at which entries of earlier segments became void; 0 = none
}

// SegmentInfo describes a segment. Bytes are the file's; Used what block 0 and extents take of it.
type SegmentInfo struct {
	Segment  uint32
	Bytes    int64
	Used     int64
	Checksum uint64 // of the last extent
	Sealed   bool
	// Closed segments are index-closed (MarkClosed).
	Closed bool
	Groups []GroupInfo
	// Replaces is set in bulk segments: the bulk segments whose frames moved here, and the segments of
	// the commit stream in which the frames here were born.
	Replaces []format.SegmentID
}

// GroupInfo is what a segment holds of one replica.
type GroupInfo struct {
	Group   format.RaftGroup
	Replica format.Replica
	// Entries are the segment's entries as it leaves them, ascending and disjoint.
	Entries []format.FooterRange
	// Outcomes are the entries whose outcomes lie here, in log order.
	Outcomes []format.FooterRange
	// Cut is the lowest index that this segment overwrote of earlier ones: their entries from there on are
	// void. 0 = none.
	Cut format.Index
}

// First is the lowest entry, 0 when there is none.
func (g *GroupInfo) First() format.Index {
	if len(g.Entries) == 0 {
		return 0
	}
	return g.Entries[0].First
}

// Last is the highest entry, 0 when there is none.
func (g *GroupInfo) Last() format.Index {
	if len(g.Entries) == 0 {
		return 0
	}
	return g.Entries[len(g.Entries)-1].Last
}

func newSegment(dir string, head format.SegmentHead) *segment {
	return &segment{
		head: head, name: path.Join(dir, head.Segment.FileName()), used: format.BlockSize,
		groups: map[replicaKey]*groupRange{}, frags: map[uint32][]fragment{},
	}
}

func (g *segment) info() SegmentInfo {
	in := SegmentInfo{
		Segment: g.seq(), Bytes: g.size(), Used: g.used, Checksum: g.sum, Sealed: g.sealed, Closed: g.closed,
		Replaces: g.replaces,
	}
	for _, key := range slices.SortedFunc(maps.Keys(g.groups), compareKeys) {
		r := g.groups[key]
		in.Groups = append(in.Groups, GroupInfo{
			Group: key.group, Replica: key.replica, Cut: r.cut,
			Entries: slices.Clone(r.entries), Outcomes: slices.Clone(r.outcomes),
		})
	}
	return in
}

func compare[T ~uint64 | ~uint32](a, b T) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

func (g *segment) group(key replicaKey) *groupRange {
	r := g.groups[key]
	if r == nil {
		r = &groupRange{}
		g.groups[key] = r
	}
	return r
}

// putEntry notes an entry; what it overwrites in this segment was cut before.
func (r *groupRange) putEntry(i format.Index) {
	if n := len(r.entries); n > 0 && r.entries[n-1].Last+1 == i {
		r.entries[n-1].Last = i
		return
	}
	r.entries = append(r.entries, format.FooterRange{First: i, Last: i})
}

// cutAt notes that entries from i on are void; earlier says that some of them lie in earlier segments.
func (r *groupRange) cutAt(i format.Index, earlier bool) {
	if earlier && (r.cut == 0 || i < r.cut) {
		r.cut = i
	}
	for n := len(r.entries); n > 0 && r.entries[n-1].Last >= i; n-- {
		if r.entries[n-1].First < i {
			r.entries[n-1].Last = i - 1
			break
		}
		r.entries = r.entries[:n-1]
	}
}

func (r *groupRange) putOutcome(first, last format.Index) {
	if n := len(r.outcomes); n > 0 && r.outcomes[n-1].Last+1 == first {
		r.outcomes[n-1].Last = last
		return
	}
	r.outcomes = append(r.outcomes, format.FooterRange{First: first, Last: last})
}

// last is the highest entry, 0 when there is none.
func (r *groupRange) last() format.Index {
	if len(r.entries) == 0 {
		return 0
	}
	return r.entries[len(r.entries)-1].Last
}

// handles keeps the files of segments open: the one being written always, sealed ones up to a limit.
//
// INVARIANT: while a segment is pinned its file is neither closed, recycled nor removed
// (TestReclaimWaitsForReaders).
type handles struct {
	fs    vfs.FS
	limit int

	mu struct {
		sync.Mutex
		idle  *sync.Cond // a pin was dropped
		tick  uint64
		open  map[uint32]*segment // sealed segments with an open file
		ended bool
	}
}

func newHandles(fs vfs.FS, limit int) *handles {
	h := &handles{fs: fs, limit: limit}
	h.mu.idle = sync.NewCond(&h.mu)
	h.mu.open = map[uint32]*segment{}
	return h
}

// pin returns the segment's file, to be given back with unpin.
func (h *handles) pin(g *segment) (vfs.File, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.mu.ended {
		return nil, ErrClosed
	}
	if g.gone {
		return nil, ErrReclaimed
	}
	if g.file == nil {
		f, err := h.fs.Open(g.name, vfs.Direct)
		if err != nil {
			return nil, fmt.Errorf("logstore: open segment: %w", err)
		}
		g.file = f
		h.mu.open[g.seq()] = g
	}
	h.mu.tick++
	g.lastUse = h.mu.tick
	g.pins++
	h.evict()
	return g.file, nil
}

func (h *handles) unpin(g *segment) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if g.pins--; g.pins == 0 {
		h.mu.idle.Broadcast()
	}
}

// adopt puts the file of a segment that was sealed under the limit; the writer's pin ends.
func (h *handles) adopt(g *segment) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.mu.open[g.seq()] = g
	if g.pins--; g.pins == 0 {
		h.mu.idle.Broadcast()
	}
	h.evict()
}

// evict closes files nobody reads, the least recently used first.
func (h *handles) evict() {
	for len(h.mu.open) > h.limit {
		var oldest *segment
		for _, g := range h.mu.open {
			if g.pins == 0 && (oldest == nil || g.lastUse < oldest.lastUse) {
				oldest = g
			}
		}
		if oldest == nil {
			return
		}
		h.closeFile(oldest)
	}
}

// closeFile closes a file that holds nothing unwritten; an error of close says nothing about data then.
func (h *handles) closeFile(g *segment) {
	if g.file != nil {
		_ = g.file.Close()
		g.file = nil
	}
	delete(h.mu.open, g.seq())
}

// retire stops new readers of a segment, waits for those that read, and closes the file.
func (h *handles) retire(g *segment) {
	h.mu.Lock()
	defer h.mu.Unlock()
	g.gone = true
	for g.pins > 0 {
		h.mu.idle.Wait()
	}
	h.closeFile(g)
}

// end closes everything after the last reader is done; later pins fail with ErrClosed.
func (h *handles) end(all []*segment) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.mu.ended = true
	for _, g := range all {
		for g.pins > 0 {
			h.mu.idle.Wait()
		}
		h.closeFile(g)
	}
}
