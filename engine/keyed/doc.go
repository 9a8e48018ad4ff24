// Package keyed is the durable home of keyed rows: key-value entries, timers, dead letters, the
// catalogue and whatever else is looked up by key. It puts badger (managed mode) behind five
// operations: GetAt, ScanAt, FlushAt, Export, Close. Nothing above this package names badger.
//
// # What it promises
//
//   - State is read at a version. A version is the log index of a checkpoint; a reader at C sees
//     exactly the rows of the last flush at or below C, whatever was written after it. That is how
//     a crash in the middle of a flush is rolled back: the rows of the cut flush lie above C.
//   - A flush is durable when FlushAt returns, and it is a checkpoint only once the caller has
//     recorded its Manifest. Only then may history be dropped, through [Flushed.Recorded].
//   - Rot becomes an error. Every value carries a checksum of its own, every family a row count and
//     an order-free sum, the directory is examined before badger opens it, and a sentinel row proves
//     the tail of the last flush. badger alone answers "not found" for most kinds of damage.
//
// # What it does not do
//
// It is never written by apply, decides no verdict, keeps no clock, and repairs nothing: a damaged
// directory is refused by name and rebuilt by its owner from an export and deltas.
//
// # Concurrency
//
// Reads may come from any goroutine. FlushAt, Recorded, Import and ApplyDelta belong to one flusher
// goroutine at a time (a second one waits). Overlays take writes from the apply goroutine and reads
// from everywhere.
//
// Read first: [Store], [Overlay], [View]. The bytes are described in engine/format/FORMAT.md, section 8.
package keyed
