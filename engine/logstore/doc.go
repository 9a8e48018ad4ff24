// Package logstore keeps the node's one append stream: segment files that are the commit log of every raft
// group here and, at the same time, the store from which messages are read.
//
// It promises:
//
//   - When Append returns nil, everything in its saves is durable, and survives a crash together with
//     everything appended before it. Concurrent callers share one write and one flush; one extent is
//     outstanding on the whole node.
//   - A failed write or flush is reported once through Options.Fatal and never tried again: from then
//     on every Append fails.
//   - Open tells torn from rotten. A bad last extent that nothing proves durable was never
//     acknowledged and is dropped; any other bad byte it meets is a *CorruptionError that names file
//     and position. Nothing damaged is ever served.
//   - An append never meets a full disk: segments are taken by rename from a pool of files that are
//     written already.
//   - Memory does not grow with what is retained: the resident index covers a raft group's entries
//     above its floor and segments that are not index-closed.
//
// It deliberately does not know what an entry means. It carries raft's records (entries, outcomes, term
// and vote, commit, snapshot, floor, bootstrap), keeps the newest of each per replica, and orders nothing
// itself: the caller says what may be reclaimed, and when.
//
// Concurrency: every exported method may be called by any goroutine. One goroutine writes; another fills
// the pool. mu guards the index and the list of segments and is never held during file operations.
//
// Read first: Save (save.go), Store (store.go), the extent planner (plan.go), reads of one range (read.go) and of many
// (many.go), then recovery (recover.go).
package logstore
