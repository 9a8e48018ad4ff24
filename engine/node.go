package engine

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"queen/engine/format"
	"queen/engine/logstore"
	"queen/engine/logstore/rows"
	"queen/engine/machine"
	"queen/engine/stats"
)

// Node is the implementation of Engine over a Sequencer: fuser, admission, parked pops, evidence and
// rendering exist here once, for a single node and for a replicated one.
//
// INVARIANT: state is written by the apply goroutine only, under its lock; everybody else reads it
// under the read lock, and holds it across no file access and no wait.
type Node struct {
	cfg  Config
	seq  Sequencer
	lock io.Closer

	identity  identity
	state     stateLock
	rows      *rows.Index
	starts    *startCache
	fuser     *fuser
	builder   format.EntryBuilder // owned by who proposes
	proposal  Proposal            // likewise
	flights   flights
	park      *parking
	watching  watching
	delivered *delivered
	writes    *admission
	stamp     *stamper
	house     *house
	timers    *timers
	files     *files
	ids       *ids
	keyed     *keyedRows
	ephemeral *ephemeralQueues // set before ready, never changed
	inTxnMost pendingBounds    // smaller in tests only
	txnShare  txnShare         // likewise
	counters  counters
	cluster   *cluster // nil on a single node
	series    stats.Series

	ready      atomic.Bool
	replay     replayProgress
	full       atomic.Bool // the disk gate is closed
	voterFull  atomic.Bool // that of another node that votes
	adminGen   atomic.Uint64
	switched   switchCache
	redrives   *redrives
	stopping   chan struct{}
	stopOnce   sync.Once
	killed     atomic.Bool
	background sync.WaitGroup
}

// stateLock guards the machine.
type stateLock struct {
	sync.RWMutex
	m *machine.Machine
}

// replayProgress describes start-up.
type replayProgress struct{ done, total atomic.Uint64 }

var _ Engine = (*Node)(nil)

// lockName is the file that keeps a second process out of a data directory.
const lockName = "LOCK"

// OpenLocal opens a single node over cfg.Dir: it takes the directory's lock, opens the log and
// returns when the node can commit.
func OpenLocal(cfg Config) (*Node, error) {
	return OpenWith(cfg, func(log *logstore.Store, fatal func(error)) (Sequencer, error) {
		for _, r := range log.Replicas() {
			if r.Bootstrap != nil {
				return nil, fmt.Errorf("engine: data directory %s is node %d's of a cluster: start it with --node-id and --peers", cfg.Dir, r.Replica)
			}
		}
		return NewLocal(log, fatal), nil
	})
}

// OpenWith opens a node over cfg.Dir with the sequencer that make puts onto its log. The sequencer owns the log.
func OpenWith(cfg Config, make func(log *logstore.Store, fatal func(error)) (Sequencer, error)) (*Node, error) {
	cfg = cfg.withDefaults()
	log, lock, err := OpenLog(cfg)
	if err != nil {
		return nil, err
	}
	var n *Node
	seq, err := make(log, cfg.Fatal)
	if err == nil {
		n, err = Open(cfg, seq)
	}
	if err != nil {
		log.Close()
		lock.Close()
		return nil, err
	}
	n.lock = lock
	return n, nil
}

// OpenLog opens the log of a data directory, which it creates when absent, and locks the directory until lock is closed. For
// tools that change a directory without running a node.
func OpenLog(cfg Config) (log *logstore.Store, lock io.Closer, err error) {
	if lock, err = LockDir(cfg); err != nil {
		return nil, nil, err
	}
	cfg = cfg.withDefaults()
	if err := dropPull(cfg); err != nil {
		lock.Close()
		return nil, nil, err
	}
	if log, err = openLog(cfg); err != nil {
		lock.Close()
		return nil, nil, err
	}
	return log, lock, nil
}

