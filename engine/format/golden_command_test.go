package format

import "bytes"

import "strings"

// Fixed values of the golden samples: every field differs from its neighbours.
var (
	goldenTenant = UUID{0xa0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}
	goldenLease  = UUID{0xb0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}
	goldenSum    = [16]byte{0xc0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}
	goldenWall   = Wall(1_700_000_000_123_456)
)

// lines reads "size label" lines; a size of -1 takes the rest, -5 all but the last four bytes.
func lines(text string) (fields []field) {
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if line == "" {
			continue
		}
		size, label, _ := strings.Cut(line, " ")
		n, sign := 0, 1
		for _, c := range size {
			if c == '-' {
				sign = -1
			} else {
				n = n*10 + int(c-'0')
			}
		}
		fields = append(fields, field{sign * n, label})
	}
	return fields
}

func commandGolden(name string, add func(*CommandBuf), want any, body string) golden {
	var buf CommandBuf
	add(&buf)
	return golden{
		name: "command_" + name, bytes: buf.Commands, fields: lines("1 kind\n1 body length\n" + body), want: want,
		parse: func(b []byte) (any, error) {
			e := Entry{Commands: b, CommandCount: 1, PayloadBase: 64, Len: 64 + uint32(len(buf.Payload)), IDs: buf.IDs}
			r := e.Reader()
			if !r.Next() {
				return nil, r.Err()
			}
			return decodeCurrent(&r)
		},
	}
}

