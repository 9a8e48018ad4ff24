// Package memnode is a single node on a crashable memory file system and a virtual clock, as a target of
// enginetest.Random: it is stopped, crashes between two operations or inside one, and lives again on what its disk
// kept. Tests of the engine and the random campaign share it.
//
// It judges nothing; that is enginetest's.
package memnode
