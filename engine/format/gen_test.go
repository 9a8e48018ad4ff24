package format

import (
	"math/rand/v2"
	"reflect"
)

// gen makes random values of every type that has an encoding, for property tests and fuzz seeds.
type gen struct{ *rand.Rand }

func newGen(seed uint64) gen { return gen{rand.New(rand.NewPCG(seed, 7))} }

func (g gen) bytes(limit int) []byte {
	b := make([]byte, g.IntN(limit+1))
	for i := range b {
		b[i] = byte(g.Uint32())
	}
	return b
}

func (g gen) uuid() (u UUID) {
	for i := range u {
		u[i] = byte(g.Uint32())
	}
	return u
}

// u64 is small half of the time, and of every width otherwise.
func (g gen) u64() uint64 { return g.Uint64() >> g.IntN(64) }

func (g gen) u32() uint32 { return g.Uint32() >> g.IntN(32) }

func (g gen) i64() int64 { return int64(g.Uint64()) >> g.IntN(64) }

func (g gen) flip() bool { return g.IntN(2) == 0 }

func (g gen) tenant() Tenant {
	if g.flip() {
		return DefaultTenant
	}
	return g.uuid()
}

func (g gen) group() []byte {
	if g.flip() {
		return []byte(QueueMode)
	}
	return g.bytes(20)
}

func (g gen) place() Place { return Place{Index(g.u64()), Ordinal(g.u32())} }

// frame is a native frame of count random messages, with the messages.
func (g gen) frame(count int) ([]FrameMessage, []byte) {
	msgs := make([]FrameMessage, count)
	for i := range msgs {
		m := &msgs[i]
		if m.HasID = g.flip(); m.HasID {
			m.TransactionID = g.bytes(40)
		}
		if g.flip() {
			m.TraceID = g.uuid()
		}
		if g.flip() {
			m.ProducerSub, m.ContentType = g.bytes(10), g.bytes(20)
		}
		if g.flip() {
			m.Headers = AppendHeaders(nil, []Header{{g.bytes(5), g.bytes(9)}, {g.bytes(5), nil}})
		}
		if g.flip() {
			m.ExplicitID = g.uuid()
		}
		m.Payload = g.bytes(300)
		if g.flip() {
			m.Payload = make([]byte, g.IntN(900))
		}
	}
	return msgs, EncodeFrame(nil, msgs, FrameOptions{Compress: g.flip()})
}

// batch is a random Append of a record batch, whose bytes nobody looks at.
func (g gen) batch() (*Append, []byte) {
	count := 1 + g.IntN(20)
	frame := EncodeKafkaFrame(nil, uint32(count), g.bytes(300))
	a := &Append{
		Tenant: g.tenant(), Queue: []byte{byte(g.IntN(3))}, Partition: g.bytes(30), Frame: FrameKafka,
		Count: uint32(count), PayloadLen: uint32(len(frame)), PayloadSum: PayloadSum(frame),
	}
	if g.flip() {
		a.Batch = BatchHead{
			Idempotent: true, Timed: true, Producer: ProducerID(g.u64() >> 2), Epoch: int16(g.IntN(MaxProducerEpoch + 1)),
			Sequence: int32(g.u32() >> 1), Transactional: g.flip(), MaxTime: g.i64(),
		}
		a.Batch.Implicit = a.Batch.Transactional && g.flip()
	} else if g.flip() {
		a.Batch.Timed, a.Batch.MaxTime = true, g.i64()
	}
	return a, frame
}

func (g gen) append() (*Append, []byte) {
	if g.IntN(4) == 0 {
		return g.batch()
	}
	count := 1 + g.IntN(20)
	_, frame := g.frame(count)
	a := &Append{
		Tenant: g.tenant(), Queue: []byte{byte(g.IntN(3))}, Partition: g.bytes(30), Frame: FrameNative,
		Count: uint32(count), PayloadLen: uint32(len(frame)), ExplicitID: g.flip(),
		IDs: IDMode(g.IntN(3)), PayloadSum: PayloadSum(frame),
	}
	if g.flip() {
		a.ClearTo = 1 + g.u64()>>1
	}
	for at := g.IntN(40); at < count; at += 1 + g.IntN(9) {
		a.Originals = append(a.Originals, Original{
			At: uint32(at), Offset: Offset(g.u64()), Place: g.place(), W: Wall(g.i64()),
		})
	}
	ids := 0
	switch a.IDs {
	case IDsAll:
		ids = count
	case IDsSome:
		a.Bitmap = make([]byte, (count+7)/8)
		for i := range count {
			if g.flip() {
				a.Bitmap[i/8] |= 1 << (i % 8)
				ids++
			}
		}
	}
	for range ids {
		h := g.uuid()
		a.Hashes = append(a.Hashes, h[:]...)
	}
	return a, frame
}

