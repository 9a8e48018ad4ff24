package format

// MaxOnceOrdinals bounds what a Once brackets, in ordinals, so that the verdicts it has to remember fit one
// keyed row.
const MaxOnceOrdinals = 8192

// inTxn says that a Txn may hold commands of this kind.
func (k Kind) inTxn() bool {
	switch k {
	case KindAck, KindAppend, KindSetOffset, KindKV, KindTimer:
		return true
	}
	return false
}

// inOnce says that a Once may hold commands of this kind: those whose verdicts AppendParts can write.
func (k Kind) inOnce() bool {
	switch k {
	case KindTxn, KindLock, KindRedrive, KindRegister, KindDelete, KindPurge:
		return true
	}
	return k.inTxn()
}

// brackets checks that what Txn and Once hold together is in the entry and of a kind that they may hold,
// and that they nest only as a Txn inside a Once. Ends are numbers of commands, one past the last part.
type brackets struct {
	txnEnd, onceEnd uint64
	onceFrom        Ordinal
	once            Once
	txn             Txn
}

// step looks at the current command, which was decoded; it fails the reader at the first fault.
func (b *brackets) step(r *CommandReader, commands uint32) {
	number := uint64(r.number)
	inTxn, inOnce := number < b.txnEnd, number < b.onceEnd
	switch {
	case inTxn && !r.kind.inTxn(), inOnce && !r.kind.inOnce():
		r.fault(r.bodyPos, "command kind %d inside a bracket", r.kind)
	case inOnce && r.next-b.onceFrom > MaxOnceOrdinals:
		r.fault(r.bodyPos, "more than %d ordinals under one key", MaxOnceOrdinals)
	case r.kind == KindTxn:
		if b.txnEnd = number + 1 + uint64(b.txn.Parts); b.txnEnd > uint64(commands) || inOnce && b.txnEnd > b.onceEnd {
			r.fault(r.bodyPos, "a transaction of %d parts ends outside", b.txn.Parts)
		}
	case r.kind == KindOnce:
		b.onceFrom = r.next
		if b.onceEnd = number + 1 + uint64(b.once.Parts); b.onceEnd > uint64(commands) {
			r.fault(r.bodyPos, "a key of %d parts ends outside", b.once.Parts)
		}
	}
}
