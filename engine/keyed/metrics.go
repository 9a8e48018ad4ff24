package keyed

import "sync/atomic"

type counters struct {
	flushes, flushedRows, flushedBytes atomic.Uint64
	corruptions, noSpace               atomic.Uint64
}

// Metrics is a snapshot of counters since Open.
type Metrics struct {
	// Flushes that ended well, and the rows and bytes (keys and values) they wrote.
	Flushes, FlushedRows, FlushedBytes uint64
	// Corruptions is the number of reads that found damage.
	Corruptions uint64
	// NoSpace is the number of times the free-space gate stopped something.
	NoSpace uint64
	// BadgerErrors is the number of error lines badger logged; a failing memtable flush repeats one
	// each second for ever, and shows in no other way.
	BadgerErrors uint64
	// LSMBytes and ValueLogBytes are the sizes on disk as badger last counted them (once a minute).
	LSMBytes, ValueLogBytes int64
	// DiscardVersion is the version below which history may be gone.
	DiscardVersion uint64
}

// Metrics returns the counters.
func (s *Store) Metrics() Metrics {
	m := Metrics{
		Flushes:        s.counts.flushes.Load(),
		FlushedRows:    s.counts.flushedRows.Load(),
		FlushedBytes:   s.counts.flushedBytes.Load(),
		Corruptions:    s.counts.corruptions.Load(),
		NoSpace:        s.counts.noSpace.Load(),
		BadgerErrors:   s.log.errors.Load(),
		DiscardVersion: s.discard.Load(),
	}
	s.reads.RLock()
	defer s.reads.RUnlock()
	if !s.closed.Load() {
		m.LSMBytes, m.ValueLogBytes = s.db.Size()
	}
	return m
}
