package engine

import (
	"math/bits"

	"queen/engine/format"
	"queen/engine/logstore/rows"
)

// endClass groups frames that end at about the same time: by the power of two of their queue's expiry.
// Frames of one class lie together in bulk segments, so that these die as a whole.
type endClass uint8

const (
	// classPinned is of frames that retention took and something else still needs: a dead letter, or a
	// lease under which one may be filed.
	classPinned endClass = 0
	// classForever is of frames that no time ends.
	classForever endClass = 255
)

func classOf(expiry format.Wall) endClass {
	if expiry <= 0 {
		return classForever
	}
	return endClass(1 + bits.Len64(uint64(expiry/1_000_000)))
}

// timed reports a class that ends by itself.
func (c endClass) timed() bool { return c != classPinned && c != classForever }

// verdict is what the state says of a frame.
type verdict struct {
	live   bool
	class  endClass
	expiry format.Wall // of the queue, 0 for ever
	ends   format.Wall // when retention takes the frame; 0 when no time does
	queue  format.QueueID
}

// judge says of frames whether the state still needs them. Rows come partition by partition, and each
// partition is looked up once: what is dead stays dead, and what died meanwhile is judged again next time.
type judge struct {
	n    *Node
	part judgedPartition
}

// judgedPartition is a partition as the judge found it.
type judgedPartition struct {
	id     format.PartitionID
	exists bool
	start  format.Offset
	cutoff format.Wall
	queue  format.QueueID
	expiry format.Wall
	dead   bool          // it has dead letters
	held   []offsetRange // that consumer groups hold under leases
}

type offsetRange struct{ from, to format.Offset }

// frame judges one row: not trimmed and not before the cutoff, else pinned, else dead.
func (j *judge) frame(r *rows.Row) verdict {
	if j.part.id != r.Partition {
		j.part = j.n.judgedPartition(r.Partition)
	}
	p := &j.part
	v := verdict{class: classPinned, queue: p.queue, expiry: p.expiry}
	if p.exists && r.End() > p.start && r.W >= p.cutoff {
		v.live, v.class = true, classOf(p.expiry)
		if p.expiry > 0 {
			v.ends = r.W + p.expiry
		}
		return v
	}
	for _, h := range p.held {
		v.live = v.live || r.End() > h.from && r.Base < h.to
	}
	if !v.live && p.dead {
		j.n.state.RLock()
		v.live = len(j.n.state.m.DeadLettersAt(r.Partition, r.Base, r.End(), 1)) > 0
		j.n.state.RUnlock()
	}
	return v
}

func (n *Node) judgedPartition(id format.PartitionID) judgedPartition {
	p := judgedPartition{id: id}
	n.state.RLock()
	defer n.state.RUnlock()
	m := n.state.m
	p.dead = len(m.DeadLettersAt(id, 0, ^format.Offset(0), 1)) > 0
	if p.start, p.cutoff, p.exists = m.Retained(id); !p.exists {
		return p
	}
	p.queue, _ = m.QueueOf(id)
	q, _ := m.QueueByID(p.queue)
	p.expiry = q.Expiry
	for _, g := range m.Groups(p.queue) {
		if c, ok := m.CursorOf(id, g.ID); ok && !c.Lease.ID.IsZero() {
			p.held = append(p.held, offsetRange{c.Lease.Next, c.Lease.End})
		}
	}
	return p
}

// measured is what a segment holds of live frames: counted from its rows, or bounded from above by its
// sidecar, which knows neither trims nor pins.
type measured struct {
	segment uint32
	alloc   int64 // bytes of the file
	exact   bool  // counted from rows
	live    int64 // bytes of live frames
	frames  int
	classes []classShare
}

// classShare is what a segment holds of one class.
type classShare struct {
	class  endClass
	bytes  int64
	expiry format.Wall // the longest
	ends   format.Wall // the latest
}

func (m *measured) add(v *verdict, bytes int64) {
	m.live += bytes
	m.frames++
	for i := range m.classes {
		if c := &m.classes[i]; c.class == v.class {
			c.bytes += bytes
			c.expiry, c.ends = max(c.expiry, v.expiry), max(c.ends, v.ends)
			return
		}
	}
	m.classes = append(m.classes, classShare{v.class, bytes, v.expiry, v.ends})
}

// retained is what is live of it for its own sake, not because something else pins it.
func (m *measured) retained() int64 {
	for i := range m.classes {
		if m.classes[i].class == classPinned {
			return m.live - m.classes[i].bytes
		}
	}
	return m.live
}

// isDead says that nothing of the segment is needed.
func (m *measured) isDead() bool { return m.exact && m.live == 0 }

// frameOverhead is what a frame takes in a bulk segment beside its bytes: record head, fields, position.
const frameOverhead = 96

// rewritten is about what the live frames take in a bulk segment of their own.
func (m *measured) rewritten() int64 {
	return m.live + int64(m.frames)*frameOverhead + 6*format.BlockSize
}

// waits says that the class that ends first has less than a quarter of its time left: it is not worth
// copying. A class with more time left is, or little of it would keep all that has died around it.
func (m *measured) waits(now format.Wall) bool {
	var first *classShare
	for i := range m.classes {
		if c := &m.classes[i]; c.class.timed() && (first == nil || c.class < first.class) {
			first = c
		}
	}
	return first != nil && first.ends-now <= first.expiry/4
}

// soonest is the first time at which a class of the segment will have ended; 0 when none does.
func (m *measured) soonest() (at format.Wall) {
	for i := range m.classes {
		if c := &m.classes[i]; c.class.timed() && (at == 0 || c.ends < at) {
			at = c.ends
		}
	}
	return at
}

// main is the class that most of the live bytes are of.
func (m *measured) main() endClass {
	best := classShare{class: classPinned}
	for _, c := range m.classes {
		if c.bytes > best.bytes {
			best = c
		}
	}
	return best.class
}