func (g gen) pop() *Pop {
	p := &Pop{
		Tenant: g.tenant(), Pinned: g.flip(), Group: g.group(), Start: StartKind(1 + g.IntN(3)),
		From: Wall(g.i64()), Batch: g.u32(), Partitions: g.u32(), Lease: g.i64(), Commit: g.flip(),
		Conflate: g.flip(), Worker: g.bytes(9),
	}
	if p.Pinned {
		p.Partition = g.bytes(30)
	}
	for range g.IntN(4) {
		p.Queues = append(p.Queues, g.bytes(12))
	}
	for range g.IntN(3) {
		p.Evidence = append(p.Evidence, CursorEvidence{
			PartitionID(g.u64()), g.u32(), Offset(g.u64()),
		})
	}
	return p
}

func (g gen) ack() *Ack {
	a := &Ack{Partition: PartitionID(g.u64()), Group: g.group(), Unfenced: g.flip()}
	if g.flip() {
		a.Lease = g.uuid()
	}
	next := Offset(g.u64() >> 8)
	for range g.IntN(5) {
		run := AckRun{
			First: next + Offset(g.IntN(3)), Count: 1 + g.u32()>>1, Status: AckStatus(1 + g.IntN(4)),
		}
		if g.flip() {
			run.Reason, run.Delay = g.bytes(30), g.i64()
		}
		next = run.First + Offset(run.Count)
		a.Runs = append(a.Runs, run)
	}
	return a
}

func (g gen) options(all bool) QueueOptions {
	o := QueueOptions{Set: OptionMask(g.Uint32()) & OptAll}
	optionFields(&o,
		func(m OptionMask, v *string) {
			if all || o.Set&m != 0 {
				*v = string(g.bytes(9))
			}
		},
		func(m OptionMask, v *int64) {
			if all || o.Set&m != 0 {
				*v = g.i64()
			}
		},
		func(m OptionMask, v *bool) {
			if all || o.Set&m != 0 {
				*v = g.flip()
			}
		})
	return o
}

// command adds a random command of kind k to b and returns what a reader must give back.
func (g gen) command(b *CommandBuf, k Kind) any {
	pids := []PartitionID{PartitionID(g.u64()), PartitionID(g.u64())}[:g.IntN(3)]
	switch k {
	case KindGenesis:
		v := &Genesis{Cluster: g.uuid(), HashKey: g.uuid(), NameSeed: g.u64(), Level: g.u32()}
		copy(v.IDMask[:], g.Perm16())
		b.AddGenesis(v)
		return v
	case KindTerm:
		v := &TermCmd{Term(g.u64())}
		b.AddTerm(v)
		return v
	case KindTick:
		b.AddTick()
		return nil
	case KindAppend:
		a, frame := g.append()
		b.AddAppend(a, frame)
		return a
	case KindRedrive:
		a, frame := g.append()
		for a.Frame == FrameKafka && (a.Count != 1 || a.Batch.Idempotent) {
			a, frame = g.append()
		}
		v := &Redrive{DeadLetter: g.uuid(), Append: *a}
		b.AddRedrive(v, frame)
		return v
	case KindPop:
		v := g.pop()
		b.AddPop(v)
		return v
	case KindAck:
		v := g.ack()
		b.AddAck(v)
		return v
	case KindExtend:
		v := &Extend{g.uuid(), g.i64()}
		b.AddExtend(v)
		return v
	case KindRelease:
		v := &Release{g.uuid(), pids}
		b.AddRelease(v)
		return v
	case KindSkip:
		v := &Skip{g.uuid(), PartitionID(g.u64()), Offset(g.u64())}
		b.AddSkip(v)
		return v
	case KindTrimLease:
		v := &TrimLease{g.uuid(), PartitionID(g.u64()), Offset(g.u64()), Offset(g.u64())}
		b.AddTrimLease(v)
		return v
	}
	return g.adminCommand(b, k)
}

