package logstore

import (
	"fmt"

	"queen/engine/format"
)

// saver is one call of Append on its way to disk.
type saver struct {
	saves    []*Save
	pieces   []piece
	next     int  // the first piece that is not planned
	admitted bool // checked against what its replicas hold
	answered bool // done has its value
	done     chan error

	// rest is what the fragments not yet planned of a record that was begun take at most, each in an
	// extent of its own.
	rest int64
}

// piece is what becomes one record.
type piece struct {
	kind pieceKind
	save *Save
	at   int // number of the entry or outcome in the save
	frag int // number of the fragment; -1 for a record that is whole
	size int // of the record
}

type pieceKind uint8

const (
	pieceRemove pieceKind = iota
	pieceBootstrap
	pieceState
	pieceInstall // a cut and a snapshot, never apart
	pieceSnapshot
	pieceEntry
	pieceOutcome
	pieceFloor
	pieceCommit
)

const (
	hardStateSize = format.RecordHeadSize + 8
	proposalBytes = 32
)

// newSaver lists the pieces of the saves in the order in which they are written: term and vote first,
// commit last.
func newSaver(saves []*Save) *saver {
	v := &saver{saves: saves, done: make(chan error, 1)}
	for _, s := range saves {
		v.addSave(s)
	}
	return v
}

func (v *saver) add(kind pieceKind, s *Save, at, body int) {
	v.pieces = append(v.pieces, piece{kind: kind, save: s, at: at, frag: -1, size: recordSize(body)})
}

// addJoined lists a record that may be too large for one.
func (v *saver) addJoined(kind pieceKind, s *Save, at, body int) {
	n := format.FragmentCount(body)
	if n == 1 {
		v.add(kind, s, at, body)
		return
	}
	for f := range n {
		part := min(format.FragmentBytes, body-f*format.FragmentBytes)
		size := recordSize(format.FragmentHeadSize + part)
		v.pieces = append(v.pieces, piece{kind: kind, save: s, at: at, frag: f, size: size})
	}
}

func recordSize(body int) int {
	h := format.RecordHead{Length: uint32(body)}
	return h.Size()
}

func (v *saver) addSave(s *Save) {
	if s.Remove {
		v.add(pieceRemove, s, 0, 0)
	}
	if s.Bootstrap != nil {
		_, body := s.Bootstrap.Record()
		v.add(pieceBootstrap, s, 0, len(body))
	}
	if s.State != nil {
		v.add(pieceState, s, 0, 8)
	}
	if s.Snapshot != nil {
		_, body := s.Snapshot.Record()
		if s.Install {
			v.add(pieceInstall, s, 0, len(body)+2*format.RecordHeadSize)
		} else {
			v.add(pieceSnapshot, s, 0, len(body))
		}
	}
	s.Placed = s.Placed[:0]
	for i := range s.Entries {
		e := &s.Entries[i]
		s.Placed = append(s.Placed, EntryPos{})
		body := e.prefixBytes() + e.size()
		if format.FragmentCount(body) > 1 {
			e.join()
		}
		v.addJoined(pieceEntry, s, i, body)
	}
	for i := range s.Outcomes {
		v.addJoined(pieceOutcome, s, i, len(s.Outcomes[i].Bytes))
	}
	if s.Floor != 0 {
		v.add(pieceFloor, s, 0, 0)
	}
	if s.Commit != 0 {
		v.add(pieceCommit, s, 0, 8)
	}
}

func (e *Entry) proposal() format.Proposal {
	return format.Proposal{Key: e.Key, Client: e.ClientID, Series: e.SeriesID, Responded: e.RespondedTo}
}

// prefixBytes is what precedes the data in the record's body.
func (e *Entry) prefixBytes() int {
	if e.proposal() != (format.Proposal{}) {
		return proposalBytes
	}
	return 0
}

// lane is what a replica will be once the extent being planned is durable.
type lane struct {
	key    replicaKey
	first  format.Index // the lowest index that may be overwritten
	next   format.Index // the index that continues the log; 0 = any
	state  HardState
	commit format.Index // as durable
}

func newLane(key replicaKey, r *replica) *lane {
	l := &lane{key: key}
	if r != nil {
		l.state, l.commit = r.state, r.savedCommit
		if l.first, l.next = r.accepts(); l.next != 0 {
			l.first = max(l.first, r.floor+1, r.commit+1) // raft never overwrites what is committed
		}
	}
	return l
}

// admit checks a save against the lane and moves it on; nothing is planned yet.
func (l *lane) admit(s *Save) error {
	if s.Remove {
		*l = lane{key: l.key}
	}
	if s.Install {
		l.first, l.next = s.Snapshot.Index+1, s.Snapshot.Index+1
	}
	if len(s.Entries) == 0 {
		return nil
	}
	first := s.Entries[0].Index
	if l.next != 0 && (first > l.next || first < l.first) {
		return fmt.Errorf("%w: group %d replica %d: entry %d comes, want %d to %d",
			ErrGap, l.key.group, l.key.replica, first, l.first, l.next)
	}
	l.put(first)
	l.next = s.Entries[len(s.Entries)-1].Index + 1
	return nil
}

func (l *lane) put(i format.Index) {
	if l.next == 0 {
		l.first = i
	}
	l.next = i + 1
}

func (l *lane) hardState() (format.RecordHead, []byte) {
	s := format.HardState{
		Group: l.key.group, Replica: l.key.replica, Term: l.state.Term, Vote: l.state.Vote, Commit: l.commit,
	}
	return s.Record()
}

func (l *lane) position(kind format.RecordKind, i format.Index) format.RecordHead {
	return format.PositionRecord(kind, l.key.group, l.key.replica, i)
}
