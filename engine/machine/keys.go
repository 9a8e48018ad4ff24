package machine

import (
	"cmp"
	"encoding/binary"
	"fmt"

	"github.com/google/btree"
	"github.com/zeebo/xxh3"

	"queen/engine/format"
	"queen/engine/machine/slab"
)

// Families of keyed rows; the numbers are those of the keyed store. Keys and values are laid out by package
// format (keyed_row.go).
const (
	// FamilyKV holds values and permits of locks, FamilyTimer pending timers, FamilyDeadLetter the error text of
	// dead letters by DeadLetterID, FamilyOnce what was answered under an Idempotency-Key, FamilyPosition the
	// metadata of committed positions.
	FamilyKV         byte = 0x01
	FamilyTimer      byte = 0x02
	FamilyDeadLetter byte = 0x03
	FamilyOnce       byte = 0x05
	FamilyPosition   byte = 0x07

	families = 8
)

// keyRec is the head of a keyed row: all that a verdict about it needs. The row itself is in the keyed store,
// which apply never reads; sum tells whoever reads it whether it is the one that was written.
//
// INVARIANT: key is set iff due is, since only what comes due is found without being named (checkKeys).
type keyRec struct {
	hash    format.IDHash // keyed hash of family and key; two keys never share one
	version uint64
	due     format.Wall // expiry; due time of a timer; 0 none
	sum     uint64
	// num is the bits of the number, the hash of a permit's owner, the low half of an idempotency row's digest,
	// or fires << 24 | attempts of a timer.
	num   uint64
	key   slab.Ref // the store key, its rest in more when it is longer than a name
	more  slab.Ref
	note  slab.Ref // why the last fire of a timer was refused
	flags uint32   // family, number kind << 8, and the bits below; of a timer, fires refused for good << 24
}

const (
	keyFamily     = 0xff
	keyKindShift  = 8
	keyPermit     = 1 << 16
	keyPaused     = 1 << 17 // timer that does not come due
	timerAttempts = 1<<24 - 1

	timerRefusedShift = 24
	timerRefusedMost  = 1<<8 - 1
)

func (k *keyRec) family() byte { return byte(k.flags) }

// refused is how many fires of a timer were refused for good, since it was scheduled or fired last.
func (k *keyRec) refused() uint32 { return k.flags >> timerRefusedShift }

var keyCodec = slab.Codec[keyRec]{
	Size: 64,
	Encode: func(dst []byte, k *keyRec) {
		e := enc{dst[:0]}
		e.id(format.UUID(k.hash))
		for _, v := range [...]uint64{k.version, uint64(k.due), k.sum, k.num} {
			e.u64(v)
		}
		for _, v := range [...]uint32{uint32(k.key), uint32(k.more), uint32(k.note), k.flags} {
			e.u32(v)
		}
	},
	Decode: func(src []byte, k *keyRec) {
		d := dec{src}
		k.hash = format.IDHash(d.id())
		k.version, k.due, k.sum, k.num = d.u64(), format.Wall(d.u64()), d.u64(), d.u64()
		k.key, k.more, k.note, k.flags = slab.Ref(d.u32()), slab.Ref(d.u32()), slab.Ref(d.u32()), d.u32()
	},
}

// maxKeyVersion keeps versions exact in a float64, with room for what one entry can write.
const maxKeyVersion = 1<<53 - format.MaxOrdinals

// timerKey orders timers: longest due first.
type timerKey struct {
	due format.Wall
	h   handle
}

func lessTimer(a, b timerKey) bool {
	return cmp.Or(cmp.Compare(a.due, b.due), cmp.Compare(a.h, b.h)) < 0
}

const timerDegree = 64

func newTimerTree() *btree.BTreeG[timerKey] { return btree.NewG(timerDegree, lessTimer) }

// keyAt is a key being worked on. Family and key are the first size bytes of scratch.row, so that a value
// written behind them makes the bytes that the sum covers.
type keyAt struct {
	h    handle // 0 when there is no row
	hash format.IDHash
	size int
}

