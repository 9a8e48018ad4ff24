package enginetest

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"time"

	"queen/engine"
	"queen/engine/format"
)

// opLock is a call of lock ops, one letter of What each, on lock N and those behind it: a acquire, n renew, r release. M is
// the limit, Part the slot, Group the owner, 0 without a name, For the lifetime. Flags: s with a token from before.
const opLock = "lock"

// opTimer is a call of timer ops, one letter of What each, on timer N and those behind it: s schedule, at a time of the
// calendar with flag t, c cancel, p pause, r resume. For is how far ahead, Part where the message goes.
const opTimer = "timer"

// timerQueue has no options and nobody else's messages: what holds fires back is another test's.
const timerQueue = genQueues

// lock draws a call of lock ops.
func (g *generator) lock() Op {
	o := Op{Kind: opLock, N: g.r.IntN(3), M: g.r.IntN(4), Part: g.r.IntN(3), Group: g.r.IntN(3), For: g.span(2 * time.Minute), Flags: g.flag("s", 10)}
	for range 1 + g.r.IntN(2) {
		o.What += string("aaanr"[g.r.IntN(5)])
	}
	return o
}

// timer draws a call of timer ops.
func (g *generator) timer() Op {
	o := Op{Kind: opTimer, N: g.r.IntN(8), Part: g.r.IntN(2), For: g.span(time.Minute), Flags: g.flag("t", 30)}
	for range 1 + g.r.IntN(3) {
		o.What += string("sssscprr"[g.r.IntN(8)])
	}
	return o
}

// riders draws what stands beside keys and pushes in a transaction. Flags: k acks of the messages of a delivery, all
// completed, j the first failed, e the first dead; those of opAck say how; q a position of a group, F forgets it, Q on a
// queue that nobody has; a t schedules a timer, T cancels it; I an idempotency key.
func (g *generator) riders(o *Op) {
	if g.chance(50) {
		o.Flags += string("kkkje"[g.r.IntN(5)]) + g.flag("l", 85) + g.flag("u", 15) + g.flag("f", 4) + g.flag("o", 20) + g.flag("m", 20) + g.flag("z", 4)
		o.Back = g.back()
	}
	if g.chance(10) {
		o.Flags += "q" + g.flag("F", 25) + g.flag("Q", 25)
		o.Group = g.r.IntN(g.groups)
	}
	if g.chance(20) {
		o.Flags += string("tT"[g.r.IntN(2)])
	}
	o.Flags += g.flag("I", 15)
}

func lockName(n int) string { return fmt.Sprint("lock", n%3) }

// lockOps makes the ops of a call, with tokens as the model knows them.
func (p *player) lockOps(o Op) (ops []engine.Op) {
	for i, letter := range o.What {
		op := &engine.Lock{Name: lockName(o.N + i), Limit: uint32(o.M), Slot: uint32(o.Part), TTL: o.For, Token: 1}
		if o.Group > 0 {
			op.Owner = fmt.Sprint("owner", o.Group)
		}
		if row := p.s.kvLive(permit(p.caller.Tenant, op.Name, op.Slot)); row != nil {
			if op.Token = row.version; o.has("s") && op.Token > 1 {
				op.Token--
			}
		}
		switch letter {
		case 'a':
			op.Op, op.Slot, op.Token = format.LockAcquire, 0, 0
		case 'n':
			op.Op = format.LockRenew
		default:
			op.Op = format.LockRelease
		}
		ops = append(ops, op)
	}
	return ops
}

// timers carries a call of timer ops out. What is resumed may be due already: the engine fires that by itself, some time.
func (p *player) timers(o Op) (string, error) {
	told, err := p.keyedCall("timer", p.caller, engine.Batch{Ops: p.timerOps(o)})
	if err == nil && strings.Contains(o.What, "r") {
		err = p.settle()
	}
	return told, err
}

// timerOps makes the ops of a call.
func (p *player) timerOps(o Op) (ops []engine.Op) {
	for i, letter := range o.What {
		op := p.timerOp(o, o.N+i, letter != 's')
		switch letter {
		case 'p':
			op.Op = format.TimerPause
		case 'r':
			op.Op = format.TimerResume
		}
		ops = append(ops, op)
	}
	return ops
}

func (p *player) timerOp(o Op, n int, cancel bool) *engine.Timer {
	op := &engine.Timer{Op: format.TimerCancel, Queue: Op{Queue: timerQueue}.queue(), Key: fmt.Sprint("t", n%8)}
	if cancel {
		return op
	}
	op.Op, op.Partition = format.TimerSchedule, o.part()
	op.Message = p.message('-', false) // when exactly a message is fired is not known before, nor when its id is new again
	if op.Delay = max(o.For, time.Millisecond); o.has("t") {
		op.Delay, op.At = 0, p.s.w+format.Wall(micros(o.For))
	}
	return op
}

