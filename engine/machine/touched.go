package machine

import "queen/engine/format"

// Reason says why something is in the list of what an entry touched; several may hold.
type Reason uint8

const (
	// TouchedAppend: messages were appended.
	TouchedAppend Reason = 1 << iota
	// TouchedReveal: hidden messages became deliverable.
	TouchedReveal
	// TouchedReady: a partition became claimable for one consumer group.
	TouchedReady
	// TouchedStart: the log start rose.
	TouchedStart
	// TouchedGroup: a group's registration changed; it may have a circle to walk.
	TouchedGroup
	// TouchedGone: the queue or partition was deleted.
	TouchedGone
)

// Touched is one thing that the last entry changed and that somebody may wait for.
type Touched struct {
	Queue format.QueueID
	// Partition is 0 when the whole queue is meant.
	Partition format.PartitionID
	// Group is 0 when every consumer group of the queue is meant.
	Group  format.ConsumerID
	Reason Reason
}

// Touched lists what the last Apply changed, in order of change, repeats next to each other merged.
// There are at most as many as the entry has commands, claims and due items. The slice is the
// machine's and is good until the next Apply.
func (m *Machine) Touched() []Touched { return m.touched }

func (m *Machine) touch(t Touched) {
	if n := len(m.touched); n > 0 {
		last := &m.touched[n-1]
		if last.Queue == t.Queue && last.Partition == t.Partition && last.Group == t.Group {
			last.Reason |= t.Reason
			return
		}
	}
	m.touched = append(m.touched, t)
}

func (m *Machine) touchPart(p *partRec, why Reason) {
	m.touch(Touched{Queue: format.QueueID(p.queue), Partition: p.id, Reason: why})
}

func (m *Machine) touchReady(g *group, ph handle) {
	m.touch(Touched{
		Queue: format.QueueID(g.queue.id), Partition: m.parts.Get(ph).id,
		Group: format.ConsumerID(g.id), Reason: TouchedReady,
	})
}

func (m *Machine) touchGroup(g *group) {
	m.touch(Touched{Queue: format.QueueID(g.queue.id), Group: format.ConsumerID(g.id), Reason: TouchedGroup})
}
