package logstore

import (
	"sync"

	"queen/engine/format"
)

// knownHeads are how many heads of records are remembered: those of some hundred megabytes of log.
const knownHeads = 4096

// heads remembers the heads of entries that were read from files, and of long ones as they are written. An entry holds
// frames of many partitions: without it a reader far behind reads 64 KiB of the entry's start for every frame of it. A
// place has one head for ever, since segments are appended to and their numbers never used again.
type heads struct {
	slots [knownHeads]struct {
		sync.Mutex
		segment, pos uint32 // segment 0: empty
		head         format.RecordHead
		prefix       uint32
	}
}

func (h *heads) slot(segment, pos uint32) int {
	return int((uint64(segment)<<32 | uint64(pos)) * 0x9E3779B97F4A7C15 >> 52)
}

// get returns a head and how many bytes precede the entry or frame; ok is false when it is not known.
func (h *heads) get(segment, pos uint32) (head format.RecordHead, prefix uint32, ok bool) {
	s := &h.slots[h.slot(segment, pos)]
	s.Lock()
	defer s.Unlock()
	return s.head, s.prefix, s.segment == segment && s.pos == pos
}

// longRecord is the length from which on a record's head is remembered when it is written. Of a shorter one the head is
// read along with whatever is wanted of it.
const longRecord = 16 << 10

// wrote remembers the head of an entry that became durable: who falls out of the memory of recent extents soon wants it.
func (h *heads) wrote(segment, pos uint32, head *format.RecordHead) {
	if head.Length >= longRecord {
		h.put(segment, pos, *head, uint32(format.EntryBytesPos(head.Flags)))
	}
}

// put takes the place of what had the same slot. A frame in a bulk segment is read from its record's start on every time,
// so that its head would be of no use.
func (h *heads) put(segment, pos uint32, head format.RecordHead, prefix uint32) {
	if head.Kind != format.RecordEntry {
		return
	}
	s := &h.slots[h.slot(segment, pos)]
	s.Lock()
	defer s.Unlock()
	s.segment, s.pos, s.head, s.prefix = segment, pos, head, prefix
}
