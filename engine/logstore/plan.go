package logstore

import (
	"queen/engine/format"
	"queen/engine/vfs"
)

// plan is the content of the next extent: which records, in which order. It takes round-robin from the
// waiting savers, and nothing is encoded before it is complete, so that the buffer has the right size.
type plan struct {
	items []item
	end   int // where the next record goes, from the extent's start
	lanes map[replicaKey]*lane

	repeats, repeatEnd int // items and end of what the store repeats by itself at the start of a segment
}

// item is one planned record.
type item struct {
	head  format.RecordHead // of the joined record, if it is a fragment
	first []byte            // the body, in two parts
	data  []byte
	more  [][]byte // and what continues it; none of a fragment
	frag  int      // number of the fragment; -1 for a record that is whole
	pos   int      // from the extent's start

	saver *saver // nil for what the store adds by itself
	piece *piece
}

func (p *plan) reset() {
	clear(p.items)
	*p = plan{items: p.items[:0], end: format.ExtentHeadSize, lanes: p.lanes}
	clear(p.lanes)
}

func (p *plan) empty() bool { return len(p.items) == p.repeats }

// after is where the record behind one of this size would go: none starts at a block boundary.
func (p *plan) after(size int) int {
	if p.end%format.BlockSize == 0 {
		size += 8
	}
	return p.end + size
}

func (p *plan) add(it item) {
	size := recordSize(len(it.first) + len(it.data))
	if it.piece != nil && it.piece.kind == pieceEntry {
		size = it.piece.size
	}
	it.pos = p.after(0)
	p.end = p.after(size)
	p.items = append(p.items, it)
}

// addPosition and addRecord plan records that the writer makes by itself.
func (p *plan) addPosition(head format.RecordHead) { p.add(item{head: head, frag: -1}) }

func (p *plan) addRecord(head format.RecordHead, body []byte) {
	p.add(item{head: head, first: body, frag: -1})
}

// size is the length of the extent.
func (p *plan) size() int64 { return vfs.RoundUp(int64(p.end)) }

// encode appends the records behind the extent's head.
func (p *plan) encode(b []byte) []byte {
	for i := range p.items {
		it := &p.items[i]
		head := it.head
		if it.frag >= 0 {
			b, _ = format.AppendFragment(b, &head, it.frag, it.first, it.data)
		} else {
			b, _ = format.AppendRecordOf(b, &head, it.first, it.data, it.more)
		}
	}
	return b
}

func (w *writer) lane(key replicaKey) *lane {
	l := w.plan.lanes[key]
	if l == nil {
		w.s.mu.RLock() // Reclaim and MarkClosed change what the index holds of old entries
		l = newLane(key, w.s.replicas[key])
		w.s.mu.RUnlock()
		w.plan.lanes[key] = l
	}
	return l
}

// planExtent fills the plan from the active savers in turns, until it is full or nothing waits. What does
// not fit stays for the next extent; if a piece does not fit into the segment, only records that are begun
// are continued, until it can be sealed.
func (w *writer) planExtent() {
	w.plan.reset()
	if w.seg.extents == 0 {
		w.planRepeats()
	}
	w.plan.repeats, w.plan.repeatEnd = len(w.plan.items), w.plan.end
	for before := -1; before < len(w.plan.items) && len(w.active) > 0; {
		before = len(w.plan.items)
		w.planTurn()
	}
	if !w.plan.empty() {
		w.planCommits()
	}
}

// planTurn gives every saver its share. Those that got something and want more go behind those that got
// nothing.
func (w *writer) planTurn() {
	var later []*saver
	rest := w.active[:0]
	for _, v := range w.active {
		before := len(w.plan.items)
		if err := w.serve(v); err != nil {
			w.refuse(v, err)
			continue
		}
		switch {
		case v.next == len(v.pieces):
			w.leave(v) // the next saver of its replicas may be served in the same extent
		case len(w.plan.items) > before:
			later = append(later, v)
		default:
			rest = append(rest, v)
		}
	}
	clear(w.active[len(rest):])
	w.active = append(rest, later...)
}

