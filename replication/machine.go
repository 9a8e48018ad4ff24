package replication

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/lni/dragonboat/v4"
	"github.com/lni/dragonboat/v4/client"
	sm "github.com/lni/dragonboat/v4/statemachine"

	"queen/engine"
	"queen/engine/format"
)

// session is the library's handle of who proposes: none of its own bookkeeping is used, since entries say by
// themselves whether they count.
type session struct{ noop *client.Session }

func newSession(h *dragonboat.NodeHost, g format.RaftGroup) *session {
	return &session{h.GetNoOPSession(uint64(g))}
}

// stateMachine is the node as the library's on-disk state machine. Its state is the log that the library writes: Open
// replayed it, and Sync has nothing to do.
type stateMachine Sequencer

var _ sm.IOnDiskStateMachine = (*stateMachine)(nil)

// Open implements IOnDiskStateMachine; the log was replayed by Start.
func (m *stateMachine) Open(<-chan struct{}) (uint64, error) { return uint64(m.opened), nil }

// Update implements IOnDiskStateMachine. An error is ours alone, and ends the process.
func (m *stateMachine) Update(entries []sm.Entry) ([]sm.Entry, error) {
	s := (*Sequencer)(m)
	for i := range entries {
		e := &entries[i]
		if len(e.Cmd) > 0 { // the library shows empty proposals, which nobody here makes
			if err := s.apply(format.Index(e.Index), e.Cmd); err != nil {
				s.fatal(err)
				return nil, err
			}
		}
		e.Result = sm.Result{Value: e.Index}
	}
	return entries, nil
}

// apply hands one committed entry to the node. Its bytes are in this node's log already, which says where and of which term.
func (s *Sequencer) apply(i format.Index, cmd []byte) error {
	pos, _, err := s.log.Locate(s.group, s.o.Node, i)
	if err != nil {
		return fmt.Errorf("replication: entry %d is committed and not in the log: %w", i, err)
	}
	term, ok := s.log.Term(s.group, s.o.Node, i)
	if !ok {
		return fmt.Errorf("replication: entry %d is committed and its term is not known", i)
	}
	if s.head, err = headOf(s.head, cmd); err != nil {
		return fmt.Errorf("replication: entry %d: %w", i, err)
	}
	outcome, err := s.applier.Apply(engine.Committed{Index: i, Term: term, Data: s.head, Pos: pos})
	if err == nil {
		s.outcomes.Add(s.group, s.o.Node, i, term, outcome)
	}
	return err
}

// headOf makes the entry, up to the end of its id region, of what the library took the first byte from.
func headOf(dst, cmd []byte) ([]byte, error) {
	const lengths = 48 // of command and id region
	if len(cmd) < format.EntryFixedHead-1 {
		return dst, fmt.Errorf("%d bytes are no entry", len(cmd))
	}
	le := binary.LittleEndian
	n := uint64(format.EntryFixedHead) + uint64(le.Uint32(cmd[lengths-1:])) + uint64(le.Uint32(cmd[lengths+3:]))
	if n-1 > uint64(len(cmd)) {
		return dst, fmt.Errorf("%d bytes, its head says %d", len(cmd)+1, n)
	}
	return append(append(dst[:0], 0), cmd[:n-1]...), nil
}

// Lookup implements IOnDiskStateMachine; nobody reads by way of the library.
func (m *stateMachine) Lookup(any) (any, error) { return nil, errors.ErrUnsupported }

// Sync implements IOnDiskStateMachine: what was applied is in the log, durable.
func (m *stateMachine) Sync() error { return nil }

// PrepareSnapshot implements IOnDiskStateMachine.
func (m *stateMachine) PrepareSnapshot() (any, error) { return nil, nil }

// errNoImage: none ever comes. With any other error than one that says that it was broken off the library would end the process.
var errNoImage = fmt.Errorf("replication: no image is streamed: %w", sm.ErrSnapshotAborted)

// SaveSnapshot implements IOnDiskStateMachine. A replica that lacks the start of the log is not served by the library, but pulls before it takes
// part (pull.go). The library wants to stream an image all the same to one that has pulled: it remembers where that log ended before. So nothing
// is written, and the transport does as if it had arrived (noImages): the library then looks again where that log ends, and goes on from there.
// If the stream broke off it would ask for another one, and drop whatever it has for that node, of all raft groups, for a second and a half.
func (m *stateMachine) SaveSnapshot(any, io.Writer, <-chan struct{}) error {
	m.streams.Add(1)
	return nil
}

// RecoverFromSnapshot implements IOnDiskStateMachine.
func (m *stateMachine) RecoverFromSnapshot(io.Reader, <-chan struct{}) error { return errNoImage }

// Close implements IOnDiskStateMachine: the last thing that the library does with a group.
func (m *stateMachine) Close() error {
	m.stopOnce.Do(func() { close(m.stopped) })
	return nil
}
