package engine

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"queen/engine/format"
)

// cluster is what a node does beyond a single one: it leads or follows. Who leads proposes; who follows hands what its
// callers want to the leader, and completes them itself when its own apply comes to it.
//
// A call applies once however often the leader changes: an entry bears the epoch of who proposed it, and apply refuses
// every entry whose epoch is over. So when the Term of a later epoch is applied here, what was proposed or handed
// over under an earlier one and is not applied never will be, and is proposed anew.
//
// INVARIANT: a call is under way under one epoch at a time, and goes to the next only through fence
// (replication's TestLeaderChangesUnderLoad).
type cluster struct {
	n    *Node
	seq  Replicated
	self format.Replica

	// proposing is held while entries are packed and proposed, or handed over; acquired before mu and the fuser's.
	proposing sync.Mutex
	born      chan struct{} // closed when Genesis is applied
	isBorn    bool          // the apply goroutine's
	origin    format.Origin // likewise
	epoch     format.Term   // likewise: of the newest Term applied
	leads     atomic.Uint64 // the epoch this node leads with its Term applied; 0 when it does not
	sure      atomic.Int64  // monotonic time of the newest proposal that was committed in that epoch; 0 for none
	probe     probe

	mu struct {
		sync.Mutex
		closed  bool
		leader  format.Replica // 0: not known
		epoch   format.Term    // of leader
		fenced  format.Term    // nothing is under way under an epoch below it
		changed chan struct{}  // closed at the next change
		since   int64          // monotonic time since which there is no leader; 0: there is one
		out     map[uint64]handed
		next    uint64 // request numbers
	}
}

// handed is a submission that another node proposes.
type handed struct {
	s     *submission
	epoch format.Term
}

// noLeaderAfter is how long a cluster may be without a leader before calls are refused at once: an election takes less.
const noLeaderAfter = 5 * time.Second

// Errors of the inside; callers never see them.
var (
	errLeft   = errors.New("engine: the node has left its cluster")
	errClock  = errors.New("engine: the wall clock is ahead of the log's time, and those of the other nodes are not known: not followed")
	errNotNow = &Error{Code: CodeRetry, RetryAfter: time.Second, Message: "the node does not lead any more"}
)

// ErrNotLeader refuses commands of other nodes: this node does not lead the epoch they were meant for.
var ErrNotLeader = errors.New("engine: this node does not lead that epoch")

func newCluster(n *Node, seq Replicated) *cluster {
	c := &cluster{n: n, seq: seq, self: seq.Self(), born: make(chan struct{})}
	c.mu.changed, c.mu.out = make(chan struct{}), map[uint64]handed{}
	// Numbers of an earlier life are in the log, and replicas may come to them late.
	c.mu.next = n.cfg.Rand.Uint64()
	c.mu.since = n.cfg.Clock.Mono()
	return c
}

// join makes a node over a replicated sequencer take part, and returns once it knows the cluster's identity. A new
// node waits for its cluster to form.
func (n *Node) join(seq Replicated) error {
	c := n.cluster
	if n.state.m.Born() {
		c.applied()
	}
	if err := seq.Join(n); err != nil {
		select {
		case <-n.cfg.Quit:
			return errClosed()
		default:
			return err
		}
	}
	select {
	case <-c.born:
		return nil
	case <-n.cfg.Quit:
		return errClosed()
	}
}

// leading reports whether this node proposes on its own account: upkeep is the leader's.
func (n *Node) leading() bool { return n.cluster == nil || n.cluster.leads.Load() != 0 }

// mayLag reports that this node's state may be behind what others were told. Who leads may not have been told yet that another one
// does: it is sure for as long after a commit of its own as nobody else can have been elected.
func (n *Node) mayLag() bool {
	c := n.cluster
	if c == nil {
		return false
	}
	at := c.sure.Load()
	return c.leads.Load() == 0 || at == 0 ||
		time.Duration(n.cfg.Clock.Mono()-at)*time.Microsecond >= c.seq.Lease()
}

// role reports whether this node proposes, and a channel that is closed when that may have changed; nil on a single node.
func (n *Node) role() (leads bool, changed <-chan struct{}) {
	if n.cluster == nil {
		return true, nil
	}
	leader, _, changed := n.cluster.role()
	return leader == n.cluster.self, changed
}

