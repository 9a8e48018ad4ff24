// Package engine is the broker: one typed interface that every frontend calls, and its one
// implementation, Node, over a Sequencer (Local here, the replicated one in package replication).
//
// It promises that whatever Do answers is durable and applied, that no message acknowledged to a
// producer is lost and no lease is held twice, and that errors are values of *Error. It does not
// know JSON, HTTP, Kafka or MCP: payloads are bytes with a content type and headers.
//
// Concurrency: every method is safe for concurrent use. One goroutine appends, one applies and
// completes callers; everything else waits on them through channels.
//
// Read first: Engine (engine.go), Op (ops.go), Delivery (pop.go).
package engine
