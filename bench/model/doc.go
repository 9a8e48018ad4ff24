// Command model plays random operations against a node on a crashable memory file system and against the model of
// enginetest in lockstep, with stops and crashes in between: some between two operations, some in the middle of one, at a
// write or flush of its own. A crash drops or tears what was not flushed.
//
//	go run -tags invariants ./bench/model --ops 1000000 --crashes 2000 [--seed N] [--workers 2]
//
// It prints how often each verdict and error occurred, those that occurred less often than --least, and how often each
// failpoint of the node was passed. It ends at the first difference, with the shortest list of operations that shows it,
// and exits with an error.
package main
