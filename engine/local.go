package engine

import (
	"bytes"
	"errors"
	"sync"

	"queen/engine/format"
	"queen/engine/logstore"
)

// Local is the single-node Sequencer: raft group 1, replica 1, term 1, no ports and no peers. One
// entry is being written while the next one forms; what is durable is applied, in order, by one
// goroutine. The epoch of a single node is always 1.
type Local struct {
	log   *logstore.Store
	fatal func(error)

	apply   chan Committed
	applied sync.WaitGroup
	killed  chan struct{}

	next     format.Index // owned by the proposing goroutine
	writing  sync.Mutex   // outcomes reach the log in order; acquired before outcomes
	outcomes struct {
		sync.Mutex
		builder format.OutcomeBuilder
		any     bool
		ready   []logstore.Outcome // ranges that something came after with a gap
	}
}

const (
	localGroup   format.RaftGroup = 1
	localReplica format.Replica   = 1
	localTerm    format.Term      = 1
	// applyDepth bounds entries that are durable and wait for apply: what comes to consume waits behind them.
	applyDepth = 1
)

// NewLocal orders entries over log, which it owns from now on.
func NewLocal(log *logstore.Store, fatal func(error)) *Local {
	return &Local{log: log, fatal: fatal, apply: make(chan Committed, applyDepth), next: 1, killed: make(chan struct{})}
}

// Group is 1.
func (l *Local) Group() format.RaftGroup { return localGroup }

// Log is the store given to NewLocal.
func (l *Local) Log() *logstore.Store { return l.log }

// Start replays entries above applied, then takes proposals under epoch 1.
func (l *Local) Start(a Applier, applied format.Index) (format.Term, error) {
	l.next = applied + 1
	err := l.log.Replay(localGroup, applied+1, func(v logstore.View) error {
		outcome, err := a.Apply(Committed{Index: v.Index, Data: v.Head, Pos: v.Pos, Replayed: true, Outcome: v.Outcome, HasOutcome: v.Outcome != nil})
		if err != nil {
			return err
		}
		if v.Outcome == nil {
			l.addOutcome(v.Index, outcome)
		}
		l.next = v.Index + 1
		return nil
	})
	if err != nil {
		return 0, err
	}
	l.applied.Add(1)
	go l.run(a)
	return localTerm, nil
}

func (l *Local) run(a Applier) {
	defer l.applied.Done()
	for {
		var c Committed
		select {
		case <-l.killed:
			return
		case next, open := <-l.apply:
			if !open {
				return
			}
			c = next
		}
		outcome, err := a.Apply(c)
		if err != nil {
			l.fatal(err)
			return
		}
		l.addOutcome(c.Index, outcome)
	}
}

// Propose writes and flushes the entry, then hands it to the apply goroutine.
func (l *Local) Propose(data []byte) error {
	pos, err := l.write(data)
	if err != nil {
		return err
	}
	select {
	case l.apply <- Committed{Index: l.next, Data: data, Pos: pos}:
	case <-l.killed:
		return logstore.ErrClosed
	}
	l.next++
	return nil
}

// Kill ends the sequencer as a crash would: nothing more is written or applied. For Node.Kill.
func (l *Local) Kill() {
	close(l.killed)
	l.log.Kill()
}

// write makes the entry durable, with the outcomes that wait.
func (l *Local) write(data []byte) (logstore.EntryPos, error) {
	l.writing.Lock()
	defer l.writing.Unlock()
	save := &logstore.Save{
		Group: localGroup, Replica: localReplica,
		Entries:  []logstore.Entry{{Index: l.next, Term: localTerm, Type: format.EntryEncoded, Data: data}},
		Outcomes: l.takeOutcomes(),
		Commit:   l.next,
	}
	if err := l.log.Append(save); err != nil {
		return logstore.EntryPos{}, err
	}
	return save.Placed[0], nil
}

func (l *Local) addOutcome(i format.Index, o Applied) {
	l.outcomes.Lock()
	defer l.outcomes.Unlock()
	if l.outcomes.any && l.outcomes.builder.Last()+1 != i {
		l.sealLocked()
	}
	if !l.outcomes.any {
		l.outcomes.builder.Term = localTerm
		l.outcomes.builder.Begin(i, o.FramesBefore)
		l.outcomes.any = true
	}
	l.outcomes.builder.Add(o.Canonical)
}

// takeOutcomes returns the record of the outcomes that are not on disk yet, nil when there are none.
func (l *Local) takeOutcomes() []logstore.Outcome {
	l.outcomes.Lock()
	defer l.outcomes.Unlock()
	l.sealLocked()
	out := l.outcomes.ready
	l.outcomes.ready = nil
	return out
}

// sealLocked ends the range that is being built.
func (l *Local) sealLocked() {
	if !l.outcomes.any {
		return
	}
	b := &l.outcomes.builder
	_, body := b.Record(localGroup, localReplica)
	out := logstore.Outcome{First: b.First(), Last: b.Last(), Term: localTerm, Bytes: bytes.Clone(body)}
	l.outcomes.any = false
	l.outcomes.ready = append(l.outcomes.ready, out)
}

// FlushOutcomes writes pending outcomes in an extent of their own.
func (l *Local) FlushOutcomes() error {
	l.writing.Lock()
	defer l.writing.Unlock()
	out := l.takeOutcomes()
	if len(out) == 0 {
		return nil
	}
	return l.log.Append(&logstore.Save{Group: localGroup, Replica: localReplica, Outcomes: out})
}

// SaveFloor writes durably that replay needs no entry at or below i.
func (l *Local) SaveFloor(i format.Index) error {
	l.writing.Lock()
	defer l.writing.Unlock()
	return l.log.Append(&logstore.Save{Group: localGroup, Replica: localReplica, Floor: i})
}

// Close waits until what was proposed is applied, writes its outcomes, and closes the log.
func (l *Local) Close() error {
	close(l.apply)
	l.applied.Wait()
	return errors.Join(l.FlushOutcomes(), l.log.Close())
}
