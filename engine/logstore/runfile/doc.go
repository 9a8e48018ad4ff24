// Package runfile writes and reads run files: the sorted, immutable files of packed blocks behind the
// frame index (rows) and behind the memory of callers' ids (idruns). The bytes are package format's.
//
// It promises that a run appears under its name whole and durable or not at all, and that every byte
// it hands out was verified: the checksum of each block when it is read, and its first key against the
// fence that led to it, so that an exchanged block is damage and not an answer. Damage is an *Error
// that names the file and the position.
//
// It keeps one fence per block in memory and reads blocks through a bounded Cache that many files
// share. It does not know what a row means, nor which run follows which.
//
// Concurrency: a Writer belongs to one goroutine; a File and a Cache may be used by any number.
//
// Read first: Writer (writer.go), File (file.go), Cache (cache.go).
package runfile
