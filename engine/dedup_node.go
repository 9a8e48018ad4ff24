package engine

import "queen/engine/format"

// idEvidence probes the id runs for what the resident chunks no longer hold.
func (n *Node) idEvidence(a *format.Append, from uint64) {}

// idsDurable reports that the ids of all chunks up to a mark are in runs on disk.
func (f *files) idsDurable(mark uint64) bool { return false }
