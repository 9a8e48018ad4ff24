// Package ops holds the subcommands of who runs a node: what state it is in, who is behind and why, what its metrics and
// audit records say, queues as manifests, and a small load to see what it can do.
//
// A command that judges (status, lag, doctor, diff) exits 5 on what it finds; one that is only asked does not. What is not
// known is null and a dash, never 0. Manifests say all options of a queue: applying one replaces what was there.
//
// The package knows the API only, never the engine: the judgement of what is wrong is the node's (GET /api/v1/diagnose).
// One command runs per process, in one goroutine; bench has one per connection.
//
// Read first: Commands, status, manifest.
package ops
