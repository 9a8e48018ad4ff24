package engine

import (
	"context"
	"encoding/binary"
	"slices"

	"queen/engine/format"
)

// drainingName is the row of the nodes that drain, beside those of the nodes' disks, whose names are numbers. It is one row for all, so
// that a guard judges a change by what the others are.
const drainingName = "draining"

// Draining implements Peer.
func (n *Node) Draining() []format.Replica {
	nodes, _ := n.drainingRow()
	return nodes
}

// drainingRow reads the row and the place of its last change, zero where there is none.
func (n *Node) drainingRow() (nodes []format.Replica, at format.Place) {
	row, ok := n.AdminRow(format.SystemTenant, format.AdminNode, drainingName)
	if !ok || len(row.Value)%8 != 0 {
		return nil, row.At
	}
	for b := range slices.Chunk(row.Value, 8) {
		nodes = append(nodes, format.Replica(binary.LittleEndian.Uint64(b)))
	}
	return nodes, row.At
}

// ChangeDraining implements Peer. A full disk does not keep it: it is why the lead has to go, as likely as not.
func (n *Node) ChangeDraining(ctx context.Context, change func(draining []format.Replica) ([]format.Replica, error)) error {
	for {
		now, at := n.drainingRow()
		next, err := change(slices.Clone(now))
		if err != nil || slices.Equal(now, next) {
			return err
		}
		c := AdminChange{Kind: format.AdminNode, Name: drainingName, Delete: len(next) == 0, Guarded: true, At: at}
		for _, node := range next {
			c.Value = binary.LittleEndian.AppendUint64(c.Value, uint64(node))
		}
		// Not applied: another change came between, and is applied here now.
		if applied, err := n.setAdmin(ctx, format.SystemTenant, &c); err != nil || applied {
			return err
		}
	}
}

// drained fills in whether the node drains, which of several raft groups only the first one knows. What keeps it from writing is told first.
func (c *cluster) drained(st *Status) {
	st.Draining = slices.Contains(c.n.Draining(), c.self)
	switch {
	case !st.Draining || st.Why != "":
	case st.Role == "leader":
		st.Why = "an operator has the node drain; it leads until a voter that does not drain can"
	default:
		st.Why = "an operator has the node drain"
	}
}
