package logstore

import (
	"fmt"
	"slices"

	"queen/engine/format"
)

// place is where a durable record lies.
type place struct {
	g   *segment
	pos uint32
}

// apply takes one durable record into the index. body may be cut short behind its covered bytes. It
// returns the position of the entry that is complete with this record, if one is. s.mu is held, or the
// store is not yet open.
//
// An error says that the record contradicts itself or the log before it. What the writer plans can not;
// what a disk holds can.
func (s *Store) apply(at place, head *format.RecordHead, body []byte) (EntryPos, error) {
	key := replicaKey{head.Group, head.Replica}
	if head.Kind == format.RecordRemoved {
		delete(s.replicas, key)
		s.sorted = nil
		at.g.groups[key] = &groupRange{cut: 1}
		s.gaps = slices.DeleteFunc(s.gaps, func(gap logGap) bool { return gap.key == key })
		return EntryPos{}, format.ParsePosition(head, body)
	}
	r := s.replica(key)
	switch head.Kind {
	case format.RecordEntry:
		return s.putEntry(at, r, head)
	case format.RecordFragment:
		return s.putFragment(at, r, head, body)
	case format.RecordOutcome:
		o, err := format.ParseOutcome(head, body)
		if err == nil {
			at.g.group(key).putOutcome(o.First, o.Last)
		}
		return EntryPos{}, err
	case format.RecordCut:
		s.cut(at, r, head.Index)
		return EntryPos{}, format.ParsePosition(head, body)
	}
	return EntryPos{}, r.note(head, body)
}

// note takes the records of which only the newest counts.
func (r *replica) note(head *format.RecordHead, body []byte) error {
	switch head.Kind {
	case format.RecordHardState:
		h, err := format.ParseHardState(head, body)
		if err != nil {
			return err
		}
		r.state = HardState{Term: h.Term, Vote: h.Vote}
		r.savedCommit = max(r.savedCommit, h.Commit)
		r.commit = max(r.commit, r.savedCommit)
	case format.RecordSnapshot:
		snap, err := format.ParseSnapshot(head, body)
		if err != nil {
			return err
		}
		if r.snapshot == nil || snap.Index > r.snapshot.Index {
			snap.Extra = slices.Clone(snap.Extra)
			r.snapshot = &snap
		}
	case format.RecordFloor:
		r.floor = max(r.floor, head.Index)
		return format.ParsePosition(head, body)
	case format.RecordBootstrap:
		b, err := format.ParseBootstrap(head, body)
		if err != nil {
			return err
		}
		r.bootstrap = &b
	default:
		return fmt.Errorf("record kind %d does not belong into the commit stream", head.Kind)
	}
	return nil
}

func (s *Store) replica(key replicaKey) *replica {
	r := s.replicas[key]
	if r == nil {
		r = newReplica(key)
		s.replicas[key] = r
		s.sorted = nil
	}
	return r
}

// sortedReplicas lists the replicas by group and number. The result is not to be changed.
func (s *Store) sortedReplicas() []*replica {
	s.mu.RLock()
	sorted := s.sorted
	s.mu.RUnlock()
	if sorted != nil {
		return sorted
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sorted = make([]*replica, 0, len(s.replicas))
	for _, r := range s.replicas {
		s.sorted = append(s.sorted, r)
	}
	slices.SortFunc(s.sorted, func(a, b *replica) int { return compareKeys(a.replicaKey, b.replicaKey) })
	return s.sorted
}

// logGap is a hole in a replica's entries that was met while loading: (after, before), without both.
type logGap struct {
	key           replicaKey
	after, before format.Index
	at            place
}

// continues checks that an entry leaves no gap behind what the replica holds. While loading a gap is taken
// down: reclaimed segments leave them below the floor, which is known only at the end (checkGaps).
func (s *Store) continues(at place, r *replica, i format.Index) error {
	_, next := r.accepts()
	if next == 0 || i <= next {
		return nil
	}
	if s.loading {
		s.gaps = append(s.gaps, logGap{r.replicaKey, next - 1, i, at})
		return nil
	}
	return fmt.Errorf("group %d replica %d: entry %d follows %d", r.group, r.replica, i, next-1)
}

// cut makes entries at and above i void, and with them what was missing there.
func (s *Store) cut(at place, r *replica, i format.Index) {
	r.cut(at.g, i)
	for n := range s.gaps {
		if gap := &s.gaps[n]; gap.key == r.replicaKey && gap.before > i {
			gap.before = i
		}
	}
}

func (s *Store) putEntry(at place, r *replica, head *format.RecordHead) (EntryPos, error) {
	prefix := format.EntryBytesPos(head.Flags)
	if int(head.Length) < prefix {
		return EntryPos{}, fmt.Errorf("entry %d: length %d", head.Index, head.Length)
	}
	if err := s.continues(at, r, head.Index); err != nil {
		return EntryPos{}, err
	}
	ref := entryRef{
		term: head.Term, typ: entryType(head.Flags),
		pos: EntryPos{at.g.seq(), at.pos}, length: head.Length - uint32(prefix),
	}
	s.cut(at, r, head.Index)
	r.put(at.g, head.Index, ref)
	r.partial = partialRecord{}
	return ref.pos, nil
}

// entryType is the raft type in the flags of an entry record.
func entryType(flags uint8) format.EntryType { return format.EntryType(flags & 3) }

// putFragment collects the pieces of a large record. The first piece of an entry cuts the log already: an
// overwrite that a crash interrupts must not leave the old suffix behind the new prefix. Pieces that do
// not continue what was begun are the rest of a record that a crash cut short; that record does not exist.
func (s *Store) putFragment(at place, r *replica, head *format.RecordHead, body []byte) (EntryPos, error) {
	f, data, err := format.ParseFragment(head, body)
	if err != nil {
		return EntryPos{}, err
	}
	joined := f.Joined(head)
	p := &r.partial
	if f.Number == 0 {
		*p = partialRecord{joined: joined, segment: at.g.seq(), pos: at.pos}
		if joined.Kind == format.RecordEntry {
			if err := s.continues(at, r, head.Index); err != nil {
				return EntryPos{}, err
			}
			s.cut(at, r, head.Index)
		} else if p.last, err = outcomeLast(head.Index, data); err != nil {
			return EntryPos{}, err
		}
	}
	if p.joined != joined || p.segment != at.g.seq() || int(f.Number) != len(p.parts) {
		*p = partialRecord{}
		return EntryPos{}, nil
	}
	p.parts = append(p.parts, fragment{
		data:   at.pos + format.RecordHeadSize + format.FragmentHeadSize,
		length: head.Length - format.FragmentHeadSize,
	})
	if len(p.parts) < int(f.Count) {
		return EntryPos{}, nil
	}
	done := *p
	*p = partialRecord{}
	at.g.frags[done.pos] = done.parts
	if joined.Kind != format.RecordEntry {
		at.g.group(r.replicaKey).putOutcome(joined.Index, done.last)
		return EntryPos{}, nil
	}
	s.heads.wrote(at.g.seq(), done.pos, &joined)
	return s.putEntry(place{at.g, done.pos}, r, &joined)
}

// outcomeLast reads the end of the range from the start of an outcome's body.
func outcomeLast(first format.Index, start []byte) (format.Index, error) {
	n := uint32(len(start))
	h := format.RecordHead{Kind: format.RecordOutcome, Index: first, Length: n, Covered: n}
	o, err := format.ParseOutcome(&h, start)
	return o.Last, err
}
