// Package enginetest judges implementations of engine.Engine.
//
// Model is the reference: a plain in-memory engine of slices and maps, written straight from the
// behaviour statements (S-push-1, S-ack-5, ...), slow on purpose and complete. It serves as a fake
// for frontends and as the oracle of the random tests. It keeps nothing across a restart.
//
// Run is the conformance suite: one subtest per statement that can be seen through the interface.
// Random drives seeded lists of operations through an engine and the model in lockstep, compares
// every verdict and every delivered byte, and shrinks a list that fails.
//
// Where the statements leave freedom (ids, which ready partitions a pop claims, when retention has
// removed what it may remove) the oracle does not predict: it looks at the answer, checks that the
// rules allow it, and adopts it.
//
// It deliberately knows nothing about files, the log or replication.
//
// Concurrency: a Model is safe for concurrent use behind one mutex; an oracle belongs to one
// goroutine.
//
// Read first: state (state.go), Model (model.go), Run (run.go), Random (random.go).
package enginetest
