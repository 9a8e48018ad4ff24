package machine

import (
	"queen/engine/format"
)

// applyMark ends a chunk: its ids are closed, and the digest of the state moves on by what changed
// since the mark before (engine design 10).
func (m *Machine) applyMark(c *format.Mark, n *format.CountResult) format.Code {
	if c.Number != m.marks+1 {
		return format.CodeMalformed
	}
	m.marks, m.markAt = c.Number, m.applied
	m.markW[m.marks%uint64(len(m.markW))] = m.w
	m.ids.Close(m.marks)
	m.digest = m.nextDigest()
	n.Rows, n.Existed = m.marks, true
	return format.CodeOK
}