// setRole notes who leads, and that this node does not. It wakes who waits for a leader.
func (c *cluster) setRole(leader format.Replica, epoch format.Term) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if epoch < c.mu.fenced {
		leader = 0 // told late: another one has led since
	}
	c.setRoleLocked(leader, epoch)
}

func (c *cluster) setRoleLocked(leader format.Replica, epoch format.Term) {
	c.mu.leader, c.mu.epoch = leader, epoch
	c.leads.Store(0)
	c.sure.Store(0)
	switch {
	case leader != 0:
		c.mu.since = 0
	case c.mu.since == 0:
		c.mu.since = max(c.n.cfg.Clock.Mono(), 1)
	}
	c.changeLocked()
}

func (c *cluster) changeLocked() {
	close(c.mu.changed)
	c.mu.changed = make(chan struct{})
}

// role reads who leads and a channel that is closed when that changes.
func (c *cluster) role() (leader format.Replica, epoch format.Term, changed <-chan struct{}) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.mu.leader, c.mu.epoch, c.mu.changed
}

// Follow implements Peer.
func (n *Node) Follow(leader format.Replica, epoch format.Term) { n.cluster.setRole(leader, epoch) }

// Lead implements Peer: it commits this node's Term, and leads from then on.
func (n *Node) Lead(epoch format.Term) {
	c := n.cluster
	for c.still(epoch) {
		ctx, cancel := n.withTimer(context.Background(), time.Second)
		err := c.seq.Barrier(ctx) // all that earlier leaders committed is applied
		cancel()
		if err == nil && c.awaitClock(epoch) && c.commitTerm(epoch) && c.takeLead(epoch) {
			n.house.poke()
			n.timers.poke()
			n.redrives.poke()
			return
		}
	}
}

// clockWithin bounds how long a node that was elected waits for the voters' clocks, clockEvery is between its looks.
const (
	clockWithin = 3 * time.Second
	clockEvery  = 100 * time.Millisecond
)

// votersClock is what the stamps ask for the clocks of the others; nil on a single node.
func (n *Node) votersClock() func() (format.Wall, bool) {
	if n.cluster == nil {
		return nil
	}
	return n.cluster.seq.VotersClock
}

// awaitClock waits a moment until the voters' clocks are known, where the calendar time of the Term hangs on them: after a start,
// before the first round of the census. It reports whether this node is still about to lead.
func (c *cluster) awaitClock(epoch format.Term) bool {
	n := c.n
	n.state.RLock()
	w := n.state.m.W()
	n.state.RUnlock()
	for end := n.cfg.Clock.Mono() + clockWithin.Microseconds(); n.stamp.unsure(w); {
		if n.cfg.Clock.Mono() >= end {
			n.event("clock", errClock)
			break
		}
		_, _, changed := c.role()
		if !c.still(epoch) {
			return false
		}
		t := n.cfg.Clock.NewTimer(clockEvery)
		select {
		case <-t.C():
		case <-changed:
		}
		t.Stop()
	}
	return true
}

// takeLead is setRole for who was elected, unless another role came meanwhile.
func (c *cluster) takeLead(epoch format.Term) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.stillLocked(epoch) {
		return false
	}
	c.mu.leader, c.mu.since = c.self, 0
	c.sure.Store(0)
	c.leads.Store(uint64(epoch))
	c.changeLocked()
	return true
}

// still reports that no other role was taken since this node was elected, and nobody else has led since.
func (c *cluster) still(epoch format.Term) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.stillLocked(epoch)
}

func (c *cluster) stillLocked(epoch format.Term) bool {
	return !c.mu.closed && c.mu.epoch == epoch && c.mu.leader == 0 && epoch >= c.mu.fenced
}

