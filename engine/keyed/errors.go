package keyed

import (
	"errors"
	"fmt"
)

// The caller's fault: nothing was changed.
var (
	// ErrKey: a key is empty, longer than KeyBytesMax, or begins with no usable family.
	ErrKey = errors.New("keyed: bad key")
	// ErrValueTooLarge: a value is longer than ValueBytesMax.
	ErrValueTooLarge = errors.New("keyed: value too large")
	// ErrUnsorted: the rows of a flush or a flat file are not in strictly ascending key order.
	ErrUnsorted = errors.New("keyed: rows not in ascending order")
	// ErrVersion: a version is zero, the reserved maximum, or out of order with what is recorded.
	ErrVersion = errors.New("keyed: bad version")
	// ErrLimit: a scan without a positive limit.
	ErrLimit = errors.New("keyed: scan needs a positive limit")
	// ErrStaleFlush: Recorded on a flush that a later flush replaced, or called twice.
	ErrStaleFlush = errors.New("keyed: flush is no longer the latest")
	// ErrNotEmpty: Import into a store that already holds rows.
	ErrNotEmpty = errors.New("keyed: store is not empty")
	// ErrWrongBase: a delta that does not start where the store ends.
	ErrWrongBase = errors.New("keyed: delta does not continue this store")
	// ErrDiscarded: a read at a version whose history may already be dropped.
	ErrDiscarded = errors.New("keyed: version discarded")
)

// The environment.
var (
	// ErrNoSpace: free space is below the reserve. From the start of FlushAt and from Open it means
	// that nothing was written; see FlushAt for the rest.
	ErrNoSpace = errors.New("keyed: not enough free space")
	// ErrClosed: the store is closed.
	ErrClosed = errors.New("keyed: closed")
	// ErrFormat: bytes of a format version that this build does not read.
	ErrFormat = errors.New("keyed: unknown format version")
	// ErrOpenCrashed: the process died inside Open several times in a row. The directory should be
	// set aside and rebuilt.
	ErrOpenCrashed = errors.New("keyed: opening this directory keeps crashing")
)

// CorruptionError says that stored bytes are not what was written. File names the file, or the row
// when no file can be named.
type CorruptionError struct {
	File string
	Err  error
}

// Error implements error.
func (e *CorruptionError) Error() string {
	return fmt.Sprintf("keyed: %s is damaged: %v", e.File, e.Err)
}

// Unwrap returns what was found.
func (e *CorruptionError) Unwrap() error { return e.Err }

func corrupt(file, format string, args ...any) error {
	return &CorruptionError{File: file, Err: fmt.Errorf(format, args...)}
}

func corruptRow(key []byte, format string, args ...any) error {
	return corrupt(fmt.Sprintf("row %s", shortKey(key)), format, args...)
}

// shortKey shows at most 32 bytes of a key: keys may be 65 kB and errors end in log lines.
func shortKey(key []byte) string {
	if len(key) > 32 {
		return fmt.Sprintf("%x... (%d bytes)", key[:32], len(key))
	}
	return fmt.Sprintf("%x", key)
}
