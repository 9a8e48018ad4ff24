package machine

import (
	"queen/engine/format"
)

// timerBytes is what a timer takes in the tree of due times, filled as trees are.
const timerBytes = 25

// KeyHead is what the state knows of a keyed row.
type KeyHead struct {
	Version uint64
	// Due is when the row expires or the timer fires, 0 never.
	Due format.Wall
	// Number is the value when it is a number.
	Number format.Number
	// Permit says that the row is a permit of a lock.
	Permit bool
	// Sum is the low half of xxh3-128 over family, key and value: a row that does not add up to it is not the
	// one that was written.
	Sum uint64
}

// TimerHead is what the state knows of a timer, beside its row.
type TimerHead struct {
	KeyHead
	// Fires counts the fires of a recurring timer since it was scheduled, Attempts those refused since then or
	// since the last fire; LastError says why the last one was, at most 447 bytes of it. Refused counts those of the
	// attempts that would be refused again.
	Fires     uint64
	Attempts  uint32
	Refused   uint32
	LastError string
	// Paused says that it does not fire, whatever is due.
	Paused bool
}

func (m *Machine) headOf(h handle) KeyHead {
	k := m.keys.Get(h)
	head := KeyHead{Version: k.version, Due: k.due, Permit: k.flags&keyPermit != 0, Sum: k.sum}
	if k.family() == FamilyKV && !head.Permit {
		head.Number = format.NumberOf(format.NumberKind(k.flags>>keyKindShift), k.num)
	}
	return head
}

// keyHandle finds a row by family and key without touching the state: queries run beside each other.
func (m *Machine) keyHandle(row []byte) handle {
	return m.keyByHash(format.HashID(m.genesis.HashKey, row))
}

// KVHead finds the head of a KV row, also one that has expired and is not freed yet: the caller compares Due
// with the W that it reads at.
func (m *Machine) KVHead(t format.Tenant, namespace, key []byte) (KeyHead, bool) {
	h := m.keyHandle(format.AppendKVKey([]byte{FamilyKV}, t, namespace, key))
	if h == 0 {
		return KeyHead{}, false
	}
	return m.headOf(h), true
}

// KeyVersion is the version of the newest change of a keyed row. While a sink is told of a KV row it is the
// version of that change: a deletion, and the end of a row's time, have one of their own.
func (m *Machine) KeyVersion() uint64 { return m.keyVersion }

// TimerHead finds the head of a timer.
func (m *Machine) TimerHead(t format.Tenant, queue, key []byte) (TimerHead, bool) {
	h := m.keyHandle(format.AppendTimerKey([]byte{FamilyTimer}, t, queue, key))
	if h == 0 {
		return TimerHead{}, false
	}
	return m.timerHead(h), true
}

func (m *Machine) timerHead(h handle) TimerHead {
	k := m.keys.Get(h)
	head := TimerHead{KeyHead: m.headOf(h), Fires: k.num >> 24, Attempts: uint32(k.num & timerAttempts), Refused: k.refused(), Paused: k.flags&keyPaused != 0}
	if k.note != 0 {
		head.LastError = string(m.names.Get(k.note))
	}
	return head
}

// OnceHead finds the head of an idempotency row.
func (m *Machine) OnceHead(t format.Tenant, key [16]byte) (KeyHead, bool) {
	h := m.keyHandle(format.AppendOnceKey([]byte{FamilyOnce}, t, key))
	if h == 0 {
		return KeyHead{}, false
	}
	return m.headOf(h), true
}

// NextTimer is when the first timer is due; false when there is none.
func (m *Machine) NextTimer() (due format.Wall, ok bool) {
	k, ok := m.timerDue.Min()
	return k.due, ok
}

// DueTimers hands timers due at w to visit, longest due first, at most limit of them; visit says whether to go on.
// key is the store key behind the family (format.ParseTimerKey) and good only during the call.
func (m *Machine) DueTimers(w format.Wall, limit int, visit func(key []byte, head TimerHead) bool) {
	var key []byte
	m.timerDue.Ascend(func(t timerKey) bool {
		if limit == 0 || t.due > w {
			return false
		}
		limit--
		k := m.keys.Get(t.h)
		if key = append(key[:0], m.names.Get(k.key)...); k.more != 0 {
			key = append(key, m.names.Get(k.more)...)
		}
		return visit(key, m.timerHead(t.h))
	})
}

// NextExpiry is when the first keyed row expires; false when none does. Rows past it are hidden already: an
// entry only frees them.
func (m *Machine) NextExpiry() (w format.Wall, ok bool) {
	due, ok := m.keyDue.Next()
	return format.Wall(due), ok
}

// HasMetadata says that there is a keyed row of what was said with the position of a group (FamilyPosition).
func (m *Machine) HasMetadata(part format.PartitionID, id format.ConsumerID) bool {
	ph, p := m.partByID(part)
	if p == nil || id > maxCatalog || m.groups[uint32(id)] == nil {
		return false
	}
	ch, live := m.cursorOf(ph, m.groups[uint32(id)])
	return live && m.cursors.Get(ch).flags&cursorMetadata != 0
}

// KeyedSum is the number of rows of a family that the keyed store has to hold, and the sum, modulo 2^64, of the
// low halves of xxh3-128 over family, key and value: the low half of what the store itself adds up.
func (m *Machine) KeyedSum(family byte) (rows, sum uint64) {
	if family == 0 || family >= families {
		return 0, 0
	}
	return m.keySums[family].rows, m.keySums[family].sum
}
