package format

// Flag bits of the commands that change what exists.
const (
	trimCompleted = 1 << 0
	trimBounded   = 1 << 1

	configureReplace = 1 << 1
	configureGuarded = 1 << 2

	deleteAllQueues        = 1 << 1
	deleteKeepRegistration = 1 << 2
	deleteGuarded          = 1 << 3

	purgeAnyGroup = 1 << 2
)

// AddGenesis adds the first command of a raft group.
func (b *CommandBuf) AddGenesis(g *Genesis) {
	at := b.begin(KindGenesis)
	c := append(b.Commands, g.Cluster[:]...)
	c = append(c, g.HashKey[:]...)
	c = putU64(c, g.NameSeed)
	c = append(c, g.IDMask[:]...)
	b.Commands = putUvarint(c, uint64(g.Level))
	b.end(at, 1)
}

// Genesis decodes the current command.
func (r *CommandReader) Genesis(g *Genesis) error {
	d := r.open(KindGenesis)
	*g = Genesis{Cluster: d.uuid(), HashKey: d.uuid(), NameSeed: d.u64()}
	copy(g.IDMask[:], d.take(uint64(len(g.IDMask))))
	g.Level = d.uvarint32()
	return r.done(&d)
}

// AddTerm adds the announcement of an epoch.
func (b *CommandBuf) AddTerm(t *TermCmd) {
	at := b.begin(KindTerm)
	b.Commands = putUvarint(b.Commands, uint64(t.Epoch))
	b.end(at, 1)
}

// TermCmd decodes the current command.
func (r *CommandReader) TermCmd(t *TermCmd) error {
	d := r.open(KindTerm)
	*t = TermCmd{Epoch: Term(d.uvarint())}
	return r.done(&d)
}

// AddTick adds a Tick, which says nothing: the entry's stamps do the work.
func (b *CommandBuf) AddTick() { b.end(b.begin(KindTick), 1) }

// Tick checks that the current command is a Tick and empty.
func (r *CommandReader) Tick() error {
	d := r.open(KindTick)
	return r.done(&d)
}

// AddReveal adds a Reveal.
func (b *CommandBuf) AddReveal(v *Reveal) {
	at := b.begin(KindReveal)
	c := putUvarint(b.Commands, uint64(v.Partition))
	c = putUvarint(c, uint64(v.Visible))
	c = putVarint(c, int64(v.Next))
	b.Commands = putUvarint(c, uint64(v.Generation))
	b.end(at, 1)
}

// Reveal decodes the current command.
func (r *CommandReader) Reveal(v *Reveal) error {
	d := r.open(KindReveal)
	*v = Reveal{
		Partition: PartitionID(d.uvarint()), Visible: Offset(d.uvarint()),
		Next: Wall(d.varint()), Generation: d.uvarint32(),
	}
	return r.done(&d)
}

// AddRetain adds a Retain.
func (b *CommandBuf) AddRetain(v *Retain) {
	at := b.begin(KindRetain)
	c := putUvarint(b.Commands, uint64(v.Queue))
	c = putVarint(c, int64(v.Cutoff))
	b.Commands = putUvarint(c, uint64(v.Generation))
	if v.Aborts > 0 {
		b.Commands = putUvarint(b.Commands, uint64(v.Aborts))
	}
	b.end(at, 1)
}

// Retain decodes the current command.
func (r *CommandReader) Retain(v *Retain) error {
	d := r.open(KindRetain)
	*v = Retain{Queue: QueueID(d.uvarint()), Cutoff: Wall(d.varint()), Generation: d.uvarint32()}
	if d.bad == "" && d.pos < len(d.b) {
		if v.Aborts = d.uvarint32(); v.Aborts == 0 {
			d.fail("a number of aborted ranges that says nothing")
		}
	}
	return r.done(&d)
}

// AddTrim adds a Trim.
func (b *CommandBuf) AddTrim(v *Trim) {
	at := b.begin(KindTrim)
	c := append(b.Commands, bit(v.Completed, trimCompleted)|bit(v.Bounded, trimBounded))
	c = putUvarint(c, uint64(v.Queue))
	c = putUvarint(c, uint64(v.Generation))
	c = putUvarint(c, uint64(len(v.Items)))
	for _, item := range v.Items {
		c = putUvarint(putUvarint(c, uint64(item.Partition)), uint64(item.Upto))
	}
	b.Commands = c
	b.end(at, 1)
}

// Trim decodes the current command, reusing the capacity of v.Items.
func (r *CommandReader) Trim(v *Trim) error {
	d := r.open(KindTrim)
	flags := d.flags(trimCompleted | trimBounded)
	if flags == trimCompleted|trimBounded {
		d.fail("a trim of two reasons")
	}
	*v = Trim{
		Completed: flags&trimCompleted != 0, Bounded: flags&trimBounded != 0, Queue: QueueID(d.uvarint()),
		Generation: d.uvarint32(), Items: resize(v.Items, d.count(2)),
	}
	for i := range v.Items {
		v.Items[i] = TrimItem{Partition: PartitionID(d.uvarint()), Upto: Offset(d.uvarint())}
	}
	return r.done(&d)
}

