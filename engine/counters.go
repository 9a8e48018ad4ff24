package engine

import (
	"sync/atomic"

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
	commit                                    stats.Histogram
}
