package machine

import (
	"bytes"
	"cmp"
	"slices"

	"github.com/google/btree"
	"github.com/zeebo/xxh3"

	"queen/engine/format"
)

// deadKey and deadAddr order dead letters by id and by the message they point to.
type deadKey struct {
	id format.DeadLetterID
	h  handle
}

type deadAddr struct {
	part   format.PartitionID
	offset format.Offset
	h      handle
}

func lessDeadKey(a, b deadKey) bool { return bytes.Compare(a.id[:], b.id[:]) < 0 }

func lessDeadAddr(a, b deadAddr) bool {
	return cmp.Or(cmp.Compare(a.part, b.part), cmp.Compare(a.offset, b.offset), cmp.Compare(a.h, b.h)) < 0
}

const deadDegree = 32

func newDeadTrees() (*btree.BTreeG[deadKey], *btree.BTreeG[deadAddr]) {
	return btree.NewG(deadDegree, lessDeadKey), btree.NewG(deadDegree, lessDeadAddr)
}

// fileDead writes a dead letter: a pointer to the message, which pins it, or from format.TimerOffset on an address of
// its own, and why. The id is made from the place of the command; the n-th record of one command carries n in the time
// of its id.
func (m *Machine) fileDead(q *queue, p *partRec, at format.Offset, group string, why format.DeadRow) format.DeadLetterID {
	h, d := m.dead.Alloc()
	if h == 0 {
		return format.DeadLetterID{}
	}
	d.id = format.MessageID(m.genesis.IDMask, m.group, m.w+format.Wall(m.filed)*1000, m.place)
	m.filed++
	d.part, d.offset, d.at = p.id, at, m.w
	d.queue, d.retries = q.id, why.Retries
	if ref, err := m.names.Put([]byte(group)); err == nil {
		d.group = ref
	}
	row := append(m.row(FamilyDeadLetter), d.id[:]...)
	m.scratch.row = why.Append(row)
	d.sum = xxh3.Hash128(m.scratch.row).Lo
	m.keySums[FamilyDeadLetter].rows++
	m.keySums[FamilyDeadLetter].sum += d.sum
	m.keyed.Put(FamilyDeadLetter, d.id[:], m.scratch.row[len(row):])
	if d.older = q.deadNewest; d.older != 0 {
		m.dead.Touch(d.older).newer = h
	} else {
		q.deadOldest = h
	}
	q.deadNewest = h
	q.deadCount++
	m.soilQueue(q)
	m.indexDead(h, d)
	return d.id
}

func (m *Machine) indexDead(h handle, d *deadRec) {
	m.deadByID.ReplaceOrInsert(deadKey{d.id, h})
	m.deadByAddr.ReplaceOrInsert(deadAddr{d.part, d.offset, h})
}

// deadWithID finds a dead letter by its id.
func (m *Machine) deadWithID(id format.DeadLetterID) handle {
	k, _ := m.deadByID.Get(deadKey{id: id})
	return k.h
}

// firstDeadOf finds the dead letter of a partition with the lowest offset; 0 when it has none.
func (m *Machine) firstDeadOf(id format.PartitionID) (h handle) {
	m.deadByAddr.AscendGreaterOrEqual(deadAddr{part: id}, func(a deadAddr) bool {
		if a.part == id {
			h = a.h
		}
		return false
	})
	return h
}

// freeDead removes a dead letter from every list and from the keyed store.
func (m *Machine) freeDead(h handle) {
	d := m.dead.Get(h)
	q := m.queues[d.queue]
	m.deadByID.Delete(deadKey{id: d.id})
	m.deadByAddr.Delete(deadAddr{d.part, d.offset, h})
	m.keyed.Delete(FamilyDeadLetter, d.id[:])
	m.keySums[FamilyDeadLetter].rows--
	m.keySums[FamilyDeadLetter].sum -= d.sum
	if d.group != 0 {
		m.names.Free(d.group)
	}
	if d.newer != 0 {
		m.dead.Touch(d.newer).older = d.older
	} else {
		q.deadNewest = d.older
	}
	if d.older != 0 {
		m.dead.Touch(d.older).newer = d.newer
	} else {
		q.deadOldest = d.newer
	}
	q.deadCount--
	m.soilQueue(q)
	m.dead.Free(h)
}

