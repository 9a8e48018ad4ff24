package format

import "fmt"

// Error says that bytes are not what they should be: rot, a torn write, or a newer writer. It never
// holds a verdict about a client's request.
type Error struct {
	// What names the kind of bytes ("entry", "frame", "extent", ...).
	What string
	// Pos is the position of the fault in the bytes that were handed to the parser.
	Pos int
	// Msg says what was found, and what was wanted.
	Msg string
}

// Error is "format: entry at 12: checksum 0x1 want 0x2".
func (e *Error) Error() string { return fmt.Sprintf("format: %s at %d: %s", e.What, e.Pos, e.Msg) }

func errorf(what string, pos int, msg string, args ...any) *Error {
	return &Error{What: what, Pos: pos, Msg: fmt.Sprintf(msg, args...)}
}
