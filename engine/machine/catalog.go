package machine

import (
	"cmp"
	"fmt"
	"slices"

	"queen/engine/format"
	"queen/engine/machine/slab"
)

// The catalogue is what there are few of: queues, consumer groups, tasks, administrative rows and the
// header. They are
// ordinary Go values; each is a row {kind, id} of the checkpoint and of the digest.

type catKind uint8

const (
	catQueue  catKind = 1
	catGroup  catKind = 2
	catTask   catKind = 3
	catHeader catKind = 4
	catAdmin  catKind = 5
	catNamed  catKind = 6 // a transactional id
	catKafka  catKind = 7 // counters of producers, epochs; one row, of id 0
)

type catKey struct {
	kind catKind
	id   uint32
}

func compareCat(a, b catKey) int { return cmp.Or(cmp.Compare(a.kind, b.kind), cmp.Compare(a.id, b.id)) }

func (k catKey) number() uint64 { return uint64(k.kind)<<32 | uint64(k.id) }

// dirt says in which of the two sets of changed rows a catalogue row already is.
type dirt struct{ delta, mark bool }

// catalogDirt lists changed rows: since the last freeze, and since the last mark.
type catalogDirt struct{ delta, mark []catKey }

func (m *Machine) soil(d *dirt, k catKey) {
	if !d.delta {
		d.delta = true
		m.catalog.delta = append(m.catalog.delta, k)
	}
	if !d.mark {
		d.mark = true
		m.catalog.mark = append(m.catalog.mark, k)
	}
}

func (m *Machine) soilQueue(q *queue) { m.soil(&q.dirt, catKey{catQueue, q.id}) }
func (m *Machine) soilGroup(g *group) { m.soil(&g.dirt, catKey{catGroup, g.id}) }
func (m *Machine) soilTask(t *task)   { m.soil(&t.dirt, catKey{catTask, t.id}) }

// takeDirt returns the keys changed since the last call, sorted, and starts the set anew.
func (m *Machine) takeDirt(mark bool) []catKey {
	set := &m.catalog.delta
	if mark {
		set = &m.catalog.mark
	}
	keys := *set
	*set = nil
	for _, k := range keys {
		if d := m.dirtOf(k); d != nil && mark {
			d.mark = false
		} else if d != nil {
			d.delta = false
		}
	}
	slices.SortFunc(keys, compareCat)
	return slices.Compact(keys)
}

func (m *Machine) dirtOf(k catKey) *dirt {
	switch k.kind {
	case catQueue:
		if q := m.queues[k.id]; q != nil {
			return &q.dirt
		}
	case catGroup:
		if g := m.groups[k.id]; g != nil {
			return &g.dirt
		}
	case catTask:
		if t := m.taskBy(k.id); t != nil {
			return &t.dirt
		}
	case catAdmin:
		if a := m.admins.byID[k.id]; a != nil {
			return &a.dirt
		}
	case catNamed:
		if t := m.kafka.byID[k.id]; t != nil {
			return &t.dirt
		}
	case catKafka:
		return &m.kafka.dirt
	}
	return nil
}

func (m *Machine) taskBy(id uint32) *task {
	if i, ok := slices.BinarySearchFunc(m.tasks, id, func(t *task, id uint32) int { return cmp.Compare(t.id, id) }); ok {
		return m.tasks[i]
	}
	return nil
}

// allKeys lists every catalogue row in order.
func (m *Machine) allKeys() []catKey {
	var keys []catKey
	for _, id := range m.queueIDs {
		keys = append(keys, catKey{catQueue, id})
		for _, g := range m.queues[id].order {
			keys = append(keys, catKey{catGroup, g.id})
		}
	}
	for _, t := range m.tasks {
		keys = append(keys, catKey{catTask, t.id})
	}
	for id := range m.admins.byID {
		keys = append(keys, catKey{catAdmin, id})
	}
	for id := range m.kafka.byID {
		keys = append(keys, catKey{catNamed, id})
	}
	keys = append(keys, catKey{kind: catKafka})
	slices.SortFunc(keys, compareCat)
	return keys
}

