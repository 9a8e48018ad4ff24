// Command floor measures what the disk below a directory allows: durable writes (O_DIRECT with a flush each, or the next
// best way, as the node would take it) of 4 KiB, 64 KiB and 1 MiB into a file that was zeroed before, one at a time.
//
//	go run ./bench/floor [--dir DIR] [--duration 2s] [--sizes 4096,65536,1048576] [--json]
//
// It prints writes and MB a second, p50 and p99, and the disk's own count of flushes per write.
package main
