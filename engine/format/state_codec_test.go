package format

import (
	"bytes"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"
)

// Goal: what a Txn and a Once hold together is checked before anything is applied. Method: entries of kinds
// in order; parts is what the bracket says.
func TestBracketsAreChecked(t *testing.T) {
	g := newGen(1)
	for _, c := range []struct {
		kinds  []Kind
		parts  []uint32 // of the brackets among them, in order
		reason string
	}{
		{[]Kind{KindTxn, KindAck, KindAppend, KindSetOffset, KindKV, KindTimer, KindFire}, []uint32{5}, ""},
		{[]Kind{KindOnce, KindTxn, KindKV, KindKV, KindLock, KindTick}, []uint32{4, 2}, ""},
		{[]Kind{KindOnce, KindAppend, KindTxn, KindKV}, []uint32{3, 1}, ""},
		{[]Kind{KindTxn, KindKV}, []uint32{2}, "ends outside"},
		{[]Kind{KindOnce, KindKV}, []uint32{2}, "ends outside"},
		{[]Kind{KindTxn, KindKV}, []uint32{1<<32 - 1}, "ends outside"},
		{[]Kind{KindOnce, KindTxn, KindKV, KindKV}, []uint32{2, 2}, "ends outside"},
		{[]Kind{KindTxn, KindTxn, KindKV}, []uint32{2, 1}, "inside a bracket"},
		{[]Kind{KindOnce, KindOnce, KindKV}, []uint32{2, 1}, "inside a bracket"},
		{[]Kind{KindTxn, KindOnce, KindKV}, []uint32{2, 1}, "inside a bracket"},
		{[]Kind{KindTxn, KindLock}, []uint32{1}, "inside a bracket"},
		{[]Kind{KindTxn, KindRedrive}, []uint32{1}, "inside a bracket"},
		{[]Kind{KindTxn, KindFire}, []uint32{1}, "inside a bracket"},
		{[]Kind{KindOnce, KindFire}, []uint32{1}, "inside a bracket"},
		{[]Kind{KindOnce, KindPop}, []uint32{1}, "inside a bracket"},
		{[]Kind{KindTxn}, []uint32{0}, "without parts"},
	} {
		var b CommandBuf
		parts := c.parts
		for _, k := range c.kinds {
			switch k {
			case KindTxn:
				b.AddTxn(&Txn{Parts: parts[0]})
				parts = parts[1:]
			case KindOnce:
				b.AddOnce(&Once{Keep: 1, Parts: parts[0]})
				parts = parts[1:]
			default:
				g.command(&b, k)
			}
		}
		err := b.Validate()
		if (err == nil) != (c.reason == "") || err != nil && !strings.Contains(err.Error(), c.reason) {
			t.Errorf("%v of %v: %v, want %q", c.kinds, c.parts, err, c.reason)
		}
	}
}

// Goal: what one key remembers has a bound.
func TestOnceIsBounded(t *testing.T) {
	a, frame := oneMessage(10)
	a.IDs, a.Hashes = IDsNone, nil
	for _, count := range []uint32{MaxOnceOrdinals, MaxOnceOrdinals + 1} {
		var b CommandBuf
		b.AddOnce(&Once{Keep: 1, Parts: 1})
		a.Count = count
		b.AddAppend(a, frame)
		if err := b.Validate(); (err == nil) != (count == MaxOnceOrdinals) {
			t.Errorf("%d ordinals: %v", count, err)
		}
	}
}

