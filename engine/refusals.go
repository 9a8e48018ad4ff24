package engine

import (
	"context"
	"errors"
	"time"

	"queen/engine/format"
)

func errClosed() *Error {
	return &Error{Code: CodeClosed, RetryAfter: time.Second, Message: "the node is shutting down"}
}

func errBad(field, limit, message string) *Error {
	return &Error{Code: CodeBadRequest, Field: field, Limit: limit, Message: message}
}

// errContext turns a finished context into the caller's error.
func errContext(ctx context.Context, outcome Outcome) *Error {
	message := "the call's deadline passed"
	if errors.Is(ctx.Err(), context.Canceled) {
		message = "the caller went away"
	}
	return &Error{Code: CodeTimeout, Outcome: outcome, RetryAfter: time.Second, Message: message,
		Cause: ctx.Err()}
}

// errOfCode turns a verdict of apply into the caller's error; nil for CodeOK.
func errOfCode(c format.Code) *Error {
	if c == format.CodeOK {
		return nil // before anything is allocated: every message asks
	}
	e := &Error{}
	switch c {
	case format.CodeMoved, format.CodeStaleEvidence, format.CodeNeedEvidence:
		e.Code, e.RetryAfter, e.Message = CodeRetry, time.Second, "the state moved on while the call was under way"
	case format.CodeNotBuilt:
		e.Code, e.Message = CodeNotBuilt, "this feature is not built yet"
	case format.CodeUnknownPartition:
		e.Code, e.Message = CodeUnknownPartition, "no such partition"
	case format.CodeUnknownQueue:
		e.Code, e.Message = CodeUnknownQueue, "no such queue"
	case format.CodeUnknownGroup:
		e.Code, e.Message = CodeUnknownGroup, "consumer group not found"
	case format.CodeNotLeased:
		e.Code, e.Message = CodeNotLeased, "consumer not found: the group never popped this partition"
	case format.CodeLeaseInvalid:
		e.Code, e.Message = CodeLeaseInvalid, "invalid or expired lease"
	case format.CodePartial:
		e.Code, e.Message = CodeLeaseInvalid, "part of the lease is acked already"
	case format.CodeGone:
		e.Code, e.Message = CodeGone, "it is not there any more"
	case format.CodeEncryption:
		e.Code, e.Message = CodeEncryption, "the queue wants encryption and no key is usable"
	case format.CodeUnresolvable:
		e.Code, e.Message = CodeUnresolvable, "unresolvable: no such message in what was leased"
	case format.CodeCommitted:
		e.Code, e.Message = CodeAlreadyCommitted, "already committed: the cursor has passed this message"
	case format.CodeLimit:
		e.Code, e.Message, e.Cause = CodeTooLarge, "a limit of the state is reached", ErrStateLimit
	default:
		return errOfProducer(c)
	}
	return e
}

// errOfProducer is errOfCode for verdicts about record batches, their producers and transactions.
func errOfProducer(c format.Code) *Error {
	e := &Error{}
	switch c {
	case format.CodeFull:
		e.Code, e.Field, e.Message = CodeQueueFull, "maxSize", "the partition has no room for the batch"
	case format.CodeOutOfSequence:
		e.Code, e.Message = CodeOutOfSequence, "batches of the producer before this one are missing"
	case format.CodeDuplicateSequence:
		e.Code, e.Message = CodeDuplicateSequence, "the batch was stored before, too long ago to say where"
	case format.CodeProducerEpoch:
		e.Code, e.Message = CodeProducerEpoch, "the producer has a newer epoch"
	case format.CodeProducerFenced:
		e.Code, e.Message = CodeProducerFenced, "another producer took over the transactional id"
	case format.CodeProducerMapping:
		e.Code, e.Message = CodeProducerMapping, "the transactional id is not bound to that producer"
	case format.CodeTxnState:
		e.Code, e.Message = CodeTxnState, "the transaction is not in a state for that"
	default:
		e.Code, e.Message = CodeInternal, "apply refused the command"
	}
	return e
}

// groupName is the consumer group a call means: naming none means queue mode (S-id-4).
func groupName(group string) string {
	if group == "" {
		return format.QueueMode
	}
	return group
}

// checkNames holds a call to the name budget (S-id-6).
func checkNames(queue, other, field string) *Error {
	if format.TenantNameBytes+len(queue)+len(other) <= format.NameBudget {
		return nil
	}
	return &Error{Code: CodeNameTooLong, Field: field, Limit: "447 bytes with tenant (36) and queue",
		Message: "tenant, queue and the longer of partition and group exceed the name budget"}
}
