// Package kafkaload drives any broker that speaks Kafka with franz-go: producers that write batches to random partitions,
// acks=all, idempotent, lz4, and consumers that read them, assigned directly or as a consumer group; and a judge of what
// comes out.
//
// The topic is fresh and each partition belongs to one producer, which numbers its records. So the number in a delivered record
// has to be its offset, and the offsets of a partition have to arrive one after another: a gap, a repeat or a swap is a violation.
// A group may hand a record out again after a rebalance; repeats are only counted there.
//
// With a rate the load is open: every batch has a moment at which it is meant to leave, and latency counts from there, also
// when too much was in flight, unless Options.FromSend says otherwise. Without one a producer makes its next batch as soon as
// fewer than Options.InFlight records are unanswered, and waits when too much lies unconsumed.
//
// Read first: Options, Run, Result.
package kafkaload
