package logstore

import (
	"fmt"
	"slices"

	"queen/engine/format"
)

// ReplaySegment calls fn, as Replay does, for each entry of a raft group that one sealed segment of the
// commit stream holds and no later segment voids, whatever else of the log is there. Outcomes are found
// in whichever segment holds them. It is for making again what was derived of the segment.
func (s *Store) ReplaySegment(group format.RaftGroup, seq uint32, fn func(View) error) error {
	w, err := s.segmentWalk(group, seq)
	if err != nil || w == nil {
		return err
	}
	found, err := s.loadOutcomes(group, w.entries[0].First, w.outcomes)
	if err != nil {
		return err
	}
	p := &replayer{s: s}
	defer p.close()
	if err := p.open(seq); err != nil {
		return err
	}
	t, err := readFooter(p.w.f, &w.g.head)
	if err == nil && t == nil {
		err = corrupt(w.g.name, w.g.size()-format.BlockSize, "the footer is gone")
	}
	if err != nil {
		return err
	}
	at := slices.IndexFunc(t.groups, func(g format.FooterGroup) bool { return replicaKey{g.Group, g.Replica} == w.key })
	if at < 0 {
		return nil
	}
	positions := newWindow(p.w.f, w.g.size(), format.BlockSize)
	for _, r := range w.entries {
		for i := r.First; i <= r.Last && (w.void == 0 || i < w.void); i++ {
			pos, err := t.position(&t.groups[at], i, positions, w.g)
			if err != nil {
				return err
			}
			v, err := p.view(i, EntryPos{seq, pos})
			if err != nil {
				return err
			}
			if o := found[i]; o != nil && o.term == v.Term {
				v.Outcome, v.FramesBefore = o.canonical, o.framesBefore
			}
			if err := fn(v); err != nil {
				return err
			}
		}
	}
	return nil
}

// segmentWalk is what ReplaySegment goes through.
type segmentWalk struct {
	g        *segment
	key      replicaKey
	entries  []format.FooterRange
	void     format.Index // entries from here on were overwritten later; 0 = none
	outcomes []*segment   // that hold outcomes of the entries
}

// segmentWalk plans a walk; nil when there is nothing to show.
func (s *Store) segmentWalk(group format.RaftGroup, seq uint32) (*segmentWalk, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	g, r := s.segment(seq), s.liveReplica(group)
	if g == nil || !g.sealed || g.head.Segment.IsBulk() {
		return nil, fmt.Errorf("%w: %d", ErrReclaimed, seq)
	}
	if r == nil || g.groups[r.replicaKey] == nil || len(g.groups[r.replicaKey].entries) == 0 {
		return nil, nil
	}
	w := &segmentWalk{g: g, key: r.replicaKey, entries: slices.Clone(g.groups[r.replicaKey].entries)}
	first, last := w.entries[0].First, w.entries[len(w.entries)-1].Last
	for _, o := range s.segments {
		in := o.groups[w.key]
		if in == nil {
			continue
		}
		if o.seq() > seq && in.cut != 0 && (w.void == 0 || in.cut < w.void) {
			w.void = in.cut
		}
		if slices.ContainsFunc(in.outcomes, func(r format.FooterRange) bool { return r.First <= last && r.Last >= first }) {
			w.outcomes = append(w.outcomes, o)
		}
	}
	return w, nil
}

// position reads where an entry is off the footer.
func (t *footer) position(g *format.FooterGroup, i format.Index, w *window, s *segment) (uint32, error) {
	slot, ok := g.Slot(i)
	if !ok {
		return 0, corrupt(s.name, s.size()-format.BlockSize, "the footer does not name entry %d", i)
	}
	block, at := format.PositionBlock(slot)
	pos := s.size() - int64(t.Size()) + int64(block)*format.BlockSize
	b, err := w.bytes(pos, format.BlockSize)
	if err != nil {
		return 0, corrupt(s.name, pos, "%w", err)
	}
	p, err := t.ParsePosition(b, block, at)
	if err != nil {
		return 0, corrupt(s.name, pos, "%w", err)
	}
	return p, nil
}

// view reads the entry at pos, which is entry i, up to the end of its id region.
func (p *replayer) view(i format.Index, pos EntryPos) (View, error) {
	head, body, err := readRecord(p.w, int64(pos.Pos), p.w.size)
	if err == nil && head.Kind == format.RecordFragment {
		head, body, err = p.joinedHead(pos.Pos)
	}
	if err == nil && (head.Kind != format.RecordEntry || head.Index != i) {
		err = fmt.Errorf("record of kind %d index %d, want entry %d", head.Kind, head.Index, i)
	}
	if err != nil {
		return View{}, corrupt(p.g.name, int64(pos.Pos), "%w", err)
	}
	prefix := format.EntryBytesPos(head.Flags)
	return View{
		Index: i, Term: head.Term, Type: entryType(head.Flags), Pos: pos, Len: head.Length - uint32(prefix),
		Head: body[prefix:],
	}, nil
}
