package format

// stateGoldens are the commands of transactions, keyed state and timers.
func stateGoldens() []golden {
	_, frame := goldenTimerFrame()
	txn, once := &Txn{Parts: 300}, &Once{goldenTenant, goldenSum, goldenLease, 86_400_000_000, 3, nil}
	keeping, noted := &Txn{300, true}, &Once{goldenTenant, goldenSum, goldenLease, 86_400_000_000, 3, []byte("note")}
	put := &KV{
		Tenant: DefaultTenant, Op: KVPut, Namespace: []byte("ns"), Key: []byte("key"), HasExpect: true, Expect: 300,
		Required: true, Value: []byte("7"), Number: Number{Kind: IntNumber, Int: 7}, Keep: 60_000_000,
	}
	incr := &KV{
		Tenant: goldenTenant, Op: KVIncr, Namespace: []byte("ns"), Key: []byte("key"), Number: Number{Kind: FloatNumber, Float: 0.5},
		Min: Number{Kind: IntNumber, Int: -1}, Keep: 0,
	}
	check := &KV{Tenant: DefaultTenant, Op: KVCheck, Namespace: []byte("ns"), Key: []byte("key"), HasExpect: true}
	acquire := &Lock{Tenant: DefaultTenant, Op: LockAcquire, Name: []byte("job"), Owner: []byte("me"), Limit: 3, Keep: 60_000_000}
	renew := &Lock{
		Tenant: goldenTenant, Op: LockRenew, Name: []byte("job"), Owner: []byte("me"), Slot: 2, Token: 300, Keep: 60_000_000,
		Since: goldenWall,
	}
	release := &Lock{Tenant: DefaultTenant, Op: LockRelease, Name: []byte("job"), Slot: 2, Token: 300}
	schedule := &Timer{
		Tenant: goldenTenant, Op: TimerSchedule, Queue: []byte("q"), Key: []byte("k"), Due: 60_000_000, Relative: true,
		Partition: []byte("p"), TransactionID: []byte("tx"), Recur: []byte("* * * * *"), Frame: frame,
	}
	cancel := &Timer{Tenant: DefaultTenant, Op: TimerCancel, Queue: []byte("q"), Key: []byte("k")}
	failed := &Timer{
		Tenant: DefaultTenant, Op: TimerFailed, Queue: []byte("q"), Key: []byte("k"), Due: goldenWall, Version: 300,
		Reason: []byte("full"),
	}
	pause, resume := *cancel, *cancel
	pause.Op, resume.Op = TimerPause, TimerResume
	counted := *failed
	counted.Counted = true
	dead := &Timer{
		Tenant: goldenTenant, Op: TimerDead, Queue: []byte("q"), Key: []byte("k"), Due: goldenWall, Version: 300, Reason: []byte("full"),
		Row: (&TimerRow{Version: 300, Due: goldenWall, W: goldenWall - 9, Partition: []byte("p"), Frame: frame}).Append(nil),
	}
	position := &SetOffset{
		Tenant: DefaultTenant, Queue: []byte("q"), Partition: []byte("p"), Group: []byte("g"), To: 7, Create: true, Start: StartAll,
		Metadata: []byte("note"),
	}
	const key = "3 namespace\n4 key\n"
	return []golden{
		commandGolden("txn", func(b *CommandBuf) { b.AddTxn(txn) }, txn, "2 parts"),
		commandGolden("txn_duplicates", func(b *CommandBuf) { b.AddTxn(keeping) }, keeping, "2 parts\n1 flags: keep duplicates"),
		commandGolden("once_note", func(b *CommandBuf) { b.AddOnce(noted) }, noted,
			"1 flags: note\n16 tenant\n16 hash of the key\n16 digest of the body\n6 keep, microseconds, zigzag\n1 parts\n5 note"),
		commandGolden("once", func(b *CommandBuf) { b.AddOnce(once) }, once,
			"1 flags\n16 tenant\n16 hash of the key\n16 digest of the body\n6 keep, microseconds, zigzag\n1 parts"),
		commandGolden("kv_put", func(b *CommandBuf) { b.AddKV(put) }, put,
			"1 flags: default tenant, expect, required\n1 op: put\n"+key+"2 expect\n4 keep, microseconds, zigzag\n1 number: int\n"+
				"1 value, zigzag\n2 JSON"),
		commandGolden("kv_incr", func(b *CommandBuf) { b.AddKV(incr) }, incr,
			"1 flags\n1 op: incr\n16 tenant\n"+key+"1 keep: for ever\n1 delta: float\n8 value\n1 min: int\n1 value, zigzag\n1 max: none"),
		commandGolden("kv_check", func(b *CommandBuf) { b.AddKV(check) }, check,
			"1 flags: default tenant, expect\n1 op: check\n"+key+"1 expect"),
		commandGolden("lock_acquire", func(b *CommandBuf) { b.AddLock(acquire) }, acquire,
			"1 flags: default tenant\n1 op: acquire\n4 name\n3 owner\n1 limit\n4 keep, microseconds, zigzag"),
		commandGolden("lock_renew", func(b *CommandBuf) { b.AddLock(renew) }, renew,
			"1 flags\n1 op: renew\n16 tenant\n4 name\n3 owner\n1 slot\n2 token\n4 keep, microseconds, zigzag\n8 since, zigzag"),
		commandGolden("lock_release", func(b *CommandBuf) { b.AddLock(release) }, release,
			"1 flags: default tenant\n1 op: release\n4 name\n1 slot\n2 token"),
		commandGolden("timer_schedule", func(b *CommandBuf) { b.AddTimer(schedule) }, schedule,
			"1 flags: relative\n1 op: schedule\n16 tenant\n2 queue\n2 key\n4 due, microseconds, zigzag\n2 partition\n"+
				"3 transaction id\n10 recurrence\n-1 frame, unplaced"),
		commandGolden("timer_cancel", func(b *CommandBuf) { b.AddTimer(cancel) }, cancel,
			"1 flags: default tenant\n1 op: cancel\n2 queue\n2 key"),
		commandGolden("timer_failed", func(b *CommandBuf) { b.AddTimer(failed) }, failed,
			"1 flags: default tenant\n1 op: failed\n2 queue\n2 key\n8 due, zigzag\n2 version\n5 reason"),
		commandGolden("timer_pause", func(b *CommandBuf) { b.AddTimer(&pause) }, &pause,
			"1 flags: default tenant\n1 op: pause\n2 queue\n2 key"),
		commandGolden("timer_resume", func(b *CommandBuf) { b.AddTimer(&resume) }, &resume,
			"1 flags: default tenant\n1 op: resume\n2 queue\n2 key"),
		commandGolden("timer_counted", func(b *CommandBuf) { b.AddTimer(&counted) }, &counted,
			"1 flags: default tenant, counted\n1 op: failed\n2 queue\n2 key\n8 due, zigzag\n2 version\n5 reason"),
		commandGolden("timer_dead", func(b *CommandBuf) { b.AddTimer(dead) }, dead,
			"1 flags\n1 op: dead\n16 tenant\n2 queue\n2 key\n8 next due, zigzag\n2 version\n5 reason\n-1 row of the timer"),
		commandGolden("position", func(b *CommandBuf) { b.AddSetOffset(position) }, position,
			"1 flags: default tenant, create, metadata\n2 queue\n2 partition\n2 group\n1 to\n1 start: all\n5 metadata"),
		fireGolden(),
	}
}

