package machine

import (
	"cmp"
	"slices"
	"strings"

	"queen/engine/format"
)

// txnPosition is a position that is committed with the transaction. A transaction's are in order of group, queue and
// partition, one of each.
type txnPosition struct {
	at       txnPositionKey
	offset   format.Offset
	epoch    int32
	metadata string
}

type txnPositionKey struct{ group, queue, partition string }

func (p txnPositionKey) compare(o txnPositionKey) int {
	return cmp.Or(strings.Compare(p.group, o.group), strings.Compare(p.queue, o.queue), strings.Compare(p.partition, o.partition))
}

// pendingKey is a position of a tenant that open transactions hold.
type pendingKey struct {
	tenant format.Tenant
	at     txnPositionKey
}

// positionBytes is what a position counts beside its texts.
const positionBytes = 160

// size is what a position counts against txnBytesMost.
func (p *txnPosition) size() int {
	return len(p.at.group) + len(p.at.queue) + len(p.at.partition) + len(p.metadata) + positionBytes
}

// PendingBytes is what a position counts while its transaction is open.
func PendingBytes(group []byte, p *format.Position) int {
	return len(group) + len(p.Queue) + len(p.Partition) + len(p.Metadata) + positionBytes
}

// PendingOf tells how many positions the open transaction of the command's producer holds, and their bytes; with of, only
// those that these would replace. Of a producer that apply will refuse there are none.
func (m *Machine) PendingOf(c *format.Producer, of []format.Position) (count, bytes int) {
	t := m.named(c.Tenant, c.Name)
	if t == nil || t.producer != c.ID || t.epoch != c.Epoch {
		return 0, 0
	}
	if of == nil {
		return len(t.positions), t.bytes
	}
	for i := range of {
		at := txnPositionKey{string(c.Group), string(of[i].Queue), string(of[i].Partition)}
		if k, ok := t.findPosition(at); ok {
			count++
			bytes += t.positions[k].size()
		}
	}
	return count, bytes
}

// findPosition is where a position stands among those of the transaction, or would.
func (t *transactional) findPosition(at txnPositionKey) (int, bool) {
	return slices.BinarySearchFunc(t.positions, at, func(a txnPosition, at txnPositionKey) int { return a.at.compare(at) })
}

// addPositions adds all positions of the command, or none. What the transaction had of a partition is replaced.
func (m *Machine) addPositions(t *transactional, c *format.Producer, res *format.ProducerResult) format.Code {
	if c.Fenced {
		at := format.Place{}
		if row, ok := m.GroupRow(c.Tenant, string(c.Group)); ok {
			at = row.At
		}
		if at != c.Row {
			return format.CodeGone
		}
	}
	if t.state != txnOngoing && !c.Implicit {
		return format.CodeTxnState
	}
	bytes := 0
	for i := range c.Positions {
		p := &c.Positions[i]
		res.Failed = uint32(i)
		q := m.queueBy(c.Tenant, p.Queue)
		if q == nil {
			return format.CodeUnknownQueue
		}
		bytes += PendingBytes(c.Group, p)
		if code := m.txnPositionRoom(q, c.Group, p.Partition, len(c.Positions)); code != format.CodeOK {
			return code
		}
	}
	if m.kafka.bytes+bytes > txnBytesMost {
		return format.CodeLimit
	}
	res.Failed = 0
	m.beginTxn(t)
	fresh := make([]txnPosition, len(c.Positions))
	for i := range c.Positions {
		p := &c.Positions[i]
		fresh[i] = txnPosition{at: txnPositionKey{string(c.Group), string(p.Queue), string(p.Partition)}, offset: p.To,
			epoch: p.LeaderEpoch, metadata: string(p.Metadata)}
	}
	if len(fresh) < mergeFrom {
		for i := range fresh {
			m.addPosition(t, fresh[i])
		}
	} else {
		m.mergePositions(t, fresh)
	}
	m.soilNamed(t)
	return format.CodeOK
}

