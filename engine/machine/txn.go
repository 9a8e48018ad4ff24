package machine

import (
	"fmt"

	"queen/engine/format"
)

// Classes of parts in the order in which a transaction judges and applies them (S-txn-4).
const (
	classAck = iota
	classAppend
	classPosition
	classKV
	classTimer
	classes
)

func classOf(k format.Kind) int {
	switch k {
	case format.KindAck:
		return classAck
	case format.KindAppend:
		return classAppend
	case format.KindSetOffset:
		return classPosition
	case format.KindKV:
		return classKV
	}
	return classTimer
}

// txnRun is one Txn being applied: a check of every part, which only reads, then all of them or none.
//
// INVARIANT: what the check lets pass no apply refuses; where it can not know it refuses too much (bounds of
// the state). A refusal after the check is an error of Apply (TestTxnIsAllOrNothing).
type txnRun struct {
	m     *Machine
	out   *format.Results
	parts int
	first int // of the parts in out.Items
	found [classes]int
	keep  bool // duplicates refuse nothing

	*trial
	written uint64 // rows with a new version, as far as judged
}

// trial is what earlier parts of a transaction will have done, for the verdicts about later ones. It is kept
// between transactions for its memory.
type trial struct {
	acked  map[handle]bool
	heads  map[format.IDHash]keyHead
	pushed map[format.PartitionID]uint64
	fresh  map[newPart]uint64
}

// newPart names a partition that a transaction will make.
type newPart struct {
	queue uint32
	name  string
}

// trialKept bounds what is kept, since emptying a map costs what it once held.
const trialKept = 64

func (t *trial) reset() {
	if t.acked == nil || len(t.acked)+len(t.heads)+len(t.pushed)+len(t.fresh) > trialKept {
		*t = trial{map[handle]bool{}, map[format.IDHash]keyHead{}, map[format.PartitionID]uint64{}, map[newPart]uint64{}}
	}
	clear(t.acked)
	clear(t.heads)
	clear(t.pushed)
	clear(t.fresh)
}

// applyTxn applies the Txn at r, which it moves to its last part. The verdict of the Txn is at place item of
// out.Items.
func (m *Machine) applyTxn(r *format.CommandReader, out *format.Results) (err error) {
	var c format.Txn
	if err = r.Txn(&c); err != nil {
		return err
	}
	t := txnRun{m: m, out: out, parts: int(c.Parts), keep: c.KeepDuplicates, trial: &m.scratch.trial}
	t.reset()
	item, first := len(out.Items), r.Ordinal()
	res := uint32(len(out.Txns))
	out.Txns = append(out.Txns, format.TxnResult{})
	out.Items = append(out.Items, format.Result{Kind: format.KindTxn, First: first, At: res})
	t.first = len(out.Items)
	// Until it takes place every part is rolled back.
	at := *r
	if err = rollBack(r, out, t.parts); err != nil {
		return err
	}
	for i := t.first; i < len(out.Items); i++ {
		t.found[classOf(out.Items[i].Kind)]++
	}
	m.inTxn = true
	defer func() { m.inTxn = false }()
	failed, code, err := t.check(at)
	if err != nil {
		return err
	}
	if code == format.CodeOK {
		m.txnLast = r.End() - 1
		err = t.apply(at)
		m.txnLast = 0
	} else {
		out.Items[item].Code = code
		out.Txns[res].Failed = uint32(failed)
	}
	m.keyed.Settled(first)
	return err
}

// check judges every part in the order of classes; failed is the first refused one, with the transaction's code.
// Its own verdict carries the code as well, and the details that the caller is told; those of parts that pass are
// left to apply.
func (t *txnRun) check(at format.CommandReader) (failed int, code format.Code, err error) {
	if code := t.room(); code != format.CodeOK {
		return 0, code, nil
	}
	before := *t.out
	for class := range classes {
		if t.found[class] == 0 {
			continue
		}
		r := at
		for i := range t.parts {
			if r.Next(); classOf(r.Kind()) != class {
				continue
			}
			t.m.place = format.Place{Index: t.m.applied, Ordinal: r.Ordinal()}
			item := &t.out.Items[t.first+i]
			if code, err := t.one(class, &r, item); code != format.CodeOK || err != nil {
				item.Code = code
				return i, code, err
			}
			t.forget(&before)
		}
	}
	return 0, format.CodeOK, nil
}

// forget takes back the details of a part that passed.
func (t *txnRun) forget(before *format.Results) {
	o := t.out
	o.Acks, o.Appends, o.Counts = o.Acks[:len(before.Acks)], o.Appends[:len(before.Appends)], o.Counts[:len(before.Counts)]
	o.KVs, o.Timers = o.KVs[:len(before.KVs)], o.Timers[:len(before.Timers)]
}

// room says that whatever the parts make new fits the state. It may refuse what would just have fitted.
func (t *txnRun) room() format.Code {
	m, n := t.m, t.parts
	const most = 1<<31 - 2
	news := t.found[classAppend] + t.found[classPosition]
	if news > 0 && (uint64(m.header.queues)+uint64(n) > maxCatalog || uint64(m.header.groups)+uint64(n) > maxCatalog ||
		m.header.partitions+uint64(n) > maxPartitions || m.parts.Len()+n > most || m.sides.Len()+n > most) {
		return format.CodeLimit
	}
	if m.cursors.Len()+n > most || m.leases.Len()+n > most || m.keys.Len()+n > most {
		return format.CodeLimit
	}
	return format.CodeOK
}

// one judges one part as the parts before it will leave the state.
func (t *txnRun) one(class int, r *format.CommandReader, item *format.Result) (code format.Code, err error) {
	s := &t.m.scratch
	switch class {
	case classAck:
		if err = r.Ack(&s.ack); err == nil {
			item.At = uint32(len(t.out.Acks))
			t.out.Acks = append(t.out.Acks, format.AckResult{})
			code = t.ack(&s.ack, &t.out.Acks[item.At])
		}
	case classAppend:
		if err = r.Append(&s.append); err == nil {
			item.At = uint32(len(t.out.Appends))
			code = t.append(&s.append, nextAppend(t.out))
		}
	case classPosition:
		if err = r.SetOffset(&s.setOffset); err == nil {
			item.At = uint32(len(t.out.Counts))
			t.out.Counts = append(t.out.Counts, format.CountResult{})
			code = t.position(&s.setOffset)
		}
	case classKV:
		if err = r.KV(&s.kv); err == nil {
			item.At = uint32(len(t.out.KVs))
			t.out.KVs = append(t.out.KVs, format.KVResult{})
			code = t.kv(&s.kv, &t.out.KVs[item.At])
		}
	default:
		if err = r.Timer(&s.timer); err == nil {
			item.At = uint32(len(t.out.Timers))
			t.out.Timers = append(t.out.Timers, format.TimerResult{})
			code = t.timer(&s.timer)
		}
	}
	return code, err
}

// apply carries every part out in the order of classes. Verdicts stand in the order of the parts.
func (t *txnRun) apply(at format.CommandReader) error {
	for class := range classes {
		if t.found[class] == 0 {
			continue
		}
		r := at
		for i := range t.parts {
			if r.Next(); classOf(r.Kind()) != class {
				continue
			}
			res, err := t.m.command(&r, t.out)
			if err == nil && res.Code != format.CodeOK {
				err = fmt.Errorf("machine: part %d of a transaction passed its check and was refused with code %d", i, res.Code)
			}
			if err != nil {
				return err
			}
			t.out.Items[t.first+i] = res
		}
	}
	return nil
}
