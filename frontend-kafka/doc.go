// Package frontendkafka serves the Kafka wire protocol over engine.Engine, so that Kafka clients produce to and consume
// from the same queues as everybody else: a topic is a queue, partition n of a topic is the queue's partition "n". One topic
// is none, see internal_topic.go.
//
// A connection is two goroutines: one reads frames, one handles them in order and writes the answers, so that what a
// client sent first is answered first and a hang-up is seen while a call waits. What is served is one table (table.go);
// each API key has a file named by its number (03_metadata.go). Nothing is cached: every answer comes from the engine's
// applied state, so what any client was told exists is visible to the next request.
//
// It deliberately knows no file, no raft and no other frontend.
//
// Read first: table.go, conn.go, request.go, topics.go.
package frontendkafka
