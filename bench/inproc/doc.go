// Command inproc measures the engine without a network: producers call engine.Do in this process, on the real file system,
// durable, with dedup on and a transaction id of 36 bytes in every message.
//
//	go run ./bench/inproc [--dir DIR] [--producers N] [--warmup 20s] [--duration 60s] [--json]
//	go run ./bench/inproc --partitions 100,10000,1000000 --consumers 4
//
// Without consumers it measures pushes alone: batches of --batch messages of --size bytes over --partitions partitions,
// uniformly random. In the same run it measures the floor of the disk for writes of one batch, and, if the peer of
// bench/peers is built at --pebble, pebble under the same load, and prints the ratios.
//
// With consumers the messages pushed are popped (partitions=64, batch=1000) and acked one by one as well, and the rates
// count all three; several numbers of partitions give the ratio of the last to the first.
//
// It prints messages a second, the disk's own count of flushes per message and the engine's, processor time per message
// (engine and load are one process), heap and RSS.
package main
