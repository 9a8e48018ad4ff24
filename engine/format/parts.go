package format

// The canonical form of verdicts: what an Idempotency-Key remembers of the commands it brackets, so that a
// repeat can be answered as the first call was.
//
//	| count uvarint | per command: kind u8, code u8, ordinals after First uvarint, details of the kind |
//
// Details of kinds that have none, and of commands whose code is not CodeOK and that tell nothing then,
// are left out: see hasDetails.

const (
	partFiled    = 1 << 0
	partDropped  = 1 << 1
	partReleased = 1 << 2

	partExisted = 1 << 0
	partMore    = 1 << 1

	partNewQueue     = 1 << 0
	partNewPartition = 1 << 1
)

// AppendParts appends the verdicts items[from:to] of r to dst in canonical form.
func AppendParts(dst []byte, r *Results, from, to int) []byte {
	dst = putUvarint(dst, uint64(to-from))
	if from == to {
		return dst
	}
	first := r.Items[from].First
	for i := from; i < to; i++ {
		it := &r.Items[i]
		dst = append(dst, byte(it.Kind), byte(it.Code))
		dst = putUvarint(dst, uint64(it.First-first))
		if hasDetails(it.Kind, it.Code) {
			dst = appendDetails(dst, r, it)
		}
	}
	return dst
}

// hasDetails says that a verdict says more than its code.
func hasDetails(k Kind, c Code) bool {
	switch k {
	case KindTxn, KindKV, KindLock, KindTimer:
		return c != CodeRolledBack
	case KindAppend, KindRedrive:
		return c == CodeOK || c == CodeDuplicate
	}
	return c == CodeOK
}

func appendDetails(dst []byte, r *Results, it *Result) []byte {
	switch it.Kind {
	case KindAppend, KindRedrive:
		return appendAppendPart(dst, &r.Appends[it.At])
	case KindAck:
		a := &r.Acks[it.At]
		dst = append(dst, bit(a.Filed, partFiled)|bit(a.Dropped, partDropped)|bit(a.Released, partReleased))
		for _, o := range [...]Offset{a.Before, a.After, a.LeaseFirst, a.LeaseEnd, a.FiledFirst, a.FiledEnd, Offset(a.Conflated)} {
			dst = putUvarint(dst, uint64(o))
		}
		return append(dst, a.DeadLetter[:]...)
	case KindKV:
		v := &r.KVs[it.At]
		dst = putUvarint(append(dst, byte(v.Reason)), v.Version)
		return putVarint(putNumber(dst, v.Number), int64(v.Expires))
	case KindLock:
		v := &r.Locks[it.At]
		dst = putUvarint(append(dst, byte(v.Reason), bit(v.Already, 1)), uint64(v.Slot))
		return putVarint(putUvarint(dst, v.Token), int64(v.Expires))
	case KindTimer:
		v := &r.Timers[it.At]
		return putVarint(putUvarint(append(dst, byte(v.Status)), v.Version), int64(v.Due))
	case KindTxn:
		return putUvarint(dst, uint64(r.Txns[it.At].Failed))
	}
	n := &r.Counts[it.At]
	return putUvarint(append(dst, bit(n.Existed, partExisted)|bit(n.More, partMore)), n.Rows)
}

func appendAppendPart(dst []byte, a *AppendResult) []byte {
	dst = append(dst, bit(a.NewQueue, partNewQueue)|bit(a.NewPartition, partNewPartition))
	for _, n := range [...]uint64{uint64(a.Partition), uint64(a.Queue), uint64(a.Base), uint64(a.Count),
		uint64(a.Kept), a.Row, a.PrevRow, uint64(len(a.Dups))} {
		dst = putUvarint(dst, n)
	}
	for i := range a.Dups {
		d := &a.Dups[i]
		dst = append(putUvarint(dst, uint64(d.At)), bit(d.Full, 1))
		dst = putUvarint(dst, uint64(d.Offset))
		dst = putVarint(putPlace(dst, d.Place), int64(d.W))
	}
	return dst
}

// leastPart is how few bytes the verdict of a command takes.
const leastPart = 3