// goldenTimerFrame is a frame of one message with an id told beforehand.
func goldenTimerFrame() ([]FrameMessage, []byte) {
	msgs := []FrameMessage{{TransactionID: []byte("tx"), HasID: true, ExplicitID: goldenLease, Payload: []byte("1")}}
	return msgs, EncodeFrame(nil, msgs, FrameOptions{})
}

func fireGolden() golden {
	_, frame := goldenTimerFrame()
	app := Append{
		Tenant: DefaultTenant, Queue: []byte("q"), Partition: []byte("p"), Frame: FrameNative, Count: 1, ExplicitID: true,
		PayloadLen: uint32(len(frame)), IDs: IDsAll, Hashes: goldenSum[:], PayloadPos: 64, PayloadSum: PayloadSum(frame),
	}
	fire := &Fire{DefaultTenant, []byte("q"), []byte("k"), 300, goldenWall, app}
	return commandGolden("fire", func(b *CommandBuf) { b.AddFire(fire, frame) }, fire,
		"8 version\n8 next\n1 flags: default tenant, explicit id; native\n1 count\n1 payload length\n2 queue\n2 partition\n2 key")
}

// rowGoldens are the values of keyed rows.
func rowGoldens() []golden {
	row := func(name string, b []byte, want any, parse func([]byte) (any, error), text string) golden {
		return golden{name: "keyed_" + name, bytes: b, fields: lines("1 version\n" + text), want: want, parse: parse}
	}
	kv := KVRow{
		Version: 300, Expires: goldenWall, Updated: goldenWall - 5, Number: Number{Kind: IntNumber, Int: -7}, JSON: []byte("-7"),
	}
	permit := KVRow{
		Version: 301, Expires: goldenWall, Updated: goldenWall - 5, Permit: true, Since: goldenWall - 9, Owner: []byte("me"),
		JSON: []byte(`{"owner":"me"}`),
	}
	_, frame := goldenTimerFrame()
	timer := TimerRow{
		Version: 300, Due: goldenWall, Place: Place{70_000, 5}, W: goldenWall - 9, Partition: []byte("p"), TransactionID: []byte("tx"),
		Recur: []byte("* * * * *"), Frame: frame,
	}
	dead := DeadRow{Retries: 5, Reason: []byte("why"), Key: []byte("k"), Timer: timer.Append(nil)}
	once := OnceRow{Digest: goldenSum, Index: 70_000, First: 5, W: goldenWall, Parts: []byte{0}}
	noted := once
	noted.Note = []byte("note")
	const kvHead = "1 flags\n1 number kind\n1 zero\n8 version\n8 expires\n8 updated\n8 number\n"
	return []golden{
		row("kv", kv.Append(nil), kv, func(b []byte) (any, error) { return ParseKVRow(b) }, kvHead+"-1 JSON"),
		row("permit", permit.Append(nil), permit, func(b []byte) (any, error) { return ParseKVRow(b) },
			kvHead+"8 since\n3 owner\n-1 JSON"),
		row("timer", timer.Append(nil), timer, func(b []byte) (any, error) { return ParseTimerRow(b) },
			"3 zero\n8 version\n8 due\n8 place: index\n8 place: ordinal\n8 W\n2 partition\n3 transaction id\n10 recurrence\n-1 frame"),
		row("dead", (&DeadRow{Retries: 3, Reason: []byte("why")}).Append(nil), DeadRow{Retries: 3, Reason: []byte("why")},
			func(b []byte) (any, error) { return ParseDeadRow(b) }, "4 retries\n-1 reason"),
		row("dead_timer", dead.Append(nil), dead, func(b []byte) (any, error) { return ParseDeadRow(b) },
			"4 retries\n4 reason\n2 key\n-1 row of the timer"),
		row("once", once.Append(nil), once, func(b []byte) (any, error) { return ParseOnceRow(b) },
			"3 zero\n16 digest\n8 index\n8 first ordinal\n8 W\n-1 verdicts"),
		row("once_note", noted.Append(nil), noted, func(b []byte) (any, error) { return ParseOnceRow(b) },
			"3 zero\n16 digest\n8 index\n8 first ordinal\n8 W\n5 note\n-1 verdicts"),
		row("position", (&PositionRow{Metadata: []byte("note")}).Append(nil), PositionRow{Metadata: []byte("note")},
			func(b []byte) (any, error) { return ParsePositionRow(b) }, "-1 metadata"),
		row("position_asked", (&PositionRow{[]byte("note"), 500, 20}).Append(nil), PositionRow{[]byte("note"), 500, 20},
			func(b []byte) (any, error) { return ParsePositionRow(b) }, "8 asked\n8 at\n-1 metadata"),
	}
}
