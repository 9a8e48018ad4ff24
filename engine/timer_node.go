package engine

import (
	"fmt"

	"queen/engine/format"
	"queen/engine/keyed"
	"queen/engine/machine"
	"queen/engine/seal"
)

// timer encodes a Timer op (S-tmr-1, R-16, R-17).
func (d *doCall) timer(i int, op *Timer) *Error {
	if err := checkNames(op.Queue, op.Partition, "partition"); err != nil {
		return err
	}
	if err := checkKey("timerKey", op.Key); err != nil {
		return err
	}
	cmd := format.Timer{Tenant: d.caller.Tenant, Op: op.Op, Queue: viewBytes(op.Queue), Key: viewBytes(op.Key)}
	switch op.Op {
	case format.TimerSchedule:
		if err := d.scheduled(op, &cmd); err != nil {
			return err
		}
	case format.TimerCancel, format.TimerPause, format.TimerResume:
	default:
		return errBad("op", "", "unknown timer op")
	}
	sub := d.side(op.Op == format.TimerSchedule)
	d.then(i, sub, func(s *submission, it *format.Result, out *Result) { d.timerDone(op, s, it, out) })
	sub.buf.AddTimer(&cmd)
	return nil
}

// scheduled fills in when to fire and what.
func (d *doCall) scheduled(op *Timer, cmd *format.Timer) *Error {
	m := &op.Message
	switch {
	case len(m.TransactionID) > format.MaxTransactionID:
		return errBad("txn", "65535 bytes", "transactionId is too long")
	case len(m.Payload) > MaxTimerPayload:
		return &Error{Code: CodeTooLarge, Field: "payload", Limit: "1 MiB", Message: "the payload of a timer is too large"}
	}
	if err := d.due(op, cmd); err != nil {
		return err
	}
	cmd.Partition, cmd.TransactionID = viewBytes(op.Partition), viewBytes(m.TransactionID)
	fm := format.FrameMessage{TraceID: m.TraceID, ProducerSub: viewBytes(d.caller.Subject), ContentType: viewBytes(m.ContentType),
		Payload: m.Payload}
	if len(m.Headers) > 0 {
		fm.Headers = format.AppendHeaders(nil, formatHeaders(m.Headers))
	}
	cmd.Frame = format.EncodeFrame(nil, []format.FrameMessage{fm}, format.FrameOptions{Compress: true})
	if !d.repeating {
		ring, err := d.n.sealFor(d.caller.Tenant, op.Queue)
		if err == nil {
			cmd.Frame, err = d.n.seal(ring, cmd.Frame, timerOwner(d.caller.Tenant, cmd.Queue, cmd.Partition))
		}
		if err != nil {
			return err
		}
	}
	if !cmd.Fits() || !cmd.FitsDead() {
		return &Error{Code: CodeTooLarge, Field: "payload", Limit: "1 MiB with headers and ids", Message: "the timer is too large"}
	}
	return nil
}

// due fills in the time: a delay from apply, a time of the calendar, or the first one that a recurrence names.
func (d *doCall) due(op *Timer, cmd *format.Timer) *Error {
	horizon := format.Wall(MaxTimerHorizon.Microseconds())
	switch {
	case op.Delay != 0 && op.At != 0 || op.Cron != "" && (op.Delay != 0 || op.At != 0):
		return errBad("delayMs", "", "one of delayMs, at and cron says when")
	case op.Cron == "" && (op.Zone != "" || op.CatchUp != 0 || op.MaxFires != 0 || op.Until != 0):
		return errBad("cron", "", "a zone, a catch-up and an end belong to cron")
	case op.Cron != "" && op.Message.TransactionID != "":
		return errBad("txn", "", "the messages of a recurring timer are numbered: key@1, key@2, ...")
	case op.Delay > MaxTimerHorizon, !d.repeating && op.At > d.n.wall()+horizon:
		return errBad("delayMs", "90 days", "the timer is too far ahead")
	}
	switch {
	case op.Cron != "":
		r, err := newRecurrence(op)
		if err != nil {
			return err
		}
		if cmd.Due = r.next(d.n.wall()); cmd.Due == 0 && !d.repeating {
			return errNoTime()
		}
		cmd.Recur = r.text()
	case op.At != 0:
		cmd.Due = op.At
	default:
		cmd.Due, cmd.Relative = format.Wall(op.Delay.Microseconds()), true
	}
	return nil
}

