// Command txn measures transactions: 64 connections, each of which pops 100 messages and commits every one, or every few,
// in a transaction that acknowledges, adds to a counter and pushes one message on. bench/peers/postgres does what comes
// closest in PostgreSQL: one UPDATE and two INSERTs per commit, synchronous, prepared, 64 connections. Beside the rate stand
// the processor time and the task switches that a transaction costs the node and the loader, and its flushes.
//
//	go run ./bench/txn --messages 1 --peer bench/out/postgres
package main
