package engine

import (
	"slices"

	"queen/engine/format"
)

// applied runs in the apply goroutine after each entry, and once before it: a new epoch ends what is under way
// under earlier ones.
func (c *cluster) applied() {
	n := c.n
	n.state.RLock()
	epoch, born := n.state.m.Epoch(), n.state.m.Born()
	n.state.RUnlock()
	if born && !c.isBorn {
		c.isBorn = true
		n.identify()
		close(c.born)
	}
	if epoch > c.epoch {
		c.epoch = epoch
		c.fence(epoch)
	}
}

// fence proposes anew what was under way under epochs before one whose Term is applied. Nothing comes to be under way
// under them any more: that another one leads is told by another goroutine, which may be late, or come later than
// the next election, and until then this node believes in an epoch that is over. It leads no more, and waits to be told who does.
func (c *cluster) fence(epoch format.Term) {
	n := c.n
	subs := n.flights.before(epoch)
	c.mu.Lock()
	c.mu.fenced = epoch
	if c.mu.epoch < epoch {
		c.setRoleLocked(0, c.mu.epoch)
	}
	var late []uint64
	for request, h := range c.mu.out {
		if h.epoch < epoch {
			late = append(late, request)
		}
	}
	slices.Sort(late)
	for _, request := range late {
		subs = append(subs, c.mu.out[request].s)
		delete(c.mu.out, request)
	}
	c.mu.Unlock()
	c.again(subs)
}

// again proposes anew what is known not to be in the log.
func (c *cluster) again(subs []*submission) {
	subs = slices.DeleteFunc(subs, func(s *submission) bool {
		if s.local && s.from.node == 0 {
			s.finish(errNotNow)
		}
		return s.local || s.from.node != 0
	})
	c.n.fuser.requeue(subs)
}

// Dropped implements Peer: the entry with this header is not in the log and will not be.
func (n *Node) Dropped(h format.EntryHeader) {
	fl := n.flights.take(h)
	if fl == nil {
		return
	}
	var own []*submission
	for _, s := range fl.subs {
		if s.from.node != 0 && format.Term(n.cluster.leads.Load()) == s.from.epoch {
			n.fuser.requeue([]*submission{s})
			continue
		}
		own = append(own, s)
	}
	n.cluster.again(own)
}

// confirm notes an entry that this node proposed and a majority took from it: one of the epoch that it leads, in the term of the
// log that has that number, and not in a later one, whose leader it was passed on to.
func (n *Node) confirm(term format.Term, fl *flight) {
	if n.cluster != nil && fl.at != 0 && term == fl.header.Epoch {
		n.cluster.sure.Store(fl.at)
	}
}
