// Package rows finds the bytes of a message: one row per stored frame, sorted by (partition, base
// offset), in memory while the frame's segment is open and in .pidx files once it is index-closed.
//
// It promises that Range names every stored frame of the offsets asked for, whatever mix of memory
// and files holds them, at a cost that does not grow with retained messages beyond a few block
// reads, and that it is rebuildable: every row is a function of entries and their outcomes, so a
// lost or damaged index file is made again from its segment. It never judges whether a message is
// still retained; that is state.
//
// Concurrency: one goroutine (apply) adds and closes; any number of goroutines look up.
//
// Read first: Row (row.go), Index (index.go).
package rows
