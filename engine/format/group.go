package format

// Bounds of what coordinators keep of consumer groups: the rows are resident on every replica and travel with every
// base.
const (
	// MaxGroupName and MaxGroupRow bound name and value of one row, bytes.
	MaxGroupName = 512
	MaxGroupRow  = 1 << 20
	// MaxGroupRows and MaxGroupBytes bound the rows of a tenant; a row counts AdminRowBytes beside its name and value.
	MaxGroupRows  = 100_000
	MaxGroupBytes = 256 << 20
	// MaxGroupTotal bounds the rows of all tenants of a raft group, counted alike.
	MaxGroupTotal = 512 << 20
)

// GroupOp is what a Group command does.
type GroupOp uint8

const (
	// GroupSet writes the row of a consumer group.
	GroupSet GroupOp = 1
	// GroupDelete removes the row, and the consumer group with its positions from every queue.
	GroupDelete GroupOp = 2
	// GroupCommit sets positions of the consumer group, each judged alone.
	GroupCommit GroupOp = 3
)

// NoLeaderEpoch says that a position was committed without one.
const NoLeaderEpoch = int32(-1)

// Group is what a coordinator does with a consumer group: it keeps a row of it, and commits positions. What the row says
// is its writer's affair.
type Group struct {
	Tenant Tenant
	Op     GroupOp
	Name   []byte
	// Guarded refuses the whole (CodeGone) unless the row was last written at At; the zero place means that there is
	// none.
	Guarded bool
	At      Place
	Value   []byte // GroupSet
	// Positions of GroupCommit. Those of one queue stand together.
	Positions []Position
}

// Position is where a consumer group goes on reading a partition, which is made if need be.
type Position struct {
	Queue, Partition []byte
	To               Offset
	LeaderEpoch      int32  // NoLeaderEpoch or not negative
	Metadata         []byte // at most MaxPositionMetadata bytes
}

// GroupResult is the verdict about one Group command: Existed says that there was a row before; Rows counts rows of the
// group written or removed, or positions set. Refused names the positions of a GroupCommit that were not set, in order.
type GroupResult struct {
	Existed bool
	Rows    uint64
	Refused []PositionRefusal
}

// PositionRefusal is why one position was not set.
type PositionRefusal struct {
	At   uint32
	Code Code
}

// groupGuarded is bit 2 of the flags of a Group; bit 0 is flagDefaultTenant, bit 1 flagQueueMode.
const groupGuarded = 1 << 2

// AddGroup adds a Group.
func (b *CommandBuf) AddGroup(v *Group) {
	at := b.begin(KindGroup)
	c := append(b.Commands, tenantFlag(v.Tenant)|groupFlag(v.Name)|bit(v.Guarded, groupGuarded), byte(v.Op))
	c = putTenant(c, v.Tenant)
	c = putGroup(c, v.Name)
	if v.Guarded {
		c = putPlace(c, v.At)
	}
	switch v.Op {
	case GroupSet:
		c = putBytes(c, v.Value)
	case GroupCommit:
		c = putPositions(c, v.Positions)
	}
	b.Commands = c
	b.end(at, 1)
}

// putPositions writes their number, and each behind a byte that says whether its queue is that of the one before.
func putPositions(c []byte, positions []Position) []byte {
	c = putUvarint(c, uint64(len(positions)))
	for i := range positions {
		p := &positions[i]
		same := i > 0 && string(positions[i-1].Queue) == string(p.Queue)
		c = append(c, bit(same, positionSame)|bit(p.LeaderEpoch >= 0, positionEpoch)|bit(len(p.Metadata) > 0, positionMetadata))
		if !same {
			c = putBytes(c, p.Queue)
		}
		c = putUvarint(putBytes(c, p.Partition), uint64(p.To))
		if p.LeaderEpoch >= 0 {
			c = putUvarint(c, uint64(p.LeaderEpoch))
		}
		if len(p.Metadata) > 0 {
			c = putBytes(c, p.Metadata)
		}
	}
	return c
}

const (
	positionSame     = 1 << 0 // of the queue of the position before
	positionEpoch    = 1 << 1
	positionMetadata = 1 << 2
)

// Group decodes the current command, reusing the capacity of v.Positions; slices alias the entry.
func (r *CommandReader) Group(v *Group) error {
	d := r.open(KindGroup)
	flags := d.flags(flagDefaultTenant | flagQueueMode | groupGuarded)
	*v = Group{Op: GroupOp(d.enum(uint8(GroupCommit))), Tenant: d.tenant(flags), Name: d.group(flags),
		Guarded: flags&groupGuarded != 0, Positions: v.Positions[:0]}
	if v.Guarded {
		v.At = d.place()
	}
	switch v.Op {
	case GroupSet:
		v.Value = d.bytes()
	case GroupCommit:
		v.Positions = d.positions(v.Positions)
	}
	return r.done(&d)
}

func (d *decoder) positions(into []Position) []Position {
	into = resize(into, d.count(3))
	var queue []byte
	for i := range into {
		flags := d.flags(positionSame | positionEpoch | positionMetadata)
		if flags&positionSame == 0 {
			name := d.bytes()
			if i > 0 && string(name) == string(queue) {
				d.fail("a queue written out again")
			}
			queue = name
		} else if i == 0 {
			d.fail("the first position repeats a queue")
		}
		into[i] = Position{Queue: queue, Partition: d.bytes(), To: Offset(d.uvarint()), LeaderEpoch: NoLeaderEpoch}
		if flags&positionEpoch != 0 {
			epoch := d.uvarint32()
			if into[i].LeaderEpoch = int32(epoch); into[i].LeaderEpoch < 0 {
				d.fail("leader epoch out of bounds")
			}
		}
		if flags&positionMetadata != 0 {
			if into[i].Metadata = d.bytes(); len(into[i].Metadata) == 0 || len(into[i].Metadata) > MaxPositionMetadata {
				d.fail("metadata out of bounds")
			}
		}
		if d.bad != "" {
			return into
		}
	}
	return into
}
