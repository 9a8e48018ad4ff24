// Package frontendkafka will serve the Kafka wire protocol over engine.Engine, so that Kafka clients produce to and
// consume from the same queues: a topic is a queue, a Kafka partition is a partition with a decimal name. It is not
// built yet, and a node asked to run it refuses to start.
//
// What will be here: one file per API key, named by its number (00_produce.go, 01_fetch.go), over the message codecs of
// franz-go's kmsg; consumer groups, transactions and idempotent producers on the engine's own cursors and dedup.
package frontendkafka