// commitTerm proposes the Term of an epoch, with Genesis in a group that has none, and reports whether it was accepted. An
// entry of the leader before may still come between; then its stamps are too old, and it is proposed again.
func (c *cluster) commitTerm(epoch format.Term) bool {
	n := c.n
	s := n.termSubmission(epoch)
	c.proposing.Lock()
	_, _, changed := c.role()
	// A later election may have come since the caller looked, and its Term is made under proposing as well.
	if !c.still(epoch) || !n.stamp.lead(epoch) {
		c.proposing.Unlock()
		return false
	}
	n.state.RLock()
	t, w := n.state.m.T(), n.state.m.W()
	n.state.RUnlock()
	n.stamp.take(t, w)
	n.flights.restart()
	p := n.pack([]*submission{s})
	if p == nil {
		c.proposing.Unlock()
		return false
	}
	err := n.seq.Propose(p)
	c.proposing.Unlock()
	if err != nil {
		return false
	}
	select {
	case <-s.done:
		if s.err == nil { // nobody else proposes yet
			n.flights.land(s.flight.header.Fuse)
		}
		return s.err == nil
	case <-changed:
		return false
	}
}

// propose makes the next entry of what waits if this node leads, or hands it to the leader; without one it waits.
func (c *cluster) propose() error {
	for {
		leader, epoch, changed := c.role()
		if leader == 0 {
			if c.left() {
				return errLeft
			}
			<-changed
			continue
		}
		c.proposing.Lock()
		if l, e, _ := c.role(); l != leader || e != epoch {
			c.proposing.Unlock()
			continue
		}
		defer c.proposing.Unlock()
		subs := c.take(leader == c.self, epoch)
		if len(subs) == 0 {
			return nil
		}
		if leader != c.self {
			return c.handOver(leader, epoch, subs)
		}
		return c.bring(subs)
	}
}

// bring makes an entry of submissions and proposes it, unless this node's epoch ended meanwhile: then they wait for the next.
func (c *cluster) bring(subs []*submission) error {
	subs = append(subs, c.n.riders(subs)...)
	if p := c.n.pack(subs); p != nil {
		return c.n.seq.Propose(p)
	}
	c.again(subs)
	return nil
}

// take removes submissions from the fuser that this node may bring under way. What others handed over for an epoch that
// is over is theirs again; what only the leader proposes on its own account is given up by who does not lead.
func (c *cluster) take(leads bool, epoch format.Term) []*submission {
	subs := c.n.fuser.take()
	return slices.DeleteFunc(subs, func(s *submission) bool {
		switch {
		case s.from.node != 0:
			return !leads || s.from.epoch != epoch
		case s.local && !leads:
			s.finish(errNotNow)
			return true
		}
		return false
	})
}

// handOver hands submissions to the leader. One that can not be handed over is under way all the same: only the next
// epoch tells. They come to be under way at once, so that the end of the epoch finds all of them, in order, or none: when it
// came before, they wait for the next leader.
func (c *cluster) handOver(leader format.Replica, epoch format.Term, subs []*submission) error {
	c.mu.Lock()
	if epoch < c.mu.fenced {
		c.mu.Unlock()
		c.again(subs)
		return nil
	}
	request := c.mu.next
	for _, s := range subs {
		s.count = s.buf.Count
		c.mu.out[c.mu.next] = handed{s, epoch}
		c.mu.next++
	}
	c.mu.Unlock()
	for _, s := range subs {
		c.seq.Forward(Handover{Leader: leader, Epoch: epoch, Request: request, Writing: s.class == writing, Commands: s.buf.AppendTo(nil)})
		request++
	}
	return nil
}

// Accept implements Peer: commands that another node handed over join the next entry.
func (n *Node) Accept(from format.Replica, h Handover) error {
	c := n.cluster
	if format.Term(c.leads.Load()) != h.Epoch {
		return ErrNotLeader
	}
	s := newSubmission(consumption)
	if h.Writing {
		s.class = writing
	}
	s.buf = new(format.CommandBuf)
	if err := errors.Join(s.buf.Parse(h.Commands)); err != nil {
		return err
	}
	if err := s.buf.Validate(); err != nil {
		return err
	}
	if err := n.fuser.holds(s); err != nil {
		return err
	}
	s.from = contributor{node: from, request: h.Request, epoch: h.Epoch}
	s.applied = func(s *submission) { // its node completes it
		if s.err == nil {
			s.flight.release()
		}
	}
	n.fuser.submit(false, s)
	return nil
}

// errUnread answers a call whose commands the leader can not read, or put into an entry: its code is another one, or its segments are.
var errUnread = &Error{Code: CodeInternal, Message: "the leader can not take what this node handed over for the call: the nodes run different " +
	"versions, or have log segments of different sizes"}

