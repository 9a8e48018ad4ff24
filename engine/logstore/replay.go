package logstore

import (
	"fmt"
	"io"
	"slices"

	"queen/engine/format"
)

// View is one entry as Replay shows it.
type View struct {
	Index format.Index
	Term  format.Term
	Type  format.EntryType
	Pos   EntryPos
	Len   uint32 // of the entry
	// Head is the start of the entry, up to the end of its id region at least; all of it if it is not an
	// Entry of package format. It is verified. It belongs to the store again when the callback returns.
	Head []byte
	// Outcome is the canonical outcome (format.AppendOutcome) that was found with the entry: not nil but
	// empty when the entry decided nothing, nil when no outcome is durable. It may be kept.
	Outcome []byte
	// FramesBefore is the number of frames the raft group had stored before the first entry of the
	// outcome's record; 0 without an outcome.
	FramesBefore uint64
}

// Replay calls fn for each durable entry of a raft group from index from on, in log order, until fn
// returns an error, which it returns. Entries below the resident index are not shown: from must be above
// what was reclaimed. Payload is not read unless it lies beside what is. Only what is durable when Replay
// is called is shown. Concurrent appends and reads go on.
func (s *Store) Replay(group format.RaftGroup, from format.Index, fn func(View) error) error {
	refs, outcomes, err := s.replayPlan(group, from)
	if err != nil || len(refs) == 0 {
		return err
	}
	found, err := s.loadOutcomes(group, from, outcomes)
	if err != nil {
		return err
	}
	p := &replayer{s: s}
	defer p.close()
	for i, ref := range refs {
		v := View{Index: from + format.Index(i), Term: ref.term, Type: ref.typ, Pos: ref.pos, Len: ref.length}
		if v.Head, err = p.head(ref); err != nil {
			return err
		}
		if o := found[v.Index]; o != nil && o.term == v.Term {
			v.Outcome, v.FramesBefore = o.canonical, o.framesBefore
		}
		if err := fn(v); err != nil {
			return err
		}
	}
	return nil
}

// replayPlan copies the refs to replay, and lists the segments with outcomes of them.
func (s *Store) replayPlan(group format.RaftGroup, from format.Index) ([]entryRef, []*segment, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	r := s.liveReplica(group)
	if r == nil || from > r.raftLast() {
		return nil, nil, nil
	}
	if _, ok := r.find(from); !ok {
		return nil, nil, fmt.Errorf("%w: entry %d of group %d", ErrUnknown, from, group)
	}
	var refs []entryRef
	for i := from; i <= r.raftLast(); i++ {
		ref, ok := r.find(i)
		if !ok {
			return nil, nil, fmt.Errorf("%w: entry %d of group %d", ErrUnknown, i, group)
		}
		refs = append(refs, ref)
	}
	var outcomes []*segment
	for _, g := range s.segments {
		in := g.groups[r.replicaKey]
		if in != nil && slices.ContainsFunc(in.outcomes, func(o format.FooterRange) bool { return o.Last >= from }) {
			outcomes = append(outcomes, g)
		}
	}
	return refs, outcomes, nil
}

// replayer reads the heads of entries, forward, each segment through one window.
type replayer struct {
	s   *Store
	g   *segment
	w   *window
	buf []byte
}

func (p *replayer) close() {
	if p.g != nil {
		p.s.handles.unpin(p.g)
		p.g = nil
	}
}

func (p *replayer) open(seq uint32) error {
	if p.g != nil && p.g.seq() == seq {
		return nil
	}
	p.close()
	g, end := p.s.readable(seq)
	if g == nil {
		return fmt.Errorf("%w: %d", ErrReclaimed, seq)
	}
	f, err := p.s.handles.pin(g)
	if err != nil {
		return err
	}
	p.g, p.w = g, newWindow(f, end, replayAhead)
	return nil
}

// head returns the start of an entry. The record's checksum covers it.
func (p *replayer) head(ref entryRef) ([]byte, error) {
	if err := p.open(ref.pos.Segment); err != nil {
		return nil, err
	}
	head, body, err := readRecord(p.w, int64(ref.pos.Pos), p.w.size)
	if err != nil {
		return nil, corrupt(p.g.name, int64(ref.pos.Pos), "%w", err)
	}
	switch head.Kind {
	case format.RecordEntry:
		return body[format.EntryBytesPos(head.Flags):], nil
	case format.RecordFragment:
		joined, b, err := p.joinedHead(ref.pos.Pos)
		if err != nil {
			return nil, err
		}
		return b[format.EntryBytesPos(joined.Flags):], nil
	}
	return nil, corrupt(p.g.name, int64(ref.pos.Pos), "record of kind %d, want an entry", head.Kind)
}

