package machine

import (
	"queen/engine/format"
	"queen/engine/machine/slab"
)

// event says that a partition has something new: 16 bytes in the queue's journal.
type event struct {
	part format.PartitionID
	// at is twice the next offset before the event, plus one when no push but a reveal wrote it.
	at uint64
}

func (e *event) pushed() bool          { return e.at&1 == 0 }
func (e *event) offset() format.Offset { return format.Offset(e.at >> 1) }

var eventCodec = slab.Codec[event]{
	Size: 16,
	Encode: func(dst []byte, ev *event) {
		e := enc{dst[:0]}
		e.u64(uint64(ev.part))
		e.u64(ev.at)
	},
	Decode: func(src []byte, ev *event) {
		d := dec{src}
		ev.part, ev.at = format.PartitionID(d.u64()), d.u64()
	},
}

func newJournal() *slab.Ring[event] { return slab.NewRing(eventCodec) }

// journalMin is how many events a journal holds at least.
const journalMin = 65_536

// announce appends an event for a partition unless one that nobody has looked at is there already.
// Its cost does not depend on the number of consumer groups.
//
// INVARIANT: a partition with deliverable messages that some group has not been offered has an event
// at or after that group's scan, or stands before its circle, or hangs in its FIFO (checkState).
func (m *Machine) announce(q *queue, h handle, before format.Offset, pushed bool) {
	p := m.parts.Get(h)
	if len(q.order) == 0 || p.jpos >= q.read && p.jpos >= q.journal.Start() {
		return
	}
	ev := event{part: p.id, at: uint64(before) << 1}
	if !pushed {
		ev.at |= 1
	}
	pos := q.journal.Append(ev, max(m.journalMin, 2*q.parts))
	m.parts.Touch(h).jpos = pos
	m.soilQueue(q)
}

// catchUp detaches a group whose next event was dropped: it goes to the end of the journal and walks
// the partition list once around.
func (m *Machine) catchUp(g *group) {
	q := g.queue
	if g.scan >= q.journal.Start() {
		return
	}
	m.scanTo(g, q.journal.End())
	m.startCircle(g)
}

// scanTo moves the group's place in the journal.
func (m *Machine) scanTo(g *group, pos uint64) {
	q := g.queue
	g.scan = pos
	m.soilGroup(g)
	if pos > q.read {
		q.read = pos
		m.soilQueue(q)
	}
}
