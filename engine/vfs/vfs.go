package vfs

import (
	"errors"
	"io"
	"syscall"
)

// BlockSize is the unit of direct I/O here, in bytes: offset and length of every write to a file opened with Direct
// are multiples of it. It is a multiple of every logical block size Linux reports for the disks the engine is meant
// for.
const BlockSize = 4096

// Errors that callers branch on with errors.Is. ErrNoSpace is the system's own value, so that a full real disk and
// a full Mem are the same error.
var (
	ErrNoSpace   error = syscall.ENOSPC
	ErrLocked          = errors.New("vfs: locked by another holder")
	ErrUnaligned       = errors.New("vfs: offset or length is not a multiple of the block size")
	ErrPowerOff        = errors.New("vfs: the power is off")
)

// Flags say how FS.Open opens a file. The zero value opens an existing file for reading.
type Flags uint8

const (
	// Write allows writing as well as reading.
	Write Flags = 1 << iota
	// Create creates the file if there is none. It implies Write.
	Create
	// Exclusive makes Create fail with io/fs.ErrExist if the name is taken.
	Exclusive
	// Truncate empties an existing file. It implies Write. The emptying is not durable before Sync.
	Truncate
	// Direct bypasses the page cache where the file system can (see File.Mode). Writes must then be aligned to
	// BlockSize in offset and length, on every implementation and in every mode; reads need not be.
	Direct

	// ReadOnly is the zero value, for call sites that want to say it.
	ReadOnly Flags = 0
)

// Mode says how File.WriteAtSync reaches the disk. It is chosen when a file is opened and does not change.
type Mode uint8

const (
	// ModeMemory is Mem's: no disk at all.
	ModeMemory Mode = iota
	// ModeBufferedSync writes through the page cache and calls fdatasync.
	ModeBufferedSync
	// ModeDirectSync writes with O_DIRECT and calls fdatasync.
	ModeDirectSync
	// ModeDirectDSync writes with O_DIRECT and RWF_DSYNC: one system call, a forced-unit-access write where the
	// disk has it.
	ModeDirectDSync
)

// String returns the name under which the node reports the mode.
func (m Mode) String() string {
	switch m {
	case ModeBufferedSync:
		return "buffered+fdatasync"
	case ModeDirectSync:
		return "direct+fdatasync"
	case ModeDirectDSync:
		return "direct+dsync"
	default:
		return "memory"
	}
}

// Info is what Stat tells about a name.
type Info struct {
	Size int64 // bytes; 0 for a directory
	Dir  bool
}

// Space is what Free tells about the file system below a directory, in bytes.
type Space struct {
	Total     int64
	Available int64 // to this process: blocks reserved for root are not counted
}

// FS opens files and changes names. Names are slash-separated paths; the caller joins them. An error carries the name.
type FS interface {
	// Open opens a file; a directory is refused. The new name of a created file is durable after SyncDir of its
	// directory.
	Open(name string, flags Flags) (File, error)

	// Rename gives a file a new name and replaces what had it, atomically: a crash leaves the old state or the new
	// one, never neither. Durable after SyncDir of the directory of newName. A directory is refused.
	Rename(oldName, newName string) error

	// Link gives a file a second name; io/fs.ErrExist if it is taken. Durable after SyncDir of the directory of
	// newName.
	Link(oldName, newName string) error

	// Remove takes a file's name, or an empty directory, away. Durable after SyncDir of the directory. Open files
	// stay usable.
	Remove(name string) error

	// MkdirAll creates a directory and the missing ones above it; no error if it exists. Each new level is durable
	// after SyncDir of the directory above it; MkdirAllSync does both.
	MkdirAll(dir string) error

	// List returns the base names in a directory, sorted.
	List(dir string) ([]string, error)

	// Stat tells size and kind of a name.
	Stat(name string) (Info, error)

	// SyncDir makes the names in this directory durable, not those in directories below or above it.
	SyncDir(dir string) error

	// Lock takes an exclusive lock named by a file, which it creates and never removes, and does not wait for it.
	// While it is held, by this process or another one, Lock returns a *LockedError naming the holder. Close
	// releases it, and so does the end of the process.
	Lock(name string) (io.Closer, error)

	// Free tells the space of the file system that holds dir.
	Free(dir string) (Space, error)
}

// File is an open file. Byte slices belong to the caller again when a method returns. Positions are bytes from the
// start.
type File interface {
	// Name is the name the file was opened under; a later rename does not change it.
	Name() string

	// Mode tells how WriteAtSync reaches the disk.
	Mode() Mode

	// Size is the current length in bytes.
	Size() (int64, error)

	// ReadAt fills p from off, as io.ReaderAt: fewer bytes than len(p) come with an error, io.EOF at the end of the
	// file. Any buffer, offset and length will do; on a direct file exactly the blocks that hold the range are
	// read.
	ReadAt(p []byte, off int64) (int, error)

	// WriteAt writes p at off, growing the file as needed. Nothing is durable when it returns. Fewer bytes than
	// len(p) come with an error, and count as a failed write. ErrUnaligned on a direct file unless off and len(p)
	// are multiples of BlockSize; memory that is not aligned is copied, so hot paths use AlignedBuffer.
	WriteAt(p []byte, off int64) (int, error)

	// WriteAtSync writes p at off and returns when these bytes, and the length that makes them readable, are
	// durable. Other writes to this file that were not synced are not made durable by it (some modes happen to; do
	// not count on it). After an error any part of p may be on disk, or none. Alignment as for WriteAt.
	WriteAtSync(p []byte, off int64) error

	// Sync makes all completed writes, Truncate and Preallocate of this file durable (fdatasync). After an error
	// nothing that was written since the last successful Sync may be trusted, and a second Sync that succeeds
	// proves nothing: the kernel may have dropped the pages that failed. Mem behaves that way.
	Sync() error

	// Truncate sets the length; new bytes are zero. Durable after Sync.
	Truncate(size int64) error

	// Preallocate makes sure that the first size bytes have space on disk, growing the file with zeroes if it is
	// shorter, so that writing them can not meet ErrNoSpace. Durable after Sync. errors.ErrUnsupported where the
	// file system can not.
	Preallocate(size int64) error

	// Close releases the file. It makes nothing durable.
	Close() error
}

// LockedError is what Lock returns while somebody holds the lock. errors.Is(err, ErrLocked) holds for it.
type LockedError struct {
	Name   string
	Holder string // what the holder wrote about itself, such as "pid 4711"; "unknown" if it wrote nothing
}

// Error names the file and the holder.
func (e *LockedError) Error() string { return "vfs: lock " + e.Name + ": held by " + e.Holder }

// Unwrap returns ErrLocked.
func (e *LockedError) Unwrap() error { return ErrLocked }
