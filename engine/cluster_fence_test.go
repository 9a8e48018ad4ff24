package engine

import (
	"context"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"queen/engine/clock"
	"queen/engine/format"
)

func fakeClock() *clock.Fake { return clock.NewFake(1_700_000_000_000_000) }

// underWay are the requests handed over and the entries proposed that are not applied.
func underWay(n *Node) int {
	n.cluster.mu.Lock()
	defer n.cluster.mu.Unlock()
	n.flights.mu.Lock()
	defer n.flights.mu.Unlock()
	return len(n.cluster.mu.out) + len(n.flights.mu.byFuse)
}

// Goal: a Term that is applied before this node is told who leads ends the epoch before it at once. What is brought under way after
// that, by who had looked who leads before, waits for the next leader, in order; it used to wait for the next election.
func TestHandedOverAfterTheEpochEnded(t *testing.T) {
	n, s := solo(t, fakeClock(), nil)
	s.other(t, n, 4)
	n.Follow(3, 4)
	s.other(t, n, 6)
	leader, _, _ := n.cluster.role()
	require.Zero(t, leader, "the epoch is over, and its leader is believed in")

	subs := calls(3)
	n.cluster.proposing.Lock()
	require.NoError(t, n.cluster.handOver(3, 4, subs))
	n.cluster.proposing.Unlock()
	require.Zero(t, underWay(n))

	n.Follow(3, 4) // told late
	leader, _, _ = n.cluster.role()
	require.Zero(t, leader)
	n.Follow(5, 6)
	for _, want := range subs {
		h := s.next(t)
		require.Equal(t, format.Replica(5), h.Leader)
		require.Equal(t, format.Term(6), h.Epoch)
		n.cluster.mu.Lock()
		got := n.cluster.mu.out[h.Request].s
		n.cluster.mu.Unlock()
		require.Same(t, want, got, "out of order")
	}
	s.other(t, n, 7) // and these wait for nobody else
	n.Follow(0, 8)
	go n.Lead(8)
	for _, sub := range subs {
		require.Nil(t, sub.wait(t.Context()))
	}
	require.Empty(t, s.handed)
}

// Goal: an epoch that ends while calls are being handed over finds all of them: they are handed to the next leader in order.
func TestEpochEndsWhileHandingOver(t *testing.T) {
	n, s := solo(t, fakeClock(), nil)
	s.other(t, n, 4)
	n.Follow(3, 4)
	s.forward = func(h Handover) {
		if h.Epoch == 4 {
			n.cluster.fence(6)
		}
	}
	subs := calls(3)
	n.cluster.proposing.Lock()
	require.NoError(t, n.cluster.handOver(3, 4, subs))
	n.cluster.proposing.Unlock()
	for range subs { // to who leads no more
		require.Equal(t, format.Term(4), s.next(t).Epoch)
	}
	require.Zero(t, underWay(n))
	n.Follow(5, 6)
	for _, want := range subs {
		h := s.next(t)
		n.cluster.mu.Lock()
		got := n.cluster.mu.out[h.Request].s
		n.cluster.mu.Unlock()
		require.Same(t, want, got, "out of order")
	}
	s.other(t, n, 7)
	n.Follow(0, 8)
	go n.Lead(8)
	for _, sub := range subs {
		require.Nil(t, sub.wait(t.Context()))
	}
}

// Goal: who led and has applied the Term of a later epoch proposes nothing under its own, takes nothing for it, and does no upkeep,
// though it was not told; what it was about to propose is applied under the next epoch, pops that wait among it.
func TestProposedAfterTheEpochEnded(t *testing.T) {
	n, s := solo(t, fakeClock(), nil)
	require.NoError(t, soloPush(t.Context(), n, "p"))
	s.other(t, n, 6)
	require.False(t, n.leading())
	require.ErrorIs(t, n.Accept(3, Handover{Epoch: 2, Request: 1, Commands: calls(1)[0].buf.AppendTo(nil)}), ErrNotLeader)

	subs := calls(2)
	n.cluster.proposing.Lock()
	require.NoError(t, n.cluster.bring(subs))
	n.cluster.proposing.Unlock()
	require.Zero(t, underWay(n))
	require.False(t, n.cluster.still(2))

	popped := make(chan error, 1)
	go func() {
		d, err := n.Pop(context.Background(), anyone, PopRequest{Scope: Scope{Queue: "q"}, Wait: time.Minute, Start: Start{Kind: format.StartAll}})
		if err == nil && d == nil {
			err = context.DeadlineExceeded
		}
		popped <- err
	}()
	n.Follow(0, 8)
	go n.Lead(8)
	for _, sub := range subs {
		require.Nil(t, sub.wait(t.Context()))
	}
	require.NoError(t, <-popped)
}

// Goal: the Term of an election that is over already is not proposed, and who was elected gives up.
func TestTermAfterTheEpochEnded(t *testing.T) {
	n, s := solo(t, fakeClock(), nil)
	s.other(t, n, 6)
	n.Follow(0, 4)
	n.Lead(4) // returns
	require.False(t, n.leading())
	require.False(t, n.cluster.commitTerm(4))
	require.False(t, n.cluster.takeLead(4))
	require.Zero(t, underWay(n))
	n.Follow(0, 7)
	n.Lead(7)
	require.NoError(t, soloPush(t.Context(), n, "p"))
}

