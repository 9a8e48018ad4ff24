// Package checkpoint keeps the files from which a node starts: the rows of the state machine as bases
// and row deltas, and the node manifest that says which files count.
//
// It promises:
//
//   - A checkpoint file has its name only when it is whole and durable, and Load hands out no row of
//     a chunk that does not verify, nor calls a file good whose bytes are not those the manifest lists.
//   - Any position can be loaded over each base that is still kept: Chains lists the ways, so that a
//     damaged base is passed by over the one before it and all deltas since.
//   - The manifest is written to two files in turn, each time as a whole; a torn or rotten one leaves
//     the generation before.
//
// It deliberately does not know what a row means, which files may go and when a checkpoint is due:
// package engine decides that, in the order that makes a checkpoint valid.
//
// Concurrency: a Writer and a load belong to one goroutine. One goroutine writes manifests.
//
// Read first: Writer (writer.go), Load and Chains (load.go), ReadManifest (manifest.go). The bytes are
// described in engine/format/FORMAT.md, section 5.
package checkpoint
