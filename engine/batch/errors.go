package batch

import (
	"errors"
	"fmt"
)

// Reason is why bytes were refused, as far as callers answer differently.
type Reason uint8

const (
	// Corrupt: not what a client wrote, or not decodable; a repeat may help.
	Corrupt Reason = 1
	// TooLarge: more bytes or records than Limits allow, once decompressed.
	TooLarge Reason = 2
	// Invalid: whole but contradicts itself, as a count that is not that of the records.
	Invalid Reason = 3
	// BadMagic: another format version.
	BadMagic Reason = 4
	// BadCodec: a compression that nobody knows.
	BadCodec Reason = 5
)

// Error says what is wrong with a batch.
type Error struct {
	Reason Reason
	Detail string
	// Record is the number of the record within the batch that is wrong, -1 when it is the batch.
	Record int
}

func (e *Error) Error() string {
	if e.Record >= 0 {
		return fmt.Sprintf("record %d: %s", e.Record, e.Detail)
	}
	return e.Detail
}

// ReasonOf is the reason of an error of this package, Corrupt of any other.
func ReasonOf(err error) Reason {
	var e *Error
	if errors.As(err, &e) {
		return e.Reason
	}
	return Corrupt
}

func refuse(r Reason, f string, args ...any) *Error {
	return &Error{Reason: r, Detail: fmt.Sprintf(f, args...), Record: -1}
}

func corrupt(f string, args ...any) *Error { return refuse(Corrupt, f, args...) }

func tooLarge(limit int) *Error {
	return refuse(TooLarge, "records take more than %d bytes decompressed", limit)
}

func tooMany(count int32, lim Limits) *Error {
	return refuse(TooLarge, "%d records in one batch, at most %d", count, lim.Records)
}
