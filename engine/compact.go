package engine

import (
	"slices"

	"queen/engine/batch"
	"queen/engine/format"
	"queen/engine/logstore"
	"queen/engine/logstore/rows"
)

// compactor keeps, of the records of one key in a partition of a queue with CompactKeys, the newest. It works like a
// relocation, with which it takes turns: a pass reads record batches, writes those of which records went into bulk segments, to
// which no row leads yet, and the files' goroutine makes that true (compact_commit.go). Rows move one by one; what they were
// copied from goes when relocation finds little left in it.
//
// Like relocation it looks only at segments that are closed and below the floor, of which the log asks for no entry any more.
// What it remembers of partitions is not durable: to a node that starts everything is new. Each node of a cluster compacts for
// itself, as it relocates; the state does not know of it.
//
// INVARIANT: of two records of a key the older one goes before the newer one may, in a pass before: a record without a value
// goes only when nothing older of its key is left, also in the copies from which an index would be made again
// (TestCompactionModel, TestCompactionCrashes).
type compactor struct {
	v *mover

	known      bool
	generation uint64 // of the queues, when they were listed
	limit      uint32 // newest segment of the commit stream that was looked into
	seen       uint64 // of reclaim, at that look
	waits      bool   // some partition has to be looked at again, whatever is closed
	queues     []compactQueue
	after      format.PartitionID // where the round over what is due goes on

	// Of the pass under way, and until it is committed.
	keys    keyTable
	copier  copier
	buffer  []compacted
	bytes   int // of buffer
	left    int64
	edits   []compactEdit
	back    map[format.PartitionID]format.Offset // from where on edits are given up
	held    map[format.PartitionID][]offsetRange // leases that were respected
	log     map[format.SegmentID]bool            // segments of the commit stream
	bulks   map[format.SegmentID][]format.SegmentID
	reclaim uint64 // segments given up so far, by this node's files
}

// compactQueue is a queue that compacts.
type compactQueue struct {
	id    format.QueueID
	rule  format.Compaction
	class endClass
	parts []compactPart // by id
}

// compactPart is what is remembered of a partition.
type compactPart struct {
	id format.PartitionID
	// clean is the offset below which only the newest record of a key was left, as of there; heldFrom, if below it, where
	// something stayed that should have gone.
	clean, heldFrom format.Offset
	looked          format.Offset // rows below it are counted
	// old is what lies below clean, new what lies from there to looked, bytes of frames.
	old, new int64
	since    format.Wall // when the first of the new was appended
	horizon  format.Wall // when the first kept record without a value may go; 0 none
	swept    uint64      // compactor.reclaim when empty frames were last judged
	empties  bool        // there are empty frames
}

// compactFlush is how many bytes of batches wait in memory before they are written, in the order of their entries.
const compactFlush = 4 << 20

// compactPage is how many offsets are looked up at a time.
const compactPage = 256

// pass compacts what is due, within the budget, and fills in what was done.
func (c *compactor) pass(r *relocated, budget int64) error {
	c.copier, c.left = copier{v: c.v, r: r}, budget
	c.edits, c.buffer, c.bytes, c.back, c.held = nil, nil, 0, map[format.PartitionID]format.Offset{}, map[format.PartitionID][]offsetRange{}
	var err error
	if c.isDue() {
		c.survey()
		err = c.round(r)
	}
	c.keys = keyTable{}
	if err != nil {
		c.copier.out.abort()
		c.forget()
		return err
	}
	r.edits, r.orphans = c.settled(), nil
	return nil
}

// forget drops what is remembered: everything counts as new again.
func (c *compactor) forget() {
	c.known, c.queues, c.edits, c.buffer = false, nil, nil, nil
}

// round compacts what is due from where the last round ended.
func (c *compactor) round(r *relocated) error {
	now := c.v.n.wall()
	first := c.after
	for _, wrapped := range []bool{false, true} {
		for i := range c.queues {
			q := &c.queues[i]
			for k := range q.parts {
				p := &q.parts[k]
				if (p.id > first) == wrapped || !c.due(q, p, now) {
					continue
				}
				if err := c.clean(q, p, now); err != nil {
					return err
				}
				if c.left <= 0 {
					r.more = true
					return c.flush()
				}
				c.after = p.id
			}
		}
	}
	return c.flush()
}

