package engine

import (
	"fmt"
	"slices"

	"queen/engine/format"
	"queen/engine/machine"
)

// pendingBounds are those of the positions that wait for the end of one transaction: the entry that ends it sets each of
// them, and one transaction is not to take what all of a raft group have room for.
type pendingBounds struct{ positions, bytes int }

// The bounds of a node; apply holds all transactions together to eight times the bytes.
const (
	maxPendingPositions = 100_000
	maxPendingBytes     = 32 << 20
)

func (b *pendingBounds) hold(positions, bytes int) bool {
	return positions <= b.positions && bytes <= b.bytes
}

// check refuses positions for which a transaction has no room; it can be aborted then, and its producer goes on. Calls for
// one transaction that come together are judged apart, so it may pass the bounds by what one of them brings.
func (b *pendingBounds) check(n *Node, c *format.Producer) *Error {
	bytes := 0
	for i := range c.Positions {
		bytes += machine.PendingBytes(c.Group, &c.Positions[i])
	}
	n.state.RLock()
	held, size := n.state.m.PendingOf(c, nil)
	n.state.RUnlock()
	held, size = held+len(c.Positions), size+bytes
	if b.hold(held, size) {
		return nil
	}
	// What is committed again replaces what was there.
	for some := range slices.Chunk(c.Positions, committedStep) {
		n.state.RLock()
		again, less := n.state.m.PendingOf(c, some)
		n.state.RUnlock()
		held, size = held-again, size-less
	}
	if b.hold(held, size) {
		return nil
	}
	return &Error{Code: CodeTooLarge, Field: "positions", Limit: fmt.Sprintf("%d positions and %d bytes in one transaction", b.positions, b.bytes),
		Message: "the transaction holds no more positions: abort it, and commit fewer in one"}
}
