package ephemeral

import "time"

// Reason classifies a refusal. The set is closed.
type Reason uint8

const (
	// BadRequest: a name, an option or a number is out of its bounds; Field and Limit say which.
	BadRequest Reason = 1
	// QueueFull: the queue's bounds have no room and its policy is Reject.
	QueueFull Reason = 2
	// Denied: the tenant's plan has no ephemeral queues.
	Denied Reason = 3
	// QuotaExceeded: the tenant's plan has no room for the bytes or the queue.
	QuotaExceeded Reason = 4
	// RateLimited: the tenant pushes faster than its plan allows.
	RateLimited Reason = 5
	// NoRoom: the memory of the node for ephemeral queues is used up.
	NoRoom Reason = 6
	// Disabled: an operator switched ephemeral queues off.
	Disabled Reason = 7
	// NotFound: there is no such queue.
	NotFound Reason = 8
	// Closed: the node is shutting down.
	Closed Reason = 9
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
