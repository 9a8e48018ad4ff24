package engine

import (
	"slices"
	"strconv"

	"queen/engine/format"
	"queen/engine/machine"
)

// timerTries is how many fires may be refused for good before the timer becomes a dead letter (S-tmr-17).
const timerTries = 5

// dead makes the command that gives up a timer whose fire was refused once more; false while it is tried again.
// Refusals that are about the moment do not count, nor does a missing key: it may be loaded again, and a dead letter
// would keep in the clear what its queue wants encrypted.
func (b *fireRun) dead(o *putOff) (cmd format.Timer, ok bool) {
	p := &b.due[o.timer]
	if !o.counted || p.head.Refused+1 < timerTries {
		return cmd, false
	}
	row := p.row
	cmd = format.Timer{Tenant: p.tenant, Op: format.TimerDead, Queue: viewBytes(p.queue), Key: viewBytes(p.key),
		Version: p.head.Version, Reason: viewBytes(o.reason)}
	if len(row.Recur) > 0 {
		row.TransactionID = p.numbered()
		if r, ok := parseRecurrence(row.Recur); ok {
			cmd.Due = r.after(p.head.Due, b.w, p.head.Fires+1)
		}
	}
	ring, refused := b.n.sealFor(p.tenant, p.queue)
	if refused == nil && !format.IsSealed(row.Frame) { // it may be older than the queue's wish to encrypt
		row.Frame, refused = b.n.seal(ring, slices.Clone(row.Frame), timerOwner(p.tenant, cmd.Queue, row.Partition))
	}
	if refused != nil {
		return cmd, false
	}
	cmd.Row = row.Append(nil)
	if _, _, there := b.n.partByName(p.tenant, p.queue, string(row.Partition)); !there || !cmd.Fits() {
		return cmd, false // there is nothing to file it under, or it is one of before that no row can hold
	}
	return cmd, true
}

// numbered is the transaction id of the message that a recurring timer fires next.
func (p *pendingTimer) numbered() []byte {
	return strconv.AppendUint(append([]byte(p.key), '@'), p.head.Fires+1, 10)
}

// deadMessage reads the message of a dead letter: from the log, or the one that a timer could not fire from the dead
// letter's own row. Its id is the one that was told when the timer was scheduled.
func (n *Node) deadMessage(part *partView, d *machine.DeadLetter) (rec Record, ok bool, err error) {
	if !d.OfTimer() {
		return n.pinned(part, d.Offset)
	}
	row, ok, err := n.keyed.deadRow(d.ID[:])
	if err != nil || !ok {
		return rec, false, err
	}
	p := pendingTimer{tenant: part.tenant, queue: part.queueName, key: string(row.Key)}
	if p.row, err = format.ParseTimerRow(row.Timer); err != nil {
		return rec, false, err
	}
	m, err := p.message(n)
	if err != nil {
		return rec, false, err
	}
	rec = Record{ID: p.id(n), Offset: d.Offset, TransactionID: string(p.row.TransactionID), HasCallerID: len(p.row.TransactionID) > 0,
		TraceID: m.TraceID, ProducerSub: string(m.ProducerSub), ContentType: string(m.ContentType), Headers: ownHeaders(m.Headers),
		Payload: append([]byte{}, m.Payload...), CreatedAt: p.row.W}
	if rec.ID.IsZero() {
		rec.ID = d.ID // a recurring timer told none
	}
	if !rec.HasCallerID {
		rec.TransactionID = rec.ID.String()
	}
	return rec, true, nil
}

// ownHeaders copies the headers of a stored message.
func ownHeaders(b []byte) (all []Header) {
	if len(b) == 0 {
		return nil
	}
	var h format.Header
	for it := format.ReadHeaders(b); it.Next(&h); {
		all = append(all, Header{Name: string(h.Key), Value: append([]byte{}, h.Value...)})
	}
	return all
}