// AddConfigure adds a Configure. Of Patch only the options in Patch.Set travel.
func (b *CommandBuf) AddConfigure(v *Configure) {
	at := b.begin(KindConfigure)
	c := append(b.Commands, tenantFlag(v.Tenant)|bit(v.Replace, configureReplace)|bit(v.Guarded, configureGuarded))
	c = putTenant(c, v.Tenant)
	c = putBytes(c, v.Queue)
	c = putUvarint(c, uint64(v.Reset))
	c = AppendOptions(c, &v.Patch)
	if v.Guarded {
		c = putUvarint(c, uint64(v.Life))
	}
	b.Commands = c
	b.end(at, 1)
}

// Configure decodes the current command; the strings of Patch are copies.
func (r *CommandReader) Configure(v *Configure) error {
	d := r.open(KindConfigure)
	flags := d.flags(flagDefaultTenant | configureReplace | configureGuarded)
	*v = Configure{
		Tenant: d.tenant(flags), Queue: d.bytes(), Replace: flags&configureReplace != 0, Guarded: flags&configureGuarded != 0,
		Reset: d.optionMask(),
	}
	d.options(&v.Patch)
	if v.Guarded {
		v.Life = QueueID(d.uvarint())
	}
	return r.done(&d)
}

// AddDelete adds a Delete.
func (b *CommandBuf) AddDelete(v *Delete) {
	at := b.begin(KindDelete)
	c := append(b.Commands, tenantFlag(v.Tenant)|bit(v.AllQueues, deleteAllQueues)|
		bit(v.KeepRegistration, deleteKeepRegistration)|bit(v.Guarded, deleteGuarded), byte(v.What))
	c = putTenant(c, v.Tenant)
	c = putBytes(c, v.Queue)
	c = putBytes(c, v.Name)
	c = putUvarint(putUvarint(c, uint64(v.Partition)), uint64(v.Offset))
	if v.Guarded {
		c = putUvarint(c, uint64(v.Life))
	}
	b.Commands = c
	b.end(at, 1)
}

// Delete decodes the current command.
func (r *CommandReader) Delete(v *Delete) error {
	d := r.open(KindDelete)
	flags := d.flags(flagDefaultTenant | deleteAllQueues | deleteKeepRegistration | deleteGuarded)
	*v = Delete{
		What: DeleteWhat(d.enum(uint8(DeleteDeadLetter))), Tenant: d.tenant(flags),
		Queue: d.bytes(), AllQueues: flags&deleteAllQueues != 0, Name: d.bytes(),
		KeepRegistration: flags&deleteKeepRegistration != 0,
		Partition:        PartitionID(d.uvarint()), Offset: Offset(d.uvarint()),
		Guarded: flags&deleteGuarded != 0,
	}
	if v.Guarded {
		v.Life = QueueID(d.uvarint())
	}
	return r.done(&d)
}

// AddSweep adds a Sweep.
func (b *CommandBuf) AddSweep(v *Sweep) {
	at := b.begin(KindSweep)
	b.Commands = putUvarint(b.Commands, uint64(v.Limit))
	b.end(at, 1)
}

// Sweep decodes the current command.
func (r *CommandReader) Sweep(v *Sweep) error {
	d := r.open(KindSweep)
	*v = Sweep{Limit: d.uvarint32()}
	return r.done(&d)
}

// AddMark adds a Mark, which must be the only command of its entry.
func (b *CommandBuf) AddMark(v *Mark) {
	at := b.begin(KindMark)
	c := putUvarint(b.Commands, v.Number)
	c = append(c, v.Chain[:]...)
	b.Commands = append(c, v.Digest[:]...)
	b.end(at, 1)
}

// Mark decodes the current command.
func (r *CommandReader) Mark(v *Mark) error {
	d := r.open(KindMark)
	*v = Mark{Number: d.uvarint(), Chain: d.uuid(), Digest: d.uuid()}
	return r.done(&d)
}

// AddPurge adds a Purge.
func (b *CommandBuf) AddPurge(v *Purge) {
	at := b.begin(KindPurge)
	c := append(b.Commands, tenantFlag(v.Tenant)|groupFlag(v.Group)|bit(v.AnyGroup, purgeAnyGroup))
	c = putTenant(c, v.Tenant)
	c = putBytes(c, v.Queue)
	b.Commands = putGroup(c, v.Group)
	b.end(at, 1)
}

// Purge decodes the current command.
func (r *CommandReader) Purge(v *Purge) error {
	d := r.open(KindPurge)
	flags := d.flags(flagDefaultTenant | flagQueueMode | purgeAnyGroup)
	*v = Purge{
		Tenant: d.tenant(flags), Queue: d.bytes(), Group: d.group(flags),
		AnyGroup: flags&purgeAnyGroup != 0,
	}
	return r.done(&d)
}

// IsOpaque reports the kinds whose bodies this version carries without reading them. Each consumes
// one ordinal.
func (k Kind) IsOpaque() bool {
	switch k {
	case KindTrace, KindReport:
		return true
	}
	return false
}

// AddOpaque adds a command whose kind IsOpaque.
func (b *CommandBuf) AddOpaque(o *Opaque) {
	at := b.begin(o.Kind)
	b.Commands = append(b.Commands, o.Body...)
	b.end(at, 1)
}

// Opaque hands out the current command as bytes, whatever its kind.
func (r *CommandReader) Opaque(o *Opaque) error {
	*o = Opaque{Kind: r.kind, Body: r.body}
	return r.err
}
