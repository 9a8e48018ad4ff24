package enginetest

import (
	"time"

	"queen/engine"
	"queen/engine/format"
)

// atomic commits ops as one batch and wants it to work.
func (r *rig) atomic(ops ...engine.Op) []engine.Result {
	r.t.Helper()
	res, err := r.e.Do(r.ctx, r.caller, engine.Batch{Ops: ops, Atomic: true})
	if err != nil {
		r.fatalf("atomic Do: %v", err)
	}
	equal(r, "results", len(res), len(ops))
	return res
}

// rolledBack commits ops as one batch and wants it refused with a code, for one of the ops.
func (r *rig) rolledBack(want engine.ErrorCode, op int, ops ...engine.Op) *engine.Error {
	r.t.Helper()
	res, err := r.e.Do(r.ctx, r.caller, engine.Batch{Ops: ops, Atomic: true})
	e, ok := err.(*engine.Error)
	if !ok || e == nil {
		r.fatalf("atomic Do: got %v, %v, want %s", res, err, want)
	}
	equal(r, "code", e.Code, want)
	equal(r, "outcome", e.Outcome, engine.OutcomeNone)
	if e.Failed == nil || e.Failed.Op != op {
		r.fatalf("%v names op %+v, want %d", e, e.Failed, op)
	}
	return e
}

// refusedAll wants a batch refused as a whole, as an atomic one and as any other.
func (r *rig) refusedAll(want engine.ErrorCode, ops ...engine.Op) {
	r.t.Helper()
	for _, atomic := range []bool{true, false} {
		_, err := r.e.Do(r.ctx, r.caller, engine.Batch{Ops: ops, Atomic: atomic})
		equal(r, "code", code(err), want)
	}
}

// kv carries one KV op out alone.
func (r *rig) kv(op engine.KV) engine.KVItem {
	r.t.Helper()
	return r.atomic(&op)[0].KV
}

func kvPut(key, value string) engine.KV {
	return engine.KV{Kind: engine.KVPut, Namespace: "ns", Key: key, Value: []byte(value)}
}

func kvAbsent(key, value string) engine.KV { return expecting(kvPut(key, value), 0) }

func kvOp(kind engine.KVKind, key string) engine.KV {
	return engine.KV{Kind: kind, Namespace: "ns", Key: key}
}

func kvIncr(key string, delta int64) engine.KV {
	op := kvOp(engine.KVIncr, key)
	op.Delta = whole(delta)
	return op
}

func whole(n int64) format.Number { return format.Number{Kind: format.IntNumber, Int: n} }

func expecting(op engine.KV, version uint64) engine.KV {
	op.HasExpect, op.Expect = true, version
	return op
}

func required(op engine.KV) engine.KV {
	op.Required = true
	return op
}

func lasting(op engine.KV, keep time.Duration) engine.KV {
	op.Keep = keep
	return op
}

func (r *rig) get(key string) engine.KVItem {
	r.t.Helper()
	items, err := r.e.Keyed().KV(r.ctx, r.caller, []engine.KV{kvOp(engine.KVGet, key)})
	if err != nil {
		r.fatalf("get of %q: %v", key, err)
	}
	return items[0]
}

// holds wants a key to have a value.
func (r *rig) holds(key, value string) engine.KVRow {
	r.t.Helper()
	item := r.get(key)
	check(r, item.Found && string(item.Row.Value) == value, "%q is %v %q, want %q", key, item.Found, item.Row.Value, value)
	return item.Row
}

func (r *rig) holdsNothing(key string) {
	r.t.Helper()
	item := r.get(key)
	check(r, !item.Found, "%q is %q, want nothing", key, item.Row.Value)
}

// written wants an op to apply and returns the version it gave.
func (r *rig) written(op engine.KV) uint64 {
	r.t.Helper()
	item := r.kv(op)
	check(r, item.Applied && item.Reason == format.KVApplied, "op on %q did not apply: reason %d", op.Key, item.Reason)
	return item.Row.Version
}

