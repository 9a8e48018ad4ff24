// Command kafka measures brokers that speak Kafka with one and the same loader and prints one table, with the ratios between them.
//
//	go run ./bench/kafka --partitions 200,1000,10000 --targets queen,ceiling,kafka,kafka-flush [--duration 60s --warmup 20s]
//	go run ./bench/kafka --partitions 100000 --targets queen
//	go run ./bench/kafka --overload [--factor 2]
//	go run ./bench/kafka --soak 10m [--rate MSG/S]
//
// Every cell has a fresh broker on a fresh directory, on loopback:
//
//	queen        a node of this tree, built into --out
//	ceiling      a process that only answers (bench/internal/ceiling): what the loader itself can do
//	kafka        Apache Kafka 4.x, one node, KRaft, its own defaults; jars come through Maven by java/pom.xml into --out
//	kafka-flush  the same with log.flush.interval.messages=1: a flush before every answer, as the node does
//	running      whatever listens at --addr
//
// The loader (bench/internal/kafkaload) is franz-go: acks=all, idempotent, lz4, 5 ms linger, batches of 100 x 256 B to
// one random partition at a time; consumers divide the partitions, or join a --group. Without --rate it goes as fast as it can
// with a bounded number of records in flight. Order, gaps and repeats are judged everywhere.
//
// A cell that can not be measured has its error in the table. --overload offers a multiple of the capacity measured before, and judges
// how much of what was accepted the consumers got, over the whole time and in the worst window, how much of what they get at the
// capacity, and how old a record is when they get it. --soak judges the produce p99 of every window, and the growth of memory a minute
// from the end of the warm-up on: by then the node's memory of recent messages (tail.bytes) has to be full, which a low --rate takes
// minutes for. The exit code is 1 when a promise was broken or a number that is held to was not reached, 2 when our own node could not
// be measured, or took all that was to be too much. Other brokers are held to order, gaps and repeats alone.
//
// Beside the program stand others that judge the Kafka port: java, kcat, bridge, compare, instant, suites.
package main
