// Command postgres measures what comes closest to a worker's step in PostgreSQL: one UPDATE and two INSERTs in one
// synchronous commit, prepared, over a number of connections; once as PostgreSQL's own loader does it, a round trip for each
// statement, and once in a single round trip. It starts a server of its own in a temporary directory, on the loopback, and
// prints one JSON object.
package main
