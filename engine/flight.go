package engine

import (
	"sync"
	"sync/atomic"

	"queen/engine/format"
)

// flight is an entry between proposal and the completion of its callers. It is used again once all of them have taken
// what they want of it: the verdicts of an entry have hundreds of kilobytes, which growing and collecting anew each
// time took a tenth of the processor time.
//
// INVARIANT: nobody reads a flight after its own release; a caller that never releases only keeps it from being used
// again (TestFlightsAreNotSharedTooEarly).
type flight struct {
	subs    []*submission
	header  format.EntryHeader
	at      int64 // monotonic time of the proposal; 0 for an entry of another node
	index   format.Index
	head    []byte // of the entry; apply reads it
	results format.Results
	users   atomic.Int32 // submissions that have not released it, and apply
}

// keptResults is how many verdicts a flight that is kept may have room for.
const keptResults = 1 << 14

var flightPool = sync.Pool{New: func() any { return new(flight) }}

func newFlight(h format.EntryHeader, subs []*submission) *flight {
	fl := flightPool.Get().(*flight)
	fl.header, fl.subs = h, append(fl.subs, subs...)
	fl.users.Store(int32(len(subs)) + 1)
	return fl
}

// release says that one user is done with the verdicts, of which it keeps no slice.
func (fl *flight) release() {
	if fl.users.Add(-1) != 0 || cap(fl.results.Items) > keptResults || cap(fl.head) > pooledBytes {
		return
	}
	clear(fl.subs)
	fl.subs, fl.head, fl.index, fl.at, fl.header = fl.subs[:0], fl.head[:0], 0, 0, format.EntryHeader{}
	fl.results.Reset()
	flightPool.Put(fl)
}
