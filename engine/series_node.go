package engine

import (
	"time"

	"queen/engine/format"
	"queen/engine/stats"
)

// ActivityPoint is what happened in the minute that begins at At, calendar time.
type ActivityPoint struct {
	At format.Wall
	stats.Counts
}

// minute is what a Series counts by, in microseconds.
const minute = int64(time.Minute / time.Microsecond)

// tally collects what one call did, so that it is counted once for each queue in a row and once for the tenant.
type tally struct {
	queue format.QueueID
	row   stats.Counts
	all   stats.Counts
	now   int64
}

// add counts one queue's part of a call.
func (t *tally) add(n *Node, tenant format.Tenant, queue format.QueueID, c *stats.Counts) {
	if queue != t.queue {
		t.flush(n, tenant)
		t.queue = queue
	}
	t.row.Add(c)
}

func (t *tally) flush(n *Node, tenant format.Tenant) {
	if t.row == (stats.Counts{}) {
		return
	}
	if t.now == 0 {
		t.now = n.cfg.Clock.Now() / minute
	}
	if t.queue != 0 {
		n.series.Add(stats.SeriesKey{Tenant: tenant, Queue: uint64(t.queue)}, t.now, &t.row)
	}
	t.all.Add(&t.row)
	t.row = stats.Counts{}
}

// done counts the call; once is what the tenant is told to have called once, however many queues it named.
func (t *tally) done(n *Node, tenant format.Tenant, once ...stats.Kind) {
	t.flush(n, tenant)
	if t.all == (stats.Counts{}) {
		return
	}
	for _, k := range once {
		t.all[k] = 1
	}
	n.series.Add(stats.SeriesKey{Tenant: tenant}, t.now, &t.all)
}

// pushed adds a frame of a push.
func (t *tally) pushed(p *pushEncoder, queue format.QueueID, messages, bytes uint64) {
	row := stats.Counts{stats.PushMessages: messages, stats.PushBytes: bytes}
	if queue != t.queue {
		row[stats.PushRequests] = 1
	}
	t.add(p.n, p.caller.Tenant, queue, &row)
}

// tallyEmpty counts a pop that was given nothing.
func (c *popCall) tallyEmpty() {
	var t tally
	q := format.QueueID(0)
	if !c.req.Scope.Discovery {
		c.n.state.RLock()
		if queue, ok := c.n.state.m.QueueByName(c.caller.Tenant, c.req.Scope.Queue); ok {
			q = queue.ID
		}
		c.n.state.RUnlock()
	}
	t.add(c.n, c.caller.Tenant, q, &stats.Counts{stats.PopEmpty: 1})
	t.done(c.n, c.caller.Tenant)
}

// tally counts what a pop hands out, by queue.
func (d *rendering) tally() {
	var t tally
	n, tenant, claims := d.call.n, d.call.caller.Tenant, d.answer.result.Claims
	for at, i := 0, 0; i < len(d.claims); i++ {
		for at < len(claims) && claims[at].Partition != d.claims[i].PartitionID {
			at++ // what was handed back
		}
		if at == len(claims) {
			break
		}
		c := stats.Counts{}
		if claims[at].Queue != t.queue {
			c[stats.PopRequests] = 1
		}
		first := d.tallied
		for d.tallied < len(d.messages) && d.messages[d.tallied].Claim == i {
			age := uint64(max(d.answer.header.W-d.messages[d.tallied].CreatedAt, 0))
			c[stats.PopLag] += age
			c[stats.PopLagMax] = max(c[stats.PopLagMax], age)
			d.tallied++
		}
		c[stats.PopMessages] = uint64(d.tallied - first)
		t.add(n, tenant, claims[at].Queue, &c)
	}
	t.done(n, tenant, stats.PopRequests)
}

// Activity implements Operations.
func (n *Node) Activity(c Caller, queue format.QueueID, from, to format.Wall) (points []ActivityPoint, ok bool) {
	k := stats.SeriesKey{Tenant: c.Tenant, Queue: uint64(queue)}
	ok = n.series.Read(k, int64(from)/minute, min(int64(to), n.cfg.Clock.Now())/minute, func(m int64, c *stats.Counts) {
		points = append(points, ActivityPoint{At: format.Wall(m * minute), Counts: *c})
	})
	return points, ok
}