// Perm16 is 16 random bytes.
func (g gen) Perm16() []byte { u := g.uuid(); return u[:] }

func (g gen) adminCommand(b *CommandBuf, k Kind) any {
	switch k {
	case KindSetOffset:
		v := g.position()
		b.AddSetOffset(v)
		return v
	case KindRegister:
		v := &Register{g.tenant(), g.bytes(9), g.group(), StartKind(1 + g.IntN(3)), Wall(g.i64()),
			g.flip(), g.flip(), g.flip()}
		b.AddRegister(v)
		return v
	case KindReveal:
		v := &Reveal{PartitionID(g.u64()), Offset(g.u64()), Wall(g.i64()), g.u32()}
		b.AddReveal(v)
		return v
	case KindRetain:
		v := &Retain{Queue: QueueID(g.u64()), Cutoff: Wall(g.i64()), Generation: g.u32()}
		if g.flip() {
			v.Aborts = g.u32()
		}
		b.AddRetain(v)
		return v
	case KindTrim:
		v := &Trim{Queue: QueueID(g.u64()), Completed: g.flip(), Generation: g.u32()}
		v.Bounded = !v.Completed && g.flip()
		for range g.IntN(3) {
			v.Items = append(v.Items, TrimItem{PartitionID(g.u64()), Offset(g.u64())})
		}
		b.AddTrim(v)
		return v
	case KindConfigure:
		v := &Configure{Tenant: g.tenant(), Queue: g.bytes(9), Replace: g.flip(), Reset: OptionMask(g.Uint32()) & OptAll,
			Patch: g.options(false), Guarded: g.flip()}
		if v.Guarded {
			v.Life = QueueID(g.u64())
		}
		b.AddConfigure(v)
		return v
	case KindDelete:
		v := &Delete{DeleteWhat(1 + g.IntN(4)), g.tenant(), g.bytes(9), g.flip(), g.bytes(9), g.flip(),
			PartitionID(g.u64()), Offset(g.u64()), g.flip(), 0}
		if v.Guarded {
			v.Life = QueueID(g.u64())
		}
		b.AddDelete(v)
		return v
	case KindSweep:
		v := &Sweep{g.u32()}
		b.AddSweep(v)
		return v
	case KindMark:
		v := &Mark{g.u64(), g.uuid(), g.uuid()}
		b.AddMark(v)
		return v
	case KindPurge:
		v := &Purge{g.tenant(), g.bytes(9), g.group(), g.flip()}
		b.AddPurge(v)
		return v
	case KindAdmin:
		v := &Admin{Tenant: g.tenant(), Row: AdminKind(1 + g.IntN(255)), Name: g.bytes(9), Delete: g.flip(), Guarded: g.flip()}
		if !v.Delete {
			v.Value = g.bytes(300)
		}
		if v.Guarded {
			v.At = g.place()
		}
		b.AddAdmin(v)
		return v
	}
	if k == KindGroup {
		v := g.groupCommand()
		b.AddGroup(v)
		return v
	}
	if k == KindProducer || k == KindEndTxn {
		return g.producerCommand(b, k)
	}
	if k.IsOpaque() {
		v := &Opaque{k, g.bytes(300)}
		b.AddOpaque(v)
		return v
	}
	return g.stateCommand(b, k)
}

func (g gen) groupCommand() *Group {
	v := &Group{Tenant: g.tenant(), Op: GroupOp(1 + g.IntN(3)), Name: g.group(), Guarded: g.flip()}
	if v.Guarded {
		v.At = g.place()
	}
	switch v.Op {
	case GroupSet:
		v.Value = g.bytes(300)
	case GroupCommit:
		for range g.IntN(9) {
			p := Position{Queue: []byte{byte(g.IntN(2))}, Partition: g.bytes(9), To: Offset(g.u64()), LeaderEpoch: NoLeaderEpoch}
			if g.flip() {
				p.LeaderEpoch = int32(g.u32() >> 1)
			}
			if g.flip() {
				p.Metadata = append(g.bytes(30), 'm')
			}
			v.Positions = append(v.Positions, p)
		}
	}
	return v
}

