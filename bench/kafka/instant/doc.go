// Command instant judges the seam between native and Kafka clients: round by round a queue that is not there yet gets its first
// message over HTTP in the very moment in which a Kafka consumer subscribes to it, and the record has to be seen within a second.
//
//	go run ./bench/kafka/instant [--rounds 200] [--within 1s]
//	go run ./bench/kafka/instant --http HOST:PORT --kafka HOST:PORT
//
// The rounds are run with a consumer that reads by itself, and as many again with a consumer group (--alone=false and --group=false
// leave one of them out). Without addresses a node of this tree is built and started; one that runs needs
// --kafka-group-join-delay 0s, since a group waits for further members otherwise. The addresses may be those of two nodes of a cluster.
//
// It prints rounds, percentiles and the slowest rounds of each kind, and ends with 1 when a record came later, or not at all, and
// with 2 when nothing could be asked.
package main
