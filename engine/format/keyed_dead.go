package format

import "encoding/binary"

// DeadRow is the value of a dead letter's keyed row. Slices alias what was parsed.
type DeadRow struct {
	// Retries is how many failures were charged before it was given up.
	Retries uint32
	Reason  []byte
	// Key and Timer are those of a timer that could not fire: its key, not empty, and its row, which holds the message.
	// Both are empty where the dead letter points to a message of the log.
	Key   []byte
	Timer []byte
}

// deadRowTimer is the version of a dead letter's row that holds a timer.
const deadRowTimer = 2

// Size is the length of the encoded row.
func (v *DeadRow) Size() int {
	if len(v.Key) == 0 {
		return 5 + len(v.Reason)
	}
	return 5 + bytesSize(v.Reason) + bytesSize(v.Key) + len(v.Timer)
}

// Append appends the encoded row to dst.
func (v *DeadRow) Append(dst []byte) []byte {
	if len(v.Key) == 0 {
		return append(binary.LittleEndian.AppendUint32(append(dst, KeyedRowVersion), v.Retries), v.Reason...)
	}
	dst = binary.LittleEndian.AppendUint32(append(dst, deadRowTimer), v.Retries)
	dst = putBytes(dst, v.Reason)
	return append(putBytes(dst, v.Key), v.Timer...)
}

// ParseDeadRow parses the value of a dead letter's row; the timer's row is not looked into.
func ParseDeadRow(b []byte) (v DeadRow, err error) {
	d := decoder{b: b}
	ofTimer := len(b) > 0 && b[0] == deadRowTimer
	if ofTimer {
		d.u8()
	} else {
		d.rowVersion()
	}
	if n := d.take(4); n != nil {
		v.Retries = binary.LittleEndian.Uint32(n)
	}
	if ofTimer {
		v.Reason, v.Key = d.bytes(), d.name()
		v.Timer = d.rest()
	} else {
		v.Reason = d.rest()
	}
	return v, d.close("dead letter row", 0)
}
