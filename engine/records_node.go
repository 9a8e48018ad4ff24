package engine

import "queen/engine/format"

// recordsDoor implements Records over the node.
type recordsDoor struct {
	unbuiltRecords
	n *Node
}

// Records implements Engine.
func (n *Node) Records() Records { return recordsDoor{n: n} }

// maxRecordPositions bounds the partitions of one call that reads.
const maxRecordPositions = 1 << 20

func errPositions() *Error {
	return errBad("partitions", "1048576", "too many partitions in one call")
}

// epochAt is the epoch of the entries that are applied now.
func (n *Node) epochNow() format.Term {
	n.state.RLock()
	defer n.state.RUnlock()
	return n.state.m.Epoch()
}
