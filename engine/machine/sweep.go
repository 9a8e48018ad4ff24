package machine

import (
	"slices"

	"queen/engine/format"
)

// taskKind says what a task does while it walks the partitions of a queue. The numbers are in checkpoints.
type taskKind uint8

const (
	sweepQueue taskKind = 1 // free everything of a deleted queue
	sweepGroup taskKind = 2 // free cursors of a deleted group, or of generations older than gen
	sweepHolds taskKind = 3 // judge anew what the queue's options hide
)

// task is a catalogue row: work over many rows that Sweep commands do in bounded steps.
type task struct {
	id    uint32
	kind  taskKind
	queue uint32
	group uint32
	gen   uint32
	at    format.PartitionID // last partition done
	dirt  dirt
}

func (m *Machine) addTask(t *task) {
	m.header.tasks++
	t.id = m.header.tasks
	m.tasks = append(m.tasks, t)
	m.soilTask(t)
}

// dropTask forgets a task that is done.
func (m *Machine) dropTask(t *task) {
	i := slices.Index(m.tasks, t)
	m.tasks = slices.Delete(m.tasks, i, i+1)
	m.soilTask(t)
}

// sweepMax bounds one Sweep whatever its limit says.
const sweepMax = 65_536

// applySweep works on the oldest tasks, looking at no more than c.Limit rows.
func (m *Machine) applySweep(c *format.Sweep, n *format.CountResult) format.Code {
	left := int(min(c.Limit, sweepMax))
	for left > 0 && len(m.tasks) > 0 {
		t := m.tasks[0]
		q := m.queues[t.queue]
		if q == nil || t.kind != sweepQueue && q.dead {
			m.dropTask(t) // the queue's own sweep does it all
			continue
		}
		if m.step(t, q, &left, n) {
			m.dropTask(t)
			if t.kind == sweepQueue {
				m.dropQueue(q)
			}
		}
	}
	n.More = len(m.tasks) > 0
	return format.CodeOK
}

// step walks on and says whether the end was reached.
func (m *Machine) step(t *task, q *queue, left *int, n *format.CountResult) (done bool) {
	m.soilTask(t)
	for h := m.partAfter(q, t.at); h != 0; {
		if *left <= 0 {
			return false
		}
		*left--
		p := m.parts.Get(h)
		this := h
		h, t.at = p.succ, p.id
		switch t.kind {
		case sweepQueue:
			if d := m.firstDeadOf(p.id); d != 0 {
				// Dead letters one by one, so that a step stays bounded.
				m.freeDead(d)
				h, t.at = this, p.id-1
			} else {
				m.freePart(q, this)
			}
			n.Rows++
		case sweepGroup:
			n.Rows += m.sweepCursor(this, t)
		case sweepHolds:
			if t.gen == q.holdGen {
				m.sweepHold(q, this)
			}
		}
	}
	return true
}

// partAfter finds where a walk in order of id goes on. The partition it stopped at may be gone: then
// the walk starts over, which does no harm and ends, since what was freed is not met again.
func (m *Machine) partAfter(q *queue, at format.PartitionID) handle {
	if at == 0 {
		return q.first
	}
	h := m.idIndex.Find(m.idHash(at), func(h handle) bool { return m.parts.Get(h).id == at })
	if h == 0 {
		return q.first
	}
	return m.parts.Get(h).succ
}

// sweepCursor frees the record of a deleted group or of an older generation.
func (m *Machine) sweepCursor(ph handle, t *task) uint64 {
	for ch := m.parts.Get(ph).cursors; ch != 0; ch = m.cursors.Get(ch).chain {
		if c := m.cursors.Get(ch); c.group == t.group {
			if t.gen == 0 || c.gen < t.gen {
				m.freeCursor(ch)
				return 1
			}
			break
		}
	}
	return 0
}

// sweepHold looks again at a partition that may hide something.
func (m *Machine) sweepHold(q *queue, ph handle) {
	m.judge(q, ph)
	p := m.parts.Get(ph)
	if s := m.sideOf(p); s != nil && s.hidden != 0 && s.holdGen != q.holdGen {
		s = m.sides.Touch(p.side)
		s.holdGen = q.holdGen
		m.reveal(q, s, p.next) // nothing holds it any more
	}
}