// decodeCurrent decodes the current command into a fresh value of its type; nil for a Tick.
func decodeCurrent(r *CommandReader) (any, error) {
	decoders := map[Kind]func() (any, error){
		KindGenesis:   func() (any, error) { v := new(Genesis); return v, r.Genesis(v) },
		KindTerm:      func() (any, error) { v := new(TermCmd); return v, r.TermCmd(v) },
		KindTick:      func() (any, error) { return nil, r.Tick() },
		KindAppend:    func() (any, error) { v := new(Append); return v, r.Append(v) },
		KindPop:       func() (any, error) { v := new(Pop); return v, r.Pop(v) },
		KindAck:       func() (any, error) { v := new(Ack); return v, r.Ack(v) },
		KindExtend:    func() (any, error) { v := new(Extend); return v, r.Extend(v) },
		KindRelease:   func() (any, error) { v := new(Release); return v, r.Release(v) },
		KindSkip:      func() (any, error) { v := new(Skip); return v, r.Skip(v) },
		KindTrimLease: func() (any, error) { v := new(TrimLease); return v, r.TrimLease(v) },
		KindSetOffset: func() (any, error) { v := new(SetOffset); return v, r.SetOffset(v) },
		KindRegister:  func() (any, error) { v := new(Register); return v, r.Register(v) },
		KindRedrive:   func() (any, error) { v := new(Redrive); return v, r.Redrive(v) },
		KindReveal:    func() (any, error) { v := new(Reveal); return v, r.Reveal(v) },
		KindRetain:    func() (any, error) { v := new(Retain); return v, r.Retain(v) },
		KindTrim:      func() (any, error) { v := new(Trim); return v, r.Trim(v) },
		KindConfigure: func() (any, error) { v := new(Configure); return v, r.Configure(v) },
		KindDelete:    func() (any, error) { v := new(Delete); return v, r.Delete(v) },
		KindSweep:     func() (any, error) { v := new(Sweep); return v, r.Sweep(v) },
		KindMark:      func() (any, error) { v := new(Mark); return v, r.Mark(v) },
		KindPurge:     func() (any, error) { v := new(Purge); return v, r.Purge(v) },
		KindAdmin:     func() (any, error) { v := new(Admin); return v, r.Admin(v) },
		KindGroup:     func() (any, error) { v := new(Group); return v, r.Group(v) },
		KindTxn:       func() (any, error) { v := new(Txn); return v, r.Txn(v) },
		KindOnce:      func() (any, error) { v := new(Once); return v, r.Once(v) },
		KindKV:        func() (any, error) { v := new(KV); return v, r.KV(v) },
		KindLock:      func() (any, error) { v := new(Lock); return v, r.Lock(v) },
		KindTimer:     func() (any, error) { v := new(Timer); return v, r.Timer(v) },
		KindOrigin:    func() (any, error) { v := new(Origin); return v, r.Origin(v) },
		KindFire:      func() (any, error) { v := new(Fire); return v, r.Fire(v) },
		KindProducer:  func() (any, error) { v := new(Producer); return v, r.Producer(v) },
		KindEndTxn:    func() (any, error) { v := new(EndTxn); return v, r.EndTxn(v) },
	}
	if decode := decoders[r.Kind()]; decode != nil {
		return decode()
	}
	v := new(Opaque)
	return v, r.Opaque(v)
}

// normal makes empty slices nil, at every depth, so that DeepEqual compares contents.
func normal(v any) any {
	if v == nil {
		return nil
	}
	normalValue(reflect.ValueOf(v))
	return v
}

func normalValue(v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			normalValue(v.Elem())
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Field(i).CanSet() {
				normalValue(v.Field(i))
			}
		}
	case reflect.Slice:
		if v.Len() == 0 {
			v.SetZero()
			return
		}
		for i := range v.Len() {
			normalValue(v.Index(i))
		}
	}
}
