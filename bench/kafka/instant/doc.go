// Command instant judges the seam between native and Kafka clients: round by round a queue that is not there yet gets its first
// message over HTTP in the very moment in which a Kafka consumer subscribes to it, and the record has to be seen within a second.
//
//	go run ./bench/kafka/instant --http HOST:PORT --kafka HOST:PORT [--rounds 200] [--within 1s] [--group]
//
// It prints the slowest rounds and a summary, and ends with 1 when a record came later, or not at all.
package main
