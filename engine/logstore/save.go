package logstore

import (
	"fmt"

	"queen/engine/format"
)

// EntryPos says where the record of an entry starts, or that of its first fragment. It stays valid until
// the segment is reclaimed. The zero value is the position of no entry.
type EntryPos struct {
	Segment uint32
	Pos     uint32 // bytes from the start of the segment file
}

// IsZero reports the position of no entry.
func (p EntryPos) IsZero() bool { return p == EntryPos{} }

// Entry is one raft entry. Key, ClientID, SeriesID and RespondedTo are what the replication library wants
// to see again; a single node leaves them zero.
type Entry struct {
	Index format.Index
	Term  format.Term
	Type  format.EntryType

	Key, ClientID, SeriesID, RespondedTo uint64

	// Data is the entry as the replication library stores it; an Entry of package format if Type is
	// EntryEncoded.
	Data []byte
	// More continues Data, so that a caller need not join what it has in pieces. An encoded entry's head, commands
	// and ids are whole in Data. Reading gives none.
	More [][]byte
}

// size is the length of the entry.
func (e *Entry) size() int {
	n := len(e.Data)
	for _, b := range e.More {
		n += len(b)
	}
	return n
}

// join makes Data the whole entry.
func (e *Entry) join() {
	if len(e.More) == 0 {
		return
	}
	all := append(make([]byte, 0, e.size()), e.Data...)
	for _, b := range e.More {
		all = append(all, b...)
	}
	e.Data, e.More = all, nil
}

// Outcome is what applying entries First to Last, all of one term, came to. Bytes is the body of an
// outcome record (format.OutcomeBuilder).
type Outcome struct {
	First, Last format.Index
	Term        format.Term
	Bytes       []byte
}

func (o *Outcome) head(s *Save) format.RecordHead {
	return format.RecordHead{
		Kind: format.RecordOutcome, Group: s.Group, Replica: s.Replica, Index: o.First, Term: o.Term,
		Length: uint32(len(o.Bytes)), Covered: uint32(len(o.Bytes)),
	}
}

// HardState is a replica's term and vote. It replaces the one before as a whole.
type HardState struct {
	Term format.Term
	Vote format.Replica
}

// Save is what one replica wants to be durable. Its parts take effect in the order of the fields. What it
// points to is read until Append returns, and only bootstrap and snapshot are kept.
type Save struct {
	Group   format.RaftGroup
	Replica format.Replica

	// Remove forgets the replica and all it holds before anything else of this save.
	Remove bool
	// Bootstrap replaces the replica's bootstrap record unless it is nil.
	Bootstrap *format.Bootstrap
	// State replaces term and vote unless it is nil. It is durable no later than the first entry.
	State *HardState
	// Snapshot replaces an older snapshot record unless it is nil. A record that is not newer is dropped.
	Snapshot *format.Snapshot
	// Install says that the snapshot replaces the log: the raft view becomes empty behind it, and entries
	// above the replica's commit leave the store view as well. Without it a snapshot does not touch
	// entries.
	Install bool
	// Entries continue the replica's entries or overwrite their end; contiguous. An entry that overwrites
	// drops what was at and above its index.
	Entries []Entry
	// Outcomes are of entries that are durable already or part of this save.
	Outcomes []Outcome
	// Floor says that raft needs no entry at or below it: 0 leaves it. It never falls.
	Floor format.Index
	// Commit is the newest commit index, 0 leaves it. It becomes durable after everything else of this
	// save, and on its own it is not written at once but with the next extent (raft does not ask for
	// more).
	Commit format.Index

	// Placed is filled by Append: one position per entry. Capacity is reused.
	Placed []EntryPos
}

func (v *Save) key() replicaKey { return replicaKey{v.Group, v.Replica} }

// needsWrite reports a save that must be durable before Append returns.
func (v *Save) needsWrite() bool {
	return v.Remove || v.Bootstrap != nil || v.State != nil || v.Snapshot != nil || len(v.Entries) > 0 ||
		len(v.Outcomes) > 0 || v.Floor != 0
}

// validate checks what can be checked without knowing what the replica holds.
func (v *Save) validate(maxEntry int64) error {
	if v.Group == 0 || v.Group > 63 || v.Replica == 0 {
		return fmt.Errorf("%w: raft group %d replica %d", ErrInvalid, v.Group, v.Replica)
	}
	if v.Install && v.Snapshot == nil {
		return fmt.Errorf("%w: install without a snapshot", ErrInvalid)
	}
	if err := v.validateRecords(); err != nil {
		return err
	}
	for i := range v.Entries {
		e := &v.Entries[i]
		if e.Index == 0 || i > 0 && e.Index != v.Entries[i-1].Index+1 {
			return fmt.Errorf("%w: entry %d follows %d", ErrInvalid, e.Index, e.Index-1)
		}
		if n := e.size(); int64(n) > maxEntry {
			return fmt.Errorf("%w: entry %d has %d bytes, at most %d", ErrTooLarge, e.Index, n, maxEntry)
		}
	}
	for i := range v.Outcomes {
		o := &v.Outcomes[i]
		if int64(len(o.Bytes)) > maxEntry {
			return fmt.Errorf("%w: outcome of %d bytes, at most %d", ErrTooLarge, len(o.Bytes), maxEntry)
		}
		head := o.head(v)
		if r, err := format.ParseOutcome(&head, o.Bytes); err != nil || r.Last != o.Last {
			return fmt.Errorf("%w: outcome of %d to %d: %v", ErrInvalid, o.First, o.Last, err)
		}
	}
	return nil
}

// validateRecords checks the records that each segment repeats.
func (v *Save) validateRecords() error {
	if b := v.Bootstrap; b != nil {
		if _, body := b.Record(); len(body) > maxRepeated || b.Group != v.Group || b.Replica != v.Replica {
			return fmt.Errorf("%w: bootstrap record of %d bytes, group %d replica %d",
				ErrInvalid, len(body), b.Group, b.Replica)
		}
	}
	if s := v.Snapshot; s != nil {
		if _, body := s.Record(); len(body) > maxRepeated || s.Group != v.Group || s.Replica != v.Replica {
			return fmt.Errorf("%w: snapshot record of %d bytes, group %d replica %d",
				ErrInvalid, len(body), s.Group, s.Replica)
		}
	}
	return nil
}

// maxRepeated bounds the body of a bootstrap or snapshot record, since every segment repeats them.
const maxRepeated = 32 << 10