// appendRow appends the bytes of a catalogue row; nothing when it is gone.
func (m *Machine) appendRow(b []byte, k catKey) []byte {
	e := enc{b}
	switch k.kind {
	case catQueue:
		if q := m.queues[k.id]; q != nil {
			e.queue(q)
		}
	case catGroup:
		if g := m.groups[k.id]; g != nil {
			e.group(g)
		}
	case catTask:
		if t := m.taskBy(k.id); t != nil {
			e.task(t)
		}
	case catAdmin:
		if a := m.admins.byID[k.id]; a != nil {
			e.b = append(e.b, a.row...)
		}
	case catNamed:
		if t := m.kafka.byID[k.id]; t != nil {
			e.named(t)
		}
	case catKafka:
		e.kafka(&m.kafka)
	case catHeader:
		m.receiptBounds = ringBounds{m.receipts.Start(), m.receipts.End()}
		e.header(&m.header)
	}
	return e.b
}

func (e *enc) u8(v uint8) { e.b = append(e.b, v) }

func (e *enc) flag(v bool) {
	if v {
		e.u8(1)
	} else {
		e.u8(0)
	}
}

func (e *enc) text(s string) {
	e.u32(uint32(len(s)))
	e.b = append(e.b, s...)
}

// rowVersion opens every catalogue row but those of queues.
const rowVersion = 1

// queueVersion opens rows of queues. Since 2 they say what Kafka clients see; those of 1 are read as well.
const queueVersion = 2

func (e *enc) queue(q *queue) {
	e.u8(queueVersion)
	e.id(q.tenant)
	e.text(q.name)
	e.u64(uint64(q.createdW))
	e.flag(q.implicit)
	e.flag(q.declared)
	e.flag(q.dead)
	e.u32(q.optGen)
	e.u32(q.holdGen)
	e.u32(q.groupGen)
	e.u64(uint64(q.cutoff))
	e.u64(uint64(q.dedupFrom))
	for _, h := range [...]handle{q.first, q.last, q.deadNewest, q.deadOldest} {
		e.u32(uint32(h))
	}
	e.u64(q.parts)
	e.u64(q.deadCount)
	e.u64(q.read)
	e.u64(q.journal.Start())
	e.u64(q.journal.End())
	e.u32(q.width)
	e.u64(q.hidden)
	e.flag(q.kafka)
	e.u64(uint64(q.ahead))
	e.b = format.AppendAllOptions(e.b, &q.opts)
}

// soughtVersion is that of the row of a group that a seek placed, undecidedVersion of one that a commit made and that
// starts nowhere yet; others have rowVersion. No group is both.
const (
	soughtVersion    = 2
	undecidedVersion = 3
)

func (e *enc) group(g *group) {
	switch {
	case g.sought:
		e.u8(soughtVersion)
	case g.undecided:
		e.u8(undecidedVersion)
	default:
		e.u8(rowVersion)
	}
	e.u32(g.queue.id)
	e.text(g.name)
	e.u8(uint8(g.start))
	e.u64(uint64(g.from))
	e.u64(uint64(g.at.Index))
	e.u32(uint32(g.at.Ordinal))
	e.u64(uint64(g.atW))
	e.u64(uint64(g.createdW))
	e.flag(g.conflate)
	e.flag(g.consumed)
	e.flag(g.forgot)
	e.u32(g.gen)
	e.u32(g.startGen)
	e.u64(g.scan)
	e.u32(uint32(g.fifoHead))
	e.u32(uint32(g.fifoTail))
	e.u32(g.fifoLen)
	c := &g.circle
	e.flag(c.on)
	e.flag(c.wrapped)
	e.u64(c.stamp)
	e.u64(uint64(c.from))
	e.u64(uint64(c.at))
	e.u32(uint32(c.handle))
	e.u64(c.visited)
	e.u64(g.cursors)
	e.u64(g.leases)
}

func (e *enc) task(t *task) {
	e.u8(rowVersion)
	e.u8(uint8(t.kind))
	e.u32(t.queue)
	e.u32(t.group)
	e.u32(t.gen)
	e.u64(uint64(t.at))
}

