package format

// Flag bits of the commands of consumers. A tenant or a consumer group that is the default one takes
// a bit instead of its bytes.
const (
	flagDefaultTenant = 1 << 0
	flagQueueMode     = 1 << 1

	popPinned   = 1 << 2
	popCommit   = 1 << 3
	popConflate = 1 << 4

	ackUnfenced = 1 << 2
	ackHasLease = 1 << 3

	runHasReason = 1 << 3
	runHasDelay  = 1 << 4
	runStatus    = 1<<3 - 1

	setOffsetToEnd    = 1 << 2
	setOffsetForget   = 1 << 3
	setOffsetCreate   = 1 << 4
	setOffsetMetadata = 1 << 5

	registerConflate    = 1 << 2
	registerReset       = 1 << 3
	registerOnlyMissing = 1 << 4
)

func tenantFlag(t Tenant) byte {
	if t == DefaultTenant {
		return flagDefaultTenant
	}
	return 0
}

func groupFlag(group []byte) byte {
	if string(group) == QueueMode {
		return flagQueueMode
	}
	return 0
}

func bit(set bool, flag byte) byte {
	if set {
		return flag
	}
	return 0
}

func putTenant(b []byte, t Tenant) []byte {
	if t == DefaultTenant {
		return b
	}
	return append(b, t[:]...)
}

func putGroup(b, group []byte) []byte {
	if string(group) == QueueMode {
		return b
	}
	return putBytes(b, group)
}

func (d *decoder) tenant(flags uint8) Tenant {
	if flags&flagDefaultTenant != 0 {
		return DefaultTenant
	}
	t := d.uuid()
	if t == DefaultTenant {
		d.fail("default tenant written out")
	}
	return t
}

// queueMode is returned for the flag; decoders alias it and nobody writes to decoded names.
var queueMode = []byte(QueueMode)

func (d *decoder) group(flags uint8) []byte {
	if flags&flagQueueMode != 0 {
		return queueMode
	}
	g := d.bytes()
	if string(g) == QueueMode {
		d.fail("queue mode written out")
	}
	return g
}

// AddPop adds a Pop; every default is resolved by the caller.
func (b *CommandBuf) AddPop(p *Pop) {
	at := b.begin(KindPop)
	c := append(b.Commands, tenantFlag(p.Tenant)|groupFlag(p.Group)|bit(p.Pinned, popPinned)|
		bit(p.Commit, popCommit)|bit(p.Conflate, popConflate))
	c = putTenant(c, p.Tenant)
	c = putUvarint(c, uint64(len(p.Queues)))
	for _, q := range p.Queues {
		c = putBytes(c, q)
	}
	if p.Pinned {
		c = putBytes(c, p.Partition)
	}
	c = putGroup(c, p.Group)
	c = append(c, byte(p.Start))
	c = putVarint(c, int64(p.From))
	c = putUvarint(c, uint64(p.Batch))
	c = putUvarint(c, uint64(p.Partitions))
	c = putVarint(c, p.Lease)
	c = putBytes(c, p.Worker)
	c = putUvarint(c, uint64(len(p.Evidence)))
	for i := range p.Evidence {
		e := &p.Evidence[i]
		c = putUvarint(c, uint64(e.Partition))
		c = putUvarint(c, uint64(e.Generation))
		c = putUvarint(c, uint64(e.Offset))
	}
	b.Commands = c
	b.end(at, 1)
}

// Pop decodes the current command, reusing the capacity of p.Queues and p.Evidence.
func (r *CommandReader) Pop(p *Pop) error {
	d := r.open(KindPop)
	flags := d.flags(flagDefaultTenant | flagQueueMode | popPinned | popCommit | popConflate)
	*p = Pop{
		Queues: p.Queues[:0], Evidence: p.Evidence[:0], Pinned: flags&popPinned != 0,
		Commit: flags&popCommit != 0, Conflate: flags&popConflate != 0,
	}
	p.Tenant = d.tenant(flags)
	p.Queues = resize(p.Queues, d.count(1))
	for i := range p.Queues {
		p.Queues[i] = d.bytes()
	}
	if p.Pinned {
		p.Partition = d.bytes()
	}
	p.Group = d.group(flags)
	p.Start = StartKind(d.enum(uint8(StartFrom)))
	p.From = Wall(d.varint())
	p.Batch = d.uvarint32()
	p.Partitions = d.uvarint32()
	p.Lease = d.varint()
	p.Worker = d.bytes()
	p.Evidence = resize(p.Evidence, d.count(3))
	for i := range p.Evidence {
		e := &p.Evidence[i]
		e.Partition, e.Generation = PartitionID(d.uvarint()), d.uvarint32()
		e.Offset = Offset(d.uvarint())
	}
	return r.done(&d)
}