// planRepeats puts what the newest segment must know of every replica into its first extent.
func (w *writer) planRepeats() {
	for _, r := range w.s.sortedReplicas() {
		l := w.lane(r.replicaKey)
		if r.bootstrap != nil {
			w.plan.addRecord(r.bootstrap.Record())
		}
		if l.commit = w.s.commitOf(r); l.commit != 0 || l.state != (HardState{}) {
			w.plan.addRecord(l.hardState())
		}
		if r.snapshot != nil {
			w.plan.addRecord(r.snapshot.Record())
		}
		if r.floor != 0 {
			w.plan.addPosition(l.position(format.RecordFloor, r.floor))
		}
	}
}

// planCommits adds commit indexes that were kept in memory only.
func (w *writer) planCommits() {
	for _, r := range w.s.sortedReplicas() {
		known := w.s.commitOf(r)
		l := w.lane(r.replicaKey)
		if known <= l.commit || w.plan.removes(r.replicaKey) || w.plan.after(hardStateSize) > w.s.opts.ExtentBytes {
			continue
		}
		l.commit = known
		w.plan.addRecord(l.hardState())
	}
}

func (p *plan) removes(key replicaKey) bool {
	for i := range p.items {
		h := &p.items[i].head
		if h.Kind == format.RecordRemoved && h.Group == key.group && h.Replica == key.replica {
			return true
		}
	}
	return false
}

// serve plans the saver's next pieces, up to its share of a turn.
func (w *writer) serve(v *saver) error {
	if !w.isTurn(v) || w.rollPending && v.rest == 0 {
		return nil
	}
	if !v.admitted {
		if err := w.admit(v); err != nil {
			return err
		}
		v.admitted = true
	}
	taken := 0
	for v.next < len(v.pieces) {
		pc := &v.pieces[v.next]
		if taken > 0 && taken+pc.size > w.s.opts.SaverBytes || w.rollPending && v.rest == 0 {
			break
		}
		if !w.fitsExtent(pc) {
			break
		}
		if !w.fitsSegment(v, pc) {
			if w.seg.extents == 0 && w.plan.empty() && w.begun == 0 {
				return ErrTooLarge
			}
			w.rollPending = true
			break
		}
		w.take(v, pc)
		taken += pc.size
	}
	return nil
}

// admit checks a saver's saves against what its replicas will be, before any of it is planned.
func (w *writer) admit(v *saver) error {
	lanes := map[replicaKey]*lane{}
	for _, s := range v.saves {
		l := lanes[s.key()]
		if l == nil {
			own := *w.lane(s.key())
			l = &own
			lanes[s.key()] = l
		}
		if err := l.admit(s); err != nil {
			return err
		}
	}
	return nil
}

// fitsExtent does not count what the store repeats: it is small, and a segment must not be blocked by it.
func (w *writer) fitsExtent(pc *piece) bool {
	return w.plan.after(pc.size)-w.plan.repeatEnd+format.ExtentHeadSize <= w.s.opts.ExtentBytes
}

// fitsSegment reports whether the extent with this piece, the rest of every record that is begun, and the
// footer fit.
//
// INVARIANT: a record in fragments lies in one segment: a first fragment is planned only if all of them
// fit, and nothing else is planned that would take their room (TestFragmentsStayInOneSegment).
func (w *writer) fitsSegment(v *saver, pc *piece) bool {
	rest := w.begun - v.rest + w.restAfter(v, pc)
	end := w.seg.used + vfs.RoundUp(int64(w.plan.after(pc.size)+hardStateSize*len(w.s.replicas))) + rest
	// A clean stop writes the commit indexes kept in memory, in an extent before the footer.
	commits := vfs.RoundUp(int64(format.ExtentHeadSize + hardStateSize*(len(w.s.replicas)+len(w.plan.lanes))))
	return end+commits+w.footerRoom() <= w.seg.size()
}

