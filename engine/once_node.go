package engine

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"hash"
	"time"

	"queen/engine/format"
	"queen/engine/keyed"
)

const (
	// maxOnceKey bounds an Idempotency-Key, bytes.
	maxOnceKey = 255
	// onceKept is how long an answer is remembered, on the calendar of the log.
	onceKept = time.Hour
)

// onceCall is the key of a call and what the call asks for.
type onceCall struct {
	n      *Node
	tenant format.Tenant
	key    [16]byte
	digest [16]byte
}

func newOnce(n *Node, c Caller, b *Batch) *onceCall {
	return &onceCall{n: n, tenant: c.Tenant, key: format.HashID(n.identity.hashKey, viewBytes(c.Key)), digest: digestOf(c, b)}
}

func (o *onceCall) command(parts uint32) *format.Once {
	return &format.Once{Tenant: o.tenant, Key: o.key, Digest: o.digest, Keep: onceKept.Microseconds(), Parts: parts}
}

// find reads what was answered to an earlier call with the key. Another body is an error. A row whose time
// is over counts as none: the log decides.
func (o *onceCall) find() (row format.OnceRow, found bool, err error) {
	n := o.n
	key := format.AppendOnceKey([]byte{byte(keyed.FamilyIdempotency)}, o.tenant, o.key)
	n.state.RLock()
	head, ok := n.state.m.OnceHead(o.tenant, o.key)
	v := *n.keyed.view.Load()
	live, in := v.Live(key)
	n.state.RUnlock()
	if !ok || head.Due <= n.wall() {
		return row, false, nil
	}
	value, has := live.Value, in && !live.Tombstone
	if !in {
		if value, has, err = v.Below().Get(key); err != nil {
			return row, false, errRead(err)
		}
	}
	if err = checkRow(key, value, has, &head); err == nil {
		row, err = format.ParseOnceRow(value)
	}
	if err != nil {
		n.event("keyed row", err)
		return row, false, errRead(err)
	}
	if row.Digest != o.digest {
		return row, false, errClash()
	}
	return row, true, nil
}

func errClash() *Error {
	return &Error{Code: CodeIdempotencyClash, Field: "Idempotency-Key", Message: "the key was used for another call less than an hour ago"}
}

// finishRepeat answers a call as the first one with its key was answered: the ops are encoded once more, only
// to see which verdict is whose.
func (w *wholeCall) finishRepeat(ctx context.Context, row *format.OnceRow, err error) error {
	if err != nil {
		return err
	}
	fl := &flight{header: format.EntryHeader{W: row.W}, index: row.Index}
	if err := format.ParseParts(row.Parts, row.First+1, &fl.results); err != nil {
		return errRead(err)
	}
	again := wholeCall{doCall: w.n.newCall(w.caller, w.ops, nil, nil, newSubmission(writing)), batch: w.batch}
	again.atomic, again.repeating = w.atomic, true
	again.use = again.push.sub
	again.ack.sub, again.ack.whole, again.ack.again = again.use, true, true
	again.push.dry = true
	if again.redrives, err = parseRedriveNotes(row.Note); err != nil {
		return errRead(err)
	}
	if again.atomic {
		again.push.firsts = map[firstKey]msgPlace{}
	}
	if err := again.encodeAll(ctx); err != nil {
		return err
	}
	s := again.use
	s.flight, s.again, s.count = fl, true, len(fl.results.Items)
	if w.atomic && s.count > 0 {
		s.head = 1
	}
	if s.buf.Count != s.count-s.head {
		return errRead(fmt.Errorf("engine: %d verdicts are remembered of a call of %d commands", s.count, s.buf.Count))
	}
	s.recycle()
	w.n.counters.repeated.Add(1)
	if s.head > 0 {
		txn := s.brackets()[0]
		if w.mint(s, &txn); txn.Code != format.CodeOK {
			w.rolledBack = true
			return again.refusal(&txn)
		}
	}
	if err := again.render(ctx); err != nil {
		return err
	}
	w.out = again.out
	return nil
}

