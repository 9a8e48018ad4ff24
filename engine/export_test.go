package engine

import (
	"context"
	"errors"
	"math"

	"queen/engine/format"
	"queen/engine/logstore"
)

// OpenGroup is OpenLocal as another raft group than the first one.
func OpenGroup(cfg Config, g format.RaftGroup) (*Node, error) {
	return OpenGroupOver(cfg, g, func(s Sequencer) Sequencer { return s })
}

// OpenGroupOver is OpenGroup over a sequencer that wraps the built-in one.
func OpenGroupOver(cfg Config, g format.RaftGroup, wrap func(Sequencer) Sequencer) (*Node, error) {
	return OpenWith(cfg, func(log *logstore.Store, fatal func(error)) (Sequencer, error) {
		return wrap(newLocalGroup(log, fatal, g)), nil
	})
}

// GroupOf finds, or decides, which group a tenant is in.
func (r *Router) GroupOf(ctx context.Context, t format.Tenant) (format.RaftGroup, error) {
	n, err := r.of(ctx, t)
	if err != nil {
		return 0, err
	}
	return n.seq.Group(), nil
}

// BoundTenants sets how many tenants there may be.
func (r *Router) BoundTenants(most int) { r.tenantsMost = most }

// ErrPlace is the error of a call whose tenant could not be placed.
func ErrPlace(err error) error { return errPlace(err) }

// Add adds what another group counted.
func (s *Stats) Add(o *Stats) { s.add(o) }

// Quoted reports whether jobs are held to plans.
func (n *Node) Quoted() bool { return n.redrives.quotas.Load() != nil }

// MembershipOfGroups is the cluster of several raft groups.
func MembershipOfGroups(first Membership, others ...Membership) Membership {
	return routedMembership{first, others}
}

// MarkState ends the chunk and returns what a replica would compare: number, chain hash and state
// digest of the Mark.
func (n *Node) MarkState() format.ManifestMark {
	n.house.markNow()
	return n.files.lastMark()
}

// Unpaced has relocation and compaction never pause, for tests that stop the clock and move much.
func Unpaced(c *Config) { c.pace = 1 << 40 }

// Compacted tells up to where a partition is compacted; 0 while something is new in it. No pass is under way.
func (n *Node) Compacted(queue, partition string) format.Offset {
	part, _, _ := n.partByName(format.DefaultTenant, queue, partition)
	for i := range n.files.mover.compactor.queues {
		for _, p := range n.files.mover.compactor.queues[i].parts {
			if p.id == part.id && p.new == 0 {
				return p.looked
			}
		}
	}
	return 0
}

// Idle waits until the files' goroutine has nothing left to do: the test stops it and does its turns.
func (n *Node) FilesTurn() error { return n.files.turn() }

// SettleFiles waits until the files' goroutine and a pass of the mover have done what is due.
func (n *Node) SettleFiles() { n.files.settle() }

// LogReplica is what the log knows of the node's replica.
func (n *Node) LogReplica() (logstore.ReplicaState, bool) {
	return n.seq.Log().Replica(n.seq.Group(), n.replica())
}

// LogSegments are the segments of the commit stream and the bulk segments, as the store describes them.
func (n *Node) LogSegments() (log, bulks []logstore.SegmentInfo) {
	return n.seq.Log().Segments(), n.seq.Log().Bulks()
}

// Positions are the checkpoints that the manifest names, newest first.
func (n *Node) Positions() []format.ManifestCheckpoint { return n.files.group().Checkpoints }

// FirstSegment is the oldest segment of the log.
func (n *Node) FirstSegment() uint32 { return n.seq.Log().Segments()[0].Segment }

// Resident is how many ids of messages the state holds, and how many leases the table of ids handed out.
func (n *Node) Resident() (ids, leases int) {
	n.state.RLock()
	ids = int(n.state.m.Counters().RecentIDs)
	n.state.RUnlock()
	n.delivered.mu.Lock()
	defer n.delivered.mu.Unlock()
	return ids, len(n.delivered.mu.leases)
}

