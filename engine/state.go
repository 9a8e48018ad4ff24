package engine

import (
	"queen/engine/format"
	"queen/engine/machine"
)

// partView is a partition as readers need it: a copy of the state at one instant.
type partView struct {
	machine.Partition
	id        format.PartitionID
	tenant    format.Tenant
	queueName string
	name      string
	next      format.Offset
	stable    format.Offset // what lies above waits for the end of a transaction
	start     format.Offset // explicit log start; see Node.logStart for the real one
	cutoff    format.Wall
	lastW     format.Wall
	newest    uint64
	ttl       int64
	timeAhead format.Wall // of the queue
}

// tail is where readers of messages find the end: what lies above is not decided.
func (p *partView) tail() format.Offset { return max(p.stable, p.start) }

// span is the partition's offsets [from, to), with what makes messages of it undeliverable.
func (p *partView) span(from, to format.Offset) span {
	return span{pid: p.id, from: max(from, p.start), to: to, newest: p.newest, cutoff: p.cutoff, ttl: p.ttl}
}

func newPartView(p machine.Partition, q *machine.Queue) partView {
	v := partView{Partition: p, id: p.ID, tenant: q.Tenant, queueName: q.Name, name: p.Name, next: p.Next, stable: p.Stable,
		start: p.Trim, cutoff: p.Cutoff, lastW: p.LastAppend, newest: p.NewestRow, timeAhead: q.TimeAhead}
	if q.Options.Set&format.OptTTL != 0 {
		v.ttl = q.Options.TTL * 1e6
	}
	return v
}

// partByName finds a partition; queueExists tells an unknown queue from an unwritten partition.
func (n *Node) partByName(t format.Tenant, queue, partition string) (part partView, queueExists, ok bool) {
	n.state.RLock()
	defer n.state.RUnlock()
	q, queueExists := n.state.m.QueueByName(t, queue)
	if !queueExists {
		return partView{}, false, false
	}
	p, ok := n.state.m.PartitionByName(t, queue, partition)
	if !ok {
		return partView{}, true, false
	}
	return newPartView(p, &q), true, true
}

// partByID finds a partition of a tenant's live queues.
func (n *Node) partByID(t format.Tenant, id format.PartitionID) (partView, bool) {
	n.state.RLock()
	defer n.state.RUnlock()
	return n.partByIDLocked(t, id)
}

func (n *Node) partByIDLocked(t format.Tenant, id format.PartitionID) (partView, bool) {
	p, ok := n.state.m.PartitionByID(t, id)
	if !ok {
		return partView{}, false
	}
	q, ok := n.state.m.QueueByID(p.Queue)
	if !ok {
		return partView{}, false
	}
	return newPartView(p, &q), true
}

// readyFor is how many partitions the call could claim now, from above; a group that is not
// registered has to pop once to become so. The state lock is held.
func (n *Node) readyFor(c *popCall) int {
	if !c.req.Scope.Discovery {
		return n.readyIn(&c.lane)
	}
	c.cmd.Queues = c.cmd.Queues[:0]
	c.conflates, c.conflicts, c.met = false, false, false
	ready := 0
	for after := format.QueueID(0); len(c.cmd.Queues) < discoveryQueues; {
		page := n.state.m.Queues(c.caller.Tenant, false, after, 128)
		if len(page) == 0 {
			break
		}
		for i := range page {
			q := &page[i]
			after = q.ID
			if !c.req.Scope.matches(&q.Options) || len(c.cmd.Queues) == discoveryQueues {
				continue
			}
			g, registered := n.state.m.GroupByName(q.ID, c.group)
			r := unregistered(q)
			if registered {
				if !g.Undecided {
					r = int(n.state.m.Ready(q.ID, g.ID))
				}
				c.met, c.conflates = true, c.conflates || g.Conflate
				c.conflicts = c.conflicts || g.Conflate != c.req.Conflate
			}
			if r > 0 {
				c.cmd.Queues = append(c.cmd.Queues, []byte(q.Name))
				ready += r
			}
		}
	}
	return ready
}

