// Command pebble is the in-process peer of bench/inproc: the same load put into an LSM store. Batches of --batch values of
// --size bytes go under keys made of one of --partitions names, uniformly random, and the number of the message in it;
// every batch is synced before the next one of its producer. There is no transaction id, no dedup and no reader.
//
//	cd bench/peers && go build -o ../out/pebble ./pebble
//	bench/out/pebble [--dir DIR] [--producers N] [--warmup 20s] [--duration 60s] [--json]
//
// It prints messages a second, the disk's own count of flushes per message, processor time per message, heap and RSS.
package main
