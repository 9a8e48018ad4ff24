package logstore

import (
	"queen/engine/format"
)

// replicaKey names one replica of one raft group on this node.
type replicaKey struct {
	group   format.RaftGroup
	replica format.Replica
}

// replica is what the store knows about one replica: the newest of each record, and where its entries are.
//
// There are two views of the entries. The raft view is one contiguous range, the last run from the floor
// up; it is what raft may ask for. The store view is every run: it also has entries from before a snapshot
// was installed, which readers still need.
//
// INVARIANT: replica changes in log order only, by apply, with records that are durable; writing and
// loading use the same code, so that what a node knows is what it would know after a restart
// (TestReloadAtEveryWrite).
type replica struct {
	replicaKey
	bootstrap   *format.Bootstrap
	state       HardState
	commit      format.Index // newest known
	savedCommit format.Index // newest durable
	snapshot    *format.Snapshot
	floor       format.Index

	runs    []*refList
	partial partialRecord
}

// partialRecord is a record of which only the first fragments have been seen.
type partialRecord struct {
	joined  format.RecordHead
	segment uint32
	pos     uint32       // of the first fragment
	last    format.Index // of an outcome's range
	parts   []fragment
}

func newReplica(key replicaKey) *replica {
	return &replica{replicaKey: key, runs: []*refList{{}}}
}

// run is the run raft sees.
func (r *replica) run() *refList { return r.runs[len(r.runs)-1] }

// snapshotAhead returns the index of a snapshot that lies behind the last entry, or 0. Only an installed
// one does: it replaces the log, so raft sees nothing before it.
func (r *replica) snapshotAhead() format.Index {
	run := r.run()
	if r.snapshot == nil || run.first != 0 && r.snapshot.Index < run.next() {
		return 0
	}
	return r.snapshot.Index
}

// raftFirst and raftLast bound the raft view; it is empty when last is first-1.
func (r *replica) raftFirst() format.Index {
	if s := r.snapshotAhead(); s != 0 {
		return s + 1
	}
	return max(r.run().first, r.floor+1)
}

func (r *replica) raftLast() format.Index {
	if s := r.snapshotAhead(); s != 0 {
		return s
	}
	if run := r.run(); run.first != 0 {
		return run.next() - 1
	}
	return 0
}

// accepts returns the lowest index that may be written, and the one that continues the log; 0, 0 if any
// entry may open it.
func (r *replica) accepts() (first, next format.Index) {
	if s := r.snapshotAhead(); s != 0 {
		return s + 1, s + 1
	}
	run := r.run()
	if run.first == 0 {
		return 0, 0
	}
	return run.first, run.next()
}

// find returns where an entry of the store view is.
func (r *replica) find(i format.Index) (entryRef, bool) {
	for n := len(r.runs) - 1; n >= 0; n-- {
		if ref := r.runs[n].at(i); ref != nil {
			return *ref, true
		}
	}
	return entryRef{}, false
}

// term answers from memory only: snapshots and log lines ask for it.
func (r *replica) term(i format.Index) (format.Term, bool) {
	if ref, ok := r.find(i); ok {
		return ref.term, true
	}
	if r.snapshot != nil && i == r.snapshot.Index {
		return r.snapshot.Term, true
	}
	return 0, false
}

// put adds an entry. What it overwrites was cut, and the caller knows about a gap.
func (r *replica) put(g *segment, i format.Index, ref entryRef) {
	switch run := r.run(); {
	case run.first == 0:
		run.first = i
	case i > run.next() && run.n == 0:
		*run = refList{first: i}
	case i > run.next():
		r.runs = append(r.runs, &refList{first: i})
	}
	r.run().push(ref)
	g.group(r.replicaKey).putEntry(i)
	g.entries++
}

// cut drops every entry at or above i, in both views, with a record in segment g.
func (r *replica) cut(g *segment, i format.Index) {
	earlier := false
	for n := len(r.runs) - 1; n >= 0; n-- {
		run := r.runs[n]
		if ref := run.at(max(i, run.first)); ref != nil && ref.pos.Segment != g.seq() {
			earlier = true // positions rise with indexes: if the lowest is not of an earlier segment none is
		}
		run.truncate(i)
		if n > 0 && n < len(r.runs)-1 && run.n == 0 {
			r.runs = append(r.runs[:n], r.runs[n+1:]...)
		}
	}
	if run := r.run(); i < run.first {
		// Loading began in the middle of a superseded suffix, whose start was in a segment that is not
		// loaded.
		run.first = i
	}
	g.group(r.replicaKey).cutAt(i, earlier)
}

// dropBelow forgets where entries below i are; raft's floor and closed segments allow it.
func (r *replica) dropBelow(i format.Index) {
	for len(r.runs) > 1 && r.runs[0].next() <= i {
		r.runs = r.runs[1:]
	}
	r.runs[0].dropBelow(i)
}

// entryRef says where an entry is and what raft asks about it most. It has 24 bytes.
type entryRef struct {
	term   format.Term
	pos    EntryPos
	length uint32
	typ    format.EntryType
}

// refList holds the refs of entries first, first+1, ... in chunks, so that neither end costs a copy.
type refList struct {
	first  format.Index // of the first ref; 0 = nothing was ever put
	skip   int          // unused refs at the start of the first chunk
	n      int
	chunks [][]entryRef
}

const refChunk = 1024

func (l *refList) next() format.Index { return l.first + format.Index(l.n) }

// at returns the ref of entry i, or nil.
func (l *refList) at(i format.Index) *entryRef {
	if i < l.first || i >= l.next() {
		return nil
	}
	k := l.skip + int(i-l.first)
	return &l.chunks[k/refChunk][k%refChunk]
}

func (l *refList) push(ref entryRef) {
	k := l.skip + l.n
	if k/refChunk == len(l.chunks) {
		l.chunks = append(l.chunks, make([]entryRef, refChunk))
	}
	l.chunks[k/refChunk][k%refChunk] = ref
	l.n++
}

// truncate drops entries at and above i.
func (l *refList) truncate(i format.Index) {
	if l.n == 0 || i >= l.next() {
		return
	}
	l.n = int(max(i, l.first) - l.first)
	if l.n == 0 {
		l.skip, l.chunks = 0, nil
		return
	}
	used := (l.skip + l.n + refChunk - 1) / refChunk
	clear(l.chunks[used:])
	l.chunks = l.chunks[:used]
}

// dropBelow drops entries below i; the list goes on at its end.
func (l *refList) dropBelow(i format.Index) {
	if i <= l.first || l.first == 0 {
		return
	}
	d := int(min(i, l.next()) - l.first)
	l.first += format.Index(d)
	l.n -= d
	l.skip += d
	for l.skip >= refChunk {
		l.skip -= refChunk
		l.chunks[0] = nil
		l.chunks = l.chunks[1:]
	}
	if l.n == 0 {
		l.skip, l.chunks = 0, nil
	}
}
