package machine

import (
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/google/btree"
	"github.com/zeebo/xxh3"

	"queen/engine/format"
	"queen/engine/invariants"
	"queen/engine/machine/slab"
)

// Section names a part of a snapshot. Their order is the order of emission and of loading.
type Section string

const (
	// SectionCatalog holds queues, consumer groups, tasks, administrative rows and the header. Load it before the journals.
	SectionCatalog  Section = "catalog"
	SectionNames    Section = "names"
	SectionParts    Section = "parts"
	SectionSides    Section = "sides"
	SectionCursors  Section = "cursors"
	SectionLeases   Section = "leases"
	SectionDead     Section = "dead"
	SectionJournals Section = "journals"
	SectionReceipts Section = "receipts"
	SectionKeys     Section = "keys"
	// SectionProducers and SectionAborts hold what producers stored last, and ranges of aborted transactions.
	SectionProducers Section = "producers"
	SectionAborts    Section = "aborts"
)

// Sections lists all sections in order.
var Sections = []Section{
	SectionCatalog, SectionNames, SectionParts, SectionSides, SectionCursors, SectionLeases, SectionDead,
	SectionJournals, SectionReceipts, SectionKeys, SectionProducers, SectionAborts,
}

// EmitRow takes one row of a snapshot. An empty row says that the key is gone. The bytes are good only
// during the call; an error ends the walk and is returned from it.
type EmitRow func(s Section, key uint64, row []byte) error

// Snapshot is the state at the instant of Freeze. One goroutine, any, calls Delta, then Base if it was
// frozen for one, each at most once, and Release at the end, also after an error.
type Snapshot struct {
	// Applied, Mark and Digest say of which instant it is.
	Applied format.Index
	Mark    uint64
	Digest  [16]byte

	slabs    [6]*slab.Frozen // in the order of Sections, names first
	catalog  catalogImage
	journals []journalImage
	receipts slab.RingImage[receipt]
	keys     *slab.Frozen
	seqs     *slab.Frozen
	aborts   *slab.Frozen
}

// catalogImage is the encoded catalogue: rows of the delta, and with a base all of them.
type catalogImage struct{ delta, base []catRow }

type catRow struct {
	key uint64
	row []byte
}

type journalImage struct {
	queue uint32
	image slab.RingImage[event]
}

// Freeze takes a snapshot right after a Mark, in time proportional to the chunks of the slabs and the
// catalogue rows that changed (all of them with base). The previous snapshot must have been released.
// Message ids are not part of it: they are in the chunks that Chunks lists.
func (m *Machine) Freeze(base bool) *Snapshot {
	invariants.Check(m.applied == m.markAt, "machine: freeze at %d, the last mark is at %d", m.applied, m.markAt)
	scope := slab.Delta
	if base {
		scope = slab.Base
	}
	s := &Snapshot{Applied: m.applied, Mark: m.marks, Digest: m.digest}
	s.slabs = [6]*slab.Frozen{
		m.names.Freeze(scope), m.parts.Freeze(scope), m.sides.Freeze(scope), m.cursors.Freeze(scope),
		m.leases.Freeze(scope), m.dead.Freeze(scope),
	}
	s.receipts, s.keys = m.receipts.Freeze(scope), m.keys.Freeze(scope)
	s.seqs, s.aborts = m.kafka.seqs.Freeze(scope), m.kafka.aborts.Freeze(scope)
	keys := m.takeDirt(false)
	s.catalog.delta = m.encodeRows(append(keys, catKey{kind: catHeader}))
	for _, k := range keys {
		if q := m.queues[k.id]; k.kind == catQueue && q != nil && !base {
			s.journals = append(s.journals, journalImage{k.id, q.journal.Freeze(scope)})
		}
	}
	if base {
		s.catalog.base = m.encodeRows(append(m.allKeys(), catKey{kind: catHeader}))
		for _, id := range m.queueIDs {
			s.journals = append(s.journals, journalImage{id, m.queues[id].journal.Freeze(scope)})
		}
	}
	return s
}

func (m *Machine) encodeRows(keys []catKey) []catRow {
	rows := make([]catRow, len(keys))
	for i, k := range keys {
		if a := m.admins.byID[k.id]; k.kind == catAdmin && a != nil {
			rows[i] = catRow{k.number(), a.row} // shared: there may be many, and they never change
			continue
		}
		rows[i] = catRow{k.number(), m.appendRow(nil, k)}
	}
	return rows
}

// Delta emits the rows changed since the previous Freeze, as they were at this one.
func (s *Snapshot) Delta(emit EmitRow) error { return s.walk(false, emit) }

// Base emits every row; the snapshot must have been frozen with base.
func (s *Snapshot) Base(emit EmitRow) error { return s.walk(true, emit) }

