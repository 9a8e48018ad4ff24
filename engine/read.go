package engine

import (
	"context"
	"time"

	"queen/engine/format"
)

// Position names where to read.
type Position struct {
	Queue, Partition string
	Offset           format.Offset
	// MaxBytes bounds the payload bytes of this position, 1 B..8 MiB; 0 means 1 MiB. At least one
	// message is returned when there is one.
	MaxBytes int
}

// ReadRequest reads up to 1024 positions.
type ReadRequest struct {
	At []Position
	// MinBytes is summed over positions; with Wait the call parks until that much is there.
	MinBytes int
	Wait     time.Duration
}

// PartitionRead answers one Position. Records are copies owned by the caller.
type PartitionRead struct {
	// Err is CodeUnknownQueue, CodeOffsetOutOfRange or a read error; nil otherwise.
	Err     *Error
	Records []Record
	// Start is the first retained offset, End the next to be assigned.
	Start, End format.Offset
}

// ReadResult answers a ReadRequest, position by position.
type ReadResult struct{ Parts []PartitionRead }

// OffsetKind says what an OffsetQuery asks for.
type OffsetKind uint8

const (
	Earliest OffsetKind = 1
	Latest   OffsetKind = 2
	AtTime   OffsetKind = 3 // first message with createdAt >= Time
	OfID     OffsetKind = 4 // by transaction id or message id
)

// OffsetQuery asks for one position of one partition.
type OffsetQuery struct {
	Queue, Partition string
	Kind             OffsetKind
	Time             format.Wall
	ID               string
}

// OffsetAnswer answers one OffsetQuery. Found is false when nothing is that late or no such id.
type OffsetAnswer struct {
	Err        *Error
	Found      bool
	Offset     format.Offset
	CreatedAt  format.Wall
	Start, End format.Offset
}

// PartitionRef names a partition.
type PartitionRef struct{ Queue, Partition string }

// Change tells what a watched partition looks like now.
type Change struct {
	PartitionRef
	Exists     bool
	Start, End format.Offset
}

// Watcher is a set of watched partitions (S-fetch-5, fetch sessions). Safe for one goroutine.
type Watcher interface {
	Add(...PartitionRef)
	Remove(...PartitionRef)
	// Next blocks until at least one watched partition changed, or ctx ends.
	Next(ctx context.Context) ([]Change, error)
	Close()
}