// opHash writes what a call asks for, each field behind its length, so that different calls never look alike.
type opHash struct {
	h       hash.Hash
	scratch [8]byte
}

func (d *opHash) num(ns ...uint64) {
	for _, n := range ns {
		binary.LittleEndian.PutUint64(d.scratch[:], n)
		d.h.Write(d.scratch[:])
	}
}

func (d *opHash) bytes(b []byte) {
	d.num(uint64(len(b)))
	d.h.Write(b)
}

func (d *opHash) text(ss ...string) {
	for _, s := range ss {
		d.bytes(viewBytes(s))
	}
}

func (d *opHash) flag(on ...bool) {
	for _, b := range on {
		if b {
			d.num(1)
		} else {
			d.num(0)
		}
	}
}

func (d *opHash) number(n format.Number) { d.num(uint64(n.Kind), n.Bits()) }

// digestOf is a digest of what a call asks for: of its ops, whether it is atomic, and on whose behalf messages
// are stamped.
func digestOf(c Caller, b *Batch) (digest [16]byte) {
	d := opHash{h: sha256.New()}
	d.text(c.Subject)
	d.flag(b.Atomic)
	if b.KeepDuplicates {
		d.flag(true)
	}
	d.num(uint64(len(b.Ops)))
	for _, op := range b.Ops {
		d.op(op)
	}
	copy(digest[:], d.h.Sum(nil))
	return digest
}

func (d *opHash) op(op Op) {
	switch op := op.(type) {
	case *Append:
		d.text("append", op.Queue, op.Partition)
		d.num(uint64(len(op.Messages)))
		for i := range op.Messages {
			d.message(&op.Messages[i])
		}
	case *Ack:
		d.text("ack", op.Group, op.Lease, op.TransactionID, op.Reason)
		d.num(uint64(op.Partition), uint64(op.Offset), uint64(op.Status), uint64(op.Delay))
		d.flag(op.Unfenced, op.HasOffset)
	case *CommitOffset:
		d.text("position", op.Queue, op.Partition, op.Group, op.Metadata)
		d.num(uint64(op.Offset), uint64(op.Start))
		d.flag(op.Forget)
	case *KV:
		d.text("kv", op.Namespace, op.Key, op.After)
		d.text(op.Keys...)
		d.bytes(op.Value)
		d.number(op.Delta)
		d.number(op.Min)
		d.number(op.Max)
		d.num(uint64(op.Kind), uint64(len(op.Keys)), op.Expect, uint64(op.Keep), uint64(op.Limit))
		d.flag(op.HasExpect, op.Required, op.KeysOnly)
	case *Lock:
		d.text("lock", op.Name, op.Owner)
		d.num(uint64(op.Op), uint64(op.Limit), uint64(op.Slot), op.Token, uint64(op.TTL))
	case *Timer:
		d.text("timer", op.Queue, op.Key, op.Partition, op.Cron, op.Zone)
		d.num(uint64(op.Op), uint64(op.Delay), uint64(op.At), uint64(op.CatchUp), op.MaxFires, uint64(op.Until))
		d.message(&op.Message)
	case *Redrive:
		d.text("redrive", op.TransactionID, op.Queue, op.Partition)
		d.bytes(op.DeadLetter[:])
		d.num(uint64(op.PartitionID))
		d.flag(op.ByAddress, op.ToOther, op.ToPart)
		if op.GroupOnly {
			d.flag(true)
		}
	}
}

func (d *opHash) message(m *Message) {
	d.text(m.TransactionID, m.ContentType)
	d.bytes(m.TraceID[:])
	d.num(uint64(len(m.Headers)))
	for i := range m.Headers {
		d.text(m.Headers[i].Name)
		d.bytes(m.Headers[i].Value)
	}
	d.bytes(m.Payload)
}
