// Package rows finds the bytes of a message: one row per stored frame, sorted by (partition, base
// offset), in memory while the frame's segment is open and in .pidx files once it is index-closed.
//
// It promises that Range names every stored frame of the offsets asked for, whatever mix of memory
// and files holds them, or fails naming the file in the way; that the cost does not grow with retained
// messages beyond a few block reads; and that all of it can be made again: every row is a function of
// entries and their outcomes. It never judges whether a message is still retained; that is state.
//
// Rows in memory hang in a chain per partition, newest first, with links over many of them. The files
// of 6 closed segments become one, 6 of those one more, and 6 of those the last. A partition's offsets rise from file to
// file, and its first row in a file leads back to the file with the rows before, so a look-up bisects
// the files, or follows the way back where few of them hold the partition.
//
// INVARIANT: a row is in the list of files before it leaves memory (TestConcurrent).
//
// Concurrency: one goroutine (apply) adds; one links rows (Index.Compact); Close, Merge,
// ReplaceSegments, Rebuild and Forget may be called by any, and wait for each other where they must;
// any number of goroutines look up. A look-up in files holds no lock that apply needs.
//
// Read first: Row (row.go), Index (index.go), Runs (runs.go), then lookup.go.
package rows
