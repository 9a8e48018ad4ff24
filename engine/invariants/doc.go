// Package invariants holds what the engine does about its own mistakes, and the named points at which tests make it
// die.
//
// Check and Fail report a broken invariant: our fault, never the caller's and never the disk's. They panic with a
// *Violation, which nobody recovers except to say where and then end the process: a broken invariant stops the node
// rather than writes on.
//
// Enabled is true under the race detector and under the build tag "invariants"; checks that cost more than a
// comparison stand behind it and compile away otherwise.
//
// Failpoints are named places in the code (Register at package level, Failpoint where it is) at which a real
// process can kill itself and a test can run a function: "between the rename and the directory sync". While nothing
// is armed a Failpoint is one atomic load. Arm takes the text form that the environment variable QUEEN_FAILPOINT
// carries; reading the environment is the composition root's business, so that importing this package has no
// effect.
//
// It deliberately does not log, recover, or know anything about the rest of the engine.
//
// Concurrency: everything here may be used by several goroutines at once.
//
// Read Check (check.go), then Failpoint (failpoint.go).
package invariants
