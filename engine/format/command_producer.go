package format

// ProducerOp says what a Producer command does.
type ProducerOp uint8

const (
	// ProducerInit gives a producer its identity.
	ProducerInit ProducerOp = 1
	// ProducerPartitions adds partitions to the open transaction, beginning it if need be.
	ProducerPartitions ProducerOp = 2
	// ProducerPositions adds positions of a consumer group.
	ProducerPositions ProducerOp = 3
)

// Producer is about a producer of record batches and its transactional id.
type Producer struct {
	Op     ProducerOp
	Tenant Tenant
	// Name is the transactional id, empty for a producer that has none (ProducerInit only).
	Name []byte
	// ID and Epoch are what the producer believes to be; ID 0 is one that has no identity yet.
	ID    ProducerID
	Epoch int16
	// Timeout ends a transaction of the id that is left open, microseconds; ProducerInit with a Name only.
	Timeout int64
	// Partitions of ProducerPartitions; they are made when they are not there, their queues are not.
	Partitions []ProducerPartition
	// Group and Positions of ProducerPositions, which the end of the transaction commits. Implicit begins the transaction if none is open. With Fenced the row of
	// the group has to have been written at Row, zero for none.
	Group     []byte
	Positions []Position
	Implicit  bool
	Fenced    bool
	Row       Place
}

// ProducerPartition names a partition.
type ProducerPartition struct{ Queue, Partition []byte }

// MaxTransactionalID bounds transactional ids, MaxTransactionTimeout the time for which one may be left open,
// microseconds.
const (
	MaxTransactionalID    = 1 << 15
	MaxTransactionTimeout = 7 * 86400 * 1_000_000
)

// EndTxn ends a producer's transaction. Frame is the control batch that readers of every partition of it find; it is
// stored once, like a frame of an Append.
type EndTxn struct {
	ID     ProducerID
	Epoch  int16
	Commit bool
	// Bump raises the epoch afterwards (TV2). Expire is an abort for the time the transaction is open already: its epoch
	// rises as well.
	Bump, Expire bool

	// Append holds what the decoder finds of the frame; nothing else of it counts.
	Append Append
}

const (
	producerImplicit = 1 << 2
	producerFenced   = 1 << 3

	endCommit = 1 << 0
	endBump   = 1 << 1
	endExpire = 1 << 2
	// endTxnHead is where the frame is described in the body: behind producer, epoch and flags.
	endTxnHead = 11
)

// AddProducer adds a Producer command.
func (b *CommandBuf) AddProducer(v *Producer) {
	at := b.begin(KindProducer)
	c := append(b.Commands, tenantFlag(v.Tenant)|bit(v.Implicit, producerImplicit)|bit(v.Fenced, producerFenced), byte(v.Op))
	c = putTenant(c, v.Tenant)
	c = putBytes(c, v.Name)
	c = putUvarint(c, uint64(v.ID))
	c = putUvarint(c, uint64(v.Epoch))
	switch v.Op {
	case ProducerInit:
		c = putVarint(c, v.Timeout)
	case ProducerPartitions:
		c = putUvarint(c, uint64(len(v.Partitions)))
		for i := range v.Partitions {
			c = putBytes(putBytes(c, v.Partitions[i].Queue), v.Partitions[i].Partition)
		}
	case ProducerPositions:
		c = putBytes(c, v.Group)
		if v.Fenced {
			c = putPlace(c, v.Row)
		}
		c = putUvarint(c, uint64(len(v.Positions)))
		for i := range v.Positions {
			p := &v.Positions[i]
			c = putBytes(putBytes(c, p.Queue), p.Partition)
			c = putVarint(putUvarint(c, uint64(p.To)), int64(p.LeaderEpoch))
			c = putBytes(c, p.Metadata)
		}
	}
	b.Commands = c
	b.end(at, 1)
}

