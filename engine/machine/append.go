package machine

import (
	"math"

	"queen/engine/format"
	"queen/engine/machine/slab"
)

// applyAppend stores one frame: creates queue and partition when absent, refuses what repeats and what
// should have been sealed, and gives the rest one gapless run of offsets (S-push-2 to 8, S-dup-1 to 13).
func (m *Machine) applyAppend(a *format.Append, res *format.AppendResult) format.Code {
	return m.applyPush(a, m.queueBy(a.Tenant, a.Queue), 0, res)
}

// applyPush is applyAppend for a frame whose queue, nil for none, was looked up, and whose partition may have been; 0
// looks.
func (m *Machine) applyPush(a *format.Append, q *queue, ph handle, res *format.AppendResult) format.Code {
	res.Count = a.Count
	if q != nil && ph == 0 {
		ph = m.partByName(q, a.Partition)
	}
	if code := m.checkFound(a, 1, q, ph); code != format.CodeOK {
		return code
	}
	if a.Frame == format.FrameKafka {
		return m.applyBatch(a, q, ph, res)
	}
	if q == nil {
		if q, res.NewQueue = m.ensureQueue(a.Tenant, a.Queue, byPush); q == nil {
			return format.CodeLimit
		}
	} else if q.implicit {
		q.implicit = false
		m.soilQueue(q)
	}
	if ph == 0 {
		if ph, _ = m.createPart(q, a.Partition); ph == 0 {
			return format.CodeLimit
		}
		res.NewPartition = true
	}
	p := m.parts.Get(ph)
	res.Queue, res.Partition, res.Base = format.QueueID(q.id), p.id, p.next
	res.Kept = m.keep(q, p, a, m.room(q, ph), res)
	if res.Kept > 0 {
		res.Pos, res.Len, res.Flags = a.PayloadPos, a.PayloadLen, a.RowFlags()
		m.store(q, ph, res)
	}
	return format.CodeOK
}

// checkAppend says whether a frame is refused as a whole, and finds what is there of its queue and partition. n
// more partitions have to fit. It only reads.
func (m *Machine) checkAppend(a *format.Append, n int) (code format.Code, q *queue, ph handle) {
	if q = m.queueBy(a.Tenant, a.Queue); q != nil {
		ph = m.partByName(q, a.Partition)
	}
	return m.checkFound(a, n, q, ph), q, ph
}

// checkFound is checkAppend for a queue and a partition that were found.
func (m *Machine) checkFound(a *format.Append, n int, q *queue, ph handle) format.Code {
	// What was encoded before the queue was told to encrypt must not be stored behind that order.
	if q != nil && q.opts.EncryptionEnabled && !a.Sealed {
		return format.CodeEncryption
	}
	if ph != 0 && m.evidenceLate(q, m.parts.Get(ph), a) {
		return format.CodeStaleEvidence
	}
	if format.TenantNameBytes+len(a.Queue)+len(a.Partition) > format.NameBudget {
		return format.CodeLimit
	}
	if ph == 0 && (m.header.queues == maxCatalog || m.header.partitions == maxPartitions ||
		m.names.Room(len(a.Partition)) < n) {
		return format.CodeLimit
	}
	return format.CodeOK
}

// room is how many messages maxSize lets into a partition: the bound counts what lies between its log
// start and its end. What time retention removed counts as well until the leader's Trim names the new
// start, except that a partition it emptied starts anew here.
func (m *Machine) room(q *queue, ph handle) uint32 {
	bound := uint64(q.maxSize())
	if bound == 0 {
		return math.MaxUint32
	}
	p := m.parts.Get(ph)
	if start := m.logStart(p); start < p.next && emptied(q, p) {
		if s := m.touchSide(ph); s != nil {
			s.trim = p.next
		}
	}
	held := uint64(p.next - min(m.logStart(p), p.next))
	return uint32(min(bound-min(held, bound), math.MaxUint32))
}