func (s *Snapshot) walk(base bool, emit EmitRow) error {
	rows := s.catalog.delta
	if base {
		rows = s.catalog.base
	}
	for _, r := range rows {
		if err := emit(SectionCatalog, r.key, r.row); err != nil {
			return err
		}
	}
	for i, f := range s.slabs {
		if err := walkSlab(f, base, Sections[1+i], emit); err != nil {
			return err
		}
	}
	for i := range s.journals {
		j := &s.journals[i]
		if err := walkRing(&j.image, base, SectionJournals, uint64(j.queue), emit); err != nil {
			return err
		}
	}
	if err := walkRing(&s.receipts, base, SectionReceipts, 0, emit); err != nil {
		return err
	}
	if err := walkSlab(s.keys, base, SectionKeys, emit); err != nil {
		return err
	}
	if err := walkSlab(s.seqs, base, SectionProducers, emit); err != nil {
		return err
	}
	return walkSlab(s.aborts, base, SectionAborts, emit)
}

func walkSlab(f *slab.Frozen, base bool, s Section, emit EmitRow) error {
	one := func(h slab.Handle, row []byte) error { return emit(s, uint64(h), row) }
	if base {
		return f.Base(one)
	}
	return f.Delta(one)
}

// walkRing emits the rows of a ring, each behind its position.
func walkRing[T any](image *slab.RingImage[T], base bool, s Section, key uint64, emit EmitRow) error {
	var buf []byte
	one := func(pos uint64, row []byte) error {
		buf = append(binary.LittleEndian.AppendUint64(buf[:0], pos), row...)
		return emit(s, key, buf)
	}
	if base {
		return image.Base(one)
	}
	return image.Delta(one)
}

// Release lets go of the snapshot; apply keeps nothing aside for it any more.
func (s *Snapshot) Release() {
	for _, f := range s.slabs {
		f.Release()
	}
	s.keys.Release()
	s.seqs.Release()
	s.aborts.Release()
}

// Load puts one row in place: every row of a base, then those of each delta in order, each as it was
// emitted. It goes before any Apply. An error says that the bytes are damaged.
func (m *Machine) Load(s Section, key uint64, row []byte) error {
	if key > 1<<32-1 && s != SectionCatalog {
		return fmt.Errorf("machine: load %s: key %d", s, key)
	}
	h := handle(key)
	switch s {
	case SectionCatalog:
		return m.loadCatalog(key, row)
	case SectionNames:
		return m.names.Load(h, row)
	case SectionParts:
		return m.parts.Load(h, row)
	case SectionSides:
		return m.sides.Load(h, row)
	case SectionCursors:
		return m.cursors.Load(h, row)
	case SectionLeases:
		return m.leases.Load(h, row)
	case SectionDead:
		return m.dead.Load(h, row)
	case SectionKeys:
		return m.keys.Load(h, row)
	case SectionProducers:
		return m.kafka.seqs.Load(h, row)
	case SectionAborts:
		return m.kafka.aborts.Load(h, row)
	case SectionJournals:
		q := m.queues[uint32(key)]
		if q == nil || len(row) < 8 {
			return fmt.Errorf("machine: load journal of queue %d: no such queue, or %d bytes", key, len(row))
		}
		return q.journal.Load(binary.LittleEndian.Uint64(row), row[8:])
	}
	if s == SectionReceipts && len(row) >= 8 {
		return m.receipts.Load(binary.LittleEndian.Uint64(row), row[8:])
	}
	return fmt.Errorf("machine: load: unknown section %q, or %d bytes", s, len(row))
}

