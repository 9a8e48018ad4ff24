// Package vfs is the seam through which the engine touches files: nothing else in the module opens, writes, renames or
// flushes a file that holds data.
//
// It promises the following, on every implementation, and the conformance suite in this package's tests holds them
// to it:
//
//   - A write is durable only after File.Sync of that file or when it was made by File.WriteAtSync, and WriteAtSync
//     makes only its own bytes durable.
//   - A name (create, rename, link, remove, mkdir) is durable only after FS.SyncDir of the directory that holds it.
//   - A short write is a failed write. A failed write or flush is reported once and never repeated here: after it
//     the state of the range on disk is unknown, and what to do about it is the caller's decision (the engine ends
//     the process).
//   - Errors are compared with errors.Is: ErrNoSpace, ErrLocked, ErrUnaligned, io/fs.ErrNotExist, io/fs.ErrExist.
//
// The implementations: OS (Linux; direct I/O with RWF_DSYNC where the file system has it), Mem (memory, which can
// lose power at any operation and come back with what a disk might hold), Logging (one text line per operation, for
// golden files) and, in package errorfs, a wrapper that injects failures, short writes, bit rot and unreadable
// ranges.
//
// What it deliberately does not do: it keeps no cache, it never retries, it knows no file format and no file name,
// and it does not rename directories.
//
// Concurrency: every FS and every File may be used by several goroutines at once. Two writes to overlapping ranges
// of one file at the same time are the caller's mistake; their result is undefined.
//
// Read FS and File (vfs.go) first, then Mem (mem.go).
package vfs