func commandGoldens() []golden {
	genesis := &Genesis{goldenTenant, goldenSum, 0x1122334455667788, [10]byte{9, 8, 7, 6, 5, 4, 3, 2, 1, 0}, 1}
	extend := &Extend{goldenLease, 30_000_000}
	release := &Release{goldenLease, []PartitionID{65, 129}}
	skip := &Skip{goldenLease, 65, 300}
	trimLease := &TrimLease{goldenLease, 65, 300, 301}
	setOffset := &SetOffset{
		Tenant: DefaultTenant, Queue: []byte("q"), Partition: []byte("p"), Group: []byte(QueueMode), ToEnd: true, To: 7,
	}
	register := &Register{goldenTenant, []byte("q"), []byte("g"), StartFrom, goldenWall, true, false, true}
	reveal := &Reveal{65, 300, goldenWall, 2}
	retain, retainAborts := &Retain{6, goldenWall, 2, 0}, &Retain{6, goldenWall, 2, 300}
	trim := &Trim{Queue: 6, Completed: true, Generation: 2, Items: []TrimItem{{65, 300}, {129, 5}}}
	trimBounded := &Trim{Queue: 6, Bounded: true, Generation: 2, Items: []TrimItem{{65, 300}}}
	configure := &Configure{Tenant: DefaultTenant, Queue: []byte("q"), Replace: true, Reset: OptTTL, Patch: QueueOptions{
		Namespace: "ns", LeaseTime: 60, DeadLetterQueue: true, Set: OptNamespace | OptLeaseTime | OptDeadLetterQueue,
	}}
	guarded := &Configure{Tenant: goldenTenant, Queue: []byte("q"), Patch: QueueOptions{KafkaPartitions: 7, Set: OptKafkaPartitions},
		Guarded: true, Life: 300}
	del := &Delete{DeleteGroup, goldenTenant, []byte("q"), false, []byte("g"), true, 65, 300, false, 0}
	delLife := &Delete{What: DeleteQueue, Tenant: goldenTenant, Queue: []byte("q"), Name: []byte{}, Guarded: true, Life: 300}
	purge := &Purge{DefaultTenant, []byte("q"), []byte("g"), false}
	admin := &Admin{goldenTenant, AdminEphemeral, []byte("n"), []byte("value"), false, true, Place{70_000, 5}}
	adminDel := &Admin{DefaultTenant, AdminKey, []byte("n"), nil, true, false, Place{}}
	groupSet := &Group{Tenant: goldenTenant, Op: GroupSet, Name: []byte("g"), Guarded: true, At: Place{70_000, 5}, Value: []byte("value")}
	groupDel := &Group{Tenant: DefaultTenant, Op: GroupDelete, Name: []byte("g"), Guarded: true}
	groupCommit := &Group{Tenant: DefaultTenant, Op: GroupCommit, Name: []byte("g"), Positions: []Position{
		{[]byte("q"), []byte("0"), 300, 7, []byte("note")}, {[]byte("q"), []byte("1"), 5, NoLeaderEpoch, nil},
		{[]byte("r"), []byte("1"), 6, 0, nil},
	}}
	opaque := &Opaque{KindTrace, []byte("later")}
	return append([]golden{
		commandGolden("genesis", func(b *CommandBuf) { b.AddGenesis(genesis) }, genesis,
			"16 cluster\n16 hash key\n8 name seed\n10 id mask\n1 level"),
		commandGolden("term", func(b *CommandBuf) { b.AddTerm(&TermCmd{300}) }, &TermCmd{300}, "2 epoch"),
		commandGolden("tick", func(b *CommandBuf) { b.AddTick() }, nil, ""),
		commandGolden("extend", func(b *CommandBuf) { b.AddExtend(extend) }, extend, "16 lease\n4 for, microseconds, zigzag"),
		commandGolden("release", func(b *CommandBuf) { b.AddRelease(release) }, release,
			"16 lease\n1 partitions\n1 partition\n2 partition"),
		commandGolden("skip", func(b *CommandBuf) { b.AddSkip(skip) }, skip, "16 lease\n1 partition\n2 upto"),
		commandGolden("trim_lease", func(b *CommandBuf) { b.AddTrimLease(trimLease) }, trimLease,
			"16 lease\n1 partition\n2 last delivered\n2 new end"),
		commandGolden("set_offset", func(b *CommandBuf) { b.AddSetOffset(setOffset) }, setOffset,
			"1 flags: default tenant, queue mode, to end\n2 queue\n2 partition\n1 to"),
		commandGolden("register", func(b *CommandBuf) { b.AddRegister(register) }, register,
			"1 flags: conflate, only missing\n16 tenant\n2 queue\n2 group\n1 start\n8 from, zigzag"),
		commandGolden("reveal", func(b *CommandBuf) { b.AddReveal(reveal) }, reveal,
			"1 partition\n2 visible\n8 next, zigzag\n1 generation"),
		commandGolden("retain", func(b *CommandBuf) { b.AddRetain(retain) }, retain, "1 queue\n8 cutoff, zigzag\n1 generation"),
		commandGolden("retain_aborts", func(b *CommandBuf) { b.AddRetain(retainAborts) }, retainAborts,
			"1 queue\n8 cutoff, zigzag\n1 generation\n2 aborted ranges"),
		commandGolden("trim", func(b *CommandBuf) { b.AddTrim(trim) }, trim,
			"1 flags: completed\n1 queue\n1 generation\n1 items\n1 partition\n2 upto\n2 partition\n1 upto"),
		commandGolden("trim_bounded", func(b *CommandBuf) { b.AddTrim(trimBounded) }, trimBounded,
			"1 flags: bounded\n1 queue\n1 generation\n1 items\n1 partition\n2 upto"),
		commandGolden("configure", func(b *CommandBuf) { b.AddConfigure(configure) }, configure,
			"1 flags: default tenant, replace\n2 queue\n2 reset: ttl\n2 set: namespace, leaseTime, deadLetterQueue\n"+
				"3 namespace\n1 leaseTime, zigzag\n1 deadLetterQueue"),
		commandGolden("configure-guarded", func(b *CommandBuf) { b.AddConfigure(guarded) }, guarded,
			"1 flags: guarded\n16 tenant\n2 queue\n1 reset\n4 set: kafkaPartitions\n1 kafkaPartitions, zigzag\n2 life"),
		commandGolden("delete", func(b *CommandBuf) { b.AddDelete(del) }, del,
			"1 flags: keep registration\n1 what: group\n16 tenant\n2 queue\n2 name\n1 partition\n2 offset"),
		commandGolden("delete-guarded", func(b *CommandBuf) { b.AddDelete(delLife) }, delLife,
			"1 flags: guarded\n1 what: queue\n16 tenant\n2 queue\n1 name\n1 partition\n1 offset\n2 life"),
		commandGolden("sweep", func(b *CommandBuf) { b.AddSweep(&Sweep{4096}) }, &Sweep{4096}, "2 limit"),
		commandGolden("mark", func(b *CommandBuf) { b.AddMark(&Mark{300, goldenSum, goldenLease}) },
			&Mark{300, goldenSum, goldenLease}, "2 number\n16 chain\n16 digest"),
		commandGolden("purge", func(b *CommandBuf) { b.AddPurge(purge) }, purge, "1 flags: default tenant\n2 queue\n2 group"),
		commandGolden("admin", func(b *CommandBuf) { b.AddAdmin(admin) }, admin,
			"1 flags: guarded\n1 row: ephemeral queue\n16 tenant\n2 name\n6 value\n3 at: index\n1 at: ordinal"),
		commandGolden("admin_delete", func(b *CommandBuf) { b.AddAdmin(adminDel) }, adminDel,
			"1 flags: default tenant, delete\n1 row: API key\n2 name"),
		commandGolden("group_set", func(b *CommandBuf) { b.AddGroup(groupSet) }, groupSet,
			"1 flags: guarded\n1 op: set\n16 tenant\n2 group\n3 at: index\n1 at: ordinal\n6 value"),
		commandGolden("group_delete", func(b *CommandBuf) { b.AddGroup(groupDel) }, groupDel,
			"1 flags: default tenant, guarded\n1 op: delete\n2 group\n1 at: index\n1 at: ordinal"),
		commandGolden("group_commit", func(b *CommandBuf) { b.AddGroup(groupCommit) }, groupCommit,
			"1 flags: default tenant\n1 op: commit\n2 group\n1 positions\n1 flags: leader epoch, metadata\n2 queue\n2 partition\n"+
				"2 to\n1 leader epoch\n5 metadata\n1 flags: same queue\n2 partition\n1 to\n1 flags: leader epoch\n2 queue\n2 partition\n"+
				"1 to\n1 leader epoch"),
		commandGolden("opaque", func(b *CommandBuf) { b.AddOpaque(opaque) }, opaque, "5 body, not read by this version"),
	}, append(append(longCommandGoldens(), producerGoldens()...), stateGoldens()...)...)
}