func (d *doCall) timerDone(op *Timer, s *submission, it *format.Result, out *Result) {
	if out.Err = errOfCode(it.Code); out.Err != nil {
		return
	}
	res := &s.flight.results.Timers[it.At]
	out.Timer.Status = res.Status
	switch op.Op {
	case format.TimerCancel:
		if res.Status == format.TimerCancelled && !s.again {
			d.n.counters.timersCancelled.Add(1)
		}
		return
	case format.TimerPause, format.TimerResume:
		out.Timer.Due = res.Due
		return
	}
	if !s.again {
		d.n.counters.timersScheduled.Add(1)
	}
	if out.Timer.Due = res.Due; op.Cron == "" {
		place := format.Place{Index: s.flight.index, Ordinal: it.First}
		out.Timer.MessageID = d.n.identity.messageID(s.flight.header.W, place)
	}
}

// timerStoreKey is the store's key of a timer, family included.
func timerStoreKey(t format.Tenant, queue, key string) []byte {
	b := make([]byte, 0, 1+len(t)+2+len(queue)+len(key))
	return format.AppendTimerKey(append(b, byte(keyed.FamilyTimer)), t, viewBytes(queue), viewBytes(key))
}

// pendingTimer is a timer as the state and the store know it.
type pendingTimer struct {
	queue, key string
	tenant     format.Tenant
	head       machine.TimerHead
	store      []byte // its key in the store
	live       keyed.Row
	in         bool // live is what the live overlay has
	row        format.TimerRow
}

// found notes a timer whose head was just read under the state's lock.
func (p *pendingTimer) found(v keyed.View, head machine.TimerHead) {
	p.head = head
	p.store = timerStoreKey(p.tenant, p.queue, p.key)
	p.live, p.in = v.Live(p.store)
}

// read reads the row that belongs to the head; below is the view that was there then.
func (p *pendingTimer) read(below keyed.View) (err error) {
	value, has := p.live.Value, p.in && !p.live.Tombstone
	if !p.in {
		if value, has, err = below.Get(p.store); err != nil {
			return err
		}
	}
	if err = checkRow(p.store, value, has, &p.head.KeyHead); err == nil {
		p.row, err = format.ParseTimerRow(value)
	}
	return err
}

// id is the message id that was told when it was scheduled; zero for a recurring one.
func (p *pendingTimer) id(n *Node) (id format.UUID) {
	if len(p.row.Recur) > 0 {
		return id
	}
	return n.identity.messageID(p.row.W, p.row.Place)
}

// timerOwner is whose frame a sealed timer is.
func timerOwner(t format.Tenant, queue, partition []byte) seal.Owner {
	return seal.Owner{Tenant: t, Queue: queue, Partition: partition}
}

// message reads what it holds. The bytes alias the row, or are fresh.
func (p *pendingTimer) message(n *Node) (m format.FrameMessage, err error) {
	var scratch []byte
	var it format.FrameReader
	if raw := p.row.Frame; !format.IsSealed(raw) {
		_, it, err = format.ReadFrame(raw, &scratch)
	} else {
		it, err = n.openFrame(raw, timerOwner(p.tenant, viewBytes(p.queue), p.row.Partition))
	}
	if err != nil {
		return m, err
	}
	if !it.Next(&m) {
		return m, fmt.Errorf("engine: the frame of a timer holds no message: %w", it.Err())
	}
	return m, nil
}

// openFrame reads a sealed frame that is no partition's yet.
func (n *Node) openFrame(raw []byte, owner seal.Owner) (format.FrameReader, error) {
	h, body, err := format.ParseFrame(raw)
	if err != nil {
		return format.FrameReader{}, err
	}
	text, err := n.ring().Open(raw, body, h, owner)
	if err != nil {
		return format.FrameReader{}, err
	}
	if text, err = h.Unpack(text); err != nil {
		return format.FrameReader{}, err
	}
	return h.Messages(text), nil
}

// info renders it; with its message when asked.
func (p *pendingTimer) info(n *Node, whole bool) (TimerInfo, error) {
	out := TimerInfo{Queue: p.queue, Key: p.key, Partition: string(p.row.Partition), Due: p.head.Due,
		TransactionID: string(p.row.TransactionID), MessageID: p.id(n), Fires: p.head.Fires, Attempts: p.head.Attempts, Paused: p.head.Paused,
		LastError: p.head.LastError, Created: p.row.W, Updated: p.row.W}
	if len(p.row.Recur) > 0 {
		r, ok := parseRecurrence(p.row.Recur)
		if !ok {
			return out, fmt.Errorf("engine: recurrence %q of a timer", p.row.Recur)
		}
		out.Cron, out.Zone, out.CatchUp, out.MaxFires, out.Until = r.cron, r.zone, r.catchUp, r.maxFires, r.until
	}
	if !whole {
		return out, nil
	}
	m, err := p.message(n)
	if err != nil {
		return out, err
	}
	out.Message = Message{TransactionID: out.TransactionID, TraceID: m.TraceID, ContentType: string(m.ContentType),
		Payload: append([]byte{}, m.Payload...)}
	out.Message.Headers = ownHeaders(m.Headers)
	return out, nil
}
