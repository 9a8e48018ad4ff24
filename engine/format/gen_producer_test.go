package format

func (g gen) producerID() ProducerID { return ProducerID(1 + g.u64()>>2) }

func (g gen) epoch() int16 { return int16(g.IntN(MaxProducerEpoch + 1)) }

// producerCommand adds a random command about producers.
func (g gen) producerCommand(b *CommandBuf, k Kind) any {
	if k == KindEndTxn {
		frame := EncodeKafkaFrame(nil, 1, g.bytes(90))
		v := &EndTxn{ID: g.producerID() - 1&MaxProducerID | 1, Epoch: g.epoch(), Append: Append{
			Tenant: DefaultTenant, Frame: FrameKafka, Count: 1, PayloadLen: uint32(len(frame)), PayloadSum: PayloadSum(frame)}}
		if v.Expire = g.flip(); !v.Expire {
			v.Commit, v.Bump = g.flip(), g.flip()
		}
		b.AddEndTxn(v, frame)
		return v
	}
	v := &Producer{Op: ProducerOp(1 + g.IntN(3)), Tenant: g.tenant(), Name: g.key(20), ID: g.producerID() - 1, Epoch: g.epoch()}
	name := func() ProducerPartition { return ProducerPartition{g.bytes(9), g.bytes(9)} }
	switch v.Op {
	case ProducerInit:
		v.Timeout = g.i64() & (1<<39 - 1)
		if g.flip() {
			v.Name = nil
		}
	case ProducerPartitions:
		for range g.IntN(4) {
			v.Partitions = append(v.Partitions, name())
		}
	case ProducerPositions:
		v.Group, v.Implicit = g.bytes(9), g.flip()
		if v.Fenced = g.flip(); v.Fenced {
			v.Row = g.place()
		}
		for range g.IntN(4) {
			v.Positions = append(v.Positions, Position{g.bytes(9), g.bytes(9), Offset(g.u64()), int32(g.u32()>>1) - 1, g.bytes(40)})
		}
	}
	b.AddProducer(v)
	return v
}

// producerGoldens are samples of the commands about producers.
func producerGoldens() []golden {
	init := &Producer{Op: ProducerInit, Tenant: DefaultTenant, Name: []byte("tx"), ID: 65, Epoch: 300, Timeout: 60_000_000}
	parts := &Producer{Op: ProducerPartitions, Tenant: goldenTenant, Name: []byte("tx"), ID: 65, Epoch: 300,
		Partitions: []ProducerPartition{{[]byte("q"), []byte("7")}, {[]byte("r"), []byte("0")}}}
	positions := &Producer{Op: ProducerPositions, Tenant: DefaultTenant, Name: []byte("tx"), ID: 65, Epoch: 300, Group: []byte("g"),
		Implicit: true, Fenced: true, Row: Place{70_000, 5},
		Positions: []Position{{[]byte("q"), []byte("7"), 300, NoLeaderEpoch, []byte("note")}}}
	frame := EncodeKafkaFrame(nil, 1, []byte("control"))
	end := &EndTxn{ID: 65, Epoch: 300, Commit: true, Bump: true, Append: Append{Tenant: DefaultTenant, Frame: FrameKafka, Count: 1,
		PayloadLen: uint32(len(frame)), PayloadPos: 64, PayloadSum: PayloadSum(frame)}}
	const head = "3 transactional id\n1 producer\n2 epoch\n"
	return []golden{
		commandGolden("producer_init", func(b *CommandBuf) { b.AddProducer(init) }, init,
			"1 flags: default tenant\n1 op: init\n"+head+"4 timeout, microseconds, zigzag"),
		commandGolden("producer_partitions", func(b *CommandBuf) { b.AddProducer(parts) }, parts,
			"1 flags\n1 op: partitions\n16 tenant\n"+head+"1 partitions\n2 queue\n2 partition\n2 queue\n2 partition"),
		commandGolden("producer_positions", func(b *CommandBuf) { b.AddProducer(positions) }, positions,
			"1 flags: default tenant, implicit, fenced\n1 op: positions\n"+head+
				"2 group\n3 row: index\n1 row: ordinal\n1 positions\n2 queue\n2 partition\n2 offset\n1 leader epoch, zigzag\n5 metadata"),
		commandGolden("end_txn", func(b *CommandBuf) { b.AddEndTxn(end, frame) }, end,
			"8 producer\n2 epoch\n1 flags: commit, bump\n1 frame: default tenant; record batch\n1 count\n1 payload length\n"+
				"1 queue, none\n1 partition, none\n1 tail of the batch"),
	}
}
