package engine

import (
	"context"
	"slices"
	"sync"

	"queen/engine/format"
	"queen/engine/machine"
)

// watching is the registry of watchers. A watch is memory only: the apply goroutine marks, Next reads.
//
// A mark costs as much as there are watchers of that partition, and a look at a partition that nobody watches is one
// look into a map; Next costs as much as changed. So partitions that exist are found by id, and names are looked at only
// in queues of which somebody watches a partition that is not there yet.
type watching struct {
	mu     sync.Mutex
	queues map[queueName]*watchedQueue
	byID   map[format.PartitionID]*watchedPart
	// byQueue are the queues with a known id; nameless counts those without: they do not exist yet.
	byQueue  map[format.QueueID]*watchedQueue
	nameless int
}

// watchedQueue is a queue of which partitions are watched.
type watchedQueue struct {
	name  queueName
	id    format.QueueID // 0 while it does not exist
	parts map[string]*watchedPart
	// missing counts the partitions whose id is not known.
	missing int
}

// watchedPart is a watched partition.
type watchedPart struct {
	queue *watchedQueue
	name  string
	id    format.PartitionID // 0 while it does not exist
	by    []*watch
}

// watch is one watcher's interest in one partition.
type watch struct {
	w       *watcher
	part    *watchedPart // nil once it ended
	changed bool
}

// watcher implements Watcher. Each changed partition is reported at most once between two Next, in the order of their
// first change.
type watcher struct {
	n      *Node
	tenant format.Tenant
	wake   chan struct{}
	// Guarded by the registry's lock.
	watched map[PartitionRef]*watch
	changed []*watch
}

// Watch implements Engine.
func (n *Node) Watch(c Caller) Watcher {
	return &watcher{n: n, tenant: c.Tenant, wake: make(chan struct{}, 1), watched: map[PartitionRef]*watch{}}
}

func (w *watcher) Add(refs ...PartitionRef) {
	reg := &w.n.watching
	reg.mu.Lock()
	defer reg.mu.Unlock()
	for _, r := range refs {
		if w.watched[r] != nil {
			continue
		}
		p := reg.part(queueName{w.tenant, r.Queue}, r.Partition)
		x := &watch{w: w, part: p}
		w.watched[r], p.by = x, append(p.by, x)
		// From here on a change is marked by name; what exists already is found by id.
		reg.learn(w.n, p)
	}
}

// part finds or makes the entry of a partition.
func (g *watching) part(name queueName, partition string) *watchedPart {
	q := g.queues[name]
	if q == nil {
		if g.queues == nil {
			g.queues, g.byID = map[queueName]*watchedQueue{}, map[format.PartitionID]*watchedPart{}
			g.byQueue = map[format.QueueID]*watchedQueue{}
		}
		q = &watchedQueue{name: name, parts: map[string]*watchedPart{}}
		g.queues[name] = q
		g.nameless++
	}
	p := q.parts[partition]
	if p == nil {
		p = &watchedPart{queue: q, name: partition}
		q.parts[partition] = p
		q.missing++
	}
	return p
}

// learn fills the ids of a partition in, if it exists.
func (g *watching) learn(n *Node, p *watchedPart) {
	if p.id != 0 {
		return
	}
	n.state.RLock()
	defer n.state.RUnlock()
	q, ok := n.state.m.QueueByName(p.queue.name.tenant, p.queue.name.queue)
	if !ok {
		return
	}
	g.exists(p.queue, q.ID)
	if row, ok := n.state.m.PartitionByName(p.queue.name.tenant, p.queue.name.queue, p.name); ok {
		g.found(p, row.ID)
	}
}

// exists notes the id of a queue.
func (g *watching) exists(q *watchedQueue, id format.QueueID) {
	if q.id == 0 {
		q.id = id
		g.byQueue[id] = q
		g.nameless--
	}
}

// found notes the id of a partition.
func (g *watching) found(p *watchedPart, id format.PartitionID) {
	p.id = id
	p.queue.missing--
	g.byID[id] = p
}

// lost forgets the id of a partition that is no more.
func (g *watching) lost(p *watchedPart) {
	if p.id != 0 {
		delete(g.byID, p.id)
		p.id = 0
		p.queue.missing++
	}
}

func (w *watcher) Remove(refs ...PartitionRef) {
	reg := &w.n.watching
	reg.mu.Lock()
	defer reg.mu.Unlock()
	for _, r := range refs {
		if x := w.watched[r]; x != nil {
			delete(w.watched, r)
			reg.remove(x)
		}
	}
}

