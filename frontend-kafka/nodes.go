package frontendkafka

import (
	"strconv"
	"time"

	"queen/engine"
	"queen/engine/format"
)

const (
	// nodeGone is how long a node is told of after it last gave a sign of life, and how long a row stays of one that is no
	// member of the cluster.
	nodeGone = 10 * time.Second
	// watchEvery is how often the nodes are looked at.
	watchEvery = 200 * time.Millisecond
)

// nodes says which nodes belong to the cluster and which of them are there. Of a nil one all do and are.
type nodes struct{ members, alive map[int32]bool }

func (n *nodes) member(id int32) bool { return n == nil || n.members[id] }
func (n *nodes) there(id int32) bool  { return n == nil || n.alive[id] }

// census remembers when nodes gave a sign of life.
type census struct {
	heard  map[int32]int64 // monotonic microseconds
	strays map[int32]int64 // since when a node has a row and is no member
}

// watchNodes keeps who is there at hand, and has the node that leads remove the rows of nodes that left the cluster.
func (f *Frontend) watchNodes() {
	c := census{heard: map[int32]int64{}, strays: map[int32]int64{}}
	for f.stopping.Err() == nil {
		now := f.opts.Clock.Mono()
		if told := f.opts.Nodes(); told != nil {
			f.seenNodes.Store(c.look(told, now))
			for _, id := range c.gone(f.placed.get(f), told, now) {
				f.removeBroker(id)
			}
		}
		t := f.opts.Clock.NewTimer(watchEvery)
		select {
		case <-t.C():
		case <-f.stopping.Done():
		}
		t.Stop()
	}
}

// look takes in which members answered when they were last asked.
func (c *census) look(told map[int32]bool, now int64) *nodes {
	n := &nodes{members: map[int32]bool{}, alive: map[int32]bool{}}
	for id, answered := range told {
		n.members[id] = true
		if _, known := c.heard[id]; answered || !known {
			c.heard[id] = now // one that was never heard of has its time, too
		}
		n.alive[id] = now-c.heard[id] < nodeGone.Microseconds()
	}
	for id := range c.heard {
		if !n.members[id] {
			delete(c.heard, id)
		}
	}
	return n
}

// gone lists nodes that have had a row for long without being members.
func (c *census) gone(rows []Broker, members map[int32]bool, now int64) (ids []int32) {
	strays := map[int32]int64{}
	for i := range rows {
		id := rows[i].ID
		if _, ok := members[id]; ok {
			continue
		}
		since, ok := c.strays[id]
		if !ok {
			since = now
		}
		if strays[id] = since; now-since >= nodeGone.Microseconds() {
			ids = append(ids, id)
		}
	}
	c.strays = strays
	return ids
}

// removeBroker removes the row of a node that is no member. Only the node that leads where the row is does.
func (f *Frontend) removeBroker(id int32) {
	if f.leader(format.SystemTenant) != f.opts.NodeID {
		return
	}
	ctx, cancel := within(f.stopping, 0)
	defer cancel()
	_, err := f.rows.SetAdmin(ctx, format.SystemTenant,
		engine.AdminChange{Kind: format.AdminKafkaBroker, Name: strconv.Itoa(int(id)), Delete: true})
	if err != nil {
		f.opts.Logger.Warn("kafka: where a node was that left the cluster is still kept", "node", id, "err", err)
	}
}