// AddAck adds an Ack. Runs must be sorted by First and disjoint: the decoder refuses anything else.
func (b *CommandBuf) AddAck(a *Ack) {
	at := b.begin(KindAck)
	c := append(b.Commands, groupFlag(a.Group)|bit(a.Unfenced, ackUnfenced)|
		bit(!a.Lease.IsZero(), ackHasLease))
	c = putUvarint(c, uint64(a.Partition))
	c = putGroup(c, a.Group)
	if !a.Lease.IsZero() {
		c = append(c, a.Lease[:]...)
	}
	c = putUvarint(c, uint64(len(a.Runs)))
	next := Offset(0)
	for i := range a.Runs {
		run := &a.Runs[i]
		c = append(c, byte(run.Status)|bit(len(run.Reason) > 0, runHasReason)|
			bit(run.Delay != 0, runHasDelay))
		c = putUvarint(c, uint64(run.First-next))
		c = putUvarint(c, uint64(run.Count))
		if len(run.Reason) > 0 {
			c = putBytes(c, run.Reason)
		}
		if run.Delay != 0 {
			c = putVarint(c, run.Delay)
		}
		next = run.First + Offset(run.Count)
	}
	b.Commands = c
	b.end(at, 1)
}

// Ack decodes the current command, reusing the capacity of a.Runs.
func (r *CommandReader) Ack(a *Ack) error {
	d := r.open(KindAck)
	flags := d.flags(flagQueueMode | ackUnfenced | ackHasLease)
	*a = Ack{Runs: a.Runs[:0], Unfenced: flags&ackUnfenced != 0}
	a.Partition = PartitionID(d.uvarint())
	a.Group = d.group(flags)
	if flags&ackHasLease != 0 {
		a.Lease = d.uuid()
	}
	a.Runs = resize(a.Runs, d.count(3))
	next := Offset(0)
	for i := range a.Runs {
		next = d.ackRun(&a.Runs[i], next)
	}
	return r.done(&d)
}

// ackRun decodes a run whose first offset is counted from next, and returns the offset behind it.
func (d *decoder) ackRun(run *AckRun, next Offset) Offset {
	flags := d.flags(runStatus | runHasReason | runHasDelay)
	*run = AckRun{Status: AckStatus(flags & runStatus)}
	if run.Status == 0 || run.Status > AckDLQ {
		d.fail("unknown ack status")
	}
	run.First = next + Offset(d.uvarint())
	run.Count = d.uvarint32()
	end := run.First + Offset(run.Count)
	if run.Count == 0 || run.First < next || end < run.First {
		d.fail("ack runs empty, unsorted or overlapping")
	}
	if flags&runHasReason != 0 {
		run.Reason = d.bytes()
	}
	if flags&runHasDelay != 0 {
		run.Delay = d.varint()
	}
	return end
}

// AddExtend adds an Extend.
func (b *CommandBuf) AddExtend(e *Extend) {
	at := b.begin(KindExtend)
	b.Commands = putVarint(append(b.Commands, e.Lease[:]...), e.For)
	b.end(at, 1)
}

// Extend decodes the current command.
func (r *CommandReader) Extend(e *Extend) error {
	d := r.open(KindExtend)
	*e = Extend{Lease: d.uuid(), For: d.varint()}
	return r.done(&d)
}

// AddRelease adds a Release.
func (b *CommandBuf) AddRelease(v *Release) {
	at := b.begin(KindRelease)
	c := append(b.Commands, v.Lease[:]...)
	c = putUvarint(c, uint64(len(v.Partitions)))
	for _, p := range v.Partitions {
		c = putUvarint(c, uint64(p))
	}
	b.Commands = c
	b.end(at, 1)
}

// Release decodes the current command, reusing the capacity of v.Partitions.
func (r *CommandReader) Release(v *Release) error {
	d := r.open(KindRelease)
	*v = Release{Lease: d.uuid(), Partitions: resize(v.Partitions, d.count(1))}
	for i := range v.Partitions {
		v.Partitions[i] = PartitionID(d.uvarint())
	}
	return r.done(&d)
}

// AddSkip adds a Skip.
func (b *CommandBuf) AddSkip(v *Skip) {
	at := b.begin(KindSkip)
	c := append(b.Commands, v.Lease[:]...)
	b.Commands = putUvarint(putUvarint(c, uint64(v.Partition)), uint64(v.Upto))
	b.end(at, 1)
}

