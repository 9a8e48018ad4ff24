package machine

import (
	"fmt"

	"queen/engine/format"
	"queen/engine/machine/slab"
)

// maxStamp bounds T and W, some 73,000 years, so that stamp plus duration can not wrap.
const maxStamp = 1 << 61

// admit judges an entry's header against the state without changing it (engine design 4).
func (m *Machine) admit(e *format.Entry) format.Code {
	h := &e.Header
	r := e.Reader()
	r.Next()
	if h.T < 0 || h.W < 0 || h.T > maxStamp || h.W > maxStamp {
		return format.CodeMalformed
	}
	if !m.born {
		// The group does not exist before its Genesis, which brings the first epoch.
		if r.Kind() != format.KindGenesis {
			return format.CodeMalformed
		}
		return format.CodeOK
	}
	if h.T < m.t || h.W < m.w {
		return format.CodeMoved
	}
	if r.Kind() == format.KindTerm {
		var c format.TermCmd
		if r.TermCmd(&c) != nil || c.Epoch != h.Epoch {
			return format.CodeMalformed
		}
		// Equal is a boot mark; fuse numbers start anew with each Term.
		if c.Epoch < m.epoch {
			return format.CodeMoved
		}
		return format.CodeOK
	}
	if h.Epoch != m.epoch || h.Fuse <= m.fuse {
		return format.CodeMoved
	}
	return format.CodeOK
}

// accept takes over the stamps of an admitted entry.
func (m *Machine) accept(e *format.Entry) {
	m.epoch, m.fuse = e.Header.Epoch, e.Header.Fuse
	m.t, m.w = e.Header.T, e.Header.W
}

// applyGenesis sets what the ids and indexes of this group are made with, once.
func (m *Machine) applyGenesis(r *format.CommandReader) (format.Code, error) {
	var g format.Genesis
	if err := r.Genesis(&g); err != nil {
		return 0, err
	}
	if m.born {
		return format.CodeMalformed, nil
	}
	m.genesis, m.born = g, true
	m.resetDerived()
	return format.CodeOK, nil
}

// checkMark compares the leader's digest, carried by the next mark, with ours: a difference means
// that two replicas disagree about the state, and the odd one out has to stop.
func (m *Machine) checkMark(e *format.Entry) error {
	r := e.Reader()
	if r.Next(); r.Kind() != format.KindMark {
		return nil
	}
	var c format.Mark
	if err := r.Mark(&c); err != nil {
		return err
	}
	if c.Number == m.marks+1 && c.Digest != ([16]byte{}) && c.Digest != m.digest {
		return fmt.Errorf("machine: state digest at mark %d is %x, the leader's is %x", m.marks, m.digest, c.Digest)
	}
	return nil
}

// fireLimit bounds the due items one entry takes care of.
const fireLimit = 4096

// fire handles due leases and back-offs, then due holds, then keyed rows past their time, in order of (due,
// handle). Verdicts never depend on it: they compare times. It only makes partitions claimable that nobody
// asked about, and frees rows that nobody sees.
func (m *Machine) fire() {
	m.expireReceipts()
	left := fireLimit
	left -= m.timers.PopDue(int64(m.t), left, func(it slab.DueItem) { m.leaseDue(it.Handle) })
	left -= m.holds.PopDue(int64(m.w), left, func(it slab.DueItem) { m.holdDue(it.Handle) })
	left -= m.keyDue.PopDue(int64(m.w), left, func(it slab.DueItem) { m.keyExpired(it.Handle) })
	m.fireKafka(left)
}