func (e *enc) header(h *header) {
	e.u8(rowVersion)
	for _, v := range [...]uint64{uint64(h.applied), uint64(h.epoch), h.fuse, uint64(h.t), uint64(h.w)} {
		e.u64(v)
	}
	e.flag(h.born)
	g := &h.genesis
	e.id(g.Cluster)
	e.id(g.HashKey)
	e.u64(g.NameSeed)
	e.b = append(e.b, g.IDMask[:]...)
	e.u32(g.Level)
	e.u64(h.partitions)
	e.u32(h.queues)
	e.u32(h.groups)
	e.u32(h.tasks)
	e.u64(h.rows)
	e.u64(h.marks)
	for _, w := range h.markW {
		e.u64(uint64(w))
	}
	e.id(h.digest)
	for _, s := range h.keySums[1:] {
		e.u64(s.rows)
		e.u64(s.sum)
	}
	e.u64(h.keyVersion)
	e.u64(h.receiptBounds.start)
	e.u64(h.receiptBounds.end)
}

// reader reads catalogue rows; the first fault sticks.
type reader struct {
	b   []byte
	bad bool
}

func (r *reader) take(n int) []byte {
	if r.bad || n < 0 || n > len(r.b) {
		r.bad = true
		return make([]byte, min(max(n, 0), 16))
	}
	v := r.b[:n]
	r.b = r.b[n:]
	return v
}

func (r *reader) u8() uint8 { return r.take(1)[0] }

func (r *reader) u32() uint32 {
	d := dec{r.take(4)}
	return d.u32()
}

func (r *reader) u64() uint64 {
	d := dec{r.take(8)}
	return d.u64()
}

func (r *reader) id() format.UUID {
	d := dec{r.take(16)}
	return d.id()
}

func (r *reader) flag() bool {
	v := r.u8()
	r.bad = r.bad || v > 1
	return v == 1
}

func (r *reader) text() string {
	n := r.u32()
	if uint64(n) > uint64(len(r.b)) {
		r.bad = true
		return ""
	}
	return string(r.take(int(n)))
}

func (r *reader) version() {
	if r.u8() != rowVersion {
		r.bad = true
	}
}

// ringBounds are loaded with the queue and compared with the journal's events by Finish.
type ringBounds struct{ start, end uint64 }

func (r *reader) queue(q *queue) (bounds ringBounds, err error) {
	version := r.u8()
	r.bad = r.bad || version == 0 || version > queueVersion
	q.tenant, q.name = r.id(), r.text()
	q.createdW = format.Wall(r.u64())
	q.implicit, q.declared, q.dead = r.flag(), r.flag(), r.flag()
	q.optGen, q.holdGen, q.groupGen = r.u32(), r.u32(), r.u32()
	q.cutoff, q.dedupFrom = format.Wall(r.u64()), format.Wall(r.u64())
	q.first, q.last = handle(r.u32()), handle(r.u32())
	q.deadNewest, q.deadOldest = handle(r.u32()), handle(r.u32())
	q.parts, q.deadCount, q.read = r.u64(), r.u64(), r.u64()
	bounds = ringBounds{r.u64(), r.u64()}
	if q.uncounted = version == 1; !q.uncounted {
		q.width, q.hidden, q.kafka, q.ahead = r.u32(), r.u64(), r.flag(), format.Wall(r.u64())
	}
	if r.bad {
		return bounds, errRow
	}
	q.opts, err = format.ParseAllOptions(r.b)
	r.b = nil
	return bounds, err
}

func (r *reader) group(g *group) (queue uint32) {
	version := r.u8()
	r.bad = r.bad || version < rowVersion || version > undecidedVersion
	g.sought, g.undecided = version == soughtVersion, version == undecidedVersion
	queue, g.name = r.u32(), r.text()
	g.start, g.from = format.StartKind(r.u8()), format.Wall(r.u64())
	g.at.Index, g.at.Ordinal = format.Index(r.u64()), format.Ordinal(r.u32())
	g.atW, g.createdW = format.Wall(r.u64()), format.Wall(r.u64())
	g.conflate, g.consumed, g.forgot = r.flag(), r.flag(), r.flag()
	g.gen, g.startGen, g.scan = r.u32(), r.u32(), r.u64()
	g.fifoHead, g.fifoTail, g.fifoLen = handle(r.u32()), handle(r.u32()), r.u32()
	c := &g.circle
	c.on, c.wrapped, c.stamp = r.flag(), r.flag(), r.u64()
	c.from, c.at = format.PartitionID(r.u64()), format.PartitionID(r.u64())
	c.handle, c.visited = handle(r.u32()), r.u64()
	g.cursors, g.leases = r.u64(), r.u64()
	return queue
}

