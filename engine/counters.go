package engine

import (
	"sync/atomic"

	"queen/engine/format"
	"queen/engine/stats"
)

// counters are what the node counts since it was opened.
type counters struct {
	pushed, pushedBytes, duplicates, refused  atomic.Uint64
	deliveredMessages, deliveredBytes, claims atomic.Uint64
	acked, nacked, deadLettered, redriven     atomic.Uint64
	handedBack                                atomic.Uint64
	entries, entryBytes                       atomic.Uint64
	duplicateProbes, runProbes, staleEvidence atomic.Uint64
	overloaded, storageRefused                atomic.Uint64
	kvWrites, kvReads, kvLost                 atomic.Uint64
	transactions, rolledBack, repeated        atomic.Uint64
	locksGranted, locksRefused                atomic.Uint64
	timersScheduled, timersCancelled          atomic.Uint64
	timersFired, timersRefused                atomic.Uint64
	commit, timerLate                         stats.Histogram
	lastCommit, lastCommitAt                  atomic.Int64 // of the newest entry: how long it took, and its wall time
	dead                                      atomic.Pointer[deadBytes]
}

// deadBytes is what was found to be dead, and when.
type deadBytes struct {
	bytes uint64
	at    format.Wall
}

// kv counts one KV command.
func (c *counters) kv(item *KVItem) {
	if item.Applied {
		c.kvWrites.Add(1)
	} else {
		c.kvLost.Add(1)
	}
}