func (c *compactor) isDue() bool {
	now := c.v.n.wall()
	return slices.ContainsFunc(c.queues, func(q compactQueue) bool {
		return slices.ContainsFunc(q.parts, func(p compactPart) bool { return c.due(&q, &p, now) })
	})
}

// due says that a partition has its turn.
func (c *compactor) due(q *compactQueue, p *compactPart, now format.Wall) bool {
	return p.isDirty(&q.rule, now) || p.empties && p.swept != c.reclaim
}

// isDirty says that enough of a partition is new, or that something waited long enough.
func (p *compactPart) isDirty(rule *format.Compaction, now format.Wall) bool {
	switch {
	case p.new > 0 && p.new*1000 > (p.new+p.old)*rule.Dirty:
		return true
	case p.new > 0 && rule.MaxLag > 0 && now-p.since > rule.MaxLag:
		return true
	}
	return p.horizon > 0 && now >= p.horizon
}

// survey notes which segments there are, for what may be let go of.
func (c *compactor) survey() {
	c.log, c.bulks = map[format.SegmentID]bool{}, map[format.SegmentID][]format.SegmentID{}
	for _, s := range c.v.n.seq.Log().Segments() {
		c.log[format.SegmentID(s.Segment)] = true
	}
	for _, s := range c.v.n.seq.Log().Bulks() {
		c.bulks[format.SegmentID(s.Segment)] = s.Replaces
	}
}

// isBare says that no older version of a frame in a bulk segment is left anywhere: an index that is made again from the log
// and the bulk segments, later ones over earlier ones, would find none.
func (c *compactor) isBare(at, origin format.SegmentID) bool {
	if c.log[origin] {
		return false
	}
	for s, replaces := range c.bulks {
		if s.Number() < at.Number() && slices.Contains(replaces, origin) {
			return false
		}
	}
	return true
}

// look lists the queues that compact when some queue changed, and counts what is new in their partitions when there is more
// to look into: segments of the commit stream that relocation may move as well, or what it moved.
func (c *compactor) look(log []logstore.SegmentInfo) error {
	n, limit := c.v.n, uint32(0)
	if len(log) > 0 {
		limit = log[len(log)-1].Segment
	}
	n.state.RLock()
	generation := n.state.m.TopicsGeneration()
	n.state.RUnlock()
	limit = max(limit, c.limit) // those that were there are gone, or can be looked into still
	if c.known && generation == c.generation && limit == c.limit && c.seen == c.reclaim && !c.waits {
		return nil
	}
	if !c.known || generation != c.generation {
		c.list()
	}
	c.known, c.waits, c.limit, c.seen = false, false, limit, c.reclaim
	for i := range c.queues {
		if err := c.lookQueue(&c.queues[i]); err != nil {
			return err
		}
	}
	c.known, c.generation = true, generation
	return nil
}

// list finds the queues that compact.
func (c *compactor) list() {
	n := c.v.n
	before := map[format.QueueID]*compactQueue{}
	for i := range c.queues {
		before[c.queues[i].id] = &c.queues[i]
	}
	var now []compactQueue
	for after := format.QueueID(0); ; {
		n.state.RLock()
		page := n.state.m.Queues(format.Tenant{}, true, after, 256)
		n.state.RUnlock()
		if len(page) == 0 {
			break
		}
		for i := range page {
			q := &page[i]
			after = q.ID
			rule := q.Options.Compaction()
			if !rule.On {
				continue
			}
			next := compactQueue{id: q.ID, rule: rule, class: classOf(q.Expiry)}
			if old := before[q.ID]; old != nil {
				next.parts = old.parts
			}
			now = append(now, next)
		}
	}
	c.queues = now
}

