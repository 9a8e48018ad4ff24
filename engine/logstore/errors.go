package logstore

import (
	"errors"
	"fmt"
)

// Errors that callers branch on with errors.Is.
var (
	// ErrClosed: the store was closed.
	ErrClosed = errors.New("logstore: closed")
	// ErrFailed: a write or flush failed before; the store is failed for ever and the process must end.
	ErrFailed = errors.New("logstore: failed")
	// ErrGap: the entries of a save do not continue or overwrite what the replica holds. Nothing was written.
	ErrGap = errors.New("logstore: entries leave a gap")
	// ErrTooLarge: an entry or record does not fit into a segment. Nothing was written.
	ErrTooLarge = errors.New("logstore: too large for a segment")
	// ErrInvalid: a save contradicts itself. Nothing was written.
	ErrInvalid = errors.New("logstore: invalid save")
	// ErrReclaimed: the segment is not there (any more).
	ErrReclaimed = errors.New("logstore: segment is gone")
	// ErrUnknown: the store holds no such replica or entry.
	ErrUnknown = errors.New("logstore: not held here")
	// ErrRange: a read reaches beyond its entry.
	ErrRange = errors.New("logstore: read beyond the entry")
)

// errKilled is what a killed store failed of.
var errKilled = errors.New("killed")

// CorruptionError says that bytes which were durable are not what was written: rot, a lost or misplaced
// write, a file that was exchanged or removed. It is never the sign of a torn write. The store serves
// nothing from there.
type CorruptionError struct {
	File string
	Pos  int64
	Err  error
}

// Error names file, position and finding.
func (e *CorruptionError) Error() string {
	return fmt.Sprintf("logstore: %s at %d: %v", e.File, e.Pos, e.Err)
}

// Unwrap returns the finding.
func (e *CorruptionError) Unwrap() error { return e.Err }

func corrupt(file string, pos int64, format string, args ...any) *CorruptionError {
	return &CorruptionError{File: file, Pos: pos, Err: fmt.Errorf(format, args...)}
}
