package runfile

import "fmt"

// Error says that a run file can not be read, or that its bytes are not what was written.
type Error struct {
	// File is the file's name in its directory, Pos a position in it.
	File string
	Pos  int64
	Err  error
}

// Error names file, position and finding.
func (e *Error) Error() string { return fmt.Sprintf("runfile: %s at %d: %v", e.File, e.Pos, e.Err) }

// Unwrap returns the finding.
func (e *Error) Unwrap() error { return e.Err }
