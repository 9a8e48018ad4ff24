package enginetest

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"queen/engine"
	"queen/engine/format"
)

// opTxn is an atomic batch: What has one letter per KV op, on key N and those behind it: p put, s put of a text, a put if
// absent, d delete, i incr, l incr that little is left for, c check of the version of now, o check of another, n check that
// there is none, x a put that expects another, g get, m get of three. M messages go to the partition, the first with
// an id that repeats at times. For is the lifetime of what is put. Flags: r the last condition is required.
const opTxn = "txn"

// keyed draws an atomic batch.
func (g *generator) keyed(o Op) Op {
	op := Op{Kind: opTxn, Queue: o.Queue, Part: o.Part, N: g.r.IntN(12), Flags: g.flag("r", 40)}
	for range 1 + g.r.IntN(4) {
		op.What += string("ppsaaddiiilconxgm"[g.r.IntN(17)])
	}
	if g.chance(40) {
		op.M = 1 + g.r.IntN(3)
	}
	if g.chance(40) {
		op.For = g.advance()
	}
	return op
}

// withKeyed spreads atomic batches over a list.
func (g *generator) withKeyed(ops []Op) []Op {
	var out []Op
	for i, o := range ops {
		if out = append(out, o); i < g.early {
			continue // options that act on what is stored later
		}
		switch n := g.r.IntN(100); {
		case n < 30:
			op := g.keyed(Op{Queue: g.r.IntN(g.queues), Part: g.r.IntN(g.parts)})
			g.riders(&op)
			out = append(out, op)
		case n < 33:
			out = append(out, Op{Kind: opAgain, Flags: g.flag("b", 25)})
		case n < 40:
			out = append(out, g.lock())
		case n < 46:
			out = append(out, g.timer())
		case n < 50:
			out = append(out, g.pop(Op{Queue: timerQueue, Part: g.r.IntN(2), Group: g.r.IntN(g.groups)}))
		}
	}
	return out
}

// txnOps makes the batch that an Op stands for, from what the model knows of the keys.
func (p *player) txnOps(o Op) (ops []engine.Op) {
	ops = p.riderOps(o)
	if o.M > 0 {
		add := &engine.Append{Queue: o.queue(), Partition: o.part()}
		for i := range o.M {
			token := '-'
			if i == 0 {
				token = rune('a' + o.N)
			}
			add.Messages = append(add.Messages, p.message(token, false))
		}
		ops = append(ops, add)
	}
	for i, letter := range o.What {
		op := kvOp(engine.KVPut, fmt.Sprint("k", (o.N+i)%16))
		p.pushed++
		op.Value, op.Keep = fmt.Append(nil, p.pushed), o.For
		now := uint64(0)
		if row := p.s.kvLive(kvKey{p.caller.Tenant, "ns", op.Key}); row != nil {
			now = row.version
		}
		switch letter {
		case 'a':
			op = expecting(op, 0)
		case 'x':
			op = expecting(op, now+1)
		case 's':
			op.Value = fmt.Appendf(nil, "%q", op.Key)
		case 'd':
			op = kvOp(engine.KVDelete, op.Key)
		case 'i':
			incr := kvIncr(op.Key, 3)
			incr.Max, incr.Keep = whole(1<<40), o.For
			op = incr
		case 'l':
			incr := kvIncr(op.Key, 3)
			incr.Max, incr.Keep = whole(5), o.For
			op = incr
		case 'g':
			op = kvOp(engine.KVGet, op.Key)
		case 'm':
			op = kvOp(engine.KVGetMany, "")
			op.Keys = []string{fmt.Sprint("k", (o.N+9)%16), fmt.Sprint("k", (o.N+7)%16), fmt.Sprint("k", (o.N+8)%16)} // none that the call writes
		case 'c':
			op = expecting(kvOp(engine.KVCheck, op.Key), now)
		case 'o':
			op = expecting(kvOp(engine.KVCheck, op.Key), now+1)
		case 'n':
			op = expecting(kvOp(engine.KVCheck, op.Key), 0)
		}
		op.Required = o.has("r") && i == len(o.What)-1 && !strings.ContainsRune("gm", letter)
		ops = append(ops, &op)
	}
	return ops
}

