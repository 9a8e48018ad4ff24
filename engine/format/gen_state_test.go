package format

import "bytes"

// generated is a command in a buffer, and what a reader must give back for it.
type generated struct {
	kind Kind
	want any
}

// bracket adds a Txn, or a Once with a Txn among its parts, with parts of every kind that it may hold.
func (g gen) bracket(b *CommandBuf, k Kind) (all []generated) {
	add := func(k Kind) { all = append(all, generated{k, g.command(b, k)}) }
	txn := func() {
		kinds := []Kind{KindAck, KindAppend, KindSetOffset, KindKV, KindTimer}
		parts := 1 + g.IntN(4)
		v := &Txn{Parts: uint32(parts)}
		b.AddTxn(v)
		all = append(all, generated{KindTxn, v})
		for range parts {
			add(kinds[g.IntN(len(kinds))])
		}
	}
	if k == KindTxn {
		txn()
		return all
	}
	// The number of parts is known only at the end: they are made twice from one seed.
	var parts CommandBuf
	seed := g.Uint64()
	inner := newGen(seed)
	count := 1 + inner.IntN(3)
	made := func(g gen, b *CommandBuf) (all []generated) {
		kinds := []Kind{KindTxn, KindLock, KindRedrive, KindRegister, KindDelete, KindPurge, KindAck, KindAppend, KindKV}
		for range count {
			if k := kinds[g.IntN(len(kinds))]; k == KindTxn {
				all = append(all, g.bracket(b, k)...)
			} else {
				all = append(all, generated{k, g.command(b, k)})
			}
		}
		return all
	}
	made(newGen(seed), &parts)
	once := &Once{g.tenant(), g.uuid(), g.uuid(), 1 + g.i64()>>1&(1<<62-1), uint32(parts.Count), g.note()}
	b.AddOnce(once)
	return append([]generated{{KindOnce, once}}, made(newGen(seed), b)...)
}

// note is what a key remembers, nil as often as not.
func (g gen) note() []byte {
	if n := g.u32() % 8; n > 3 {
		return bytes.Repeat([]byte{byte(n)}, int(n))
	}
	return nil
}

func (g gen) position() *SetOffset {
	v := &SetOffset{
		Tenant: g.tenant(), Queue: g.bytes(9), Partition: g.bytes(9), Group: g.group(), To: Offset(g.u64()),
	}
	switch g.IntN(3) {
	case 0:
		v.ToEnd = true
	case 1:
		v.Forget = true
	case 2:
		v.Metadata = g.bytes(40)
	}
	if v.Create = g.flip(); v.Create {
		v.Start = StartKind(1 + g.IntN(2))
	}
	return v
}

// key is a name or key of keyed state: not empty, without zero bytes and #.
func (g gen) key(limit int) []byte {
	b := append(g.bytes(limit-1), 'k')
	for i := range b {
		if b[i] == 0 || b[i] == '#' {
			b[i] = 'z'
		}
	}
	return b
}

func (g gen) number(none bool) Number {
	switch g.IntN(3) {
	case 0:
		if none {
			return Number{}
		}
		fallthrough
	case 1:
		return Number{Kind: IntNumber, Int: g.i64()}
	}
	return Number{Kind: FloatNumber, Float: g.NormFloat64() * float64(g.u64())}
}

func (g gen) stateCommand(b *CommandBuf, k Kind) any {
	keep := func() int64 { return g.i64() &^ (-1 << 63) }
	switch k {
	case KindTxn:
		v := &Txn{1 + g.u32()>>1, g.u32()%2 == 0}
		b.AddTxn(v)
		return v
	case KindOnce:
		v := &Once{g.tenant(), g.uuid(), g.uuid(), keep()>>1 + 1, 1 + g.u32()>>1, g.note()}
		b.AddOnce(v)
		return v
	case KindKV:
		v := g.kv(keep())
		b.AddKV(v)
		return v
	case KindLock:
		v := &Lock{Tenant: g.tenant(), Op: LockOp(1 + g.IntN(3)), Name: g.key(20)}
		switch v.Op {
		case LockAcquire:
			v.Owner, v.Limit, v.Keep = g.bytes(20), 1+g.Uint32N(MaxLockLimit), keep()>>1+1
		case LockRenew:
			v.Owner, v.Slot, v.Token, v.Keep, v.Since = g.bytes(20), g.u32(), g.u64(), keep()>>1+1, Wall(g.i64())
		case LockRelease:
			v.Slot, v.Token = g.u32(), g.u64()
		}
		b.AddLock(v)
		return v
	case KindTimer:
		v := g.timer()
		b.AddTimer(v)
		return v
	}
	a, frame := g.append()
	for a.Count != 1 || a.Frame != FrameNative {
		a, frame = g.append()
	}
	v := &Fire{a.Tenant, a.Queue, g.key(30), g.u64(), Wall(keep()), *a}
	b.AddFire(v, frame)
	return v
}

func (g gen) kv(keep int64) *KV {
	v := &KV{
		Tenant: g.tenant(), Op: KVOp(1 + g.IntN(4)), Namespace: g.key(20), Key: g.key(40), Required: g.flip(),
		HasExpect: g.flip(),
	}
	switch v.Op {
	case KVPut:
		v.Value, v.Number, v.Keep = g.bytes(300), g.number(true), keep
	case KVIncr:
		v.Number, v.Min, v.Max, v.Keep = g.number(false), g.number(true), g.number(true), keep
		v.HasExpect = false
	case KVCheck:
		v.HasExpect = true
	}
	if v.HasExpect {
		v.Expect = g.u64()
	}
	return v
}

func (g gen) timer() *Timer {
	v := &Timer{Tenant: g.tenant(), Op: TimerOp(1 + g.IntN(6)), Queue: g.bytes(9), Key: g.key(40)}
	switch v.Op {
	case TimerSchedule:
		_, frame := g.frame(1)
		v.Due, v.Relative, v.Partition, v.TransactionID = Wall(g.i64()), g.flip(), g.bytes(20), g.bytes(20)
		v.Recur, v.Frame = g.bytes(20), frame
	case TimerFailed:
		v.Due, v.Relative, v.Version, v.Reason, v.Counted = Wall(g.i64()), g.flip(), g.u64(), g.bytes(30), g.flip()
	case TimerDead:
		_, frame := g.frame(1)
		row := TimerRow{Version: g.u64(), Due: Wall(g.i64()), W: Wall(g.i64()), Partition: g.bytes(20), Recur: g.bytes(20), Frame: frame}
		v.Due, v.Version, v.Reason, v.Row = Wall(g.u64()>>1), g.u64(), g.bytes(30), row.Append(nil)
	}
	return v
}
