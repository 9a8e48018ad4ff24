package engine

import "queen/engine/format"

// MarkState ends the chunk and returns what a replica would compare: number, chain hash and state
// digest of the Mark.
func (n *Node) MarkState() format.ManifestMark {
	n.house.markNow()
	return n.files.lastMark()
}

// Idle waits until the files' goroutine has nothing left to do: the test stops it and does its turns.
func (n *Node) FilesTurn() error { return n.files.turn() }

// Positions are the checkpoints that the manifest names, newest first.
func (n *Node) Positions() []format.ManifestCheckpoint { return n.files.group().Checkpoints }

// FirstSegment is the oldest segment of the log.
func (n *Node) FirstSegment() uint32 { return n.seq.Log().Segments()[0].Segment }