// store appends the kept messages of a frame to a partition.
func (m *Machine) store(q *queue, ph handle, res *format.AppendResult) {
	p := m.parts.Get(ph)
	base, lastW := p.next, p.lastW
	res.Row, res.PrevRow = m.advance(ph, res.Kept)
	m.touchPart(p, TouchedAppend)
	if q.holds() {
		m.hide(q, ph, base, lastW)
		return
	}
	// An event that follows messages hidden until now does not tell where new messages begin.
	if s := m.sideOf(p); s != nil && s.hidden != 0 {
		m.reveal(q, m.sides.Touch(p.side), p.next)
		return
	}
	// What lies behind an open transaction is announced when that ends.
	if p.flags&partOpen == 0 {
		m.announce(q, ph, base, true)
	}
}

// advance gives a partition one more row, of that many offsets.
func (m *Machine) advance(ph handle, kept uint32) (row, prev uint64) {
	p := m.parts.Touch(ph)
	m.header.rows++
	row, prev = m.header.rows, p.row
	p.row = row
	p.next += format.Offset(kept)
	p.lastW = m.w
	return row, prev
}

// evidenceLate says that the frame's evidence about old ids does not reach the chunks whose ids are
// resident. A window that ends within those chunks needs none, nor does a partition that was born in them.
func (m *Machine) evidenceLate(q *queue, p *partRec, a *format.Append) bool {
	window := q.dedup()
	if a.IDs == format.IDsNone || window == 0 || m.marks <= chunksKept {
		return false
	}
	oldest := m.marks - chunksKept // the newest chunk that is not resident
	w := m.markW[oldest%uint64(len(m.markW))]
	return a.ClearTo < oldest && m.w-w < window && p.bornW <= w && p.birth != m.applied
}

// keep judges every message of a frame, those with a caller's id as repeats first, and remembers the ids
// kept. It returns how many messages are stored, at most room.
func (m *Machine) keep(q *queue, p *partRec, a *format.Append, room uint32, res *format.AppendResult) uint32 {
	if a.IDs == format.IDsNone && a.Count <= room {
		return a.Count
	}
	hashes, originals := a.Hashes, a.Originals
	kept := uint32(0)
	for i := range a.Count {
		if !a.HasID(i) {
			if kept == room {
				res.Dups = append(res.Dups, format.DupResult{At: i, Full: true})
				continue
			}
			kept++
			continue
		}
		hash := [16]byte(hashes[:16])
		hashes = hashes[16:]
		var evidence *format.Original
		for len(originals) > 0 && originals[0].At <= i {
			if originals[0].At == i {
				evidence = &originals[0]
			}
			originals = originals[1:]
		}
		if dup, ok := m.original(q, p, hash, evidence); ok {
			dup.At = i
			res.Dups = append(res.Dups, dup)
			continue
		}
		if kept == room {
			res.Dups = append(res.Dups, format.DupResult{At: i, Full: true})
			continue
		}
		m.ids.Add(slab.ID{
			PID: uint64(p.id), Hash: hash, Offset: uint64(res.Base) + uint64(kept), Index: uint64(m.place.Index),
			Ordinal: uint32(m.place.Ordinal) + i, W: int64(m.w),
		})
		kept++
	}
	return kept
}

// original finds what a message repeats: the newest message of its id, if that is inside the window
// or in the same frame (S-dup-2, S-dup-4).
func (m *Machine) original(q *queue, p *partRec, hash [16]byte, evidence *format.Original) (format.DupResult, bool) {
	if id, ok := m.ids.Find(uint64(p.id), hash); ok {
		// Resident ids are newer than any evidence, so this one decides.
		place := format.Place{Index: format.Index(id.Index), Ordinal: format.Ordinal(id.Ordinal)}
		here := !place.Before(m.place)
		return format.DupResult{Offset: format.Offset(id.Offset), Place: place, W: format.Wall(id.W)},
			here || m.repeats(q, format.Wall(id.W))
	}
	if evidence == nil || evidence.Place.Before(p.birthPlace()) || evidence.Offset >= p.next ||
		!evidence.Place.Before(m.place) || evidence.W > m.w {
		return format.DupResult{}, false // none, or about an earlier partition of that name
	}
	return format.DupResult{Offset: evidence.Offset, Place: evidence.Place, W: evidence.W}, m.repeats(q, evidence.W)
}

// repeats says that an original of that time counts today.
func (m *Machine) repeats(q *queue, w format.Wall) bool {
	return m.w-w < q.dedup() && w >= q.dedupFrom
}