// spent says that the message at next was handed out maxDeliveries times: it is to be given up.
func (m *Machine) spent(g *group, ch handle, next format.Offset) bool {
	bound := g.queue.opts.MaxDeliveries
	lh := m.cursors.Get(ch).lease
	if bound <= 0 || lh == 0 {
		return false
	}
	l := m.leases.Get(lh)
	return l.first == next && int64(l.attempts) >= bound
}

// fileSpent files or drops the message at head and returns where the claim goes on.
func (m *Machine) fileSpent(g *group, ch handle, head format.Offset) format.Offset {
	if c := m.cursors.Get(ch); g.queue.dlq() {
		why := format.DeadRow{Retries: m.leases.Get(c.lease).retries, Reason: []byte(deliveriesReason)}
		m.fileDead(g.queue, m.parts.Get(c.part), head, g.name, why)
	}
	m.moveHead(ch, head+1)
	m.clearBudget(ch)
	return head + 1
}

// passOver moves a cursor that nobody holds over what retention removed.
func (m *Machine) passOver(ch handle, next format.Offset) format.Offset {
	m.moveHead(ch, next)
	if lh := m.cursors.Get(ch).lease; lh != 0 {
		m.tidy(lh)
	}
	return next
}

const deliveriesReason = "Deliveries exhausted"

// purgeLimit bounds the dead letters one command removes.
const purgeLimit = 65_536

// applyPurge removes dead letters of a queue, newest first; More says that some are left.
func (m *Machine) applyPurge(c *format.Purge, n *format.CountResult) format.Code {
	q := m.queueBy(c.Tenant, c.Queue)
	if q == nil {
		return format.CodeUnknownQueue
	}
	n.Existed = true
	for h, looks := q.deadNewest, 0; h != 0; looks++ {
		if looks == purgeLimit {
			n.More = true
			break
		}
		this := h
		d := m.dead.Get(h)
		h = d.older
		if c.AnyGroup || string(m.names.Get(d.group)) == string(c.Group) {
			m.freeDead(this)
			n.Rows++
		}
	}
	return format.CodeOK
}

// deleteDeadAt removes every dead letter of one message.
func (m *Machine) deleteDeadAt(c *format.Delete, n *format.CountResult) format.Code {
	_, p := m.partByID(c.Partition)
	if p == nil || m.queues[p.queue].tenant != c.Tenant {
		return format.CodeUnknownPartition
	}
	var found []handle
	m.deadByAddr.AscendGreaterOrEqual(deadAddr{part: p.id, offset: c.Offset}, func(a deadAddr) bool {
		if a.part != p.id || a.offset != c.Offset || len(found) == purgeLimit {
			return false
		}
		found = append(found, a.h)
		return true
	})
	slices.Sort(found)
	for _, h := range found {
		m.freeDead(h)
		n.Rows++
	}
	n.Existed = n.Rows > 0
	return format.CodeOK
}

// applyRedrive appends the frame of a dead letter and deletes the record, both or neither (S-dlq-14). A record batch, which
// is produced into queues that are there, makes its queue here as a message does (S-dlq-17).
func (m *Machine) applyRedrive(c *format.Redrive, res *format.AppendResult) format.Code {
	h := m.deadWithID(c.DeadLetter)
	if h == 0 || m.queues[m.dead.Get(h).queue].tenant != c.Append.Tenant || m.queues[m.dead.Get(h).queue].dead {
		return format.CodeGone
	}
	made := false
	if a := &c.Append; a.Frame == format.FrameKafka {
		code, q, _ := m.checkAppend(a, 1)
		if code != format.CodeOK {
			return code
		}
		if q == nil {
			if q, made = m.ensureQueue(a.Tenant, a.Queue, byPush); q == nil {
				return format.CodeLimit
			}
		}
	}
	code := m.applyAppend(&c.Append, res)
	if code != format.CodeOK {
		return code
	}
	res.NewQueue = res.NewQueue || made
	if res.Kept == 0 && res.Dups[0].Full {
		return format.CodeLimit
	}
	if res.Kept == 0 {
		return format.CodeDuplicate
	}
	m.freeDead(h)
	return format.CodeOK
}
