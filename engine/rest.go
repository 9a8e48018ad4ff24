package engine

import (
	"time"

	"queen/engine/format"
	"queen/engine/machine"
)

const (
	// A node is idle when its log has grown by less than restQuiet in restAfter: what falls due by time alone, long
	// after the last call, is no work.
	restAfter = 10 * time.Second
	restQuiet = 64 << 10
	// restBytes is how much log since the last rest makes another one worth its collection.
	restBytes = 16 << 20
	// restIDs is how many resident ids make it worth an entry to find out that they are over.
	restIDs = 4096
)

// rest gives memory back when the node has fallen idle: a node that made a million partitions and then does nothing
// would keep what making them took for ever. It belongs to the goroutine of upkeep, which wakes once a second anyway.
type rest struct {
	seen   uint64 // bytes of the log when it last had grown by restQuiet
	since  int64  // mono reading then
	bytes  uint64 // of the log, at the last rest
	rested bool   // once since the start at least
	idsDue int64  // W at which the resident ids are over; 0: not known
}

// restTurn looks whether the node is idle and rests when there is something to give back.
func (h *house) restTurn(now int64) {
	n, r := h.n, &h.rest
	bytes := n.counters.entryBytes.Load()
	if bytes-r.seen >= restQuiet {
		r.seen, r.since, r.idsDue = bytes, now, 0
		return
	}
	if now-r.since < restAfter.Microseconds() {
		return
	}
	if forgot := h.forgetIDs(); r.rested && !forgot && bytes-r.bytes < restBytes {
		return
	}
	r.rested, r.bytes = true, bytes
	n.delivered.forget(func(lease format.UUID) bool {
		n.state.RLock()
		defer n.state.RUnlock()
		return n.state.m.Leased(lease)
	})
	if n.cfg.Rested != nil {
		n.cfg.Rested()
	}
}

// forgetIDs lets the resident ids go once no window reaches them any more. Only an entry moves the state's W past
// the windows, so it proposes a Tick; that is one per idle time. It reports whether it did.
func (h *house) forgetIDs() bool {
	n, r := h.n, &h.rest
	if r.idsDue == 0 {
		n.state.RLock()
		r.idsDue = h.idsOver()
		n.state.RUnlock()
	}
	if r.idsDue == 0 {
		return false
	}
	if _, w := n.stamp.now(); int64(w) <= r.idsDue {
		return false
	}
	r.idsDue = 0
	h.forget.Store(true)
	s := newSubmission(consumption)
	s.buf.AddTick()
	return h.commit(s)
}

// idsOver is the W at which enough resident ids are over to be worth an entry: those of chunks that are in runs, or
// else all of them; 0 when there are too few.
func (h *house) idsOver() int64 {
	n := h.n
	chunks, all := n.state.m.ResidentIDs(), 0
	for _, c := range chunks {
		all += c.Rows
	}
	if all < restIDs {
		return 0
	}
	window := n.state.m.LongestWindow() // walks the queues
	rows, due := 0, format.Wall(0)
	for _, c := range chunks {
		reach := window
		if !h.inRuns(c) {
			if rows >= restIDs {
				break
			}
			reach = max(window, idWindowLeast)
		}
		rows, due = rows+c.Rows, max(due, c.Newest+reach)
	}
	return int64(due) + 1
}

// inRuns reports that a run answers for a chunk's ids when they are not resident.
func (h *house) inRuns(c machine.ResidentIDs) bool { return c.Mark <= h.n.ids.set.ClearTo() }

// forgotten runs in the apply goroutine after every entry: it does what forgetIDs asked for. Acks want what is in no
// run yet for idWindowLeast.
func (h *house) forgotten() {
	if !h.forget.Load() {
		return
	}
	h.forget.Store(false)
	n := h.n
	n.state.Lock()
	defer n.state.Unlock()
	wanted := n.state.m.W() - idWindowLeast
	n.state.m.ForgetIDs(func(c machine.ResidentIDs) bool { return h.inRuns(c) || c.Newest < wanted })
}
