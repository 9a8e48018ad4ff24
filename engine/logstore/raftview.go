package logstore

import (
	"fmt"

	"queen/engine/format"
)

// ReplicaState is what the store knows of one replica.
type ReplicaState struct {
	Group   format.RaftGroup
	Replica format.Replica
	// Bootstrap and Snapshot are nil until there is one. They are not to be changed.
	Bootstrap *format.Bootstrap
	Snapshot  *format.Snapshot
	State     HardState
	// Commit is the newest commit index known; it may be newer than what a crash would leave.
	Commit format.Index
	Floor  format.Index
	// First and Last bound what raft may read; Last is First-1 when nothing.
	First, Last format.Index
}

// Replicas lists the replicas of the node by group and number.
func (s *Store) Replicas() []ReplicaState {
	sorted := s.sortedReplicas()
	s.mu.RLock()
	defer s.mu.RUnlock()
	all := make([]ReplicaState, len(sorted))
	for i, r := range sorted {
		all[i] = r.info()
	}
	return all
}

// Replica returns the state of one replica; false if the store holds nothing of it.
func (s *Store) Replica(group format.RaftGroup, replica format.Replica) (ReplicaState, bool) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	r := s.replicas[replicaKey{group, replica}]
	if r == nil {
		return ReplicaState{Group: group, Replica: replica}, false
	}
	return r.info(), true
}

func (r *replica) info() ReplicaState {
	return ReplicaState{
		Group: r.group, Replica: r.replica, Bootstrap: r.bootstrap, Snapshot: r.snapshot, State: r.state,
		Commit: r.commit, Floor: r.floor, First: r.raftFirst(), Last: r.raftLast(),
	}
}

// Term returns the term of an entry, or of the snapshot at that index, from memory.
func (s *Store) Term(group format.RaftGroup, replica format.Replica, i format.Index) (format.Term, bool) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	r := s.replicas[replicaKey{group, replica}]
	if r == nil {
		return 0, false
	}
	return r.term(i)
}

// Locate returns where an entry is, from memory. ErrUnknown if the resident index does not hold it.
func (s *Store) Locate(group format.RaftGroup, replica format.Replica, i format.Index) (EntryPos, uint32, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if r := s.replicas[replicaKey{group, replica}]; r != nil {
		if ref, ok := r.find(i); ok {
			return ref.pos, ref.length, nil
		}
	}
	return EntryPos{}, 0, fmt.Errorf("%w: entry %d of group %d replica %d", ErrUnknown, i, group, replica)
}

// Entries appends entries [low, high) to dst and returns it, in fresh memory. It stops behind the entry
// with which size(entry), added up, exceeds maxBytes; nil size counts the data's bytes. Entries that are
// not held end it early, without an error.
func (s *Store) Entries(
	dst []Entry, group format.RaftGroup, replica format.Replica, low, high format.Index,
	maxBytes uint64, size func(*Entry) uint64,
) ([]Entry, error) {
	total := uint64(0)
	for i := low; i < high; i++ {
		pos, _, err := s.Locate(group, replica, i)
		if err != nil {
			return dst, nil
		}
		e, err := s.readEntry(pos)
		if err != nil {
			return dst, err
		}
		if e.Index != i {
			return dst, fmt.Errorf("logstore: entry %d of group %d: position %v holds entry %d", i, group, pos, e.Index)
		}
		dst = append(dst, e)
		if size == nil {
			total += uint64(len(e.Data))
		} else {
			total += size(&e)
		}
		if total > maxBytes {
			break
		}
	}
	return dst, nil
}

// readEntry reads a whole entry with all its fields.
func (s *Store) readEntry(pos EntryPos) (e Entry, err error) {
	g, end := s.readable(pos.Segment)
	if g == nil {
		return e, fmt.Errorf("%w: %d", ErrReclaimed, pos.Segment)
	}
	r, err := s.openRecord(g, pos.Pos, end, 0, smallRead)
	if err != nil {
		return e, err
	}
	defer r.close()
	body, err := r.read(nil, 0, r.head.Length)
	if err != nil {
		return e, err
	}
	rec, err := format.ParseEntryRecord(&r.head, body)
	if err != nil {
		return e, corrupt(g.name, int64(pos.Pos), "%w", err)
	}
	p := rec.Proposal
	return Entry{
		Index: rec.Index, Term: rec.Term, Type: rec.Type, Data: rec.Bytes,
		Key: p.Key, ClientID: p.Client, SeriesID: p.Series, RespondedTo: p.Responded,
	}, nil
}