// ParseParts reads what AppendParts made and appends the verdicts to out, whose First counts from first, the
// place of the first command after the Once. It never allocates more than a constant for each byte of b.
func ParseParts(b []byte, first Ordinal, out *Results) error {
	d := decoder{b: b}
	before := uint32(0)
	for i := range d.count(leastPart) {
		it := Result{Kind: Kind(d.u8()), Code: Code(d.u8())}
		at := d.uvarint32()
		it.First = first + Ordinal(at)
		if !it.Kind.inOnce() || at >= MaxOnceOrdinals || (i == 0) != (at == 0) || i > 0 && at <= before {
			d.fail("no verdict that a key remembers, or out of order")
		}
		before = at
		if d.bad == "" && hasDetails(it.Kind, it.Code) {
			d.details(&it, out)
		}
		if d.bad != "" {
			break
		}
		out.Items = append(out.Items, it)
	}
	return d.close("remembered verdicts", 0)
}

// details reads the details of a verdict and says in it where they are now.
func (d *decoder) details(it *Result, out *Results) {
	switch it.Kind {
	case KindAppend, KindRedrive:
		it.At = uint32(len(out.Appends))
		out.Appends = append(out.Appends, d.appendPart())
	case KindAck:
		flags := d.flags(partFiled | partDropped | partReleased)
		a := AckResult{
			Filed: flags&partFiled != 0, Dropped: flags&partDropped != 0, Released: flags&partReleased != 0,
		}
		for _, o := range [...]*Offset{&a.Before, &a.After, &a.LeaseFirst, &a.LeaseEnd, &a.FiledFirst, &a.FiledEnd} {
			*o = Offset(d.uvarint())
		}
		a.Conflated, a.DeadLetter = d.uvarint(), d.uuid()
		it.At = uint32(len(out.Acks))
		out.Acks = append(out.Acks, a)
	case KindKV:
		it.At = uint32(len(out.KVs))
		out.KVs = append(out.KVs, KVResult{
			Reason: KVReason(d.u8()), Version: d.uvarint(), Number: d.number(), Expires: Wall(d.varint()),
		})
	case KindLock:
		it.At = uint32(len(out.Locks))
		out.Locks = append(out.Locks, LockResult{
			Reason: KVReason(d.u8()), Already: d.bool(), Slot: d.uvarint32(), Token: d.uvarint(), Expires: Wall(d.varint()),
		})
	case KindTimer:
		it.At = uint32(len(out.Timers))
		out.Timers = append(out.Timers, TimerResult{
			Status: TimerStatus(d.u8()), Version: d.uvarint(), Due: Wall(d.varint()),
		})
	case KindTxn:
		it.At = uint32(len(out.Txns))
		out.Txns = append(out.Txns, TxnResult{Failed: d.uvarint32()})
	default:
		flags := d.flags(partExisted | partMore)
		it.At = uint32(len(out.Counts))
		out.Counts = append(out.Counts, CountResult{
			Existed: flags&partExisted != 0, More: flags&partMore != 0, Rows: d.uvarint(),
		})
	}
}

// leastDup is how few bytes a DupResult takes.
const leastDup = 6

func (d *decoder) appendPart() (a AppendResult) {
	flags := d.flags(partNewQueue | partNewPartition)
	a.NewQueue, a.NewPartition = flags&partNewQueue != 0, flags&partNewPartition != 0
	a.Partition, a.Queue, a.Base = PartitionID(d.uvarint()), QueueID(d.uvarint()), Offset(d.uvarint())
	a.Count, a.Kept, a.Row, a.PrevRow = d.uvarint32(), d.uvarint32(), d.uvarint(), d.uvarint()
	n := d.count(leastDup)
	if uint64(n)+uint64(a.Kept) > uint64(a.Count) {
		d.fail("more verdicts than messages")
		return a
	}
	a.Dups = resize(a.Dups, n)
	for i := range a.Dups {
		a.Dups[i] = DupResult{
			At: d.uvarint32(), Full: d.bool(), Offset: Offset(d.uvarint()), Place: d.place(), W: Wall(d.varint()),
		}
	}
	return a
}
