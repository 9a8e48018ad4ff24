// Package load drives a running node over HTTP, or whatever else is a Target: producers that push batches over many
// partitions, consumers that pop and ack them, and a judge of what comes out.
//
// Each partition belongs to one producer, which numbers its messages; the queue is fresh. So the number in a delivered
// message has to be its offset, and the offsets of a partition have to arrive one after another: a gap, a repeat without a
// lost ack, or a swap is a violation.
//
// With a rate the load is open: every push has a moment at which it is meant to leave, and latency counts from there, also
// when the connection was still busy. Without one every producer sends its next batch when the last one is answered, and
// waits when too much lies unconsumed.
//
// Read first: Options, Run, Result, Target.
package load