// row begins the scratch bytes of a keyed row.
func (m *Machine) row(family byte) []byte { return append(m.scratch.row[:0], family) }

// find looks a key up; row is family and key, made on top of m.row.
func (m *Machine) find(row []byte) keyAt {
	m.scratch.row = row
	at := keyAt{hash: format.HashID(m.genesis.HashKey, row), size: len(row)}
	at.h = m.keyByHash(at.hash)
	return at
}

func (m *Machine) keyByHash(hash format.IDHash) handle {
	return m.keyIndex.Find(keyIndexHash(hash), func(h handle) bool { return m.keys.Get(h).hash == hash })
}

func keyIndexHash(hash format.IDHash) uint64 { return binary.LittleEndian.Uint64(hash[8:]) }

// kvAt, timerAt, onceAt and positionAt find the key of a command. The key stays in scratch.row until the next.
func (m *Machine) kvAt(t format.Tenant, namespace, key []byte) keyAt {
	return m.find(format.AppendKVKey(m.row(FamilyKV), t, namespace, key))
}

func (m *Machine) timerAt(t format.Tenant, queue, key []byte) keyAt {
	return m.find(format.AppendTimerKey(m.row(FamilyTimer), t, queue, key))
}

func (m *Machine) onceAt(t format.Tenant, key [16]byte) keyAt {
	return m.find(format.AppendOnceKey(m.row(FamilyOnce), t, key))
}

func (m *Machine) positionAt(p format.PartitionID, group uint32) keyAt {
	return m.find(format.AppendPositionKey(m.row(FamilyPosition), p, format.ConsumerID(group)))
}

// nextVersion is a version that no row had before.
func (m *Machine) nextVersion() uint64 {
	m.keyVersion++
	return m.keyVersion
}

// keyRoom says that n more rows fit, with keys of up to so many bytes where they come due.
func (m *Machine) keyRoom(n int, keyBytes int) bool {
	return m.keys.Len()+n < int(slab.HandleMax) && m.keyVersion < maxKeyVersion &&
		(keyBytes == 0 || m.names.Room(min(keyBytes, slab.NameBytesMax)) > n &&
			(keyBytes <= slab.NameBytesMax || m.names.Room(keyBytes-slab.NameBytesMax) > 2*n))
}

// write stores a row: scratch.row up to at.size, then value, which the caller appended to it. head brings what
// the head says besides; its hash, sum and references are set here. There must be room.
func (m *Machine) write(at keyAt, row []byte, head keyRec) {
	m.scratch.row = row
	family, k := row[0], (*keyRec)(nil)
	h := at.h
	if h == 0 {
		if h, k = m.keys.Alloc(); h == 0 {
			return // the caller saw that there is room
		}
		k.hash = at.hash
		m.keyIndex.Insert(keyIndexHash(at.hash), h)
	} else {
		k = m.keys.Touch(h)
		m.uncount(k)
		m.disarmKey(h, k)
	}
	k.version, k.due, k.num = head.version, head.due, head.num
	k.flags = head.flags&^keyFamily | uint32(family)
	k.sum = xxh3.Hash128(row).Lo
	if m.note(k, head.note); k.due != 0 && k.key == 0 {
		m.keepKey(k, row[1:at.size])
	} else if k.due == 0 {
		m.dropKey(k)
	}
	m.keySums[family].rows++
	m.keySums[family].sum += k.sum
	m.armKey(h, k)
	m.keyed.Put(family, row[1:at.size:at.size], row[at.size:])
}

// note sets why a timer was refused.
func (m *Machine) note(k *keyRec, ref slab.Ref) {
	if k.note != 0 && k.note != ref {
		m.names.Free(k.note)
	}
	k.note = ref
}

func (m *Machine) keepKey(k *keyRec, key []byte) {
	first := key[:min(len(key), slab.NameBytesMax)]
	k.key, _ = m.names.Put(first)
	if rest := key[len(first):]; len(rest) > 0 {
		k.more, _ = m.names.Put(rest)
	}
}