// goldenFrame is an uncompressed frame of two messages.
func goldenFrame() ([]FrameMessage, []byte) {
	msgs := []FrameMessage{
		{
			TransactionID: []byte("tx-1"), HasID: true, TraceID: goldenLease, ProducerSub: []byte("sub"),
			ContentType: []byte("text/plain"), Headers: AppendHeaders(nil, []Header{{[]byte("k"), []byte("v")}}),
			Payload: []byte("hello"),
		},
		{Payload: []byte(`{"n":2}`)},
	}
	return msgs, EncodeFrame(nil, msgs, FrameOptions{})
}

func longCommandGoldens() []golden {
	_, frame := goldenFrame()
	app := &Append{
		Tenant: goldenTenant, Queue: []byte("q"), Partition: []byte("p"), Frame: FrameNative, Count: 2, ClearTo: 300,
		PayloadLen: uint32(len(frame)), Originals: []Original{{1, 300, Place{70_000, 5}, goldenWall}}, ExplicitID: true,
		IDs: IDsSome, Bitmap: []byte{1}, Hashes: goldenSum[:], PayloadPos: 64, PayloadSum: PayloadSum(frame),
	}
	secret := BeginSeal(bytes.Clone(frame), 3, make([]byte, SealNonce))
	EndSeal(secret)
	sealed := &Append{Tenant: DefaultTenant, Queue: []byte("q"), Partition: []byte("p"), Frame: FrameNative, Count: 2, Sealed: true,
		PayloadLen: uint32(len(secret)), IDs: IDsNone, PayloadPos: 64, PayloadSum: PayloadSum(secret)}
	stored := EncodeKafkaFrame(nil, 3, []byte("batch"))
	kafka := &Append{Tenant: DefaultTenant, Queue: []byte("q"), Partition: []byte("7"), Frame: FrameKafka, Count: 3,
		PayloadLen: uint32(len(stored)), IDs: IDsNone, PayloadPos: 64, PayloadSum: PayloadSum(stored), Batch: BatchHead{
			Idempotent: true, Timed: true, Producer: 65, Epoch: 300, Sequence: 70_000, Transactional: true, Implicit: true, MaxTime: 1_790_948_491_582}}
	timed := &Append{Tenant: DefaultTenant, Queue: []byte("q"), Partition: []byte("7"), Frame: FrameKafka, Count: 3,
		PayloadLen: uint32(len(stored)), IDs: IDsNone, PayloadPos: 64, PayloadSum: PayloadSum(stored),
		Batch: BatchHead{Timed: true, MaxTime: 1_790_948_491_582}}
	redrive := &Redrive{goldenLease, *app}
	redrive.Append.Tenant, redrive.Append.Originals, redrive.Append.ClearTo = DefaultTenant, nil, 0
	pop := &Pop{
		DefaultTenant, [][]byte{[]byte("q1"), []byte("q2")}, []byte("p"), true, []byte("g"), StartNew, goldenWall, 400, 64,
		60_000_000, false, true, []byte("w"), []CursorEvidence{{65, 2, 300}},
	}
	ack := &Ack{65, []byte(QueueMode), goldenLease, false, []AckRun{
		{300, 5, AckCompleted, nil, 0}, {310, 1, AckDLQ, []byte("bad"), 1_000_000},
	}}
	const appendHead = "1 count\n1 payload length\n"
	return []golden{
		commandGolden("append", func(b *CommandBuf) { b.AddAppend(app, frame) }, app,
			"1 flags: explicit id, clear, originals; native\n"+appendHead+"16 tenant\n2 queue\n2 partition\n2 clear to\n"+
				"1 originals\n1 at\n2 offset\n3 place: index\n1 place: ordinal\n8 W, zigzag"),
		commandGolden("append_sealed", func(b *CommandBuf) { b.AddAppend(sealed, secret) }, sealed,
			"1 flags: default tenant; native, sealed\n"+appendHead+"2 queue\n2 partition"),
		commandGolden("append_batch", func(b *CommandBuf) { b.AddAppend(kafka, stored) }, kafka,
			"1 flags: default tenant; record batch\n"+appendHead+"2 queue\n2 partition\n1 flags: idempotent, transactional, implicit\n"+
				"1 producer\n2 epoch\n3 sequence\n6 greatest timestamp, zigzag"),
		commandGolden("append_batch_plain", func(b *CommandBuf) { b.AddAppend(timed, stored) }, timed,
			"1 flags: default tenant; record batch\n"+appendHead+"2 queue\n2 partition\n1 flags: timed\n6 greatest timestamp, zigzag"),
		commandGolden("redrive", func(b *CommandBuf) { b.AddRedrive(redrive, frame) }, redrive,
			"16 dead letter\n1 flags: default tenant, explicit id; native\n"+appendHead+"2 queue\n2 partition"),
		commandGolden("pop", func(b *CommandBuf) { b.AddPop(pop) }, pop,
			"1 flags: default tenant, pinned, conflate\n1 queues\n3 queue\n3 queue\n2 partition\n2 group\n1 start: new\n"+
				"8 from, zigzag\n2 batch\n1 partitions\n4 lease, microseconds, zigzag\n2 worker\n1 evidence\n1 partition\n"+
				"1 generation\n2 offset"),
		commandGolden("ack", func(b *CommandBuf) { b.AddAck(ack) }, ack,
			"1 flags: queue mode, has lease\n1 partition\n16 lease\n1 runs\n1 status: completed\n2 first, from 0\n1 count\n"+
				"1 status: dlq, with reason and delay\n1 first, from the end of the run before\n1 count\n4 reason\n3 delay, zigzag"),
	}
}