// judgePart compares the answer to one op of a call; the verdict is what it counts as, if anything.
func (p *player) judgePart(op engine.Op, got, want *engine.Result) (verdict string, err error) {
	if a, ok := op.(*engine.Ack); ok {
		_, err := p.judgeAck(a, got, want, false) // it counts
		return "", err
	}
	if got.Err != nil || want.Err != nil {
		return "", fmt.Errorf("got %v, want %v", got.Err, want.Err)
	}
	switch op := op.(type) {
	case *engine.Append:
		for k := range want.Messages {
			if err := p.judgeMessage(op.Queue, op.Partition, &got.Messages[k], &want.Messages[k]); err != nil {
				return "", err
			}
		}
		return "", nil
	case *engine.Lock:
		return p.judgeLock(op, &got.Lock, &want.Lock)
	case *engine.Timer:
		return p.judgeTimer(op, &got.Timer, &want.Timer)
	case *engine.CommitOffset:
		return "txn position", nil
	}
	return p.judgeKV(op.(*engine.KV), &got.KV, &want.KV)
}

// judgeKV compares the answer to one op on keys and adopts the versions it tells.
func (p *player) judgeKV(kv *engine.KV, g, w *engine.KVItem) (verdict string, err error) {
	if kv.Kind == engine.KVGetMany {
		return "kv read", p.judgeRows(g, w)
	}
	if g.Applied != w.Applied || g.Reason != w.Reason || g.Found != w.Found || !bytes.Equal(g.Row.Value, w.Row.Value) ||
		g.Row.Expires != w.Row.Expires || g.Row.Updated != w.Row.Updated {
		return "", fmt.Errorf("%q: got %+v, want %+v", kv.Key, g, w)
	}
	verdict = "kv " + kvKinds[kv.Kind] + " " + kvReasons[g.Reason]
	if kv.Kind == engine.KVGet {
		verdict = "kv read"
	}
	return verdict, p.adoptVersion(kvKey{p.caller.Tenant, kv.Namespace, kv.Key}, g.Row.Version, g.Applied && kv.Kind != engine.KVCheck)
}

var (
	kvKinds   = map[engine.KVKind]string{engine.KVPut: "put", engine.KVDelete: "delete", engine.KVIncr: "incr", engine.KVCheck: "check"}
	kvReasons = [...]string{format.KVApplied: "applied", format.KVExists: "exists", format.KVAbsent: "absent", format.KVVersion: "version",
		format.KVLimit: "limit", format.KVType: "type"}
)

// judgeRows compares the rows of a read of several keys.
func (p *player) judgeRows(g, w *engine.KVItem) error {
	if keysOf(*g) != keysOf(*w) || !slices.Equal(g.Missing, w.Missing) {
		return fmt.Errorf("keys are %q without %q, want %q without %q", keysOf(*g), g.Missing, keysOf(*w), w.Missing)
	}
	for i := range w.Rows {
		g, w := &g.Rows[i], &w.Rows[i]
		if !bytes.Equal(g.Value, w.Value) || g.Expires != w.Expires {
			return fmt.Errorf("key %q is %s until %d, want %s until %d", w.Key, g.Value, g.Expires, w.Value, w.Expires)
		}
		if err := p.adoptVersion(kvKey{p.caller.Tenant, "ns", w.Key}, g.Version, false); err != nil {
			return err
		}
	}
	return nil
}

// adoptVersion takes the engine's version of a row into the model: a new one is above all that were given before.
func (p *player) adoptVersion(k kvKey, version uint64, written bool) error {
	row := p.s.keyed.kv[k]
	if row == nil {
		return nil
	}
	switch known := row.version; {
	case !written && !row.pending:
		if known != version {
			return fmt.Errorf("%q has version %d, want %d", k.key, version, known)
		}
		return nil
	case written && version <= p.floor:
		return fmt.Errorf("%q gets version %d after %d", k.key, version, p.floor)
	}
	adopted := *row
	adopted.version, adopted.pending = version, false
	p.s.keyed.kv[k] = &adopted
	p.told = max(p.told, version)
	return nil
}

// pend marks rows written after a version as having one that the engine has not told yet. Timers lost their ids to the
// call that died if they are not known.
func (k *keyedState) pend(after uint64) {
	for key, row := range k.kv {
		if row.version > after {
			marked := *row
			marked.pending = true
			k.kv[key] = &marked
		}
	}
}

// auditKeys compares all rows of the namespace that batches write.
func (p *player) auditKeys() error {
	ctx, cancel := p.call()
	defer cancel()
	items, err := p.e.Keyed().KV(ctx, p.caller, []engine.KV{{Kind: engine.KVPrefix, Namespace: "ns", Key: "k"}})
	if err != nil {
		return fmt.Errorf("keys: %w", err)
	}
	left := kvReadBytes
	want := p.s.kvRead(p.caller.Tenant, &engine.KV{Kind: engine.KVPrefix, Namespace: "ns", Key: "k"}, &left)
	if err := p.judgeRows(&items[0], &want); err != nil {
		return err
	}
	if strings.Count(keysOf(want), " ") > 0 {
		p.cov.count("keys audited")
	}
	return p.auditTimers()
}