// footerRoom is what the segment's footer takes at most with the plan and one record more. Each of them
// may add an entry or open a range.
func (w *writer) footerRoom() int64 {
	more := len(w.plan.items) + 1
	ranges := more
	for _, r := range w.seg.groups {
		ranges += len(r.entries) + len(r.outcomes)
	}
	groups := len(w.seg.groups) + len(w.plan.lanes)
	return int64(format.FooterRoom(w.seg.entries+more, groups, ranges, 0))
}

// restAfter is what the fragments behind pc need at most.
func (w *writer) restAfter(v *saver, pc *piece) int64 {
	if pc.frag < 0 {
		return 0
	}
	rest := int64(0)
	for i := v.next + 1; i < len(v.pieces); i++ {
		q := &v.pieces[i]
		if q.kind != pc.kind || q.save != pc.save || q.at != pc.at {
			break
		}
		rest += vfs.RoundUp(int64(format.ExtentHeadSize + q.size + hardStateSize*len(w.s.replicas)))
	}
	return rest
}

// take moves a piece into the plan.
func (w *writer) take(v *saver, pc *piece) {
	s := pc.save
	l := w.lane(s.key())
	it := item{frag: pc.frag, saver: v, piece: pc}
	switch pc.kind {
	case pieceRemove:
		it.head = l.position(format.RecordRemoved, 0)
		*l = lane{key: l.key}
	case pieceBootstrap:
		it.head, it.first = s.Bootstrap.Record()
	case pieceState:
		l.state = *s.State
		it.head, it.first = l.hardState()
	case pieceInstall:
		w.plan.addPosition(l.position(format.RecordCut, w.s.knownCommit(l)+1))
		it.head, it.first = s.Snapshot.Record()
		l.first, l.next = s.Snapshot.Index+1, s.Snapshot.Index+1
	case pieceSnapshot:
		it.head, it.first = s.Snapshot.Record()
	case pieceEntry:
		e := &s.Entries[pc.at]
		rec := format.EntryRecord{
			Group: s.Group, Replica: s.Replica, Index: e.Index, Term: e.Term, Type: e.Type,
			Proposal: e.proposal(), Bytes: e.Data,
		}
		var scratch *[proposalBytes]byte
		if e.prefixBytes() > 0 {
			scratch = new([proposalBytes]byte)
		}
		it.head, it.first = rec.Head(scratch) // its length is known when the record is encoded
		it.data, it.more = e.Data, e.More
		l.put(e.Index)
	case pieceOutcome:
		o := &s.Outcomes[pc.at]
		it.head = o.head(s)
		it.data = o.Bytes
	case pieceFloor:
		it.head = l.position(format.RecordFloor, s.Floor)
	case pieceCommit:
		l.commit = max(l.commit, s.Commit)
		it.head, it.first = l.hardState()
	}
	rest := w.restAfter(v, pc)
	w.begun += rest - v.rest
	v.rest = rest
	w.plan.add(it)
	v.next++
}

// isTurn reports that every earlier saver of the same replicas is planned: a replica's records keep their
// order.
func (w *writer) isTurn(v *saver) bool {
	for _, s := range v.saves {
		if q := w.order[s.key()]; len(q) > 0 && q[0] != v {
			return false
		}
	}
	return true
}

// enter puts a saver into the order of its replicas, once per replica.
func (w *writer) enter(v *saver) {
	for _, s := range v.saves {
		if q := w.order[s.key()]; len(q) == 0 || q[len(q)-1] != v {
			w.order[s.key()] = append(q, v)
		}
	}
	w.active = append(w.active, v)
}

// leave takes a saver that is planned to its end, or refused, out of the order.
func (w *writer) leave(v *saver) {
	for _, s := range v.saves {
		q := w.order[s.key()]
		switch {
		case len(q) == 0 || q[0] != v:
		case len(q) == 1:
			delete(w.order, s.key())
		default:
			w.order[s.key()] = q[1:]
		}
	}
}

// knownCommit is the newest commit of a replica, whether durable or not.
func (s *Store) knownCommit(l *lane) format.Index {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if r := s.replicas[l.key]; r != nil {
		return max(l.commit, r.commit)
	}
	return l.commit
}

func (s *Store) commitOf(r *replica) format.Index {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return r.commit
}
