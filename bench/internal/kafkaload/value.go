package kafkaload

import (
	"encoding/binary"

	"queen/bench/internal/message"
)

// stamp is what a value says about itself. It stands before the text, big-endian.
type stamp struct {
	run       uint64 // of the load that made it
	partition uint32
	number    uint32 // in its partition, from 0
	at        int64  // nanoseconds since the epoch at which it was meant to leave
}

const stampBytes = 24

// appendValue appends size bytes; mix varies the text.
func appendValue(b []byte, size int, s stamp, mix uint64) []byte {
	b = binary.BigEndian.AppendUint64(b, s.run)
	b = binary.BigEndian.AppendUint32(b, s.partition)
	b = binary.BigEndian.AppendUint32(b, s.number)
	b = binary.BigEndian.AppendUint64(b, uint64(s.at))
	return message.AppendText(b, size-stampBytes, mix)
}

// parseStamp is false for a value that is too short to have one.
func parseStamp(b []byte) (s stamp, ok bool) {
	if len(b) < stampBytes {
		return s, false
	}
	return stamp{binary.BigEndian.Uint64(b), binary.BigEndian.Uint32(b[8:]), binary.BigEndian.Uint32(b[12:]),
		int64(binary.BigEndian.Uint64(b[16:]))}, true
}
