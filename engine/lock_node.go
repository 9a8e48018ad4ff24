package engine

import (
	"context"
	"strconv"

	"queen/engine/format"
)

// lock encodes a Lock op (S-lock-1).
func (d *doCall) lock(i int, op *Lock) *Error {
	if err := checkLock(op); err != nil {
		return err
	}
	cmd := format.Lock{Tenant: d.caller.Tenant, Op: op.Op, Name: viewBytes(op.Name), Owner: viewBytes(op.Owner),
		Limit: max(op.Limit, 1), Slot: op.Slot, Token: op.Token}
	if op.Op != format.LockRelease {
		cmd.Keep = max(op.TTL.Microseconds(), leastKeep)
	}
	if op.Op == format.LockRenew && !d.repeating {
		if err := d.n.permitEvidence(d.caller.Tenant, op, &cmd); err != nil {
			return err
		}
	}
	sub := d.side(op.Op == format.LockAcquire)
	d.then(i, sub, func(s *submission, it *format.Result, out *Result) { d.locked(i, op, s, it, out) })
	sub.buf.AddLock(&cmd)
	return nil
}

func permitKey(name string, slot uint32) string {
	return name + "#" + strconv.FormatUint(uint64(slot), 10)
}

// permitEvidence reads what the row of a permit says and a renewal has to keep: since when it is held, and by
// whom, when it is the permit that the call names.
func (n *Node) permitEvidence(t format.Tenant, op *Lock, cmd *format.Lock) *Error {
	look := kvLook{tenant: t}
	at := look.want(&KV{Kind: KVGet, Namespace: format.LockNamespace, Key: permitKey(op.Name, op.Slot)})
	n.takeLook(&look, 0)
	row, found, err := look.row(at)
	if err != nil {
		n.event("keyed row", err)
		return errRead(err)
	}
	if !found || !row.Permit {
		return nil
	}
	if cmd.Since = row.Since; row.Version == op.Token {
		cmd.Owner = row.Owner
	}
	return nil
}

// locked answers a Lock op. Who holds what is read after the refusal: they were the holders at some moment
// since the call began.
func (d *doCall) locked(i int, op *Lock, s *submission, it *format.Result, out *Result) {
	switch it.Code {
	case format.CodeOK:
	case format.CodeStaleEvidence:
		d.stale = append(d.stale, i)
		return
	default:
		out.Err = errOfCode(it.Code)
		return
	}
	res := &s.flight.results.Locks[it.At]
	item := LockItem{Granted: res.Reason == format.KVApplied, Already: res.Already, Reason: res.Reason, Slot: res.Slot,
		Token: res.Token, Expires: res.Expires}
	if item.Granted {
		d.n.counters.locksGranted.Add(1)
		out.Lock = item
		return
	}
	d.n.counters.locksRefused.Add(1)
	limit := uint32(MaxLockSlots)
	if op.Op == format.LockAcquire {
		limit = max(op.Limit, 1)
	}
	holders, err := d.n.holders(context.Background(), d.caller, op.Name, limit)
	if err != nil {
		out.Err = asError(err)
		return
	}
	item.Holders = holders
	out.Lock = item
}

// holders lists who holds the slots of a lock below limit, by slot.
func (n *Node) holders(ctx context.Context, c Caller, name string, limit uint32) ([]LockHolder, error) {
	var out []LockHolder
	err := n.lookNow(ctx, c, func(look *kvLook) error {
		for slot := range limit {
			look.point(format.LockNamespace, permitKey(name, slot))
		}
		n.takeLook(look, look.w)
		out = nil
		for slot := range limit {
			row, found, err := look.row(int(slot))
			if err != nil {
				return err
			}
			if found {
				out = append(out, LockHolder{Slot: slot, Owner: string(row.Owner), Token: row.Version, Since: row.Since,
					Renewed: row.Updated, Expires: row.Expires})
			}
		}
		return nil
	})
	return out, err
}
