package replication

import (
	"context"
	"errors"
	"net"
	"strings"

	"github.com/lni/dragonboat/v4"

	"queen/engine"
)

// unsure is why it is not known whether what was asked for was done, or why it was done in part.
type unsure struct{ why error }

// unsureWords begin its words, which tell it apart on the wire as well, also behind those of who passed it on.
const unsureWords = "it may have been done, or is done in part, and can be asked for again: "

// Error implements error.
func (u unsure) Error() string { return unsureWords + u.why.Error() }

// Unwrap is why.
func (u unsure) Unwrap() error { return u.why }

// MayBeDone reports that a change, which came to err here or at the node that led, may have been made all the same.
func MayBeDone(err error) bool { return err != nil && strings.Contains(err.Error(), unsureWords) }

// changeOutcome is what a change of the membership came to. What the library has taken and does not follow to its end may be committed yet.
func changeOutcome(err error) error {
	for _, open := range []error{dragonboat.ErrTimeout, dragonboat.ErrCanceled, dragonboat.ErrAborted, dragonboat.ErrShardClosed, dragonboat.ErrClosed,
		context.DeadlineExceeded, context.Canceled} {
		if errors.Is(err, open) {
			return unsure{err}
		}
	}
	return err
}

// askedOutcome is what a question to another node came to. One that was not reached has done nothing, one that answers says so.
func askedOutcome(err error) error {
	var op *net.OpError
	if err == nil || errors.As(err, new(refusal)) || errors.As(err, &op) && op.Op == "dial" {
		return err
	}
	return unsure{err}
}

// rowOutcome is what a change of a row came to.
func rowOutcome(err error) error {
	var told *engine.Error
	if errors.As(err, &told) && told.Outcome == engine.OutcomeUnknown {
		return unsure{err}
	}
	return err
}