// riderOps makes the acks, the position and the timer of a transaction.
func (p *player) riderOps(o Op) (ops []engine.Op) {
	ops = p.txnAcks(o)
	if o.has("q") {
		op := &engine.CommitOffset{Queue: o.queue(), Partition: o.part(), Group: o.group(), Forget: o.has("F")}
		if o.has("Q") {
			op.Queue = Op{Queue: strangeQueue}.queue()
		}
		if !op.Forget {
			op.Offset = format.Offset(o.N)
		}
		ops = append(ops, op)
	}
	if o.has("t") || o.has("T") {
		when := o
		when.Flags, when.For, when.Part = "", max(o.For, time.Second), o.Part%2 // the two that are there
		ops = append(ops, p.timerOp(when, o.N, o.has("T")))
	}
	return ops
}

// txnAcks settles messages of a delivery, as an ack outside does.
func (p *player) txnAcks(o Op) (ops []engine.Op) {
	if !strings.ContainsAny(o.Flags, "kje") {
		return nil
	}
	h := p.handed(o)
	if h == nil {
		return nil
	}
	for i := range h.messages {
		m := &h.messages[i]
		where := &engine.Ack{Partition: h.claims[m.Claim].PartitionID, Offset: m.Offset, HasOffset: true}
		if len(ops) == 4 || p.s.goneAt(p.caller.Tenant, where) {
			break // what is gone may be settled already or not
		}
		letter := 'c'
		switch {
		case i == 0 && o.has("j"):
			letter = 'f'
		case i == 0 && o.has("e"):
			letter = 'd'
		}
		at := o
		at.For, at.Group = 0, 0
		at.Flags = strings.Map(func(r rune) rune {
			if strings.ContainsRune("uflomz", r) {
				return r
			}
			return -1
		}, o.Flags)
		ops = append(ops, p.ackOf(at, h, i, letter))
	}
	p.unambiguous(h, ops)
	return ops
}

// keyedCall carries a call out that only the whole state can judge, and holds every answer against the model.
func (p *player) keyedCall(kind string, c engine.Caller, b engine.Batch) (string, error) {
	if len(b.Ops) == 0 {
		return skip, nil
	}
	ctx, cancel := p.call()
	defer cancel()
	p.arm()
	got, err := p.e.Do(ctx, c, b)
	if err != nil && p.hit && !slices.Contains(txnRefusals, code(err)) {
		_, after, refused := p.s.clone().commit(c, b)
		p.keep(c, b, nil, code(refused))
		after.changed = nil
		after.keyed.pend(p.s.keyed.version)
		before := p.s
		err := p.settleCrash(after)
		if err == nil && c.Key != "" && p.s == before {
			p.doubt(after)
		}
		return "died", err
	}
	want, after, refused := p.s.commit(c, b)
	p.keep(c, b, got, code(refused))
	if refused != nil && p.refusedAtTheDoor(code(err), &b) {
		p.cov.count(kind + " " + string(code(err)))
		return string(code(err)), nil
	}
	if code(err) != code(refused) {
		return "", fmt.Errorf("%s: got %v, want %v", kind, err, refused)
	}
	if refused != nil {
		if e := err.(*engine.Error); !sameFailed(&b, e.Failed, refused.Failed) {
			return "", fmt.Errorf("%s: %v names op %+v, want %+v", kind, err, e.Failed, refused.Failed)
		}
		p.cov.count(kind + " " + string(code(err)))
		return string(code(err)), nil
	}
	p.s = after
	text := []string{}
	for i := range b.Ops {
		if b.Atomic || i == 0 {
			p.floor = p.told
		}
		verdict, err := p.judgePart(b.Ops[i], &got[i], &want[i])
		if err != nil {
			return "", fmt.Errorf("part %d of a %s: %w", i, kind, err)
		}
		if verdict != "" {
			p.cov.count(verdict)
			text = append(text, verdict)
		}
	}
	if b.Atomic {
		p.cov.count("txn committed")
		text = append(text, "committed")
	}
	return strings.Join(text, ", "), nil
}

// sameFailed says that two refusals name the same op. Of several acks that are refused any may be named.
func sameFailed(b *engine.Batch, got, want *engine.FailedOp) bool {
	if got == nil || want == nil {
		return got == want
	}
	isAck := func(op int) bool { _, ok := b.Ops[op].(*engine.Ack); return ok }
	return got.Op == want.Op || isAck(want.Op) && got.Op >= 0 && got.Op < len(b.Ops) && isAck(got.Op)
}

