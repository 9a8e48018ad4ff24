// Command partitions measures what partitions cost that do nothing: it creates --first and then --more of them by pushes
// over HTTP to the real binary, one consumer group reads every one to its end, and then they are idle.
//
//	go run ./bench/partitions [--first 100000] [--more 1000000] [--log-bytes 10737418240] [--data DIR] [--json]
//
// It prints the resident memory at both points and the difference per partition; the size of the checkpoint; the latency
// of a push, of the pop that finds its message among all partitions, and of the ack, against the same with 100 partitions
// on a fresh node; and how long the node takes to be ready again after SIGKILL: right after writing, and idle.
//
// Conditions: names of 20 bytes, a dedup window that has passed, and at both points so many bytes in another queue that
// what the node keeps of recent messages is at its bound. With --log-bytes so many bytes are written before the restarts.
package main