func (r *reader) task(t *task) {
	r.version()
	t.kind, t.queue, t.group, t.gen = taskKind(r.u8()), r.u32(), r.u32(), r.u32()
	t.at = format.PartitionID(r.u64())
}

func (r *reader) header(h *header) {
	r.version()
	h.applied, h.epoch, h.fuse = format.Index(r.u64()), format.Term(r.u64()), r.u64()
	h.t, h.w, h.born = format.Mono(r.u64()), format.Wall(r.u64()), r.flag()
	g := &h.genesis
	g.Cluster, g.HashKey, g.NameSeed = r.id(), r.id(), r.u64()
	copy(g.IDMask[:], r.take(len(g.IDMask)))
	g.Level = r.u32()
	h.partitions, h.queues, h.groups, h.tasks = r.u64(), r.u32(), r.u32(), r.u32()
	h.rows, h.marks = r.u64(), r.u64()
	for i := range h.markW {
		h.markW[i] = format.Wall(r.u64())
	}
	h.digest = r.id()
	for i := range h.keySums[1:] {
		h.keySums[1+i] = keyedSum{r.u64(), r.u64()}
	}
	h.keyVersion = r.u64()
	h.receiptBounds = ringBounds{r.u64(), r.u64()}
}

var errRow = fmt.Errorf("machine: catalogue row ends early or is of an unknown version")

// loadCatalog puts one row in place; an empty row removes it.
func (m *Machine) loadCatalog(number uint64, row []byte) error {
	k := catKey{catKind(number >> 32), uint32(number)}
	if len(row) == 0 {
		m.unload(k)
		return nil
	}
	r := reader{b: row}
	var err error
	switch k.kind {
	case catQueue:
		err = m.loadQueue(k.id, &r)
	case catGroup:
		err = m.loadGroup(k.id, &r)
	case catTask:
		t := m.taskBy(k.id)
		if t == nil {
			t = &task{id: k.id}
			m.tasks = append(m.tasks, t)
			slices.SortFunc(m.tasks, func(a, b *task) int { return cmp.Compare(a.id, b.id) })
		}
		r.task(t)
	case catHeader:
		r.header(&m.header)
	case catAdmin:
		err = m.loadAdmin(k.id, &r)
	case catNamed:
		t := &transactional{id: k.id}
		r.named(t)
		m.kafka.byID[k.id] = t
	case catKafka:
		r.kafka(&m.kafka)
	default:
		return fmt.Errorf("machine: catalogue row of unknown kind %d", k.kind)
	}
	if err == nil && (r.bad || len(r.b) != 0) {
		err = errRow
	}
	return err
}

func (m *Machine) loadQueue(id uint32, r *reader) error {
	q := m.queues[id]
	if q == nil {
		q = &queue{id: id, groups: make(map[string]*group), journal: slab.NewRing(eventCodec)}
		m.queues[id] = q
		i, _ := slices.BinarySearch(m.queueIDs, id)
		m.queueIDs = slices.Insert(m.queueIDs, i, id)
	}
	bounds, err := r.queue(q)
	q.loaded = bounds
	return err
}

func (m *Machine) loadGroup(id uint32, r *reader) error {
	g := m.groups[id]
	fresh := g == nil
	if fresh {
		g = &group{id: id}
	}
	queue := m.queues[r.group(g)]
	if queue == nil || r.bad {
		return errRow
	}
	if fresh {
		g.queue = queue
		m.groups[id] = g
	}
	return nil
}

// unload removes a row that a delta says is gone.
func (m *Machine) unload(k catKey) {
	switch k.kind {
	case catQueue:
		delete(m.queues, k.id)
		if i, ok := slices.BinarySearch(m.queueIDs, k.id); ok {
			m.queueIDs = slices.Delete(m.queueIDs, i, i+1)
		}
	case catGroup:
		delete(m.groups, k.id)
	case catTask:
		m.tasks = slices.DeleteFunc(m.tasks, func(t *task) bool { return t.id == k.id })
	case catAdmin:
		m.unloadAdmin(k.id)
	case catNamed:
		delete(m.kafka.byID, k.id)
	}
}
