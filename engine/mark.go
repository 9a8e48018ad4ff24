package engine

import (
	"queen/engine/format"
)

// mark ends the chunk when it is large or old enough, or when keyed rows fill memory, which only a
// checkpoint at a Mark empties: a Mark alone in its entry, carrying the
// leader's chain hash and state digest of the mark before, so that a replica which disagrees stops.
func (h *house) mark() {
	n := h.n
	h.marking.Lock()
	defer h.marking.Unlock()
	bytes, entries, since := h.chunk.open()
	full := n.keyed.full() && !n.files.busy()
	if entries == 0 || !full && bytes < n.cfg.MarkBytes && n.cfg.Clock.Mono()-since < n.cfg.MarkEvery.Microseconds() {
		return
	}
	h.commitMark()
}

// markNow commits a Mark and waits for it; false when the node is stopping.
func (h *house) markNow() bool {
	h.marking.Lock()
	defer h.marking.Unlock()
	return h.commitMark()
}

// commitMark is one at a time: of two with the same number the second would be refused, and be an entry of
// the next chunk for nothing.
func (h *house) commitMark() bool {
	n := h.n
	last := n.files.lastMark()
	s := newSubmission(consumption)
	s.alone = true
	s.buf.AddMark(&format.Mark{Number: last.Number + 1, Chain: last.Chain, Digest: last.Digest})
	return h.commit(s)
}