// remove ends a watch. Entries that are nobody's go.
func (g *watching) remove(x *watch) {
	p := x.part
	x.part = nil
	last := len(p.by) - 1
	p.by[slices.Index(p.by, x)] = p.by[last]
	p.by[last] = nil
	if p.by = p.by[:last]; last > 0 {
		return
	}
	q := p.queue
	g.lost(p)
	q.missing--
	if delete(q.parts, p.name); len(q.parts) > 0 {
		return
	}
	if q.id != 0 {
		delete(g.byQueue, q.id)
	} else {
		g.nameless--
	}
	delete(g.queues, q.name)
}

func (w *watcher) Next(ctx context.Context) ([]Change, error) {
	for {
		if out := w.collect(); len(out) > 0 {
			return out, nil
		}
		select {
		case <-w.wake:
		case <-w.n.stopping:
			return nil, errClosed()
		case <-ctx.Done():
			return nil, errContext(ctx, OutcomeNone)
		}
	}
}

// changedKept is the room for changes that an idle watcher keeps.
const changedKept = 1024

func (w *watcher) collect() []Change {
	reg := &w.n.watching
	reg.mu.Lock()
	if len(w.changed) == 0 {
		reg.mu.Unlock()
		return nil
	}
	out := make([]Change, 0, len(w.changed))
	for i, x := range w.changed {
		w.changed[i] = nil
		if x.changed = false; x.part != nil {
			out = append(out, Change{PartitionRef: PartitionRef{x.part.queue.name.queue, x.part.name}})
		}
	}
	if w.changed = w.changed[:0]; cap(w.changed) > changedKept {
		w.changed = nil
	}
	reg.mu.Unlock()
	for i := range out {
		c := &out[i]
		part, _, ok := w.n.partByName(w.tenant, c.Queue, c.Partition)
		if c.Exists = ok; ok {
			c.Start, c.End = part.start, part.next
		}
	}
	return out
}

func (w *watcher) Close() {
	reg := &w.n.watching
	reg.mu.Lock()
	defer reg.mu.Unlock()
	for _, x := range w.watched {
		reg.remove(x)
	}
	clear(w.watched)
	w.changed = nil
}

// watchReasons are the changes that watchers are told of: ends, starts and existence.
const watchReasons = machine.TouchedAppend | machine.TouchedStart | machine.TouchedGone

// mark notes what an entry changed for whoever watches it. It runs in the apply goroutine, without the state lock.
func (n *Node) mark(touched []machine.Touched) {
	g := &n.watching
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.queues) == 0 {
		return
	}
	for i := range touched {
		t := &touched[i]
		switch {
		case t.Reason&watchReasons == 0:
		case t.Partition != 0:
			g.markPart(n, t)
		case t.Reason&machine.TouchedGone != 0:
			g.gone(t.Queue)
		}
	}
}

// markPart marks a partition, which may have come into being or ended.
func (g *watching) markPart(n *Node, t *machine.Touched) {
	p := g.byID[t.Partition]
	if p == nil {
		q := g.byQueue[t.Queue]
		if q == nil && g.nameless == 0 || q != nil && q.missing == 0 {
			return
		}
		if p = g.find(n, t); p == nil {
			return
		}
	}
	if t.Reason&machine.TouchedGone != 0 {
		g.lost(p)
	}
	p.mark()
}

// find looks a partition up by its name: it is new.
func (g *watching) find(n *Node, t *machine.Touched) *watchedPart {
	n.state.RLock()
	defer n.state.RUnlock()
	owner, ok := n.state.m.QueueByID(t.Queue)
	if !ok {
		return nil
	}
	row, ok := n.state.m.PartitionByID(owner.Tenant, t.Partition)
	q := g.queues[queueName{owner.Tenant, owner.Name}]
	if !ok || q == nil {
		return nil
	}
	g.exists(q, owner.ID)
	p := q.parts[row.Name]
	if p != nil && p.id == 0 {
		g.found(p, row.ID)
	}
	return p
}

// gone marks everything of a queue that was deleted. Its name may come back with other ids.
func (g *watching) gone(id format.QueueID) {
	q := g.byQueue[id]
	if q == nil {
		return
	}
	delete(g.byQueue, id)
	q.id = 0
	g.nameless++
	for _, p := range q.parts {
		g.lost(p)
		p.mark()
	}
}

// mark puts a partition on the list of every watcher of it, once.
func (p *watchedPart) mark() {
	for _, x := range p.by {
		if x.changed {
			continue
		}
		x.changed = true
		x.w.changed = append(x.w.changed, x)
		select {
		case x.w.wake <- struct{}{}:
		default:
		}
	}
}
