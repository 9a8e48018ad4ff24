package ephemeral

import "time"

// Reason classifies a refusal. The set is closed.
type Reason uint8

const (
	// BadRequest: a name, an option or a number is out of its bounds; Field and Limit say which.
	BadRequest Reason = 1
	// QueueFull: the queue's bounds have no room and its policy is Reject.
	QueueFull Reason = 2
	// NoRoom: the memory of the node for ephemeral queues is used up.
	NoRoom Reason = 3
	// Disabled: an operator switched ephemeral queues off.
	Disabled Reason = 4
	// NotFound: there is no such queue.
	NotFound Reason = 5
	// Closed: the node is shutting down.
	Closed Reason = 6
)

// Error is every error of this package. Nothing was changed when one is returned.
type Error struct {
	Reason Reason
	// Field names the offending input, Limit its bound; empty when they do not apply.
	Field, Limit string
	Message      string
	// RetryAfter is how long to wait before trying again; 0 when that does not help.
	RetryAfter time.Duration
}

func (e *Error) Error() string { return "ephemeral: " + e.Message }

func bad(field, limit, message string) *Error {
	return &Error{Reason: BadRequest, Field: field, Limit: limit, Message: message}
}
