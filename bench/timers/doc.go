// Command timers measures what timers cost that wait, and how late they are when many come due at once: it starts the real
// binary, schedules --pending timers for a far time over HTTP, then --due timers for one and the same second, and reads
// what fires.
//
//	go run ./bench/timers [--pending 1000000] [--due 100000] [--connections 8] [--lead 30s] [--data DIR] [--json]
//
// It prints the rate of both schedules; the resident memory before and after and the difference per pending timer; how late
// the due ones fired, by the createdAt that the node gave their messages, and how late they were delivered to one consumer,
// by this program's clock; and how many fired a second. A timer that fires early, twice, or not within --patience is a
// violation.
//
// Conditions: calls of 256 ops, each flushed before it is answered; payloads of 16 bytes; the due ones lie in --partitions
// partitions of one queue.
package main
