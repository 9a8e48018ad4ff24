package engine

import (
	"bytes"
	"sync"

	"queen/engine/format"
	"queen/engine/logstore"
)

// Outcomes collects what applying entries decided until it is written, with the next extent or in one of its own. The
// zero value is empty and ready.
type Outcomes struct {
	mu      sync.Mutex
	builder format.OutcomeBuilder
	any     bool
	ready   []logstore.Outcome // ranges that something came after with a gap, or with another term
}

// Add takes the outcome of an entry; entries come in log order.
func (o *Outcomes) Add(group format.RaftGroup, replica format.Replica, i format.Index, term format.Term, a Applied) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.any && (o.builder.Last()+1 != i || o.builder.Term != term) {
		o.sealLocked(group, replica)
	}
	if !o.any {
		o.builder.Term = term
		o.builder.Begin(i, a.FramesBefore)
		o.any = true
	}
	o.builder.Add(a.Canonical)
}

// Take returns the outcomes that are not on disk yet, nil when there are none. The caller writes them before it, or
// anybody else, takes again.
func (o *Outcomes) Take(group format.RaftGroup, replica format.Replica) []logstore.Outcome {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.sealLocked(group, replica)
	out := o.ready
	o.ready = nil
	return out
}

// sealLocked ends the range that is being built.
func (o *Outcomes) sealLocked(group format.RaftGroup, replica format.Replica) {
	if !o.any {
		return
	}
	b := &o.builder
	_, body := b.Record(group, replica)
	o.ready = append(o.ready, logstore.Outcome{First: b.First(), Last: b.Last(), Term: b.Term, Bytes: bytes.Clone(body)})
	o.any = false
}
