package vfs

import "slices"

// inode is a file or directory of Mem, whatever names it has.
//
// INVARIANT: applying the ops of pending in order to disk yields the content of cur. (Checked by
// TestMemPendingYieldsCurrent.)
type inode struct {
	id    uint64
	dir   bool
	links int // names in Mem.names
	opens int // open files

	cur     image     // what readers see
	disk    image     // what is certain to survive a crash
	pending []*change // what may survive, in order
}

// change is one change of a file that is not known to be durable.
type change struct {
	kind changeKind
	off  int64
	data []byte
	size int64 // changeResize, changeAllocate
	// lost marks a write whose flush failed. It is still visible, a crash may keep any of it, and no later flush
	// makes it durable: the page cache believes that it is clean.
	lost bool
}

type changeKind uint8

const (
	changeWrite changeKind = iota
	changeResize
	changeAllocate
)

func (c *change) end() int64 { return c.off + int64(len(c.data)) }

func (c *change) applyTo(im *image) {
	switch c.kind {
	case changeWrite:
		im.writeAt(c.data, c.off)
	case changeResize:
		im.resize(c.size)
	case changeAllocate:
		im.preallocate(c.size)
	}
}

// apply makes a change visible and remembers it as not durable.
func (n *inode) apply(c *change) {
	c.applyTo(&n.cur)
	n.pending = append(n.pending, c)
}

// sync makes everything durable that no failed flush has lost.
func (n *inode) sync() {
	all := n.pending
	n.pending = nil
	for _, c := range all {
		if c.lost {
			n.pending = append(n.pending, c)
			continue
		}
		n.settle(c)
	}
}

// settle makes one change durable that comes after all of n.pending: what it overwrites or cuts off must not come
// back from an older change that is still pending.
func (n *inode) settle(c *change) {
	c.applyTo(&n.disk)
	switch c.kind {
	case changeWrite:
		n.pending = withoutRange(n.pending, c.off, c.end())
	case changeResize:
		n.pending = withoutRange(n.pending, c.size, 1<<62)
	}
}

// persist makes one pending write durable and nothing else, except changes of the length that must be on disk for
// it to be readable: the journal keeps those in order, so all up to the last such change go with it.
func (n *inode) persist(w *change) {
	at := slices.Index(n.pending, w)
	if at < 0 {
		return // a later cut or flush has taken it over
	}
	before, after := n.pending[:at:at], n.pending[at+1:]
	last := -1
	for i, c := range before {
		if c.kind == changeResize && c.size < w.end() {
			last = i
		}
	}
	n.pending = nil
	for i, c := range before {
		if i <= last && c.kind != changeWrite {
			n.settle(c)
		} else {
			n.pending = append(n.pending, c)
		}
	}
	n.settle(w)
	n.pending = append(n.pending, after...)
}

// markLost says that a flush of everything pending has failed.
func (n *inode) markLost() {
	for _, c := range n.pending {
		if c.kind == changeWrite {
			c.lost = true
		}
	}
}

// withoutRange cuts the bytes [from, to) out of pending writes.
func withoutRange(pending []*change, from, to int64) []*change {
	var out []*change
	for _, c := range pending {
		if c.kind != changeWrite || c.end() <= from || c.off >= to {
			out = append(out, c)
			continue
		}
		if c.off < from {
			out = append(out, &change{off: c.off, data: c.data[:from-c.off], lost: c.lost})
		}
		if c.end() > to {
			out = append(out, &change{off: to, data: c.data[to-c.off:], lost: c.lost})
		}
	}
	return out
}
