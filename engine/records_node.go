package engine

import (
	"queen/engine/format"
	"queen/engine/machine"
)

// recordsDoor implements Records over the node.
type recordsDoor struct{ n *Node }

var _ Records = recordsDoor{}

// Records implements Engine.
func (n *Node) Records() Records { return recordsDoor{n: n} }

// Leader implements Records: a node has one raft group, which every tenant is in.
func (r recordsDoor) Leader(Caller) (format.Replica, format.Term) {
	r.n.state.RLock()
	term := r.n.state.m.Epoch()
	r.n.state.RUnlock()
	if r.n.cluster == nil {
		return 0, term
	}
	leader, epoch, _ := r.n.cluster.role()
	return leader, max(term, epoch)
}

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