// refusedAtTheDoor says that a message of the call can not be stored at all, which may be found before anything else.
func (p *player) refusedAtTheDoor(got engine.ErrorCode, b *engine.Batch) bool {
	return slices.ContainsFunc(b.Ops, func(op engine.Op) bool {
		a, ok := op.(*engine.Append)
		if !ok || !b.Atomic {
			return false
		}
		e := refuseAppend(p.s.queue(p.caller.Tenant, a.Queue), a)
		return e != nil && e.Code == got
	})
}

// txnRefusals are answers to a transaction that say that nothing was carried out.
var txnRefusals = []engine.ErrorCode{engine.CodeDuplicate, engine.CodeKVPrecondition, engine.CodeRejectedAck, engine.CodeUnknownQueue,
	engine.CodeEncryption, engine.CodeTooLarge}

// judgeLock compares the answer to one lock op and adopts the token.
func (p *player) judgeLock(op *engine.Lock, g, w *engine.LockItem) (string, error) {
	if g.Granted != w.Granted || g.Already != w.Already || g.Reason != w.Reason || g.Slot != w.Slot || g.Expires != w.Expires {
		return "", fmt.Errorf("lock %q: got %+v, want %+v", op.Name, g, w)
	}
	if err := p.judgeHolders(op.Name, g.Holders, w.Holders); err != nil {
		return "", err
	}
	verb := map[format.LockOp]string{format.LockAcquire: "acquire", format.LockRenew: "renew", format.LockRelease: "release"}[op.Op]
	switch {
	case !g.Granted:
		return fmt.Sprintf("lock %s refused", verb), nil
	case op.Op == format.LockRelease:
		return "lock released", nil
	}
	k := permit(p.caller.Tenant, op.Name, g.Slot)
	if err := p.adoptVersion(k, g.Token, !g.Already); err != nil {
		return "", err
	}
	if g.Already {
		return "lock held already", nil
	}
	return "lock " + verb + " granted", nil
}

func (p *player) judgeHolders(name string, got, want []engine.LockHolder) error {
	if len(got) != len(want) {
		return fmt.Errorf("lock %q: %d holders, want %d", name, len(got), len(want))
	}
	for i := range want {
		g, w := got[i], want[i]
		if err := p.adoptVersion(permit(p.caller.Tenant, name, w.Slot), g.Token, false); err != nil {
			return err
		}
		if g.Token = w.Token; g != w {
			return fmt.Errorf("lock %q: holder %+v, want %+v", name, g, w)
		}
	}
	return nil
}

// judgeTimer compares the answer to one timer op and adopts the id of the message it will fire.
func (p *player) judgeTimer(op *engine.Timer, g, w *engine.TimerItem) (string, error) {
	if g.Status != w.Status || g.Due != w.Due || g.MessageID.IsZero() != w.MessageID.IsZero() {
		return "", fmt.Errorf("timer %q: got %+v, want %+v", op.Key, g, w)
	}
	if !g.MessageID.IsZero() {
		if err := p.adoptTimer(timerKey{p.caller.Tenant, op.Queue, op.Key}, g.MessageID); err != nil {
			return "", err
		}
	}
	return [...]string{format.TimerScheduled: "timer scheduled", format.TimerRescheduled: "timer rescheduled",
		format.TimerCancelled: "timer cancelled", format.TimerAbsent: "timer absent", format.TimerPaused: "timer paused",
		format.TimerResumed: "timer resumed"}[g.Status], nil
}

// adoptTimer takes the engine's id of the message of a timer into the model.
func (p *player) adoptTimer(k timerKey, id format.UUID) error {
	row := p.s.keyed.timers[k]
	if row == nil || row.known {
		if row != nil && row.id != id {
			return fmt.Errorf("timer %q fires %v, want %v", k.key, id, row.id)
		}
		return nil
	}
	if err := p.fresh(id); err != nil {
		return fmt.Errorf("timer %q: %w", k.key, err)
	}
	known := *row
	known.id, known.known = id, true
	p.s.keyed.timers[k] = &known
	return nil
}

// auditTimers compares what is pending, and who holds the locks.
func (p *player) auditTimers() error {
	ctx, cancel := p.call()
	defer cancel()
	queue := Op{Queue: timerQueue}.queue()
	rows, _, err := p.e.Keyed().Timers(ctx, p.caller, queue, engine.Page{Limit: 100})
	if err != nil {
		return fmt.Errorf("timers: %w", err)
	}
	keys := p.s.timerKeys(p.caller.Tenant, queue, "")
	if len(rows) != len(keys) {
		return fmt.Errorf("%d timers, want %d", len(rows), len(keys))
	}
	for i, k := range keys {
		if err := p.adoptTimer(k, rows[i].MessageID); err != nil {
			return err
		}
		g, w := rows[i], p.s.keyed.timers[k].view(false)
		g.Message, w.Message = engine.Message{}, engine.Message{}
		if fmt.Sprint(g) != fmt.Sprint(w) {
			return fmt.Errorf("timer is %+v, want %+v", g, w)
		}
	}
	names := []string{lockName(0), lockName(1), lockName(2)}
	all, err := p.e.Keyed().Locks(ctx, p.caller, names)
	if err != nil {
		return fmt.Errorf("locks: %w", err)
	}
	for i, name := range names {
		if err := p.judgeHolders(name, all[i], p.s.holders(p.caller.Tenant, name, engine.MaxLockSlots)); err != nil {
			return err
		}
	}
	return nil
}