// Goal: a read that waits for an entry of this node's to be applied looks again when the lead is lost, since that entry may never be;
// it used to wait until its caller gave up. No wait is left behind.
func TestReadsDoNotWaitForALostLead(t *testing.T) {
	c := fakeClock()
	n, s := solo(t, c, nil)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	set := &KV{Kind: KVPut, Namespace: "ns", Key: "k", Value: []byte("1"), Keep: time.Second}
	out, err := n.Do(ctx, anyone, Batch{Ops: []Op{set}})
	require.NoError(t, err)
	require.Nil(t, out[0].Err)
	s.lost.Store(true)
	n.fuser.submit(false, calls(1)[0])
	for underWay(n) == 0 {
		runtime.Gosched()
	}
	c.Advance(2 * time.Second) // the row's time is over, and the entry under way may still count it as live
	type answer struct {
		items []KVItem
		err   error
	}
	read := make(chan answer, 1)
	go func() {
		items, err := n.Keyed().KV(ctx, anyone, []KV{{Kind: KVGet, Namespace: "ns", Key: "k"}})
		read <- answer{items, err}
	}()
	for n.WaitingReads() == 0 && len(read) == 0 {
		runtime.Gosched()
	}
	n.Follow(3, 9)
	got := <-read
	require.NoError(t, got.err)
	require.True(t, got.items[0].Found, "a node that follows reads by the state's time")
	_, err = n.Keyed().KV(ctx, anyone, []KV{{Kind: KVPrefix, Namespace: "ns", Key: "k", Snapshot: SnapshotNew, Limit: 1}})
	require.NoError(t, err, "a snapshot of a node that follows waits for what it proposed when it led")
	require.Zero(t, n.WaitingReads())
	s.lost.Store(false)
}

// Goal: the first page of a snapshot of who just began to lead waits for nothing but its Term.
func TestSnapshotOfANewLeader(t *testing.T) {
	n, _ := solo(t, fakeClock(), nil)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	_, err := n.Keyed().KV(ctx, anyone, []KV{{Kind: KVPrefix, Namespace: "ns", Key: "k", Snapshot: SnapshotNew, Limit: 1}})
	require.NoError(t, err)
}

// Goal: who leads answers reads by itself for as long as nobody else can have been elected since a commit of its own, and else asks
// the cluster first: one that was stopped for a while and leads no more does not answer from what it knew. An entry that was
// committed in the term of another leader says nothing.
func TestALeaderThatWasNotTold(t *testing.T) {
	c := fakeClock()
	n, s := solo(t, c, func(s *soloSequencer) { s.lease.Store(250_000) })
	ctx := t.Context()
	reads := map[string]func() error{
		"pop": func() error {
			_, err := n.Pop(ctx, anyone, PopRequest{Scope: Scope{Queue: "q"}, Group: "g"})
			return err
		},
		"offsets": func() error {
			_, err := n.Records().RecordOffsets(ctx, anyone, []RecordOffsetQuery{{Queue: "q", Partition: "p", Kind: RecordLatest}})
			return err
		},
		"topics": func() error {
			_, _, err := n.Catalog().Topics(ctx, anyone, Page{Limit: 10})
			return err
		},
		"ack": func() error {
			_, err := n.Do(ctx, anyone, Batch{Ops: []Op{&Ack{Partition: 1, Unfenced: true, HasOffset: true, Status: format.AckCompleted}}})
			return err
		},
	}
	asks := func(why string, want bool) {
		t.Helper()
		for name, read := range reads {
			if name == "pop" || name == "ack" {
				continue // they commit something themselves
			}
			before := s.barriers.Load()
			require.NoError(t, read())
			require.Equal(t, want, s.barriers.Load() > before, "%s: %s", why, name)
		}
	}
	asks("nothing was committed", true)
	require.NoError(t, soloPush(ctx, n, "p"))
	asks("right after a commit", false)
	c.Advance(251 * time.Millisecond)
	asks("a while after it", true)
	s.cut.Store(true)
	for name, read := range reads {
		err, _ := read().(*Error)
		require.NotNil(t, err, name)
		require.Equal(t, CodeNoLeader, err.Code, name)
	}
	s.cut.Store(false)

	s.term.Store(9)
	require.NoError(t, soloPush(ctx, n, "p"))
	asks("a commit in another's term", true)
	s.term.Store(0)
	require.NoError(t, soloPush(ctx, n, "p"))
	s.lease.Store(0) // the lead was offered to another one
	asks("without a lease", true)
	s.lease.Store(250_000)
	asks("with one", false)
	s.other(t, n, 6)
	require.True(t, n.mayLag())
}

// Goal: a push waits for no round of the cluster's before it is proposed.
func TestPushesAskNobody(t *testing.T) {
	n, s := solo(t, fakeClock(), nil)
	before := s.barriers.Load()
	require.NoError(t, soloPush(t.Context(), n, "p"))
	require.Equal(t, before, s.barriers.Load())
}
