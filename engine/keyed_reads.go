package engine

import (
	"context"
	"strings"

	"queen/engine/format"
	"queen/engine/keyed"
	"queen/engine/machine"
)

// keyedReader implements Keyed; it proposes nothing.
type keyedReader struct{ n *Node }

// Keyed implements Engine.
func (n *Node) Keyed() Keyed { return keyedReader{n} }

// open refuses calls that come too late or too early.
func (k keyedReader) open(ctx context.Context) *Error {
	switch {
	case k.n.closing():
		return errClosed()
	case ctx.Err() != nil:
		return errContext(ctx, OutcomeNone)
	}
	return nil
}

// KV implements Keyed.
func (k keyedReader) KV(ctx context.Context, c Caller, reads []KV) ([]KVItem, error) {
	if err := k.open(ctx); err != nil {
		return nil, err
	}
	ops, reading := make([]Op, len(reads)), make([]*KV, len(reads))
	for i := range reads {
		err := checkKV(&reads[i], true)
		if err == nil && !reads[i].Kind.looks() {
			err = errBad("op", "get, getMany, getPrefix, check", "not a read")
		}
		if err != nil {
			return nil, failedOp(i, err)
		}
		ops[i], reading[i] = &reads[i], &reads[i]
	}
	shape := shapeOf(ops)
	if err := shape.check(true); err != nil {
		return nil, err
	}
	return k.n.readNow(ctx, c, reading)
}

// Namespaces implements Keyed. Only keys are counted; the engine's own namespaces are left out.
func (k keyedReader) Namespaces(ctx context.Context, c Caller) ([]KVNamespace, error) {
	if err := k.open(ctx); err != nil {
		return nil, err
	}
	var out []KVNamespace
	prefix := append([]byte{byte(keyed.FamilyKV)}, c.Tenant[:]...)
	seen := 0
	err := k.snapshot().ScanPrefix(prefix, nil, scanStep, func(key, _ []byte) bool {
		_, ns, _, ok := format.ParseKVKey(key[1:])
		switch n := len(out); {
		case !ok || ns[0] == format.InternalNamespace:
		case n > 0 && out[n-1].Name == string(ns):
			out[n-1].Keys++
		default:
			out = append(out, KVNamespace{Name: string(ns), Keys: 1})
		}
		seen++
		return seen%1024 != 0 || ctx.Err() == nil
	})
	switch {
	case err != nil:
		return nil, errRead(err)
	case ctx.Err() != nil:
		return nil, errContext(ctx, OutcomeNone)
	}
	return out, nil
}

// snapshot holds the keyed rows still as they are now.
func (k keyedReader) snapshot() keyed.View {
	k.n.state.RLock()
	defer k.n.state.RUnlock()
	return k.n.keyed.view.Load().Snapshot()
}

// Browse implements Keyed.
func (k keyedReader) Browse(ctx context.Context, c Caller, b KVBrowse) (item KVItem, err error) {
	if err := k.open(ctx); err != nil {
		return KVItem{}, err
	}
	if err := checkNamespace(b.Namespace); err != nil {
		return KVItem{}, err
	}
	if len(b.Prefix) > MaxKVKey || strings.IndexByte(b.Prefix, 0) >= 0 {
		return KVItem{}, errBad("prefix", "512 bytes, no NUL", "not a prefix of keys")
	}
	op := KV{Namespace: b.Namespace, Key: b.Prefix, After: b.After, Limit: b.Limit, KeysOnly: b.KeysOnly, Snapshot: b.Snapshot}
	scan := scanOf(&op)
	scan.expired = b.IncludeExpired
	switch left := kvReadBytes; {
	case len(b.Snapshot) > maxSnapshotToken:
		return KVItem{}, errBad("snapshot", "64 bytes", "not the name of a snapshot")
	case op.later():
		page, err := k.n.laterPage(c.Tenant, b.Snapshot, scan, &left)
		if err != nil {
			return KVItem{}, err
		}
		return page, nil
	}
	var last *kvLook
	err = k.n.lookNow(ctx, c, func(look *kvLook) error {
		last = look
		look.pages, look.begins = true, b.Snapshot == SnapshotNew
		k.n.takeLook(look, look.w)
		left := kvReadBytes
		item, err = look.scan(scan, &left)
		return err
	})
	if err == nil && last.begins && item.Truncated {
		item.Snapshot = k.n.hold(last)
	}
	return item, err
}

