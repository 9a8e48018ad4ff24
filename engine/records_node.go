package engine

import "queen/engine/machine"

// recordsDoor implements Records over the node.
type recordsDoor struct{ n *Node }

var _ Records = recordsDoor{}

// Records implements Engine.
func (n *Node) Records() Records { return recordsDoor{n: n} }

// maxRecordPositions bounds the partitions of one call that reads.
const maxRecordPositions = 1 << 20

func errPositions() *Error {
	return errBad("partitions", "1048576", "too many partitions in one call")
}

// epochs is the table of epochs as it is now.
func (n *Node) epochs() machine.Epochs {
	n.state.RLock()
	defer n.state.RUnlock()
	return n.state.m.Epochs()
}