// txnPositionRoom says that what a position makes new fits, n times over. It only reads.
func (m *Machine) txnPositionRoom(q *queue, group, partition []byte, n int) format.Code {
	const most = 1<<31 - 2
	if m.header.partitions+uint64(n) > maxPartitions || uint64(m.header.groups)+uint64(n) > maxCatalog ||
		max(m.parts.Len(), m.sides.Len(), m.cursors.Len())+n > most {
		return format.CodeLimit
	}
	return m.positionRoom(&format.SetOffset{Partition: partition, Group: group}, q, n)
}

// positionsRoom says that all positions of a transaction can be committed.
func (m *Machine) positionsRoom(t *transactional) format.Code {
	for i := range t.positions {
		at := &t.positions[i].at
		q := m.queueBy(t.tenant, []byte(at.queue))
		if q == nil {
			continue // its positions go with it
		}
		if code := m.txnPositionRoom(q, []byte(at.group), []byte(at.partition), len(t.positions)); code != format.CodeOK {
			return code
		}
	}
	return format.CodeOK
}

func (m *Machine) addPosition(t *transactional, p txnPosition) {
	i, found := t.findPosition(p.at)
	if found {
		m.weigh(t, -t.positions[i].size())
		t.positions[i] = p
	} else {
		t.positions = slices.Insert(t.positions, i, p)
		m.kafka.pending[pendingKey{t.tenant, p.at}]++
	}
	m.weigh(t, p.size())
}

// mergeFrom is how many positions are merged into those of the transaction; fewer are put in one by one.
const mergeFrom = 16

// mergePositions is addPosition of many, of which the last of each partition counts. Clients send them in no order: to make
// room for each alone would move the list as often.
func (m *Machine) mergePositions(t *transactional, fresh []txnPosition) {
	slices.SortStableFunc(fresh, func(a, b txnPosition) int { return a.at.compare(b.at) })
	old, out := t.positions, make([]txnPosition, 0, len(t.positions)+len(fresh))
	for i := range fresh {
		p := &fresh[i]
		if i+1 < len(fresh) && fresh[i+1].at == p.at {
			continue
		}
		for len(old) > 0 && old[0].at.compare(p.at) < 0 {
			out, old = append(out, old[0]), old[1:]
		}
		if len(old) > 0 && old[0].at == p.at {
			m.weigh(t, -old[0].size())
			old = old[1:]
		} else {
			m.kafka.pending[pendingKey{t.tenant, p.at}]++
		}
		m.weigh(t, p.size())
		out = append(out, *p)
	}
	t.positions = append(out, old...)
}

// weigh counts bytes of positions that come, or go.
func (m *Machine) weigh(t *transactional, bytes int) {
	t.bytes += bytes
	m.kafka.bytes += bytes
}

// endPositions commits the positions of a transaction that ends, or lets go of them. A queue that was deleted since
// takes its positions along.
func (m *Machine) endPositions(t *transactional, commit bool) {
	k := &m.kafka
	for i := range t.positions {
		p := &t.positions[i]
		m.weigh(t, -p.size())
		key := pendingKey{t.tenant, p.at}
		if k.pending[key]--; k.pending[key] == 0 {
			delete(k.pending, key)
		}
		if commit {
			// Room was looked for before; a queue that is gone takes its positions along.
			_ = m.commitPosition(t.tenant, []byte(p.at.group), &format.Position{Queue: []byte(p.at.queue),
				Partition: []byte(p.at.partition), To: p.offset, LeaderEpoch: p.epoch, Metadata: []byte(p.metadata)})
		}
	}
}

// PendingPosition says that an open transaction holds a position of a consumer group on a partition.
func (m *Machine) PendingPosition(t format.Tenant, group, queue, partition string) bool {
	return len(m.kafka.pending) > 0 && m.kafka.pending[pendingKey{t, txnPositionKey{group, queue, partition}}] > 0
}
