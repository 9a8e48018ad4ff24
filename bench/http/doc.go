// Command http is the load generator: it drives a running node over HTTP on keep-alive connections, judges order, gaps and
// repeats of what it consumes, and prints rates and latencies. The queue it uses must not exist.
//
//	go run ./bench/http (--addr HOST:PORT | --ready-file PATH) [--data DIR] [flags]
//
// Three modes:
//
//   - the load (default): producers push batches over --partitions, consumers pop and ack each message; as fast as it
//     goes, or open-loop with --rate, where latency counts from the moment at which a push was meant to leave. A line
//     per 10-second window, and the sums of the counted time.
//   - --single: one synchronous push of --single-size bytes at a time.
//   - --overload: measures the capacity, then offers twice that, and prints what was accepted, what was consumed
//     meanwhile, and their ratio.
//
// With --ready-file the node's process is known, and its processor time, memory and descriptors are printed too; with
// --data the flushes of its disk.
package main