// Locks implements Keyed.
func (k keyedReader) Locks(ctx context.Context, c Caller, names []string) ([][]LockHolder, error) {
	if err := k.open(ctx); err != nil {
		return nil, err
	}
	if len(names) > maxLockOps {
		return nil, errBad("operations", "64", "too many locks in one call")
	}
	out := make([][]LockHolder, len(names))
	for i, name := range names {
		if err := checkLockName(name); err != nil {
			return nil, failedOp(i, err)
		}
		var err error
		if out[i], err = k.n.holders(ctx, c, name, MaxLockSlots); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// Timer implements Keyed.
func (k keyedReader) Timer(ctx context.Context, c Caller, queue, key string) (TimerInfo, bool, error) {
	if err := k.open(ctx); err != nil {
		return TimerInfo{}, false, err
	}
	p, found, err := k.n.pending(c.Tenant, queue, key)
	if err != nil || !found {
		return TimerInfo{}, false, err
	}
	info, err := p.info(k.n, true)
	if err != nil {
		k.n.event("timer", err)
		return TimerInfo{}, false, errRead(err)
	}
	return info, true, nil
}

// pending reads one timer.
func (n *Node) pending(t format.Tenant, queue, key string) (pendingTimer, bool, error) {
	p := pendingTimer{tenant: t, queue: queue, key: key}
	n.state.RLock()
	v := *n.keyed.view.Load()
	var head machine.TimerHead
	found := false
	if key != "" && len(queue)+len(key) <= keyed.KeyBytesMax/2 {
		head, found = n.state.m.TimerHead(t, viewBytes(queue), viewBytes(key))
	}
	if found {
		p.found(v, head)
	}
	n.state.RUnlock()
	if !found {
		return p, false, nil
	}
	if err := p.read(v.Below()); err != nil {
		n.event("timer", err)
		return p, false, errRead(err)
	}
	return p, true, nil
}

// Timers implements Keyed. Each row is as it was at some moment of the call; none that was there all the time is
// missed.
func (k keyedReader) Timers(ctx context.Context, c Caller, queue string, p Page) (rows []TimerInfo, next string, err error) {
	if err := k.open(ctx); err != nil {
		return nil, "", err
	}
	limit := pageLimit(p.Limit)
	keys, more, err := k.timerKeys(c.Tenant, queue, "", p.After, limit)
	if err != nil {
		return nil, "", errRead(err)
	}
	for _, key := range keys {
		t, found, err := k.n.pending(c.Tenant, queue, key)
		if err != nil {
			return nil, "", err
		}
		if !found {
			continue // fired or cancelled meanwhile
		}
		info, err := t.info(k.n, false)
		if err != nil {
			return nil, "", errRead(err)
		}
		rows = append(rows, info)
	}
	if more {
		next = keys[len(keys)-1]
	}
	return rows, next, nil
}

// timerKeys lists keys of a queue's timers in byte order; more says that the limit cut the list.
func (k keyedReader) timerKeys(t format.Tenant, queue, prefix, after string, limit int) (keys []string, more bool, err error) {
	if len(queue)+len(prefix) > keyed.KeyBytesMax/2 || len(after) > keyed.KeyBytesMax/2 {
		return nil, false, nil
	}
	from := timerStoreKey(t, queue, prefix)
	base := len(from) - len(prefix)
	var startAfter []byte
	if after != "" {
		startAfter = timerStoreKey(t, queue, after)
	}
	err = k.snapshot().ScanPrefix(from, startAfter, scanStep, func(key, _ []byte) bool {
		if len(keys) == limit {
			more = true
			return false
		}
		keys = append(keys, string(key[base:]))
		return true
	})
	return keys, more, err
}

// countStep is how many keys CountTimers holds at a time.
const countStep = 4096

// CountTimers implements Keyed.
func (k keyedReader) CountTimers(ctx context.Context, c Caller, queue, prefix string) (total uint64, err error) {
	if err := k.open(ctx); err != nil {
		return 0, err
	}
	for after, more := "", true; more; {
		if ctx.Err() != nil {
			return 0, errContext(ctx, OutcomeNone)
		}
		var keys []string
		if keys, more, err = k.timerKeys(c.Tenant, queue, prefix, after, countStep); err != nil {
			return 0, errRead(err)
		}
		if total += uint64(len(keys)); more {
			after = keys[len(keys)-1]
		}
	}
	return total, nil
}
