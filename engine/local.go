package engine

import (
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"sync/atomic"

	"queen/engine/format"
	"queen/engine/logstore"
)

// Local is the single-node Sequencer: raft group 1 outside tests, replica 1, term 1, no ports and no peers. One
// entry is being written while the next one forms; what is durable is applied, in order, by one
// goroutine, or by whoever proposed and waits when that goroutine has nothing to do: a call that comes
// alone then writes, flushes and applies its entry without waking anybody. The epoch of a single node is
// always 1.
//
// INVARIANT: entries are applied one at a time in log order: Propose applies only when queued is 0, and nobody
// but Propose, which one goroutine calls at a time, adds to it (TestCallersLead).
type Local struct {
	log   *logstore.Store
	fatal func(error)
	group format.RaftGroup

	applier Applier
	apply   chan Committed
	queued  atomic.Int32 // entries in apply or being applied by the goroutine
	applied sync.WaitGroup
	killed  chan struct{}

	next     format.Index // owned by who proposes
	save     logstore.Save
	writing  sync.Mutex // outcomes reach the log in order
	outcomes Outcomes
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
	return newLocalGroup(log, fatal, localGroup)
}

// newLocalGroup is NewLocal as another raft group, as which a log is opened every time or never: entries of others are not replayed.
func newLocalGroup(log *logstore.Store, fatal func(error), g format.RaftGroup) *Local {
	return &Local{log: log, fatal: fatal, group: g, apply: make(chan Committed, applyDepth), next: 1, killed: make(chan struct{})}
}

// Group implements Sequencer.
func (l *Local) Group() format.RaftGroup { return l.group }

// Log is the store given to NewLocal.
func (l *Local) Log() *logstore.Store { return l.log }

// Start replays entries above applied, then takes proposals under epoch 1.
func (l *Local) Start(a Applier, applied format.Index) (format.Term, error) {
	l.next = applied + 1
	err := l.log.Replay(l.group, applied+1, func(v logstore.View) error {
		outcome, err := a.Apply(Committed{Index: v.Index, Term: v.Term, Data: v.Head, Pos: v.Pos, Replayed: true, Outcome: v.Outcome, HasOutcome: v.Outcome != nil})
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
	l.applier = a
	l.applied.Add(1)
	go l.run()
	return localTerm, nil
}

func (l *Local) run() {
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
		if err := l.applyOne(&c); err != nil {
			l.fatal(err)
			return
		}
		l.queued.Add(-1)
	}
}

func (l *Local) applyOne(c *Committed) error {
	outcome, err := l.applier.Apply(*c)
	if err == nil {
		l.addOutcome(c.Index, outcome)
	}
	return err
}

// Prompt is true: an entry is written by who proposes it.
func (l *Local) Prompt() bool { return true }

// Propose writes and flushes the entry, then applies it or hands it to the apply goroutine.
func (l *Local) Propose(p *Proposal) error {
	pos, err := l.write(p)
	if err != nil {
		return err
	}
	c := Committed{Index: l.next, Term: localTerm, Data: p.Head, Pos: pos}
	l.next++
	select {
	case <-l.killed:
		return logstore.ErrClosed
	default:
	}
	if p.Wait && l.queued.Load() == 0 {
		return l.applyHere(&c)
	}
	l.queued.Add(1)
	select {
	case l.apply <- c:
		return nil
	case <-l.killed:
		return logstore.ErrClosed
	}
}

// applyHere applies in the goroutine of a call. A panic still ends the process: a server above that recovers its handlers'
// panics must not go on with half an entry applied.
func (l *Local) applyHere(c *Committed) error {
	defer func() {
		if r := recover(); r != nil {
			what := fmt.Sprintf("%v\n\n%s", r, debug.Stack())
			go panic(what)
			select {}
		}
	}()
	return l.applyOne(c)
}

// Kill ends the sequencer as a crash would: nothing more is written or applied. For Node.Kill.
func (l *Local) Kill() {
	close(l.killed)
	l.log.Kill()
}

// write makes the entry durable, with the outcomes that wait.
func (l *Local) write(p *Proposal) (logstore.EntryPos, error) {
	l.writing.Lock()
	defer l.writing.Unlock()
	s := &l.save
	s.Group, s.Replica, s.Commit, s.Outcomes = l.group, localReplica, l.next, l.takeOutcomes()
	s.Entries = append(s.Entries[:0], logstore.Entry{
		Index: l.next, Term: localTerm, Type: format.EntryEncoded, Data: p.Head, More: p.Payload,
	})
	if err := l.log.Append(s); err != nil {
		return logstore.EntryPos{}, err
	}
	return s.Placed[0], nil
}

func (l *Local) addOutcome(i format.Index, o Applied) {
	l.outcomes.Add(l.group, localReplica, i, localTerm, o)
}

func (l *Local) takeOutcomes() []logstore.Outcome { return l.outcomes.Take(l.group, localReplica) }

// FlushOutcomes writes pending outcomes in an extent of their own.
func (l *Local) FlushOutcomes() error {
	l.writing.Lock()
	defer l.writing.Unlock()
	out := l.takeOutcomes()
	if len(out) == 0 {
		return nil
	}
	return l.log.Append(&logstore.Save{Group: l.group, Replica: localReplica, Outcomes: out})
}

// SaveFloor writes durably that replay needs no entry at or below i.
func (l *Local) SaveFloor(i format.Index) (format.Index, error) {
	l.writing.Lock()
	defer l.writing.Unlock()
	return i, l.log.Append(&logstore.Save{Group: l.group, Replica: localReplica, Floor: i})
}

// Close waits until what was proposed is applied, writes its outcomes, and closes the log.
func (l *Local) Close() error {
	close(l.apply)
	l.applied.Wait()
	return errors.Join(l.FlushOutcomes(), l.log.Close())
}
