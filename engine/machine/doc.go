// Package machine is the deterministic state machine of one raft group: Apply takes the entries of
// the log in order and decides everything that has to be the same on every replica: offsets,
// duplicates, claims, leases, cursors, dead letters, retention, keys and locks, timers, transactions.
//
// # What it promises
//
//   - Verdicts and state are a function of the log alone. Apply reads resident state and the command
//     in hand: no file, no clock, no randomness, no map order, no payload byte. What lives on disk
//     travels in the command as evidence, and evidence that no longer holds is refused by name.
//   - An entry that can not be decoded is refused before anything is touched; after that nothing can
//     fail. A panic is a broken invariant and ends the process.
//   - Nothing on the path of a push, pop or ack walks partitions, consumer groups or messages. A
//     partition costs one row and two index places; a cursor exists only once it has been needed.
//
// # What it does not do
//
// It opens no file and starts no goroutine. It never reads the keyed store: rows for it are handed to
// a KeyedSink and only their count and sum come back into the state. Waiters, deadlines, the look-up
// of evidence and the rendering of messages are the engine's.
//
// # Concurrency
//
// Apply, Freeze, Load, Finish and every query belong to one owner at a time: the engine calls queries
// under the lock that also excludes Apply. A Snapshot may be written by another goroutine while Apply
// goes on.
//
// # Reading order
//
// Machine (machine.go) dispatches, brackets by way of txn.go and once.go; keyRec (keys.go) is the head of a
// keyed row, from which kv.go, lock.go and timer.go judge; partRec, cursorRec and leaseRec (rows.go) are what there are
// millions of; queue (queue.go) and group (group.go) are the catalogue; popRun (pop.go) is where all
// of them meet. Sections of engine design: state in 5, time in 4, evidence in 2 and 7.
package machine
