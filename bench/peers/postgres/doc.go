// Command postgres measures what comes closest to a worker's step in PostgreSQL: one UPDATE and two INSERTs in one
// synchronous commit, prepared, sent in one round trip, over a number of connections. It starts a server of its own in a
// temporary directory, on a socket there, and prints one JSON object.
package main
