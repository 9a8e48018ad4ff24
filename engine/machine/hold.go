package machine

import (
	"queen/engine/format"
)

// Holds: delayedProcessing hides a message until it is old enough, windowBuffer until its partition
// has been quiet. What is hidden is always a suffix. The state keeps how far a partition is visible
// and when to look at its first hidden message; message times in between are in the log only, so
// where they matter the leader is asked for a Reveal. Nothing behind a hidden message is claimable.

// windowCap is how many windows after the first unseen message a busy partition delivers anyway
// (S-vis-3: windowBuffer never starves).
const windowCap = 10

// visible is the end of what may be delivered of a partition now: what is revealed and decided. It only reads.
func (m *Machine) visible(q *queue, ph handle) format.Offset {
	end := m.revealed(q, ph)
	if m.parts.Get(ph).flags&partOpen != 0 {
		end = min(end, m.stable(ph))
	}
	return end
}

// revealed is the end of what no hold keeps back.
func (m *Machine) revealed(q *queue, ph handle) format.Offset {
	p := m.parts.Get(ph)
	if !q.holds() || m.w >= p.lastW+max(q.delay(), q.window()) {
		return p.next
	}
	s := m.sideOf(p)
	if s == nil || s.holdGen != q.holdGen {
		return 0 // not known yet under the options of today: see rehold
	}
	return min(s.visible, p.next)
}

// unjudged says that nobody has looked yet at what the queue's present options hide of a partition.
func (m *Machine) unjudged(q *queue, ph handle) bool {
	p := m.parts.Get(ph)
	if !q.holds() || m.w >= p.lastW+max(q.delay(), q.window()) {
		return false
	}
	s := m.sideOf(p)
	return s == nil || s.holdGen != q.holdGen
}

// judge looks at a partition under the options of today if nobody has yet. Whoever is about to leave a
// partition alone because nothing of it is visible calls it first: what it hides will be announced.
func (m *Machine) judge(q *queue, ph handle) {
	if m.unjudged(q, ph) {
		m.rehold(q, ph)
	}
}

// hide takes note of messages just appended from base on; lastW is the partition's last W before them.
func (m *Machine) hide(q *queue, ph handle, base format.Offset, lastW format.Wall) {
	p := m.parts.Get(ph)
	if s := m.sideOf(p); s == nil || s.holdGen != q.holdGen {
		if base > 0 && m.w < lastW+max(q.delay(), q.window()) {
			m.rehold(q, ph)
			return
		}
		if s != nil && s.hidden != 0 {
			m.announce(q, ph, s.visible, false)
		}
		s = m.touchSide(ph)
		s.holdGen, s.hidden = q.holdGen, 0
		m.unask(p.side, s)
	}
	s := m.sides.Touch(p.side)
	if s.hidden != 0 {
		return // the timer of the first hidden message stands; it looks again when it fires
	}
	s.visible, s.hidden = base, m.w
	m.armHold(q, p, s)
}

// armHold sets the timer for the first hidden message: the later of the two holds.
func (m *Machine) armHold(q *queue, p *partRec, s *sideRec) {
	due := s.hidden + q.delay()
	if n := q.window(); n > 0 {
		due = max(due, min(p.lastW+n, s.hidden+windowCap*n))
	}
	s.due = due
	m.holds.Add(int64(due), p.side, 0)
}

// rehold starts over for a partition whose holds are not known under the options of today: a delay
// needs the log, a window counts from now.
func (m *Machine) rehold(q *queue, ph handle) {
	s := m.touchSide(ph)
	if s == nil {
		return
	}
	p := m.parts.Get(ph)
	s.holdGen, s.visible, s.hidden = q.holdGen, 0, m.w
	if q.delay() > 0 {
		m.ask(p.side, s)
		return
	}
	m.unask(p.side, s)
	m.armHold(q, p, s)
}

// ask puts a partition on the list of those that wait for a Reveal.
func (m *Machine) ask(sh handle, s *sideRec) {
	m.holds.Cancel(sh, 0)
	m.unask(sh, s)
	s.flags |= sideAsk
	s.due = m.w
	m.asks.ReplaceOrInsert(askKey{s.due, sh})
}

func (m *Machine) unask(sh handle, s *sideRec) {
	if s.flags&sideAsk == 0 {
		return
	}
	m.asks.Delete(askKey{s.due, sh})
	s.flags, s.due = s.flags&^sideAsk, 0
}

// askKey orders the partitions that wait for a Reveal: longest waiting first.
type askKey struct {
	since format.Wall
	side  handle
}

func lessAsk(a, b askKey) bool {
	return a.since < b.since || a.since == b.since && a.side < b.side
}

// quiet says that the window does not hold a partition back any more.
func (m *Machine) quiet(q *queue, p *partRec, s *sideRec) bool {
	n := q.window()
	return n == 0 || m.w >= p.lastW+n || m.w >= s.hidden+windowCap*n
}

// holdDue looks at a partition whose hold may be over.
func (m *Machine) holdDue(sh handle) {
	s := m.sides.Touch(sh)
	p := m.parts.Get(s.part)
	q := m.queues[p.queue]
	s.due = 0 // its timer fired, so it does not wait for a Reveal
	switch {
	case q.dead || s.hidden == 0:
	case !q.holds():
		m.reveal(q, s, p.next)
	case s.holdGen != q.holdGen:
		m.rehold(q, s.part)
	case !m.quiet(q, p, s):
		m.armHold(q, p, s)
	case q.delay() == 0 || m.w >= p.lastW+q.delay():
		m.reveal(q, s, p.next)
	default:
		m.ask(sh, s)
	}
}

// reveal makes messages below upto deliverable and tells every group through the journal.
func (m *Machine) reveal(q *queue, s *sideRec, upto format.Offset) {
	p := m.parts.Get(s.part)
	before := s.visible
	s.visible = upto
	if upto >= p.next {
		m.unask(p.side, s)
		s.hidden, s.due = 0, 0
		m.holds.Cancel(p.side, 0)
	}
	if upto > before {
		m.announce(q, s.part, before, false)
		m.touchPart(p, TouchedReveal)
	}
}

// applyReveal moves what is visible forward, as the leader found it in the log.
func (m *Machine) applyReveal(c *format.Reveal, n *format.CountResult) format.Code {
	ph, p := m.partByID(c.Partition)
	if p == nil {
		return format.CodeUnknownPartition
	}
	q := m.queues[p.queue]
	if c.Generation != q.optGen {
		return format.CodeStaleEvidence
	}
	if p.side == 0 || m.sides.Get(p.side).hidden == 0 {
		return format.CodeOK
	}
	s := m.touchSide(ph)
	if s.holdGen != q.holdGen {
		return format.CodeStaleEvidence
	}
	n.Existed = true
	m.unask(p.side, s)
	if !m.quiet(q, p, s) {
		m.armHold(q, p, s)
		return format.CodeOK
	}
	if upto := min(max(c.Visible, s.visible), p.next); upto > s.visible {
		n.Rows = uint64(upto - s.visible)
		m.reveal(q, s, upto)
	}
	switch {
	case s.hidden == 0:
	case c.Next == 0 || q.delay() == 0:
		// Messages came after the look-up: look again.
		s.hidden = m.w
		m.ask(p.side, s)
	default:
		s.hidden, s.due = c.Next-q.delay(), c.Next
		m.holds.Add(int64(s.due), p.side, 0)
	}
	return format.CodeOK
}