// Producer decodes the current command, reusing the capacity of v's lists; slices alias the entry.
func (r *CommandReader) Producer(v *Producer) error {
	d := r.open(KindProducer)
	flags := d.flags(flagDefaultTenant | producerImplicit | producerFenced)
	*v = Producer{
		Op: ProducerOp(d.enum(uint8(ProducerPositions))), Tenant: d.tenant(flags), Name: d.bytes(),
		Implicit: flags&producerImplicit != 0, Fenced: flags&producerFenced != 0,
		Partitions: v.Partitions[:0], Positions: v.Positions[:0],
	}
	v.ID, v.Epoch = d.producer()
	if len(v.Name) > MaxTransactionalID || len(v.Name) == 0 && v.Op != ProducerInit {
		d.fail("a transactional id that is too long, or none")
	}
	if flags&^flagDefaultTenant != 0 && v.Op != ProducerPositions {
		d.fail("a flag of another operation")
	}
	switch v.Op {
	case ProducerInit:
		if v.Timeout = d.varint(); v.Timeout < 0 || v.Timeout > MaxTransactionTimeout {
			d.fail("timeout out of bounds")
		}
	case ProducerPartitions:
		v.Partitions = resize(v.Partitions, d.count(2))
		for i := range v.Partitions {
			v.Partitions[i] = ProducerPartition{Queue: d.bytes(), Partition: d.bytes()}
		}
	case ProducerPositions:
		d.producerPositions(v)
	}
	return r.done(&d)
}

func (d *decoder) producerPositions(v *Producer) {
	v.Group = d.bytes()
	if v.Fenced {
		v.Row = d.place()
	}
	v.Positions = resize(v.Positions, d.count(5))
	for i := range v.Positions {
		p := &v.Positions[i]
		*p = Position{Queue: d.bytes(), Partition: d.bytes(), To: Offset(d.uvarint())}
		epoch := d.varint()
		if p.Metadata = d.bytes(); len(p.Metadata) > MaxPositionMetadata || epoch < -1 || epoch > 1<<31-1 {
			d.fail("metadata of a position too long, or its epoch out of bounds")
		}
		p.LeaderEpoch = int32(epoch)
	}
}

// producer reads an identity.
func (d *decoder) producer() (ProducerID, int16) {
	id, epoch := d.uvarint(), d.uvarint()
	if id > MaxProducerID || epoch > MaxProducerEpoch {
		d.fail("producer or epoch out of bounds")
	}
	return ProducerID(id), int16(epoch)
}

// AddEndTxn adds the end of a transaction with the frame of its control batch, which is copied.
func (b *CommandBuf) AddEndTxn(v *EndTxn, frame []byte) {
	at := b.begin(KindEndTxn)
	c := putU64(b.Commands, uint64(v.ID))
	b.Commands = append(c, byte(v.Epoch), byte(v.Epoch>>8),
		bit(v.Commit, endCommit)|bit(v.Bump, endBump)|bit(v.Expire, endExpire))
	b.putAppend(&Append{Tenant: DefaultTenant, Frame: FrameKafka, Count: 1}, frame, false)
	b.end(at, 1)
}

// EndTxn decodes the current command.
func (r *CommandReader) EndTxn(v *EndTxn) error {
	d := r.open(KindEndTxn)
	id := d.u64()
	epoch := uint16(d.u8())
	epoch |= uint16(d.u8()) << 8
	flags := d.flags(endCommit | endBump | endExpire)
	v.ID, v.Epoch = ProducerID(id), int16(epoch)
	v.Commit, v.Bump, v.Expire = flags&endCommit != 0, flags&endBump != 0, flags&endExpire != 0
	r.decodeAppend(&d, &v.Append)
	a := &v.Append
	if a.Frame != FrameKafka || a.Count != 1 || len(a.Queue)+len(a.Partition) > 0 || a.Batch.Idempotent || a.Tenant != DefaultTenant {
		d.fail("the end of a transaction has one control batch, of no queue")
	}
	if id == 0 || id > MaxProducerID || epoch > MaxProducerEpoch || v.Expire && (v.Commit || v.Bump) {
		d.fail("producer or epoch out of bounds, or flags that contradict each other")
	}
	return r.done(&d)
}