// loses wants an op not to apply, and to tell why and what the key holds.
func (r *rig) loses(op engine.KV, why format.KVReason, value string) engine.KVRow {
	r.t.Helper()
	item := r.kv(op)
	check(r, !item.Applied && item.Reason == why && item.Found == (value != "") && string(item.Row.Value) == value,
		"op on %q: applied %v, reason %d, found %v, value %q, want reason %d and %q", op.Key, item.Applied, item.Reason, item.Found,
		item.Row.Value, why, value)
	return item.Row
}

// page reads a prefix.
func (r *rig) page(op engine.KV) engine.KVItem {
	r.t.Helper()
	op.Kind = engine.KVPrefix
	items, err := r.e.Keyed().KV(r.ctx, r.caller, []engine.KV{op})
	if err != nil {
		r.fatalf("prefix %q: %v", op.Key, err)
	}
	return items[0]
}

func keysOf(item engine.KVItem) string {
	out := ""
	for i := range item.Rows {
		out += item.Rows[i].Key + " "
	}
	return out
}

func (r *rig) lock(op engine.Lock) engine.LockItem {
	r.t.Helper()
	if op.Op != format.LockRelease && op.TTL == 0 {
		op.TTL = time.Minute
	}
	if op.Name == "" {
		op.Name = "l"
	}
	res := r.do(&op)[0]
	if res.Err != nil {
		r.fatalf("lock: %v", res.Err)
	}
	return res.Lock
}

func acquire(owner string) engine.Lock { return engine.Lock{Op: format.LockAcquire, Owner: owner} }

// acquired wants the lock.
func (r *rig) acquired(op engine.Lock) engine.LockItem {
	r.t.Helper()
	item := r.lock(op)
	check(r, item.Granted && item.Token > 0 && len(item.Holders) == 0, "acquire by %q: %+v", op.Owner, item)
	return item
}

func (r *rig) holders(name string) []engine.LockHolder {
	r.t.Helper()
	all, err := r.e.Keyed().Locks(r.ctx, r.caller, []string{name})
	if err != nil {
		r.fatalf("Locks: %v", err)
	}
	return all[0]
}

// guard is the condition under which a transaction of a lock's holder commits (S-txn-19).
func guardOf(name string, item engine.LockItem) *engine.KV {
	return &engine.KV{Kind: engine.KVCheck, Namespace: format.LockNamespace, Key: permit(format.Tenant{}, name, item.Slot).key,
		HasExpect: true, Expect: item.Token, Required: true}
}

func schedule(key string, delay time.Duration) engine.Timer {
	return engine.Timer{Op: format.TimerSchedule, Queue: "q", Key: key, Partition: "p", Delay: delay, Message: msg("t-" + key)}
}

func (r *rig) timer(op engine.Timer) engine.TimerItem {
	r.t.Helper()
	res := r.do(&op)[0]
	if res.Err != nil {
		r.fatalf("timer: %v", res.Err)
	}
	return res.Timer
}

func (r *rig) pending(key string) (engine.TimerInfo, bool) {
	r.t.Helper()
	info, ok, err := r.e.Keyed().Timer(r.ctx, r.caller, "q", key)
	if err != nil {
		r.fatalf("Timer: %v", err)
	}
	return info, ok
}

func (r *rig) cancel(key string) format.TimerStatus {
	r.t.Helper()
	return r.timer(engine.Timer{Op: format.TimerCancel, Queue: "q", Key: key}).Status
}

// stored wants a partition to hold messages with these transaction ids.
func (r *rig) stored(queue, partition string, ids ...string) []engine.Record {
	r.t.Helper()
	recs := r.read(queue, partition, 0).Records
	var got []string
	for _, rec := range recs {
		got = append(got, rec.TransactionID)
	}
	check(r, len(got) == len(ids), "%s/%s holds %q, want %q", queue, partition, got, ids)
	for i := range ids {
		equal(r, "id", got[i], ids[i])
	}
	return recs
}