// Open starts a node over a sequencer: it restores the state, replays the log above it, and begins
// to take calls.
func Open(cfg Config, seq Sequencer) (*Node, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	cfg = cfg.withDefaults()
	n := &Node{
		cfg: cfg, seq: seq, fuser: newFuser(seq.Log()), park: newParking(),
		delivered: newDelivered(cfg.DeliveredBytes), writes: newAdmission(cfg.Clock, cfg.WriteBytes),
		stopping: make(chan struct{}), starts: new(startCache),
		inTxnMost: pendingBounds{maxPendingPositions, maxPendingBytes}, txnShare: txnShare{machine.TxnPartsMost},
	}
	n.house, n.timers, n.redrives = newHouse(n), newTimers(n), newRedrives(n)
	n.files, n.ids = newFiles(n), newIDs(n)
	applied, err := n.restore()
	if err != nil {
		return nil, errors.Join(err, n.files.close())
	}
	if r, ok := seq.(Replicated); ok {
		n.cluster = newCluster(n, r)
	}
	epoch, err := seq.Start(n, applied)
	if err == nil {
		err = n.familiar()
	}
	if err == nil {
		err = n.files.markClosed()
	}
	if err != nil {
		return nil, errors.Join(err, n.files.close())
	}
	n.stamp = newStamper(cfg.Clock, n.state.m.T(), n.state.m.W(), n.votersClock())
	n.background.Add(1)
	go n.run()
	if r, ok := seq.(Replicated); ok {
		err = n.join(r)
	} else {
		n.stamp.lead(epoch)
		err = n.begin(epoch)
	}
	if err == nil {
		err = n.familiar() // another node's Genesis may have come first
	}
	if err != nil {
		n.stop()
		return nil, err
	}
	n.ephemeral = newEphemeral(EphemeralOptions{Clock: cfg.Clock, Rows: n, Incarnation: cfg.Rand.Uint64(), MaxBytes: cfg.EphemeralBytes})
	n.ready.Store(true)
	n.house.start()
	n.timers.start()
	n.files.start()
	n.redrives.start()
	return n, nil
}

// begin commits Genesis on an empty log, then the Term of this life, and waits for them: a leader
// stamps nothing else before its own Term is applied.
func (n *Node) begin(epoch format.Term) error {
	s := n.termSubmission(epoch)
	if err := n.commit(context.Background(), s); err != nil {
		return err
	}
	if code := s.flight.results.Refused; code != format.CodeOK {
		return fmt.Errorf("engine: the log refused this node's Term: code %d", code)
	}
	n.identify()
	return nil
}

// termSubmission begins an epoch, and the raft group where it does not exist yet.
func (n *Node) termSubmission(epoch format.Term) *submission {
	s := newSubmission(consumption)
	s.alone, s.local = true, true
	if !n.state.m.Born() {
		n.cfg.Log.Info("new data directory", "dir", n.cfg.Dir)
		g := format.Genesis{Level: 1, NameSeed: n.cfg.Rand.Uint64()}
		if n.cfg.Rand.Fill(g.Cluster[:]); !n.cfg.Cluster.IsZero() {
			g.Cluster = n.cfg.Cluster
		}
		n.cfg.Rand.Fill(g.HashKey[:])
		n.cfg.Rand.Fill(g.IDMask[:])
		s.buf.AddGenesis(&g)
	}
	s.buf.AddTerm(&format.TermCmd{Epoch: epoch})
	return s
}

// familiar refuses the directory of another cluster than the one that the configuration names.
func (n *Node) familiar() error {
	n.state.RLock()
	defer n.state.RUnlock()
	of := n.state.m.Genesis().Cluster
	if n.cfg.Cluster.IsZero() || !n.state.m.Born() || of == n.cfg.Cluster {
		return nil
	}
	return fmt.Errorf("engine: data directory %s belongs to cluster %s, not to %s", n.cfg.Dir, of, n.cfg.Cluster)
}

// identify takes over what Genesis fixed.
func (n *Node) identify() {
	n.state.RLock()
	defer n.state.RUnlock()
	g := n.state.m.Genesis()
	n.identity = identity{cluster: g.Cluster, hashKey: g.HashKey, mask: g.IDMask, group: n.seq.Group()}
}

// replica is this node's number in the raft group.
func (n *Node) replica() format.Replica {
	if n.cluster == nil {
		return localReplica
	}
	return n.cluster.self
}

// Alarm implements Peer.
func (n *Node) Alarm(what string, err error) { n.event(what, err) }

// Close implements Engine.
func (n *Node) Close(ctx context.Context) error {
	done := make(chan error, 1)
	go func() { done <- n.stop() }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return errContext(ctx, OutcomeUnknown)
	}
}

func (n *Node) stop() error {
	var err error
	n.stopOnce.Do(func() {
		n.ready.Store(false)
		close(n.stopping)
		n.park.close()
		if n.ephemeral != nil { // else it never opened
			n.ephemeral.close()
		}
		if n.cluster != nil {
			ctx, cancel := n.withTimer(context.Background(), leaveWithin)
			n.cluster.seq.Leave(ctx)
			cancel()
			n.cluster.leave()
		}
		n.house.stop()
		n.timers.stop()
		n.redrives.stop()
		err = n.files.stop()
		n.fuser.close()
		n.background.Wait()
		err = errors.Join(err, n.seq.Close(), n.files.close())
		if n.lock != nil {
			n.lock.Close()
		}
	})
	return err
}