// Refused implements Peer: nothing of the call was applied.
func (n *Node) Refused(request uint64) {
	c := n.cluster
	c.mu.Lock()
	h, ok := c.mu.out[request]
	delete(c.mu.out, request)
	c.mu.Unlock()
	if ok {
		h.s.finish(errUnread)
	}
}

// origins is the command that tells nodes which commands of the next entry are theirs, nil when it holds this node's only.
func (n *Node) origins(subs []*submission) *format.CommandBuf {
	var o format.Origin
	first, ordinal := 1, format.Ordinal(1)
	for _, s := range subs {
		if s.from.node != 0 {
			o.Parts = append(o.Parts, format.OriginPart{Node: s.from.node, Request: s.from.request,
				First: uint32(first), Count: uint32(s.buf.Count), Ordinal: ordinal})
		}
		first, ordinal = first+s.buf.Count, ordinal+s.buf.Ordinals
	}
	if len(o.Parts) == 0 {
		return nil
	}
	b := new(format.CommandBuf)
	b.AddOrigin(&o)
	return b
}

// attach finds this node's callers among the commands of an entry that another node proposed. It runs in the apply
// goroutine before the entry is applied.
func (c *cluster) attach(e *format.Entry, fl *flight) {
	r := e.Reader()
	if !r.Next() || r.Kind() != format.KindOrigin || r.Origin(&c.origin) != nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := range c.origin.Parts {
		p := &c.origin.Parts[i]
		h, ok := c.mu.out[p.Request]
		if p.Node != c.self || !ok {
			continue
		}
		delete(c.mu.out, p.Request)
		h.s.flight, h.s.first, h.s.count, h.s.ordinal = fl, int(p.First), int(p.Count), p.Ordinal
		fl.subs = append(fl.subs, h.s)
		fl.users.Add(1)
	}
}

// leave ends taking part: nothing is proposed any more, and what is under way is answered as unknown.
func (c *cluster) leave() {
	c.mu.Lock()
	c.mu.closed = true
	c.mu.leader = 0
	c.leads.Store(0)
	c.changeLocked()
	c.mu.Unlock()
	c.proposing.Lock() // nobody is half-way through bringing something under way
	defer c.proposing.Unlock()
	c.mu.Lock()
	subs := make([]*submission, 0, len(c.mu.out))
	for _, h := range c.mu.out {
		subs = append(subs, h.s)
	}
	clear(c.mu.out)
	c.mu.Unlock()
	c.n.fuser.close()
	for _, s := range append(subs, c.n.flights.drain()...) {
		s.finish(&Error{Code: CodeClosed, Outcome: OutcomeUnknown, Message: "the node is shutting down"})
	}
}

func (c *cluster) left() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.mu.closed
}

// refuse is not nil when there has been no leader for longer than an election takes.
func (c *cluster) refuse() *Error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.mu.since == 0 || time.Duration(c.n.cfg.Clock.Mono()-c.mu.since)*time.Microsecond < noLeaderAfter {
		return nil
	}
	return &Error{Code: CodeNoLeader, RetryAfter: time.Second, Message: "the cluster has no leader: too few of its nodes reach each other"}
}

// refuseCall is refuse for a call that has to be proposed: who leads may be heard, and take nothing from here.
func (c *cluster) refuseCall() *Error {
	if err := c.refuse(); err != nil || c.seq.Stuck() < noLeaderAfter {
		return err
	}
	return &Error{Code: CodeNoLeader, RetryAfter: time.Second, Message: whyStuck}
}

// catchUp returns once everything that anybody was told before the call is applied here.
func (n *Node) catchUp(ctx context.Context) *Error {
	if n.cluster == nil {
		return nil
	}
	if err := n.cluster.refuse(); err != nil {
		return err
	}
	ctx, cancel := n.withTimer(ctx, noLeaderAfter)
	defer cancel()
	if err := n.cluster.seq.Barrier(ctx); err != nil {
		if n.closing() {
			return errClosed()
		}
		return &Error{Code: CodeNoLeader, RetryAfter: time.Second, Cause: err,
			Message: "this node can not make sure that it is up to date"}
	}
	return nil
}