// Finish ends the loading of rows: it builds every derived structure. Ids of the last chunks are loaded
// with LoadChunk, before or after.
func (m *Machine) Finish() error {
	m.resetIndexes()
	if err := m.receipts.LoadBounds(m.receiptBounds.start, m.receiptBounds.end); err != nil {
		return fmt.Errorf("machine: receipts: %w", err)
	}
	for pos := m.receipts.Start(); pos < m.receipts.End(); pos++ {
		m.receiptIndex.Insert(m.receiptHash(m.receipts.At(pos)), receiptHandle(pos))
	}
	m.markAt = m.applied
	for _, id := range m.queueIDs {
		q := m.queues[id]
		if err := q.journal.LoadBounds(q.loaded.start, q.loaded.end); err != nil {
			return fmt.Errorf("machine: queue %d: %w", id, err)
		}
		q.groups, q.order = make(map[string]*group), nil
	}
	m.byName = make(map[queueKey]*queue)
	for _, id := range m.queueIDs {
		if q := m.queues[id]; !q.dead {
			m.byName[queueKey{q.tenant, q.name}] = q
		}
	}
	ids := make([]uint32, 0, len(m.groups))
	for id := range m.groups {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	for _, id := range ids {
		g := m.groups[id]
		if m.queues[g.queue.id] != g.queue {
			return fmt.Errorf("machine: consumer group %d of a queue that is not there", id)
		}
		g.queue.groups[g.name] = g
		g.queue.order = append(g.queue.order, g)
	}
	return m.finishRows()
}

// finishRows indexes the slabs, checking the references that indexing follows.
func (m *Machine) finishRows() error {
	for h := m.parts.Next(0); h != 0; h = m.parts.Next(h) {
		p := m.parts.Get(h)
		if !m.names.Live(p.name) || m.queues[p.queue] == nil {
			return fmt.Errorf("machine: partition %d points to a name or queue that is not there", p.id)
		}
		m.indexPart(h, p)
		if q := m.queues[p.queue]; q.uncounted {
			q.count(m.names.Get(p.name))
		}
	}
	for h := m.sides.Next(0); h != 0; h = m.sides.Next(h) {
		s := m.sides.Get(h)
		if !m.parts.Live(s.part) {
			return fmt.Errorf("machine: side record %d of no partition", h)
		}
		if s.flags&sideAsk != 0 {
			m.asks.ReplaceOrInsert(askKey{s.due, h})
		} else if s.due != 0 {
			m.holds.Add(int64(s.due), h, 0)
		}
	}
	for h := m.cursors.Next(0); h != 0; h = m.cursors.Next(h) {
		c := m.cursors.Get(h)
		if !m.parts.Live(c.part) || c.lease != 0 && !m.leases.Live(c.lease) {
			return fmt.Errorf("machine: cursor %d points to a row that is not there", h)
		}
		if m.parts.Get(c.part).cursors != h {
			m.cursorIndex.Insert(m.cursorHash(c.part, c.group), h)
		}
	}
	if err := m.finishLeases(); err != nil {
		return err
	}
	for h := m.dead.Next(0); h != 0; h = m.dead.Next(h) {
		m.indexDead(h, m.dead.Get(h))
	}
	if err := m.finishKafka(); err != nil {
		return err
	}
	return m.finishKeys()
}

func (m *Machine) finishLeases() error {
	follows := make(map[handle]bool) // records that another one of the chain points to
	for h := m.leases.Next(0); h != 0; h = m.leases.Next(h) {
		l := m.leases.Get(h)
		if !m.cursors.Live(l.cursor) {
			return fmt.Errorf("machine: lease %d of no cursor", h)
		}
		if l.chain != 0 {
			follows[l.chain] = true
		}
		if l.flags&leaseLive != 0 {
			m.liveLeases++
		}
		m.arm(h, l)
	}
	for h := m.leases.Next(0); h != 0; h = m.leases.Next(h) {
		if l := m.leases.Get(h); l.flags&leaseLive != 0 && !follows[h] {
			m.indexLease(h, l)
		}
	}
	return nil
}

// resetDerived starts the derived structures anew under the seed of the Genesis.
func (m *Machine) resetDerived() {
	m.resetIndexes()
	m.ids = slab.NewRecentIDs(m.genesis.NameSeed)
}

func (m *Machine) resetIndexes() {
	seed := m.genesis.NameSeed
	m.nameIndex, m.idIndex = slab.NewIndex(seed), slab.NewIndex(seed+1)
	m.cursorIndex, m.leaseIndex = slab.NewIndex(seed+2), slab.NewIndex(seed+3)
	m.receiptIndex = slab.NewIndex(seed + 4)
	m.timers, m.holds, m.asks = slab.NewDue(), slab.NewDue(), btree.NewG(deadDegree, lessAsk)
	m.keyIndex, m.keyDue, m.timerDue = slab.NewIndex(seed+5), slab.NewDue(), newTimerTree()
	m.deadByID, m.deadByAddr = newDeadTrees()
	m.liveLeases = 0
	m.kafka.reset()
}

// nextDigest chains the rows written since the mark before, in (slab, handle) order.
func (m *Machine) nextDigest() [16]byte {
	h := xxh3.New()
	_, _ = h.Write(m.digest[:])
	var head [12]byte
	section := byte(0)
	write := func(key uint64, row []byte) {
		head[0] = section
		binary.LittleEndian.PutUint64(head[1:], key)
		_, _ = h.Write(head[:9])
		binary.LittleEndian.PutUint32(head[:], uint32(len(row)))
		_, _ = h.Write(head[:4])
		_, _ = h.Write(row)
	}
	one := func(h slab.Handle, row []byte) { write(uint64(h), row) }
	m.names.Mark(one)
	section++
	m.parts.Mark(one)
	section++
	m.sides.Mark(one)
	section++
	m.cursors.Mark(one)
	section++
	m.leases.Mark(one)
	section++
	m.dead.Mark(one)
	section++
	var row []byte
	for _, k := range append(m.takeDirt(true), catKey{kind: catHeader}) {
		row = m.appendRow(row[:0], k)
		write(k.number(), row)
	}
	section++
	m.kafka.seqs.Mark(one)
	section++
	m.kafka.aborts.Mark(one)
	return h.Sum128().Bytes()
}

// Digest is the state digest as of the last Mark: equal on replicas whose states are equal. The next
// Mark carries the leader's.
func (m *Machine) Digest() [16]byte { return m.digest }

// Chunks lists the closed chunks of message ids that are resident, oldest first. A chunk never changes;
// its id run is written from it.
func (m *Machine) Chunks() []*slab.IDChunk { return m.ids.Closed() }

// LoadChunk loads the ids of a closed chunk, in the order of marks, before any Apply. It sorts rows.
func (m *Machine) LoadChunk(mark uint64, rows []slab.ID) { m.ids.LoadChunk(mark, rows) }