// leaveWithin bounds how long a node that stops looks for another one to lead.
const leaveWithin = time.Second

// closing reports that the node stops or was killed: what fails then is nobody's fault.
func (n *Node) closing() bool {
	if n.killed.Load() {
		return true
	}
	select {
	case <-n.stopping:
		return true
	default:
		return false
	}
}

// Status implements Engine.
func (n *Node) Status(ctx context.Context) (Status, error) {
	st := Status{Role: "leader", Ready: n.ready.Load() && !n.closing(), Phase: "running", Progress: 1,
		StorageFull: n.diskFull(), Format: format.EntryVersion}
	n.state.RLock()
	st.Term, st.Applied, st.Cluster = n.state.m.Epoch(), n.state.m.Applied(), n.state.m.Genesis().Cluster
	n.state.RUnlock()
	st.Durable, st.Commit = st.Applied, st.Applied
	st.IOMode = n.seq.Log().Stats().Mode
	st.CanWrite, st.Quorum = st.Ready && !st.StorageFull, st.Ready
	switch {
	case n.closing():
		st.Role, st.Why, st.Phase = "stopped", "the node is shutting down", "stopping"
	case !st.Ready:
		st.Why, st.Phase = "the log is being replayed", "replay"
		if total := n.replay.total.Load(); total > 0 {
			st.Progress = float64(n.replay.done.Load()) / float64(total)
		}
	case st.StorageFull:
		st.Why = n.whyFull() + ": pushes are refused"
	}
	if n.cluster != nil {
		n.cluster.status(ctx, &st)
	}
	if n.stamp != nil {
		st.ClockStep = n.stamp.step()
	}
	return st, nil
}

// withTimer is a context that ends after d of the node's own clock.
func (n *Node) withTimer(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	t := n.cfg.Clock.AfterFunc(d, cancel)
	return ctx, func() { t.Stop(); cancel() }
}

// event reports something an operator should know; never called per message.
func (n *Node) event(what string, err error) { n.cfg.Log.Warn("engine "+what, "err", err) }

// diskFull reports that the disk gate is closed, here or at another node that votes: what is committed grows the disks of all, and
// when a majority's are full nothing is committed any more, also nothing that makes room.
func (n *Node) diskFull() bool { return n.full.Load() || n.voterFull.Load() }

// storageFull reports that nothing that grows storage is taken.
func (n *Node) storageFull() bool { return n.diskFull() || n.seq.Log().PoolLow() }

func (n *Node) whyFull() string {
	if !n.full.Load() && n.voterFull.Load() {
		return "the disk of another node of the cluster is above its high mark"
	}
	return "the disk is above its high mark"
}

// admitWrite takes write admission and passes the disk gate.
func (n *Node) admitWrite(ctx context.Context, bytes int64) *Error {
	if n.storageFull() {
		n.counters.storageRefused.Add(1)
		return &Error{Code: CodeStorageFull, Message: n.whyFull() + "; acks and deletes still work"}
	}
	err := n.writes.acquire(ctx, bytes, n.cfg.AdmitHold)
	if err != nil && err.Code == CodeOverloaded {
		n.counters.overloaded.Add(1)
	}
	return err
}

// Kill ends the node as a crash would, as far as that is possible inside a process: nothing more is
// written, calls under way fail, and what was not flushed is lost. For tests on a file system whose
// power is off, or that is not used again.
func (n *Node) Kill() {
	if !n.killed.Swap(true) { // a stop that is under way comes to its end by this
		n.fuser.close()
		if seq, ok := n.seq.(interface{ Kill() }); ok {
			seq.Kill()
		}
		if n.cluster != nil {
			n.cluster.leave()
		}
		n.abandon()
	}
	n.stopOnce.Do(func() {
		n.ready.Store(false)
		close(n.stopping)
		n.park.close()
		n.ephemeral.close()
		n.files.kill()
	})
}

// abandon answers whoever waits for an entry of a killed node: what became of it is not known.
func (n *Node) abandon() {
	for _, s := range append(n.flights.drain(), n.fuser.drain()...) {
		s.finish(&Error{Code: CodeClosed, Outcome: OutcomeUnknown, Message: "the node was killed"})
	}
}
