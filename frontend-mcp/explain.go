package frontendmcp

import (
	"fmt"

	"queen/engine"
)

// explanations say of every code of the engine what it means and what helps.
var explanations = map[engine.ErrorCode]Explanation{
	engine.CodeBadRequest: {Meaning: "an argument is wrong",
		Remedy: "field names it: correct it and call again"},
	engine.CodeNameTooLong: {Meaning: "a name is longer than its limit",
		Remedy: "use a shorter name"},
	engine.CodeTooLarge: {Meaning: "the message, the request or a value is larger than its limit, or there is as much of something as there may be",
		Remedy: "send less at a time, or raise maxSize or http.max.body; where field names neither, limit is fixed"},
	engine.CodeUnknownQueue: {Meaning: "there is no such queue",
		Remedy: "list queues: the name is case-sensitive; a push or a configure call creates one"},
	engine.CodeUnknownPartition: {Meaning: "there is no such partition in the queue",
		Remedy: "list the partitions of the queue; a push creates one"},
	engine.CodeUnknownGroup: {Meaning: "the consumer group is not registered on the queue",
		Remedy: "list groups; the first pop of a group registers it"},
	engine.CodeNotFound: {Meaning: "there is nothing by that name or id",
		Remedy: "it may have been removed, or its retention may be over"},
	engine.CodeOffsetOutOfRange: {Meaning: "the offset is outside of what the partition retains",
		Remedy: "read between low_watermark and high_watermark"},
	engine.CodeBadStatus: {Meaning: "the status of an ack is none that exists",
		Remedy: "use completed, failed, retry or dlq"},
	engine.CodeLeaseInvalid: {Meaning: "the lease is over or was never this caller's",
		Remedy: "the message will be handed out again: pop it anew, finish within leaseTime or extend the lease"},
	engine.CodeGroupHeld: {Meaning: "a live Kafka member of the consumer group holds the partition",
		Remedy: "use another consumer group, end the Kafka member, or allow it (kafka.shared.groups)"},
	engine.CodeNotLeased: {Meaning: "the consumer group holds no lease on the partition",
		Remedy: "pop before the ack"},
	engine.CodeUnresolvable: {Meaning: "the id of the ack names no message that was handed out",
		Remedy: "ack with the transactionId and partitionId of the delivery"},
	engine.CodeAlreadyCommitted: {Meaning: "the cursor is past the message already",
		Remedy: "nothing needs to be done"},
	engine.CodeGone: {Meaning: "what the call names is no more",
		Remedy: "retention or a delete removed it"},
	engine.CodeSnapshotExpired: {Meaning: "the moment that the token of a listing names can not be told any more, or not by this node",
		Remedy: "begin the listing again, with a new snapshot, and send all of its pages to one node"},
	engine.CodeNotBuilt: {Meaning: "this part is not built in this version",
		Remedy: "the documentation says what is"},
	engine.CodeEncryption: {Meaning: "the queue encrypts and the node has no usable key",
		Remedy: "configure encryption.key or encryption.keyring"},
	engine.CodeIdempotencyClash: {Meaning: "the Idempotency-Key was used for another request",
		Remedy: "use a new key for a new request"},
	engine.CodeRejectedAck: {Meaning: "an ack of the transaction was refused, so nothing of it took place",
		Remedy: "pop again: the lease is over or the message is settled"},
	engine.CodeDuplicate: {Meaning: "a message of the transaction is there already, so nothing of it took place",
		Remedy: "the earlier attempt succeeded: treat it as done"},
	engine.CodeKVPrecondition: {Meaning: "a key is not at the expected version, so nothing took place",
		Remedy: "read the key again and decide anew"},
	engine.CodeRolledBack: {Meaning: "another operation of the transaction was refused",
		Remedy: "look at the operation that failed"},
	engine.CodePaused: {Meaning: "an operator has switched this off",
		Remedy: "ask the operator, or switch it on again"},
	engine.CodeQueueFull: {Meaning: "the bounds of the queue have no room: maxSize of a partition, or those of an ephemeral queue",
		Remedy: "consume, or raise the bound"},
	engine.CodeQuotaExceeded: {Meaning: "the tenant's plan has no room for what field names; with field partitions it is the tenant's share of " +
		"the partitions that transactions of all tenants may be in at a time",
		Remedy: "delete what nobody needs, or ask the operator for a larger plan; with field partitions end transactions that are open, or " +
			"keep what was aborted for a shorter time"},
	engine.CodeRateLimited: {Meaning: "a rate is used up: the tenant's plan has one each of requests, messages, kv_write, kv_read and " +
		fmt.Sprintf("ephemeral, and over MCP one caller may call %d times a second and have %d calls run at a time", callsPerSecond, maxConcurrent),
		Remedy: "wait retry_after_ms and call again; if it keeps coming, ask for more at a time, or the operator for a larger plan"},
	engine.CodeOutOfSequence: {Meaning: "a producer's batch does not follow the one before",
		Remedy: "the client must reset its producer"},
	engine.CodeDuplicateSequence: {Meaning: "a producer's batch was written before",
		Remedy: "nothing needs to be done"},
	engine.CodeProducerEpoch: {Meaning: "the producer's epoch is not the current one",
		Remedy: "the client must start its producer anew"},
	engine.CodeProducerFenced: {Meaning: "another producer took over the transactional id",
		Remedy: "two instances share a transactional.id: give each its own"},
	engine.CodeProducerMapping: {Meaning: "the producer id is not known",
		Remedy: "the client must start its producer anew"},
	engine.CodeTxnState: {Meaning: "the transaction is not in a state that allows this",
		Remedy: "abort it and begin again"},
	engine.CodeTxnBusy: {Meaning: "the transaction is being ended",
		Remedy: "try again in a moment"},
	engine.CodeOverloaded: {Meaning: "the node has no room for more for the moment: of writes under way, of memory for ephemeral queues, of jobs " +
		"that move dead letters, or because the index of older ids lags behind",
		Remedy: "wait retry_after_ms and send again with the same transaction ids"},
	engine.CodeStorageFull: {Meaning: "the disk is fuller than disk.high, or has no room for the next files of the log",
		Remedy: "free space or shorten retention; writes return below disk.low; acks and deletes still work"},
	engine.CodeTimeout: {Meaning: "the call took too long",
		Remedy: "ask for less, or try again"},
	engine.CodeOutcomeUnknown: {Meaning: "the call may have been carried out",
		Remedy: "send it again with the same ids: what took place is recognised"},
	engine.CodeNoLeader: {Meaning: "the cluster has no leader at the moment",
		Remedy: "try again; look at cluster_status"},
	engine.CodeRetry: {Meaning: "the node could not serve the call just now",
		Remedy: "try again"},
	engine.CodeClosed: {Meaning: "the node is stopping",
		Remedy: "try again on another node or after the restart"},
	engine.CodeCorrupt: {Meaning: "stored bytes do not match their sum",
		Remedy: "look at the node's log; the recovery page says what to do"},
	engine.CodeInternal: {Meaning: "a fault of the node",
		Remedy: "look at the node's log"},
}

// explain finds the explanation of a code.
func explain(code engine.ErrorCode) Explanation {
	x, ok := explanations[code]
	if !ok {
		x = explanations[engine.CodeInternal]
	}
	x.Code = string(code)
	return x
}