// joinedHead puts the covered parts of the fragments together.
func (p *replayer) joinedHead(pos uint32) (joined format.RecordHead, b []byte, err error) {
	parts, err := p.s.fragments(p.g, pos, p.w.size)
	if err != nil {
		return joined, nil, err
	}
	p.buf = p.buf[:0]
	for _, f := range parts {
		at := int64(f.data) - format.RecordHeadSize - format.FragmentHeadSize
		head, body, err := readRecord(p.w, at, p.w.size)
		var piece format.FragmentHead
		var data []byte
		if err == nil {
			piece, data, err = format.ParseFragment(&head, body)
		}
		if err != nil {
			return joined, nil, corrupt(p.g.name, at, "%w", err)
		}
		joined = piece.Joined(&head)
		p.buf = append(p.buf, data...)
		if len(p.buf) >= int(joined.Covered) {
			break
		}
	}
	return joined, p.buf, nil
}

// foundOutcome is one entry's part of an outcome record.
type foundOutcome struct {
	term         format.Term
	framesBefore uint64
	canonical    []byte
}

// loadOutcomes reads the outcome records of a group that reach from or above. The newest record about an
// entry counts; they are equal unless the entry was overwritten, and then the terms differ.
func (s *Store) loadOutcomes(
	group format.RaftGroup, from format.Index, segments []*segment,
) (map[format.Index]*foundOutcome, error) {
	found := map[format.Index]*foundOutcome{}
	for _, g := range segments {
		err := s.walkOutcomes(g, group, func(head *format.RecordHead, body []byte) error {
			r, err := format.ParseOutcome(head, body)
			if err != nil || r.Last < from {
				return err
			}
			if uint64(r.Last-r.First) >= maxOutcomeRange {
				return fmt.Errorf("outcome of %d to %d", r.First, r.Last)
			}
			for i := r.First; i <= r.Last; i++ {
				found[i] = &foundOutcome{term: head.Term, framesBefore: r.FramesBefore, canonical: []byte{}}
			}
			var o format.EntryOutcome
			for {
				canonical, ok := r.Next(&o)
				if !ok {
					return r.Err()
				}
				found[o.Index].canonical = slices.Clone(canonical)
			}
		})
		if err != nil {
			return nil, err
		}
	}
	return found, nil
}

// maxOutcomeRange bounds the entries of one outcome record that are believed: what a damaged length can
// make Replay allocate.
const maxOutcomeRange = 1 << 20

// walkOutcomes calls fn with each whole outcome record of a group in a segment, in log order.
func (s *Store) walkOutcomes(g *segment, group format.RaftGroup, fn func(*format.RecordHead, []byte) error) error {
	_, end := s.readable(g.seq())
	f, err := s.handles.pin(g)
	if err != nil {
		return err
	}
	defer s.handles.unpin(g)
	w := newWindow(f, end, replayAhead)
	var join format.Joiner
	pos, err := nextRecord(w, format.BlockSize)
	for err == nil {
		var head format.RecordHead
		var body []byte
		if head, body, err = readRecord(w, pos, end); err != nil {
			break
		}
		if head.Group == group {
			if err = visitOutcome(&join, &head, body, fn); err != nil {
				break
			}
		}
		pos, err = nextRecord(w, pos+int64(head.Size()))
	}
	if err == io.EOF {
		return nil
	}
	return corrupt(g.name, pos, "%w", err)
}

func visitOutcome(
	join *format.Joiner, head *format.RecordHead, body []byte, fn func(*format.RecordHead, []byte) error,
) error {
	switch head.Kind {
	case format.RecordOutcome:
		return fn(head, body)
	case format.RecordFragment:
		f, _, err := format.ParseFragment(head, body)
		if err != nil || f.Of != format.RecordOutcome {
			return err
		}
		done, err := join.Add(head, body)
		if err != nil {
			*join = format.Joiner{} // the rest of a record that a crash cut short
			return nil
		}
		if done {
			whole, b := join.Record()
			return fn(&whole, b)
		}
	}
	return nil
}
