package engine

import (
	"sync"

	"queen/engine/format"
	"queen/engine/logstore/rows"
)

// sizes counts the bytes that partitions of queues with RetentionBytes hold, from row to row: each frame is looked at
// twice in its life, once when it came and once when it goes. Nothing of it is durable; a node that starts counts anew.
//
// INVARIANT: what is counted is at most what was there, frames lost to damage included: a count that is not finished removes nothing too early.
type sizes struct {
	mu     sync.Mutex
	counts map[format.PartitionID]sizeCount // at most sizesMax
	sweep  uint64
	left   int // rows that this sweep may still look at
	rows   []rows.Row
}

// sizeCount says that the frames in [start, end) of a partition take that many bytes.
type sizeCount struct {
	start, end format.Offset
	bytes      int64
	sweep      uint64 // that saw it last
}

const (
	// sizesMax bounds the partitions that are remembered; any other is counted anew by every sweep.
	sizesMax = 1 << 17
	// sizeRows bounds the rows one sweep looks at, and sizePage those that are held in memory at a time.
	sizeRows = 1 << 20
	sizePage = 4096
)

// begin starts a sweep, end forgets what it did not see.
func (z *sizes) begin() {
	z.mu.Lock()
	defer z.mu.Unlock()
	z.sweep++
	z.left = sizeRows
}

func (z *sizes) end() {
	z.mu.Lock()
	defer z.mu.Unlock()
	for pid, c := range z.counts {
		if c.sweep != z.sweep {
			delete(z.counts, pid)
		}
	}
}

// surplus is the offset up to which frames can go so that at least limit bytes are left; 0 when none can.
// What is not decided yet does not count and does not go.
func (z *sizes) surplus(n *Node, part *partView, limit int64) (format.Offset, error) {
	start, err := n.logStart(part)
	if err != nil {
		return 0, err
	}
	z.mu.Lock()
	defer z.mu.Unlock()
	c := z.counts[part.id]
	if err := z.drop(n, part, &c, start); err != nil {
		return 0, err
	}
	err = z.each(n, part, c.end, max(part.stable, start), func(r *rows.Row) bool {
		c.bytes, c.end = c.bytes+sizeOf(r), r.End()
		return true
	})
	if err != nil {
		return 0, err
	}
	upto, bytes := format.Offset(0), c.bytes
	if bytes > limit {
		err = z.each(n, part, start, c.end, func(r *rows.Row) bool {
			if bytes-sizeOf(r) < limit {
				return false
			}
			bytes, upto = bytes-sizeOf(r), r.End()
			return true
		})
	}
	c.sweep = z.sweep
	if _, known := z.counts[part.id]; known || len(z.counts) < sizesMax {
		if z.counts == nil {
			z.counts = map[format.PartitionID]sizeCount{}
		}
		z.counts[part.id] = c
	}
	return upto, err
}

// drop takes away what is below the log start. Where rows of it are gone already the count begins again.
func (z *sizes) drop(n *Node, part *partView, c *sizeCount, start format.Offset) error {
	if start < c.start || start >= c.end {
		*c = sizeCount{start: start, end: start}
		return nil
	}
	if start == c.start {
		return nil
	}
	next := c.start
	err := z.each(n, part, c.start, start, func(r *rows.Row) bool {
		if r.Base > next {
			return false
		}
		c.bytes, next = c.bytes-sizeOf(r), r.End()
		return true
	})
	if err != nil {
		return err
	}
	c.start = start
	if row, ok, err := n.rows.At(part.id, next, part.newest); err != nil || !ok || row.Base > next || next < start && row.End() <= start {
		*c = sizeCount{start: start, end: start}
		return err
	}
	return nil
}

// each calls f with the rows of [from, to) that end there, until it returns false or the sweep has seen enough.
func (z *sizes) each(n *Node, part *partView, from, to format.Offset, f func(*rows.Row) bool) (err error) {
	for from < to && z.left > 0 {
		page := min(to, from+sizePage)
		if z.rows, err = n.rows.AppendRange(z.rows[:0], part.id, from, page, part.newest); err != nil {
			return err
		}
		z.left -= len(z.rows) + 1
		for i := range z.rows {
			r := &z.rows[i]
			if r.End() > to || !f(r) {
				return nil
			}
			page = max(page, r.End())
		}
		from = page
	}
	return nil
}

// sizeOf is what a row's frame takes. Files split the rows of large frames: the first part counts.
func sizeOf(r *rows.Row) int64 {
	if r.From > 0 {
		return 0
	}
	return int64(r.Len)
}

// sized removes what a partition of a queue with RetentionBytes has too much, consumed or not.
func (t *trimmer) sized(part *partView) {
	limit, n := t.queue.Options.RetentionBytes, t.h.n
	if limit <= 0 || part.next == part.start || !n.leading() {
		return
	}
	upto, err := t.h.sizes.surplus(n, part, limit)
	if err != nil {
		n.event("retention", err)
		return
	}
	if upto <= part.start {
		return
	}
	if t.large = append(t.large, format.TrimItem{Partition: part.id, Upto: upto}); len(t.large) == trimBatch {
		t.flush()
	}
}
