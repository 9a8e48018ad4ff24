// Command model plays random operations against a node on a crashable memory file system and against the model of
// enginetest in lockstep, with stops and crashes in between: some between two operations, some in the middle of one, at a
// write or flush of its own. A crash drops or tears what was not flushed.
//
//	go run -tags invariants ./bench/model --ops 1000000 --crashes 2500 [--seed N] [--workers 2] [--differences N]
//
// It prints how often each verdict and error occurred, those that occurred less often than --least, how often each
// failpoint of the node was passed, and what that is of the list of phases for kill -9. It ends at the first difference, or
// the N-th, with the shortest list of operations that shows it, and exits with an error.
//
// Lists have consecutive seeds, so that the lists of two runs are others when their seeds lie further apart than there are
// lists. A list does alone what it did among others: a difference comes with the command line for that, and
//
//	go run -tags invariants ./bench/model --script FILE
//
// plays one that was shortened, also by hand.
package main