// Skip decodes the current command.
func (r *CommandReader) Skip(v *Skip) error {
	d := r.open(KindSkip)
	*v = Skip{Lease: d.uuid(), Partition: PartitionID(d.uvarint()), Upto: Offset(d.uvarint())}
	return r.done(&d)
}

// AddTrimLease adds a TrimLease.
func (b *CommandBuf) AddTrimLease(v *TrimLease) {
	at := b.begin(KindTrimLease)
	c := append(b.Commands, v.Lease[:]...)
	c = putUvarint(c, uint64(v.Partition))
	b.Commands = putUvarint(putUvarint(c, uint64(v.LastDelivered)), uint64(v.NewEnd))
	b.end(at, 1)
}

// TrimLease decodes the current command.
func (r *CommandReader) TrimLease(v *TrimLease) error {
	d := r.open(KindTrimLease)
	*v = TrimLease{
		Lease: d.uuid(), Partition: PartitionID(d.uvarint()),
		LastDelivered: Offset(d.uvarint()), NewEnd: Offset(d.uvarint()),
	}
	return r.done(&d)
}

// AddSetOffset adds a SetOffset.
func (b *CommandBuf) AddSetOffset(v *SetOffset) {
	at := b.begin(KindSetOffset)
	c := append(b.Commands, tenantFlag(v.Tenant)|groupFlag(v.Group)|bit(v.ToEnd, setOffsetToEnd)|
		bit(v.Forget, setOffsetForget)|bit(v.Create, setOffsetCreate)|bit(len(v.Metadata) > 0, setOffsetMetadata))
	c = putTenant(c, v.Tenant)
	c = putBytes(c, v.Queue)
	c = putBytes(c, v.Partition)
	c = putGroup(c, v.Group)
	c = putUvarint(c, uint64(v.To))
	if v.Create {
		c = append(c, byte(v.Start))
	}
	if len(v.Metadata) > 0 {
		c = putBytes(c, v.Metadata)
	}
	b.Commands = c
	b.end(at, 1)
}

// SetOffset decodes the current command; slices alias the entry.
func (r *CommandReader) SetOffset(v *SetOffset) error {
	d := r.open(KindSetOffset)
	flags := d.flags(flagDefaultTenant | flagQueueMode | setOffsetToEnd | setOffsetForget | setOffsetCreate |
		setOffsetMetadata)
	*v = SetOffset{
		Tenant: d.tenant(flags), Queue: d.bytes(), Partition: d.bytes(), Group: d.group(flags),
		ToEnd: flags&setOffsetToEnd != 0, To: Offset(d.uvarint()), Forget: flags&setOffsetForget != 0,
		Create: flags&setOffsetCreate != 0,
	}
	if v.Create {
		v.Start = StartKind(d.enum(uint8(StartAll)))
	}
	if flags&setOffsetMetadata != 0 {
		if v.Metadata = d.bytes(); len(v.Metadata) == 0 || len(v.Metadata) > MaxPositionMetadata {
			d.fail("metadata out of bounds")
		}
	}
	if v.Forget && (v.ToEnd || len(v.Metadata) > 0) {
		d.fail("a position both forgotten and set")
	}
	return r.done(&d)
}

// AddRegister adds a Register.
func (b *CommandBuf) AddRegister(v *Register) {
	at := b.begin(KindRegister)
	c := append(b.Commands, tenantFlag(v.Tenant)|groupFlag(v.Group)|
		bit(v.Conflate, registerConflate)|bit(v.Reset, registerReset)|
		bit(v.OnlyMissing, registerOnlyMissing))
	c = putTenant(c, v.Tenant)
	c = putBytes(c, v.Queue)
	c = putGroup(c, v.Group)
	c = append(c, byte(v.Start))
	b.Commands = putVarint(c, int64(v.From))
	b.end(at, 1)
}

// Register decodes the current command.
func (r *CommandReader) Register(v *Register) error {
	d := r.open(KindRegister)
	flags := d.flags(flagDefaultTenant | flagQueueMode | registerConflate | registerReset |
		registerOnlyMissing)
	*v = Register{
		Tenant: d.tenant(flags), Queue: d.bytes(), Group: d.group(flags),
		Start: StartKind(d.enum(uint8(StartFrom))), From: Wall(d.varint()),
		Conflate: flags&registerConflate != 0, Reset: flags&registerReset != 0,
		OnlyMissing: flags&registerOnlyMissing != 0,
	}
	return r.done(&d)
}
