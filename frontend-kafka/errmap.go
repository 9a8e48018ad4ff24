package frontendkafka

import (
	"context"
	"errors"

	"github.com/twmb/franz-go/pkg/kerr"

	"queen/engine"
)

// codes maps every code of the engine. Where an answer has a closed set of codes, its handler maps those that are
// outside of it. Clients repeat 3, 6, 7, 19, 56 and 89 by themselves; 7 is the only one of which something may have landed.
var codes = map[engine.ErrorCode]*kerr.Error{
	engine.CodeBadRequest:       kerr.InvalidRequest,
	engine.CodeNameTooLong:      kerr.InvalidTopicException,
	engine.CodeTooLarge:         kerr.MessageTooLarge,
	engine.CodeUnknownQueue:     kerr.UnknownTopicOrPartition,
	engine.CodeUnknownPartition: kerr.UnknownTopicOrPartition,
	engine.CodeUnknownGroup:     kerr.GroupIDNotFound,
	engine.CodeNotFound:         kerr.ResourceNotFound,
	engine.CodeOffsetOutOfRange: kerr.OffsetOutOfRange,
	engine.CodeGone:             kerr.UnknownTopicOrPartition,
	engine.CodeNotBuilt:         kerr.UnsupportedVersion,
	engine.CodeEncryption:       kerr.PolicyViolation,
	engine.CodeQuotaExceeded:    kerr.PolicyViolation,
	engine.CodeRateLimited:      kerr.ThrottlingQuotaExceeded,
	engine.CodeRolledBack:       kerr.OperationNotAttempted,

	engine.CodeOutOfSequence:     kerr.OutOfOrderSequenceNumber,
	engine.CodeDuplicateSequence: kerr.DuplicateSequenceNumber,
	engine.CodeProducerEpoch:     kerr.InvalidProducerEpoch,
	engine.CodeProducerFenced:    kerr.ProducerFenced,
	engine.CodeProducerMapping:   kerr.InvalidProducerIDMapping,
	engine.CodeTxnState:          kerr.InvalidTxnState,
	engine.CodeTxnBusy:           kerr.ConcurrentTransactions,

	// Nothing was written and trying again may help.
	engine.CodeQueueFull:   kerr.NotEnoughReplicas,
	engine.CodePaused:      kerr.NotEnoughReplicas,
	engine.CodeOverloaded:  kerr.NotEnoughReplicas,
	engine.CodeRetry:       kerr.NotEnoughReplicas,
	engine.CodeStorageFull: kerr.KafkaStorageError,
	engine.CodeNoLeader:    kerr.NotLeaderForPartition,
	engine.CodeClosed:      kerr.NotLeaderForPartition,

	engine.CodeTimeout:        kerr.RequestTimedOut,
	engine.CodeOutcomeUnknown: kerr.RequestTimedOut,
	engine.CodeCorrupt:        kerr.CorruptMessage,
	engine.CodeInternal:       kerr.UnknownServerError,

	// No call of this frontend meets these: they are about leases, keys and what only native transactions hold.
	engine.CodeBadStatus:        kerr.InvalidRequest,
	engine.CodeLeaseInvalid:     kerr.InvalidRequest,
	engine.CodeGroupHeld:        kerr.InvalidRequest,
	engine.CodeNotLeased:        kerr.InvalidRequest,
	engine.CodeUnresolvable:     kerr.InvalidRequest,
	engine.CodeAlreadyCommitted: kerr.InvalidRequest,
	engine.CodeIdempotencyClash: kerr.InvalidRequest,
	engine.CodeSnapshotExpired:  kerr.InvalidRequest,
	engine.CodeRejectedAck:      kerr.InvalidRequest,
	engine.CodeDuplicate:        kerr.InvalidRequest,
	engine.CodeKVPrecondition:   kerr.InvalidRequest,
}

// codeOf is the code of an error; 0 of none.
func codeOf(err error) int16 {
	var e *engine.Error
	var k *kerr.Error
	switch {
	case err == nil:
		return 0
	case errors.As(err, &e):
		if e == nil { // a nil *engine.Error in an error
			return 0
		}
		if errors.Is(e, engine.ErrStateLimit) { // no message is too large: clients would split their batches
			return kerr.PolicyViolation.Code
		}
		if k, ok := codes[e.Code]; ok {
			return k.Code
		}
	case errors.As(err, &k):
		return k.Code
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return kerr.RequestTimedOut.Code
	}
	return kerr.UnknownServerError.Code
}

// controllerCode is the code of an error about what the controller of Kafka's clusters does. Clients take NOT_CONTROLLER for a
// reason to ask who it is and to repeat the call; NOT_LEADER_OR_FOLLOWER is about partitions, and fails an administrator's call.
func controllerCode(err error) int16 {
	var e *engine.Error
	if errors.As(err, &e) && e != nil && (e.Code == engine.CodeNoLeader || e.Code == engine.CodeClosed) {
		return kerr.NotController.Code
	}
	return codeOf(err)
}

// textOf is the sentence of an error for a person; nil of none.
func textOf(err error) *string {
	var e *engine.Error
	var s string
	switch {
	case err == nil:
		return nil
	case errors.As(err, &e):
		if e == nil {
			return nil
		}
		if s = e.Message; s == "" {
			s = string(e.Code)
		}
	default:
		s = err.Error()
	}
	return &s
}

// fault is a code with a sentence of its own.
type fault struct {
	code *kerr.Error
	text string
}

func (f *fault) Error() string { return f.text }
func (f *fault) Unwrap() error { return f.code }