// keyedVerdicts are what lists with transactions, locks and timers lead to beside the verdicts of all lists.
var keyedVerdicts = []string{
	"txn committed", "txn duplicate", "txn kv_precondition", "txn rejected_ack", "txn unknown_queue", "txn position", "keys audited",
	"kv put applied", "kv put exists", "kv put absent", "kv put version", "kv delete applied", "kv delete absent", "kv incr applied",
	"kv incr limit", "kv incr type", "kv check applied", "kv check exists", "kv check absent", "kv check version", "kv read",
	"lock acquire granted", "lock acquire refused", "lock held already", "lock renew granted", "lock renew refused", "lock released",
	"lock release refused", "timer scheduled", "timer rescheduled", "timer cancelled", "timer absent",
	"timer paused", "timer resumed",
	"timer fired", "again answered", "again refused", "txn idempotency_mismatch",
}

// fired is a message that a timer left behind, and when that was due.
type fired struct {
	by        timerKey
	partition string
	offset    format.Offset
	due       format.Wall
	known     bool // the id is the engine's, and not one of a call that died
}

// adoptFired asks the engine when it fired what the model knows to be fired by now: not before it was due.
func (p *player) adoptFired() error {
	all := p.s.keyed.fired
	p.s.keyed.fired = nil
	for i, f := range all {
		q := p.s.queue(p.caller.Tenant, f.by.queue)
		if q == nil || q.part(f.partition) == nil || int(f.offset) >= len(q.part(f.partition).msgs) {
			continue
		}
		part := q.part(f.partition)
		res, err := p.readAt(engine.Position{Queue: f.by.queue, Partition: f.partition, Offset: f.offset, MaxBytes: 1})
		if err != nil || len(res.Records) == 0 {
			return fmt.Errorf("timer %q: what it fired is not at %s/%s %d: %v %v", f.by.key, f.by.queue, f.partition, f.offset, res.Err, err)
		}
		part.sameDue(all[i:], &res.Records[0])
		rec := &part.msgs[f.offset].rec
		if f := &all[i]; !f.known {
			if err := p.fresh(res.Records[0].ID); err != nil {
				return fmt.Errorf("timer %q: %w", f.by.key, err)
			}
			if rec.ID = res.Records[0].ID; !rec.HasCallerID {
				rec.TransactionID = rec.ID.String()
			}
		}
		if at := res.Records[0].CreatedAt; at < f.due || at > rec.CreatedAt {
			return fmt.Errorf("timer %q was due at %d and fired at %d, now is %d", f.by.key, f.due, at, rec.CreatedAt)
		}
		rec.CreatedAt = res.Records[0].CreatedAt
		if f.offset+1 == part.end() {
			part.lastWrite = rec.CreatedAt
		}
		if err := p.judgeRecord(&part.msgs[f.offset], &res.Records[0]); err != nil {
			return fmt.Errorf("timer %q: %w", f.by.key, err)
		}
		p.cov.count("timer fired")
	}
	return nil
}

// sameDue lets the first of several messages that were due at one time be the one that the engine fired first.
func (p *part) sameDue(all []fired, got *engine.Record) {
	f := &all[0]
	for i := range all {
		o := &all[i]
		if o.by.queue != f.by.queue || o.partition != f.partition || o.due != f.due {
			continue
		}
		b := &p.msgs[o.offset].rec
		if b.ID != got.ID && (o.known || !bytes.Equal(b.Payload, got.Payload)) {
			continue
		}
		a := &p.msgs[f.offset].rec
		*a, *b = *b, *a
		a.Offset, b.Offset = b.Offset, a.Offset
		f.by, o.by = o.by, f.by
		f.known, o.known = o.known, f.known
		return
	}
}

// readyForTimers makes the queue that timers fire into, so that none of them has to.
func (p *player) readyForTimers() error {
	if !p.o.Keyed {
		return nil
	}
	if err := p.sync(); err != nil {
		return err
	}
	_, err := p.push(Op{Kind: opPush, Queue: timerQueue, What: "-/-"})
	return err
}
