package engine

import (
	"queen/engine/format"
	"queen/engine/logstore/rows"
	"queen/engine/machine"
)

// restore builds the state as of the newest checkpoint; the log above it is replayed by the
// sequencer.
func (n *Node) restore() (format.Index, error) {
	n.keyed = newKeyedRows(nil, 0)
	n.state.m = machine.New(machine.Options{Group: n.seq.Group(), Keyed: n.keyed})
	n.rows = rows.New(1)
	return 0, nil
}

// idEvidence probes the id runs for what the resident chunks no longer hold.
func (n *Node) idEvidence(a *format.Append, from uint64) {}
