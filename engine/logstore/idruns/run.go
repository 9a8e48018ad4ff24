package idruns

import (
	"fmt"
	"sync/atomic"

	"queen/engine/format"
	"queen/engine/logstore/runfile"
)

type idFile = runfile.File[format.IDBlock]

// run is the ids of chunks first to last. file is nil when it is damaged, and err says how.
type run struct {
	name        string
	first, last uint64
	file        *idFile
	err         error
	size        int64
	sum         [16]byte
	filter      atomic.Pointer[sieve]
	plain       bool // no filter could be made; owned by the goroutine that adds
}

// DamageError says that a run file can not be read, or is gone. Look-ups that can not do without it
// fail with it, until Repair.
type DamageError struct {
	File        string
	First, Last uint64
	Err         error
}

// Error names the file and the finding.
func (e *DamageError) Error() string { return fmt.Sprintf("idruns: %s: %v", e.File, e.Err) }

// Unwrap returns the finding.
func (e *DamageError) Unwrap() error { return e.Err }

func (r *run) damage(err error) error {
	if err == nil {
		return nil
	}
	return &DamageError{File: r.name, First: r.first, Last: r.last, Err: err}
}

// openRun opens a run; it is damaged when it can not be.
func (s *Set) openRun(first, last uint64) *run {
	r := &run{name: runName(s.opts.Group, first, last), first: first, last: last}
	f, err := runfile.Open(s.opts.FS, s.opts.Dir, r.name, runfile.IDs, s.cache)
	if err != nil {
		r.err = err
		return r
	}
	if h := f.Head; h.Group != s.opts.Group || h.First != first || h.Last != last {
		r.err = fmt.Errorf("head says group %d, chunks %d to %d", h.Group, h.First, h.Last)
		f.Release()
		return r
	}
	r.file, r.size = f, f.Size
	return r
}

func (r *run) release() {
	if r.file != nil {
		r.file.Release()
	}
}

// find returns the row of an id that the filter did not rule out.
func (r *run) find(k format.Fence) (row format.IDRow, ok bool, err error) {
	if r.file == nil {
		return row, false, r.damage(r.err)
	}
	block := r.file.Find(k)
	if block < 0 {
		return row, false, nil
	}
	b, err := r.file.Block(block)
	if err != nil {
		return row, false, r.damage(err)
	}
	// A run holds one row of an id, in the last block that begins at or below it.
	for i := b.Find(k.Spread); i < b.Len() && b.Spread(i) == k.Spread; i++ {
		if b.At(i, &row); row.Partition == k.Partition && row.Hash == k.Hash {
			return row, true, nil
		}
	}
	return row, false, nil
}