// Goal: commands that could not be applied, or not the same everywhere, do not survive decoding.
func TestStateCommandsRefuse(t *testing.T) {
	put := KV{Op: KVPut, Namespace: []byte("n"), Key: []byte("k")}
	acquire := Lock{Op: LockAcquire, Name: []byte("l"), Limit: 1, Keep: 1}
	schedule := newGen(3).timer()
	for seed := uint64(7); schedule.Op != TimerSchedule; seed++ {
		schedule = newGen(seed).timer()
	}
	kv := func(bend func(*KV)) func(*CommandBuf) {
		v := put
		bend(&v)
		return func(b *CommandBuf) { b.AddKV(&v) }
	}
	lock := func(bend func(*Lock)) func(*CommandBuf) {
		v := acquire
		bend(&v)
		return func(b *CommandBuf) { b.AddLock(&v) }
	}
	timer := func(bend func(*Timer)) func(*CommandBuf) {
		v := *schedule
		bend(&v)
		return func(b *CommandBuf) { b.AddTimer(&v) }
	}
	dead := func(bend func(*Timer)) func(*CommandBuf) {
		v := Timer{Op: TimerDead, Key: []byte("k"), Row: (&TimerRow{Frame: schedule.Frame}).Append(nil)}
		bend(&v)
		return func(b *CommandBuf) { b.AddTimer(&v) }
	}
	a, frame := oneMessage(10)
	fire := func(bend func(*Fire)) func(*CommandBuf) {
		v := Fire{Key: []byte("k"), Append: *a}
		bend(&v)
		return func(b *CommandBuf) { b.AddFire(&v, frame) }
	}
	for name, c := range map[string]struct {
		add func(*CommandBuf)
		ok  bool
	}{
		"kv":              {kv(func(*KV) {}), true},
		"empty key":       {kv(func(v *KV) { v.Key = nil }), false},
		"zero in key":     {kv(func(v *KV) { v.Key = []byte("a\x00b") }), false},
		"no namespace":    {kv(func(v *KV) { v.Namespace = nil }), false},
		"zero in ns":      {kv(func(v *KV) { v.Namespace = []byte{0} }), false},
		"kv op":           {kv(func(v *KV) { v.Op = KVCheck + 1 }), false},
		"keep":            {kv(func(v *KV) { v.Keep = -1 }), false},
		"not a number":    {kv(func(v *KV) { v.Number = Number{Kind: FloatNumber, Float: nan()} }), false},
		"number kind":     {kv(func(v *KV) { v.Number = Number{Kind: 3} }), false},
		"incr nothing":    {kv(func(v *KV) { v.Op = KVIncr }), false},
		"check nothing":   {kv(func(v *KV) { v.Op = KVCheck }), false},
		"lock":            {lock(func(*Lock) {}), true},
		"no slot":         {lock(func(v *Lock) { v.Limit = 0 }), false},
		"slots":           {lock(func(v *Lock) { v.Limit = MaxLockLimit + 1 }), false},
		"lock for ever":   {lock(func(v *Lock) { v.Keep = 0 }), false},
		"renew for ever":  {lock(func(v *Lock) { v.Op, v.Keep = LockRenew, 0 }), false},
		"lock name":       {lock(func(v *Lock) { v.Name = []byte("a#1") }), false},
		"timer":           {timer(func(*Timer) {}), true},
		"no frame":        {timer(func(v *Timer) { v.Frame = nil }), false},
		"two messages":    {timer(func(v *Timer) { v.Frame = EncodeFrame(nil, make([]FrameMessage, 2), FrameOptions{}) }), false},
		"relative cancel": {timer(func(v *Timer) { v.Op, v.Relative = TimerCancel, true }), false},
		"counted":         {timer(func(v *Timer) { v.Op, v.Counted, v.Relative = TimerFailed, true, false }), true},
		"counted, no try": {timer(func(v *Timer) { v.Counted = true }), false},
		"dead":            {dead(func(*Timer) {}), true},
		"relative pause":  {timer(func(v *Timer) { v.Op, v.Relative = TimerPause, true }), false},
		"timer op":        {timer(func(v *Timer) { v.Op, v.Relative = TimerResume+1, false }), false},
		"dead relative":   {dead(func(v *Timer) { v.Relative = true }), false},
		"dead goes back":  {dead(func(v *Timer) { v.Due = -1 }), false},
		"dead no timer":   {dead(func(v *Timer) { v.Row = v.Row[:20] }), false},
		"dead no message": {dead(func(v *Timer) { v.Row = (&TimerRow{}).Append(nil) }), false},
		"fire":            {fire(func(*Fire) {}), true},
		"fire two":        {fire(func(v *Fire) { v.Append.Count = 2; v.Append.Hashes = make([]byte, 32) }), false},
		"fire kafka":      {fire(func(v *Fire) { v.Append.Frame = FrameKafka }), false},
		"fire no key":     {fire(func(v *Fire) { v.Key = nil }), false},
		"forget and set":  {func(b *CommandBuf) { b.AddSetOffset(&SetOffset{Forget: true, ToEnd: true}) }, false},
		"forget a note":   {func(b *CommandBuf) { b.AddSetOffset(&SetOffset{Forget: true, Metadata: []byte("x")}) }, false},
		"long note":       {func(b *CommandBuf) { b.AddSetOffset(&SetOffset{Metadata: make([]byte, MaxPositionMetadata+1)}) }, false},
		"start from":      {func(b *CommandBuf) { b.AddSetOffset(&SetOffset{Create: true, Start: StartFrom}) }, false},
	} {
		var b CommandBuf
		c.add(&b)
		if err := b.Validate(); (err == nil) != c.ok {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func nan() float64 { zero := 0.0; return zero / zero }

// Goal: what a key remembers comes back: the same verdicts in the same order, whatever their details.
func TestPartsComeBack(t *testing.T) {
	for seed := range uint64(300) {
		g := newGen(seed)
		r := g.parts()
		first := Ordinal(g.IntN(1000))
		b := AppendParts(nil, r, 0, len(r.Items))
		var got Results
		if err := ParseParts(b, first, &got); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		if len(got.Items) != len(r.Items) {
			t.Fatalf("seed %d: %d verdicts, want %d", seed, len(got.Items), len(r.Items))
		}
		for i := range r.Items {
			want, have := r.Items[i], got.Items[i]
			if have.First != first+want.First-r.Items[0].First || have.Kind != want.Kind || have.Code != want.Code {
				t.Fatalf("seed %d: %+v want %+v", seed, have, want)
			}
			if !hasDetails(want.Kind, want.Code) {
				continue
			}
			if a, b := details(r, &want), details(&got, &have); a != b {
				t.Fatalf("seed %d: %s\nwant %s", seed, b, a)
			}
		}
		if again := AppendParts(nil, &got, 0, len(got.Items)); !bytes.Equal(again, b) {
			t.Fatalf("seed %d: encodes to other bytes", seed)
		}
	}
}

func details(r *Results, it *Result) string {
	switch it.Kind {
	case KindAppend, KindRedrive:
		return fmt.Sprintf("%+v", r.Appends[it.At])
	case KindAck:
		return fmt.Sprintf("%+v", r.Acks[it.At])
	case KindKV:
		return fmt.Sprintf("%+v", r.KVs[it.At])
	case KindLock:
		return fmt.Sprintf("%+v", r.Locks[it.At])
	case KindTimer:
		return fmt.Sprintf("%+v", r.Timers[it.At])
	case KindTxn:
		return fmt.Sprintf("%+v", r.Txns[it.At])
	}
	return fmt.Sprintf("%+v", r.Counts[it.At])
}

func (g gen) parts() *Results {
	r := &Results{}
	kinds := []Kind{
		KindAppend, KindRedrive, KindAck, KindKV, KindLock, KindTimer, KindTxn, KindSetOffset, KindDelete, KindPurge, KindRegister,
	}
	codes := []Code{CodeOK, CodeOK, CodeOK, CodeRolledBack, CodePrecondition, CodeDuplicate}
	next := Ordinal(g.IntN(500))
	for range g.IntN(9) {
		it := Result{Kind: kinds[g.IntN(len(kinds))], Code: codes[g.IntN(len(codes))], First: next}
		next += 1 + Ordinal(g.IntN(3))
		switch it.Kind {
		case KindAppend, KindRedrive:
			it.At = uint32(len(r.Appends))
			a := AppendResult{Partition: PartitionID(g.u64()), Queue: QueueID(g.u64()), Base: Offset(g.u64()), Count: 5, Kept: 3,
				Row: g.u64(), PrevRow: g.u64(), NewQueue: g.flip(), NewPartition: g.flip()}
			for i := range uint32(g.IntN(3)) {
				a.Dups = append(a.Dups, DupResult{At: i, Offset: Offset(g.u64()), Place: g.place(), W: Wall(g.i64()), Full: g.flip()})
			}
			r.Appends = append(r.Appends, a)
		case KindAck:
			it.At = uint32(len(r.Acks))
			r.Acks = append(r.Acks, AckResult{Before: Offset(g.u64()), After: Offset(g.u64()), LeaseFirst: Offset(g.u64()),
				LeaseEnd: Offset(g.u64()), Released: g.flip(), Filed: g.flip(), FiledFirst: Offset(g.u64()),
				FiledEnd: Offset(g.u64()), DeadLetter: g.uuid(), Dropped: g.flip(), Conflated: g.u64()})
		case KindKV:
			it.At = uint32(len(r.KVs))
			r.KVs = append(r.KVs, KVResult{KVReason(g.IntN(6)), g.u64(), g.number(true), Wall(g.i64())})
		case KindLock:
			it.At = uint32(len(r.Locks))
			r.Locks = append(r.Locks, LockResult{KVReason(g.IntN(8)), g.flip(), g.u32(), g.u64(), Wall(g.i64())})
		case KindTimer:
			it.At = uint32(len(r.Timers))
			r.Timers = append(r.Timers, TimerResult{TimerStatus(g.IntN(5)), g.u64(), Wall(g.i64())})
		case KindTxn:
			it.At = uint32(len(r.Txns))
			r.Txns = append(r.Txns, TxnResult{g.u32()})
		default:
			it.At = uint32(len(r.Counts))
			r.Counts = append(r.Counts, CountResult{g.u64(), g.flip(), g.flip()})
		}
		r.Items = append(r.Items, it)
	}
	return r
}

func FuzzParts(f *testing.F) {
	for seed := range uint64(8) {
		r := newGen(seed).parts()
		f.Add(AppendParts(nil, r, 0, len(r.Items)))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		var r Results
		if ParseParts(b, 0, &r) != nil {
			return
		}
		var again Results
		if err := ParseParts(AppendParts(nil, &r, 0, len(r.Items)), 0, &again); err != nil || len(again.Items) != len(r.Items) {
			t.Fatalf("accepted, but not after encoding it again: %v", err)
		}
	})
}

// FuzzKeyedRow feeds the parsers of keyed rows and of their keys.
func FuzzKeyedRow(f *testing.F) {
	seedGoldens(f, "keyed_*.hex")
	f.Add(AppendTimerKey(nil, goldenTenant, []byte("q"), []byte("k")))
	f.Fuzz(func(t *testing.T, b []byte) {
		same := func(what string, again []byte) {
			if !bytes.Equal(again, b) {
				t.Fatalf("%s encodes to other bytes", what)
			}
		}
		if v, err := ParseKVRow(b); err == nil {
			same("kv row", v.Append(nil))
		}
		if v, err := ParseTimerRow(b); err == nil {
			same("timer row", v.Append(nil))
			if v.Size() != len(b) {
				t.Fatalf("size %d of %d bytes", v.Size(), len(b))
			}
		}
		if v, err := ParseDeadRow(b); err == nil {
			same("dead letter row", v.Append(nil))
			if v.Size() != len(b) {
				t.Fatalf("size %d of %d bytes", v.Size(), len(b))
			}
		}
		if v, err := ParseOnceRow(b); err == nil {
			same("idempotency row", v.Append(nil))
		}
		if v, err := ParsePositionRow(b); err == nil {
			same("position row", v.Append(nil))
		}
		if tenant, ns, key, ok := ParseKVKey(b); ok {
			same("kv key", AppendKVKey(nil, tenant, ns, key))
		}
		if tenant, queue, key, ok := ParseTimerKey(b); ok {
			same("timer key", AppendTimerKey(nil, tenant, queue, key))
		}
	})
}

// Goal: times in keyed rows read as everybody writes them. Method: against the standard library, over
// leap days, centuries and times before 1970.
func TestISOTimes(t *testing.T) {
	for seed := range uint64(2000) {
		w := Wall(newGen(seed).Int64N(315_569_520_000_000_000) - 62_167_219_200_000_000)
		want := time.UnixMicro(int64(w)).UTC().Format("2006-01-02T15:04:05.000000Z")
		if got := string(AppendISO(nil, w)); got != want {
			t.Fatalf("%d is %s, want %s", w, got, want)
		}
	}
	for w, want := range map[Wall]string{
		0: "1970-01-01T00:00:00.000000Z", -1: "1969-12-31T23:59:59.999999Z", 951_782_400_000_000: "2000-02-29T00:00:00.000000Z",
		-1 << 62: "0000-01-01T00:00:00.000000Z", 1 << 62: "9999-12-31T23:59:59.999999Z",
	} {
		if got := string(AppendISO(nil, w)); got != want {
			t.Errorf("%d is %s, want %s", w, got, want)
		}
	}
}

// Goal: what the edge is told to refuse is what a row can not hold.
func TestKeyedLimits(t *testing.T) {
	long := func(n int) []byte { return bytes.Repeat([]byte("k"), n) }
	frame := func(n int) []byte {
		return EncodeFrame(nil, []FrameMessage{{Payload: make([]byte, n)}}, FrameOptions{})
	}
	for name, c := range map[string]struct{ fits, want bool }{
		"key":       {(&KV{Namespace: []byte("n"), Key: long(MaxKVKey)}).Fits(), true},
		"long key":  {(&KV{Namespace: []byte("n"), Key: long(MaxKVKey + 1)}).Fits(), false},
		"value":     {(&KV{Namespace: []byte("n"), Value: long(MaxKVValue)}).Fits(), true},
		"large":     {(&KV{Namespace: []byte("n"), Value: long(MaxKVValue + 1)}).Fits(), false},
		"internal":  {(&KV{Namespace: []byte("~n"), Value: long(MaxKVInternal)}).Fits(), true},
		"namespace": {(&KV{Namespace: long(MaxKVNamespace + 1)}).Fits(), false},
		"owner":     {(&Lock{Owner: long(MaxLockOwner + 1)}).Fits(), false},
		"lock name": {(&Lock{Name: long(MaxLockName + 1)}).Fits(), false},
		"payload":   {(&Timer{TransactionID: long(100), Frame: frame(1 << 20)}).Fits(), true},
		"too much":  {(&Timer{TransactionID: long(MaxTransactionID), Frame: frame(1 << 20)}).Fits(), false},
		"names":     {(&Timer{Queue: long(400), Partition: long(12)}).Fits(), false},
		"dies":      {(&Timer{TransactionID: long(100), Frame: frame(1 << 20)}).FitsDead(), true},
		"lives on":  {(&Timer{TransactionID: long(64_000), Frame: frame(1 << 20)}).FitsDead(), false},
		"dead":      {(&Timer{Op: TimerDead, Key: long(MaxTimerKey), Reason: long(MaxTimerText), Row: make([]byte, MaxKeyedRow-deadTimerRoom)}).Fits(), true},
		"too dead":  {(&Timer{Op: TimerDead, Key: long(1), Row: make([]byte, MaxKeyedRow-7)}).Fits(), false},
	} {
		if c.fits != c.want {
			t.Errorf("%s fits: %v", name, c.fits)
		}
	}
	if (&KVRow{JSON: long(MaxKVInternal), Permit: true, Owner: long(MaxLockOwner)}).Append(nil); MaxKVInternal+MaxLockOwner+kvRowFixed+11 > MaxKeyedRow {
		t.Error("a value that fits makes a row that does not")
	}
}

// Goal: a Fire gives back its timer and its append, also among other frames.
func TestFireAmongFrames(t *testing.T) {
	g := newGen(5)
	var b CommandBuf
	a, frame := oneMessage(30)
	b.AddAppend(a, frame)
	want := g.stateCommand(&b, KindFire).(*Fire)
	b.AddAppend(a, frame)
	var builder EntryBuilder
	builder.Begin(EntryHeader{})
	builder.Add(&b)
	raw := builder.Finish(nil)
	e, err := ParseEntry(raw)
	if err != nil {
		t.Fatal(err)
	}
	var kinds []Kind
	r := e.Reader()
	for r.Next() {
		var any Append
		if !r.Kind().StoresFrame() || r.AnyAppend(&any) != nil {
			t.Fatal(r.Err())
		}
		if _, _, err := ParseFrame(raw[any.PayloadPos:][:any.PayloadLen]); err != nil {
			t.Fatal(err)
		}
		kinds = append(kinds, r.Kind())
		if r.Kind() == KindFire {
			var got Fire
			if err := r.Fire(&got); err != nil {
				t.Fatal(err)
			}
			checkCommand(t, raw, &got, want, r.Ordinal())
		}
	}
	if !reflect.DeepEqual(kinds, []Kind{KindAppend, KindFire, KindAppend}) {
		t.Fatal(kinds, r.Err())
	}
}
