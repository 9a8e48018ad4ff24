package format

// ValidateEntry walks a parsed entry and decodes every command: it returns nil only when no method
// of a CommandReader over e can fail, the regions are used up exactly, and ordinals add up. It is pure
// and runs before apply touches any state, so a refusal is the same on every replica.
func ValidateEntry(e *Entry) error {
	var v validator
	r := e.Reader()
	for r.Next() {
		if err := v.decode(&r); err != nil {
			return err
		}
		if v.step(&r, e.CommandCount); r.err != nil {
			return r.err
		}
		if r.kind == KindMark && e.CommandCount != 1 {
			r.fault(r.bodyPos, "a mark stands alone in its entry")
		}
	}
	switch {
	case r.err != nil:
	case r.pos != len(r.commands):
		r.fault(r.pos, "%d bytes after the last command", len(r.commands)-r.pos)
	case r.idPos != len(r.ids):
		r.fault(r.pos, "%d bytes of the id region unused", len(r.ids)-r.idPos)
	case r.payloadNext != r.payloadEnd:
		r.fault(r.pos, "%d bytes of the payload region unused", r.payloadEnd-r.payloadNext)
	case r.next != e.Ordinals:
		r.fault(r.pos, "commands consume %d ordinals, the head says %d", r.next, e.Ordinals)
	case e.CommandCount == 0:
		r.fault(0, "no command")
	}
	return r.err
}

// validator keeps the lists between commands, so that a walk allocates a handful of times at most.
type validator struct {
	brackets
	app      Append
	redrive  Redrive
	fire     Fire
	pop      Pop
	ack      Ack
	release  Release
	trim     Trim
	end      EndTxn
	producer Producer
	origin   Origin
	group    Group
}

func (v *validator) decode(r *CommandReader) error {
	switch r.Kind() {
	case KindGenesis:
		return r.Genesis(new(Genesis))
	case KindTerm:
		return r.TermCmd(new(TermCmd))
	case KindTick:
		return r.Tick()
	case KindAppend:
		return r.Append(&v.app)
	case KindPop:
		return r.Pop(&v.pop)
	case KindAck:
		return r.Ack(&v.ack)
	case KindExtend:
		return r.Extend(new(Extend))
	case KindRelease:
		return r.Release(&v.release)
	case KindSkip:
		return r.Skip(new(Skip))
	case KindTrimLease:
		return r.TrimLease(new(TrimLease))
	case KindSetOffset:
		return r.SetOffset(new(SetOffset))
	case KindRegister:
		return r.Register(new(Register))
	case KindRedrive:
		return r.Redrive(&v.redrive)
	}
	return v.decodeState(r)
}

func (v *validator) decodeState(r *CommandReader) error {
	switch r.Kind() {
	case KindTxn:
		return r.Txn(&v.txn)
	case KindOnce:
		return r.Once(&v.once)
	case KindOrigin:
		return r.Origin(&v.origin)
	case KindKV:
		return r.KV(new(KV))
	case KindLock:
		return r.Lock(new(Lock))
	case KindTimer:
		return r.Timer(new(Timer))
	case KindFire:
		return r.Fire(&v.fire)
	case KindProducer:
		return r.Producer(&v.producer)
	case KindEndTxn:
		return r.EndTxn(&v.end)
	}
	return v.decodeAdmin(r)
}

func (v *validator) decodeAdmin(r *CommandReader) error {
	switch r.Kind() {
	case KindReveal:
		return r.Reveal(new(Reveal))
	case KindRetain:
		return r.Retain(new(Retain))
	case KindTrim:
		return r.Trim(&v.trim)
	case KindConfigure:
		return r.Configure(new(Configure))
	case KindDelete:
		return r.Delete(new(Delete))
	case KindSweep:
		return r.Sweep(new(Sweep))
	case KindMark:
		return r.Mark(new(Mark))
	case KindPurge:
		return r.Purge(new(Purge))
	case KindAdmin:
		return r.Admin(new(Admin))
	case KindGroup:
		return r.Group(&v.group)
	}
	return r.Opaque(new(Opaque))
}
