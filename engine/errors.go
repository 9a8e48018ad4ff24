package engine

import (
	"errors"
	"time"

	"queen/engine/format"
)

// ErrorCode classifies an *Error; each frontend maps every one of them in one file.
type ErrorCode string

// Codes. The first group is the caller's fault, the second the environment's, the third ours.
const (
	CodeBadRequest       ErrorCode = "bad_request"
	CodeNameTooLong      ErrorCode = "name_too_long"
	CodeTooLarge         ErrorCode = "too_large"
	CodeUnknownQueue     ErrorCode = "unknown_queue"
	CodeUnknownPartition ErrorCode = "unknown_partition"
	CodeUnknownGroup     ErrorCode = "unknown_group"
	CodeNotFound         ErrorCode = "not_found"
	CodeOffsetOutOfRange ErrorCode = "offset_out_of_range"
	CodeBadStatus        ErrorCode = "bad_status"
	CodeLeaseInvalid     ErrorCode = "lease_invalid"
	CodeNotLeased        ErrorCode = "not_leased"
	CodeUnresolvable     ErrorCode = "unresolvable"
	CodeAlreadyCommitted ErrorCode = "already_committed"
	CodeGone             ErrorCode = "gone"
	CodeNotBuilt         ErrorCode = "not_built"
	CodeEncryption       ErrorCode = "encryption_unavailable"
	CodeIdempotencyClash ErrorCode = "idempotency_mismatch"
	// Reasons for which an Atomic batch is rolled back, besides those above.
	CodeRejectedAck    ErrorCode = "rejected_ack"
	CodeDuplicate      ErrorCode = "duplicate"
	CodeKVPrecondition ErrorCode = "kv_precondition"
	// CodeRolledBack: an op of a batch that did not take place because of another one.
	CodeRolledBack ErrorCode = "rolled_back"
	// CodeGroupHeld: a member of the consumer group that came by another protocol holds the partition.
	CodeGroupHeld ErrorCode = "group_held"
	// CodeSnapshotExpired: the moment that a token names can not be told any more, or not by this node.
	CodeSnapshotExpired ErrorCode = "snapshot_expired"
	// CodeQueueFull: the queue's bounds have no room. CodeQuotaExceeded, CodeRateLimited: the tenant's plan, or its share of
	// what all tenants have together, has no room, or the plan a lower rate.
	CodeQueueFull     ErrorCode = "queue_full"
	CodeQuotaExceeded ErrorCode = "quota_exceeded"
	CodeRateLimited   ErrorCode = "rate_limited"
	// CodePaused: an operator switched this family off.
	CodePaused ErrorCode = "paused"
	// What producers and transactions of Records are refused for; Kafka's errors 45, 46, 47, 90, 49, 48, 51.
	CodeOutOfSequence     ErrorCode = "out_of_sequence"
	CodeDuplicateSequence ErrorCode = "duplicate_sequence"
	CodeProducerEpoch     ErrorCode = "producer_epoch"
	CodeProducerFenced    ErrorCode = "producer_fenced"
	CodeProducerMapping   ErrorCode = "producer_mapping"
	CodeTxnState          ErrorCode = "txn_state"
	CodeTxnBusy           ErrorCode = "txn_busy"

	CodeOverloaded     ErrorCode = "overloaded"
	CodeStorageFull    ErrorCode = "storage_full"
	CodeTimeout        ErrorCode = "timeout"
	CodeOutcomeUnknown ErrorCode = "outcome_unknown"
	CodeNoLeader       ErrorCode = "no_leader"
	CodeRetry          ErrorCode = "retry"
	CodeClosed         ErrorCode = "closed"
	CodeCorrupt        ErrorCode = "corrupt"

	CodeInternal ErrorCode = "internal"
)

// ErrStateLimit is the cause of a CodeTooLarge that says nothing of the call's own size: there is as much of something as there
// may be, and a smaller call is refused as well.
var ErrStateLimit = errors.New("there is no room for more of it")

// Codes lists every code, for the frontends' tests.
var Codes = []ErrorCode{
	CodeBadRequest, CodeNameTooLong, CodeTooLarge, CodeUnknownQueue, CodeUnknownPartition,
	CodeUnknownGroup, CodeNotFound, CodeOffsetOutOfRange, CodeBadStatus, CodeLeaseInvalid,
	CodeNotLeased, CodeUnresolvable, CodeAlreadyCommitted, CodeGone, CodeNotBuilt, CodeEncryption,
	CodeIdempotencyClash, CodeRejectedAck, CodeDuplicate, CodeKVPrecondition, CodeRolledBack, CodePaused,
	CodeGroupHeld, CodeSnapshotExpired, CodeQueueFull, CodeQuotaExceeded, CodeRateLimited,
	CodeOutOfSequence, CodeDuplicateSequence, CodeProducerEpoch, CodeProducerFenced, CodeProducerMapping, CodeTxnState, CodeTxnBusy,
	CodeOverloaded, CodeStorageFull, CodeTimeout, CodeOutcomeUnknown,
	CodeNoLeader, CodeRetry, CodeClosed, CodeCorrupt, CodeInternal,
}

// Outcome says whether a failed call may have changed anything.
type Outcome uint8

const (
	OutcomeNone    Outcome = 0 // nothing was written
	OutcomeUnknown Outcome = 1 // it may have been applied
	OutcomeApplied Outcome = 2
)

// Error is every error of the engine's interface.
type Error struct {
	Code    ErrorCode
	Outcome Outcome
	// RetryAfter is how long to wait before trying again; 0 when retrying does not help.
	RetryAfter time.Duration
	// Field names the offending input, Limit its bound; both empty when they do not apply.
	Field, Limit string
	// Message is one sentence for a person.
	Message string
	// Cause is the underlying error, if any.
	Cause error
	// Failed says which op rolled an Atomic batch back; nil for other errors.
	Failed *FailedOp
}

// FailedOp is the op that rolled a batch back.
type FailedOp struct {
	Op int // its number in Batch.Ops
	// KV is what the op lost to (CodeKVPrecondition); Offset the original of CodeDuplicate.
	KV     KVItem
	Offset format.Offset
}

// Error is code and message.
func (e *Error) Error() string {
	s := string(e.Code)
	if e.Message != "" {
		s += ": " + e.Message
	}
	if e.Cause != nil {
		s += ": " + e.Cause.Error()
	}
	return s
}

// Unwrap is the cause.
func (e *Error) Unwrap() error { return e.Cause }

// Is matches errors of the same code, so that errors.Is(err, &Error{Code: CodeTimeout}) works.
func (e *Error) Is(target error) bool {
	t, ok := target.(*Error)
	return ok && t.Code == e.Code
}