// Applied is the newest entry applied.
func (n *Node) Applied() format.Index {
	n.state.RLock()
	defer n.state.RUnlock()
	return n.state.m.Applied()
}

// Waiting is how many submissions are in no entry yet: of callers, and of the node's own.
func (n *Node) Waiting() (calls, own int) {
	n.fuser.mu.Lock()
	defer n.fuser.mu.Unlock()
	for _, queue := range n.fuser.mu.pending {
		for _, s := range queue {
			if s.local {
				own++
			} else {
				calls++
			}
		}
	}
	return calls, own
}

// WaitingReads is how many reads wait for entries that are under way.
func (n *Node) WaitingReads() int {
	n.flights.mu.Lock()
	defer n.flights.mu.Unlock()
	return len(n.flights.mu.waits)
}

// BoundPending has one transaction hold no more positions, and bytes of them.
func (n *Node) BoundPending(positions, bytes int) { n.inTxnMost = pendingBounds{positions, bytes} }

// BoundTxnShare makes the room for partitions of transactions, of which tenants have shares, smaller.
func (n *Node) BoundTxnShare(most int) { n.txnShare = txnShare{most} }

// BoundAborts has one entry of retention forget no more aborted ranges.
func (n *Node) BoundAborts(most uint32) {
	n.house.retaining.Lock()
	defer n.house.retaining.Unlock()
	n.house.abortsMost = most
}

// AbortedRanges counts those of a queue that the state knows.
func (n *Node) AbortedRanges(queue string) int {
	n.state.RLock()
	defer n.state.RUnlock()
	q, _ := n.state.m.QueueByName(format.DefaultTenant, queue)
	return int(n.state.m.OldAborts(q.ID, math.MaxInt64, math.MaxUint32))
}

// ReadFires says how many of the timers that are due are fired together, which of those are put off since they could not be read, and how
// many were read for that. Each has the size of its frame, below 0 for one that can not be read.
func ReadFires(sizes []int) (due int, off []int, read int) {
	b := fireRun{due: make([]pendingTimer, len(sizes))}
	b.read(func(p *pendingTimer) error {
		n := sizes[read]
		if read++; n < 0 {
			return errors.New("damaged")
		}
		p.row.Frame = make([]byte, n)
		return nil
	})
	for _, o := range b.off {
		off = append(off, o.timer)
	}
	return len(b.due), off, read
}

// RedrivesDone waits until no redrive job is under way.
func (n *Node) RedrivesDone() { n.redrives.done.Wait() }

// Surplus is the offset up to which a partition holds more than limit bytes; 0 when it does not.
func (n *Node) Surplus(queue, partition string, limit int64) format.Offset {
	part, _, _ := n.partByName(format.DefaultTenant, queue, partition)
	var z sizes
	z.begin()
	upto, err := z.surplus(n, &part, limit)
	if err != nil {
		panic(err)
	}
	return upto
}

// FetchCommitted is a Fetch of what is decided, with something that happens after frames are read and before it is asked
// what of them was aborted. native are the offsets that a native reader finds in the same rows after that.
func (n *Node) FetchCommitted(c Caller, at FetchAt, between func()) (out Fetched, native []format.Offset, err error) {
	f := newFetching(n, at.MaxBytes)
	part, code := f.look(c, &at)
	if code != format.CodeOK {
		return out, nil, errOfCode(code)
	}
	found, err := n.rows.Range(part.id, at.Offset, part.stable, part.newest)
	if err != nil {
		return out, nil, err
	}
	at.Committed = true
	f.add(&at, part.span(at.Offset, part.stable), &out)
	if err := f.rounds(context.Background()); err != nil {
		return out, nil, err
	}
	if err := f.spans[0].err; err != nil {
		return out, nil, err
	}
	between()
	f.aborted(&f.spans[0])
	for i := range found {
		err = f.reader.walk(&found[i], at.Offset, part.stable, func(r *Record) bool {
			native = append(native, r.Offset)
			return true
		})
		if err != nil {
			return out, nil, err
		}
	}
	return out, native, nil
}