func (m *Machine) dropKey(k *keyRec) {
	for _, ref := range [...]*slab.Ref{&k.key, &k.more} {
		if *ref != 0 {
			m.names.Free(*ref)
			*ref = 0
		}
	}
}

func (m *Machine) uncount(k *keyRec) {
	s := &m.keySums[k.family()]
	s.rows--
	s.sum -= k.sum
}

// remove deletes a row whose key is at hand.
func (m *Machine) remove(at keyAt) { m.freeKey(at.h, m.scratch.row[:at.size]) }

// freeKey deletes a row; row is its family and key.
func (m *Machine) freeKey(h handle, row []byte) {
	k := m.keys.Touch(h)
	m.uncount(k)
	m.disarmKey(h, k)
	m.dropKey(k)
	m.note(k, 0)
	m.keyIndex.Delete(keyIndexHash(k.hash), h)
	if row[0] == FamilyKV {
		m.nextVersion() // who follows changes has to tell this one from the one before
	}
	m.keyed.Delete(row[0], row[1:])
	m.keys.Free(h)
}

// keyBytes is the store key of a row that comes due, behind its family.
func (m *Machine) keyBytes(k *keyRec) []byte {
	row := append(m.row(k.family()), m.names.Get(k.key)...)
	if k.more != 0 {
		row = append(row, m.names.Get(k.more)...)
	}
	m.scratch.row = row
	return row
}

// armKey puts a row that comes due among those that apply looks after: expiry by itself, timers by Fire.
func (m *Machine) armKey(h handle, k *keyRec) {
	switch {
	case k.due == 0:
	case k.flags&keyPaused != 0:
	case k.family() == FamilyTimer:
		m.timerDue.ReplaceOrInsert(timerKey{k.due, h})
	default:
		m.keyDue.Add(int64(k.due), h, 0)
	}
}

func (m *Machine) disarmKey(h handle, k *keyRec) {
	switch {
	case k.due == 0 || k.flags&keyPaused != 0:
	case k.family() == FamilyTimer:
		m.timerDue.Delete(timerKey{k.due, h})
	default:
		m.keyDue.Cancel(h, 0)
	}
}

// keyExpired deletes a row whose time is over; nobody has seen it since.
func (m *Machine) keyExpired(h handle) { m.freeKey(h, m.keyBytes(m.keys.Get(h))) }

// lasting turns a lifetime into an expiry, 0 for one that lasts for ever.
func (m *Machine) lasting(keep int64) format.Wall {
	if keep == 0 {
		return 0
	}
	return m.w + format.Wall(min(keep, maxSeconds*1_000_000))
}

// finishKeys indexes the heads and holds them against the sums of their families.
func (m *Machine) finishKeys() error {
	var sums [families]keyedSum
	for h := m.keys.Next(0); h != 0; h = m.keys.Next(h) {
		k := m.keys.Get(h)
		if k.family() >= families || (k.due != 0) != (k.key != 0) || k.key != 0 && !m.names.Live(k.key) ||
			k.more != 0 && !m.names.Live(k.more) || k.note != 0 && !m.names.Live(k.note) {
			return fmt.Errorf("machine: head %d of a keyed row: family %d, due %d, key %d", h, k.family(), k.due, k.key)
		}
		sums[k.family()].rows++
		sums[k.family()].sum += k.sum
		m.keyIndex.Insert(keyIndexHash(k.hash), h)
		m.armKey(h, k)
	}
	for h := m.dead.Next(0); h != 0; h = m.dead.Next(h) {
		sums[FamilyDeadLetter].rows++
		sums[FamilyDeadLetter].sum += m.dead.Get(h).sum
	}
	if sums != m.keySums {
		return fmt.Errorf("machine: heads of keyed rows add up to %v, counted were %v", sums, m.keySums)
	}
	return nil
}