// lookQueue brings what is known of the partitions of a queue up to date.
func (c *compactor) lookQueue(q *compactQueue) error {
	n := c.v.n
	old, at := q.parts, 0
	parts := make([]compactPart, 0, len(old))
	for after := format.PartitionID(0); ; {
		n.state.RLock()
		page, next := n.state.m.UnnamedPartitions(nil, q.id, after, 256)
		view, ok := n.state.m.QueueByID(q.id)
		n.state.RUnlock()
		if !ok {
			break
		}
		for i := range page {
			part := newPartView(page[i], &view)
			for at < len(old) && old[at].id < part.id {
				at++
			}
			p := compactPart{id: part.id, heldFrom: noOffset}
			if at < len(old) && old[at].id == part.id {
				p = old[at]
			}
			if err := c.lookPart(q, &p, &part); err != nil {
				return err
			}
			parts = append(parts, p)
		}
		if next == 0 {
			break
		}
		after = next
	}
	q.parts = parts
	return nil
}

const noOffset = ^format.Offset(0)

// lookPart counts the rows that are in files, decided, and older than the least lag.
func (c *compactor) lookPart(q *compactQueue, p *compactPart, part *partView) error {
	oldest := c.v.n.wall() - q.rule.MinLag
	p.looked = max(p.looked, part.start)
	end := max(part.stable, part.start)
	stopped := false
	err := c.v.n.eachRow(part, p.looked, end, func(r *rows.Row) (bool, error) {
		if s := format.SegmentID(r.Segment); r.Number != 0 || !s.IsBulk() && s.Number() > c.limit {
			return false, nil
		}
		if r.End() > end || q.rule.MinLag > 0 && r.W > oldest {
			stopped = true
			return false, nil
		}
		p.looked = r.End()
		if isBatch(r) {
			if p.new == 0 {
				p.since = r.W
			}
			p.new += int64(r.Len)
		}
		return true, c.v.pacer.spend(rowCost)
	})
	c.waits = c.waits || stopped || part.stable < part.next
	return err
}

// isBatch says that a row is of records that a producer wrote, or of what is left of such.
func isBatch(r *rows.Row) bool { return r.Flags&rows.Kafka != 0 && r.Flags&rows.Control == 0 }

// emptyFrame is the length of a frame with a batch of no records.
const emptyFrame = format.FrameHeadSize + batch.HeaderBytes

// isEmptied says that compaction left nothing of a row's frame but the offsets.
func isEmptied(r *rows.Row) bool {
	return r.Flags&rows.Compacted != 0 && isBatch(r) && r.Len == emptyFrame
}

// eachRow shows the rows of a partition that hold offsets of [from, to), in order, until fn returns false. The row may be kept.
func (n *Node) eachRow(part *partView, from, to format.Offset, fn func(r *rows.Row) (bool, error)) error {
	var found []rows.Row
	for next := from; next < to; {
		var err error
		if found, err = n.rows.AppendRange(found[:0], part.id, next, min(to, next+compactPage), part.newest); err != nil {
			return err
		}
		for i := range found {
			next = max(next, found[i].End())
			if more, err := fn(&found[i]); err != nil || !more {
				return err
			}
		}
		if len(found) == 0 {
			if next, err = n.nextRow(part.id, next+compactPage, to, part.newest); err != nil {
				return err
			}
		}
	}
	return nil
}

// nextRow is where the first row at or above an offset begins, or the offset if a row holds it; to when there is none
// below that. Compaction leaves gaps of any size.
func (n *Node) nextRow(pid format.PartitionID, from, to format.Offset, newest uint64) (format.Offset, error) {
	if from >= to {
		return to, nil
	}
	row, ok, err := n.rows.At(pid, from, newest)
	if err != nil || !ok {
		return to, err
	}
	return min(to, max(from, row.Base)), nil
}

// lastRow is the last row of a partition that begins below to and ends above from, found without a walk over what lies
// between.
func (n *Node) lastRow(pid format.PartitionID, from, to format.Offset, newest uint64) (last rows.Row, ok bool, err error) {
	for lo, hi := from, to; lo < hi; {
		mid := lo + (hi-lo)/2
		if !ok {
			mid = lo // is there any?
		}
		row, found, err := n.rows.At(pid, mid, newest)
		switch {
		case err != nil:
			return last, false, err
		case found && row.Base < to:
			last, ok, lo = row, true, max(mid+1, row.End())
		case !ok:
			return last, false, nil
		default:
			hi = mid
		}
	}
	return last, ok, nil
}