// conflates is the policy of the lane's group, or what is asked for while the group is not registered.
func (n *Node) conflates(k *laneKey, asked bool) bool {
	n.state.RLock()
	defer n.state.RUnlock()
	q, ok := n.state.m.QueueByName(k.tenant, k.queue)
	if !ok {
		return asked
	}
	g, ok := n.state.m.GroupByName(q.ID, k.group)
	if !ok {
		return asked
	}
	return g.Conflate
}

// unregistered is how many partitions a group may claim that no pop has registered yet, also one that a commit of
// positions made: pops that come together with the one that does must not be told that there is nothing.
func unregistered(q *machine.Queue) int { return int(min(max(q.Partitions, 1), maxPartitions)) }

// matches reports whether a queue's labels are those of a discovery pop.
func (s *Scope) matches(o *format.QueueOptions) bool {
	return (s.Namespace == "" || s.Namespace == o.Namespace) && (s.Task == "" || s.Task == o.Task)
}

// readyIn is readyFor of a lane. The state lock is held.
func (n *Node) readyIn(k *laneKey) int {
	q, ok := n.state.m.QueueByName(k.tenant, k.queue)
	if !ok {
		return 1
	}
	g, ok := n.state.m.GroupByName(q.ID, k.group)
	switch known := ok && !g.Undecided; {
	case !known && k.pinned:
		return 1
	case !known:
		return unregistered(&q)
	}
	if !k.pinned {
		return int(n.state.m.Ready(q.ID, g.ID))
	}
	p, ok := n.state.m.PartitionByName(k.tenant, k.queue, k.partition)
	if ok && n.state.m.ReadyPinned(p.ID, g.ID) {
		return 1
	}
	return 0
}

// holdsBack reports a queue whose messages are not deliverable when they are appended.
func (n *Node) holdsBack(q queueName) bool {
	n.state.RLock()
	defer n.state.RUnlock()
	v, ok := n.state.m.QueueByName(q.tenant, q.queue)
	return !ok || v.Options.DelayedProcessing > 0 || v.Options.WindowBuffer > 0
}

// groupNames lists the consumer groups of a queue.
func (n *Node) groupNames(id format.QueueID) []string {
	n.state.RLock()
	defer n.state.RUnlock()
	groups := n.state.m.Groups(id)
	names := make([]string, len(groups))
	for i := range groups {
		names[i] = groups[i].Name
	}
	return names
}

// held is what a consumer group has of a partition.
type held struct {
	exists bool
	lease  format.UUID
	next   format.Offset
	end    format.Offset // of the live lease, 0 without one
}

func (n *Node) cursorOf(part *partView, group string) held {
	n.state.RLock()
	defer n.state.RUnlock()
	g, ok := n.state.m.GroupByName(part.Queue, group)
	if !ok {
		return held{}
	}
	c, ok := n.state.m.CursorOf(part.id, g.ID)
	if !ok || !c.Exists {
		return held{}
	}
	return held{exists: true, lease: c.Lease.ID, next: c.Next, end: c.Lease.End}
}

// knownID finds the original of a caller's id among the resident chunks and in the runs of older ones.
func (n *Node) knownID(part *partView, id string) (format.Offset, bool) {
	h := format.HashID(n.identity.hashKey, viewBytes(id))
	n.state.RLock()
	d, ok := n.state.m.RecentID(part.id, h)
	n.state.RUnlock()
	if !ok {
		return n.olderID(part.id, h)
	}
	return d.Offset, ok
}

// queueByID names a live queue.
func (n *Node) queueByID(id format.QueueID) (queueName, bool) {
	n.state.RLock()
	defer n.state.RUnlock()
	q, ok := n.state.m.QueueByID(id)
	return queueName{q.Tenant, q.Name}, ok
}

// wall is the calendar time as the next entry would stamp it.
func (n *Node) wall() format.Wall {
	_, w := n.stamp.now()
	return w
}

// ownsLease reports whether a lease is live and of the tenant; another tenant's looks like none.
func (n *Node) ownsLease(t format.Tenant, lease format.UUID) bool {
	n.state.RLock()
	defer n.state.RUnlock()
	return len(n.state.m.LeaseByID(t, lease)) > 0
}
