package engine

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"queen/engine/clock"
	"queen/engine/format"
	"queen/engine/logstore"
	"queen/engine/vfs"
)

// soloSequencer is a Replicated over the log of a single node: what it proposes is committed in the term of its epoch, and the test
// says who leads, what the others' clocks and disks are, and what is lost.
type soloSequencer struct {
	*Local
	Applier
	proposing sync.Mutex
	peer      Peer

	mu      sync.Mutex
	applied sync.Cond
	epoch   format.Term // of the newest entry applied

	handed   chan Handover
	forward  func(Handover) // before it is handed over
	lost     atomic.Bool    // proposals vanish
	term     atomic.Uint64  // of the log, instead of the entry's epoch
	barriers atomic.Int64
	cut      atomic.Bool  // nobody answers
	median   atomic.Int64 // of the voters' clocks; 0 is not known
	full     atomic.Bool  // another voter's disk is
	lease    atomic.Int64 // in microseconds
}

func (s *soloSequencer) Self() format.Replica { return 2 }
func (s *soloSequencer) Prompt() bool         { return false }
func (s *soloSequencer) Stuck() time.Duration { return 0 }
func (s *soloSequencer) Leave(context.Context) {
	s.lost.Store(true)
}
func (s *soloSequencer) VoterFull() bool { return s.full.Load() }
func (s *soloSequencer) Lease() time.Duration {
	return time.Duration(s.lease.Load()) * time.Microsecond
}

func (s *soloSequencer) VotersClock() (format.Wall, bool) {
	at := s.median.Load()
	return format.Wall(at), at != 0
}

func (s *soloSequencer) Barrier(context.Context) error {
	s.barriers.Add(1)
	if s.cut.Load() {
		return context.DeadlineExceeded
	}
	return nil
}

func (s *soloSequencer) Forward(h Handover) {
	if s.forward != nil {
		s.forward(h)
	}
	s.handed <- h
}

func (s *soloSequencer) Start(a Applier, applied format.Index) (format.Term, error) {
	s.Applier = a
	return s.Local.Start(s, applied)
}

func (s *soloSequencer) Apply(c Committed) (Applied, error) {
	e, err := format.ParseEntryHead(c.Data)
	if err != nil {
		return Applied{}, err
	}
	c.Term = e.Header.Epoch
	if t := s.term.Load(); t != 0 {
		c.Term = format.Term(t)
	}
	out, err := s.Applier.Apply(c)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.epoch = max(s.epoch, e.Header.Epoch)
	s.applied.Broadcast()
	return out, err
}

func (s *soloSequencer) Propose(p *Proposal) error {
	if s.lost.Load() {
		return nil
	}
	s.proposing.Lock()
	defer s.proposing.Unlock()
	own := *p
	own.Wait = false
	return s.Local.Propose(&own)
}

func (s *soloSequencer) Join(p Peer) error {
	s.peer = p
	s.peer.Follow(0, 2)
	go s.peer.Lead(2)
	return nil
}

// solo is such a node that leads epoch 2.
func solo(t *testing.T, c clock.Clock, with func(*soloSequencer)) (*Node, *soloSequencer) {
	t.Helper()
	s := &soloSequencer{handed: make(chan Handover, 64)}
	s.applied.L = &s.mu
	if with != nil {
		with(s)
	}
	n, err := OpenWith(Config{FS: vfs.NewMem(), Clock: c, Rand: clock.NewFakeRand(1), Dir: "data", SegmentBytes: 1 << 20, PoolReady: 1,
		SweepEvery: 100 * 365 * 24 * time.Hour, Fatal: func(err error) { panic(err) }},
		func(log *logstore.Store, fatal func(error)) (Sequencer, error) {
			s.Local = NewLocal(log, fatal)
			return s, nil
		})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, n.Close(context.Background())) })
	s.leads(n)
	return n, s
}

// leads waits until the node leads.
func (s *soloSequencer) leads(n *Node) {
	for {
		leads, changed := n.role()
		if leads {
			return
		}
		<-changed
	}
}

// other has another node commit the Term of an epoch, and returns once it is applied here.
func (s *soloSequencer) other(t *testing.T, n *Node, epoch format.Term) {
	t.Helper()
	n.state.RLock()
	h := format.EntryHeader{Epoch: epoch, T: n.state.m.T(), W: n.state.m.W(), Fuse: 1}
	n.state.RUnlock()
	sub := newSubmission(consumption)
	sub.buf.AddTerm(&format.TermCmd{Epoch: epoch})
	var e format.EntryBuilder
	e.Begin(h)
	e.Add(sub.buf)
	require.NoError(t, s.Propose(&Proposal{Head: e.Head(nil), Header: h}))
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.epoch < epoch {
		s.applied.Wait()
	}
}

// next is what is handed over next.
func (s *soloSequencer) next(t *testing.T) Handover {
	t.Helper()
	select {
	case h := <-s.handed:
		return h
	case <-time.After(20 * time.Second):
		t.Fatal("nothing is handed over")
	}
	return Handover{}
}

// calls are the submissions of so many calls, each of one Tick.
func calls(n int) (subs []*submission) {
	for range n {
		s := newSubmission(consumption)
		s.buf.AddTick()
		subs = append(subs, s)
	}
	return subs
}

var anyone = Caller{Tenant: format.DefaultTenant}

func soloPush(ctx context.Context, n *Node, partition string) error {
	out, err := n.Do(ctx, anyone, Batch{Ops: []Op{&Append{Queue: "q", Partition: partition, Messages: []Message{{Payload: []byte("{}")}}}}})
	if err != nil {
		return err
	}
	if out[0].Messages[0].Err != nil {
		return out[0].Messages[0].Err
	}
	return nil
}
