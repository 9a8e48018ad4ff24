package engine

import (
	"encoding/binary"
	"errors"
	"slices"

	"queen/engine/format"
	"queen/engine/machine"
)

// redriveNote is what the answer to a Redrive tells about the dead letter, which is gone when the answer is asked for
// again under an Idempotency-Key.
type redriveNote struct {
	id                      format.DeadLetterID
	queue, partition, group string // where it went, and whose it was
	transactionID           string // of the original
	record                  bool   // Kafka produced it
}

// The first byte of encoded notes. Those of calls that move records say of each whether it is one.
const (
	redriveNoteVersion  = 1
	redriveNoteOfRecord = 2
)

func (r *redriveNote) item() RedriveItem {
	return RedriveItem{DeadLetter: r.id, Queue: r.queue, Partition: r.partition, Group: r.group, TransactionID: r.transactionID,
		Record: r.record, Message: MessageResult{Status: Queued}}
}

func (r *redriveNote) texts() [4]*string {
	return [...]*string{&r.queue, &r.partition, &r.group, &r.transactionID}
}

// appendRedriveNotes encodes what a call remembers of its redrives; nil for none.
func appendRedriveNotes(notes []redriveNote) ([]byte, *Error) {
	if len(notes) == 0 {
		return nil, nil
	}
	b := []byte{redriveNoteVersion}
	if slices.ContainsFunc(notes, func(r redriveNote) bool { return r.record }) {
		b[0] = redriveNoteOfRecord
	}
	for i := range notes {
		b = append(b, notes[i].id[:]...)
		if b[0] == redriveNoteOfRecord {
			is := byte(0)
			if notes[i].record {
				is = 1
			}
			b = append(b, is)
		}
		for _, s := range notes[i].texts() {
			b = append(binary.AppendUvarint(b, uint64(len(*s))), *s...)
		}
	}
	if len(b) > format.MaxOnceNote {
		return nil, &Error{Code: CodeTooLarge, Field: "Idempotency-Key", Limit: "128 KiB of names and ids",
			Message: "the redrives of a call with a key name too much"}
	}
	return b, nil
}

var errRedriveNote = errors.New("engine: what a key remembers of redrives is damaged or of a later version")

// parseRedriveNotes reads what appendRedriveNotes made.
func parseRedriveNotes(b []byte) (notes []redriveNote, err error) {
	if len(b) == 0 {
		return nil, nil
	}
	version := b[0]
	if version != redriveNoteVersion && version != redriveNoteOfRecord {
		return nil, errRedriveNote
	}
	for b = b[1:]; len(b) > 0; {
		var r redriveNote
		if len(b) < len(r.id) {
			return nil, errRedriveNote
		}
		b = b[copy(r.id[:], b):]
		if version == redriveNoteOfRecord {
			if len(b) == 0 || b[0] > 1 {
				return nil, errRedriveNote
			}
			r.record, b = b[0] == 1, b[1:]
		}
		for _, s := range r.texts() {
			size, n := binary.Uvarint(b)
			if n <= 0 || size > uint64(len(b)-n) {
				return nil, errRedriveNote
			}
			*s, b = string(b[n:n+int(size)]), b[n+int(size):]
		}
		notes = append(notes, r)
	}
	return notes, nil
}

// redriveAgain encodes the next redrive of a call that took place before, only to see which verdict is whose.
func (d *doCall) redriveAgain(i int) *Error {
	if len(d.redrives) == 0 {
		return errOfCode(format.CodeGone) // remembered by a version that kept no notes
	}
	note := d.redrives[0]
	d.redrives = d.redrives[1:]
	frame := format.EncodeFrame(nil, []format.FrameMessage{{}}, format.FrameOptions{})
	d.addMove(i, &note, &format.Redrive{DeadLetter: note.id, Append: format.Append{Tenant: d.caller.Tenant,
		Queue: viewBytes(note.queue), Partition: viewBytes(note.partition), Frame: format.FrameNative, Count: 1,
		IDs: format.IDsNone}}, frame)
	return nil
}

// filedBefore tells which of two dead letters was filed first: the place of its command, and its number under that, are
// in its id. Their times alone can be one microsecond.
func (id *identity) filedBefore(a, b *machine.DeadLetter) bool {
	if a.FailedAt != b.FailedAt {
		return a.FailedAt < b.FailedAt
	}
	aMS, at, aOurs := id.place(a.ID)
	bMS, bt, bOurs := id.place(b.ID)
	switch {
	case !aOurs || !bOurs:
		return a.Offset < b.Offset
	case at != bt:
		return at.Before(bt)
	}
	return aMS < bMS
}
