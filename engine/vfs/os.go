//go:build linux

package vfs

import (
	"errors"
	"fmt"
	"io"
	iofs "io/fs"
	"os"
	"path"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// OSOptions configures NewOS.
type OSOptions struct {
	// BestMode bounds what Direct files may use: ModeBufferedSync never tries O_DIRECT, ModeDirectSync never
	// RWF_DSYNC. Default: ModeDirectDSync, the best the file system has.
	BestMode Mode
}

// OS is the file system of the machine (Linux).
//
// A file opened with Direct has one descriptor, with O_DIRECT if the mode has it, for writing and reading. A second
// File without Direct may read the same file through the page cache at the same time: Linux drops the cached pages
// of a range before and after each direct write to it, so that a read that begins after the write has returned sees
// it. Mixing buffered writes with direct writes on one file is not done anywhere and would not be safe.
type OS struct {
	best   Mode
	bounce *BufferPool

	mu struct {
		sync.Mutex
		modes map[uint64]Mode // by device; bounded by the number of file systems the node uses
	}
}

var _ FS = (*OS)(nil)

// The bounce buffers serve reads and small writes whose memory is not aligned: at most 2 MiB are kept.
const (
	bounceBytes = 256 << 10
	bounceKeep  = 8

	fileMode = 0o640
	dirMode  = 0o750
)

// NewOS returns the machine's file system.
func NewOS(opts OSOptions) *OS {
	if opts.BestMode == ModeMemory {
		opts.BestMode = ModeDirectDSync
	}
	o := &OS{best: opts.BestMode, bounce: NewBufferPool(bounceBytes, bounceKeep)}
	o.mu.modes = map[uint64]Mode{}
	return o
}

// Open opens a file. The first Direct file for writing on a file system also finds out what that file system can
// (Probe).
func (o *OS) Open(name string, flags Flags) (File, error) {
	osFlags := os.O_RDONLY
	if flags&(Write|Create|Truncate) != 0 {
		osFlags = os.O_RDWR
	}
	if flags&Create != 0 {
		osFlags |= os.O_CREATE
	}
	if flags&Exclusive != 0 {
		osFlags |= os.O_EXCL
	}
	if flags&Truncate != 0 {
		osFlags |= os.O_TRUNC
	}
	// The mode is settled first: a failing probe must not leave a created or emptied file behind.
	mode := ModeBufferedSync
	if flags&Direct != 0 && osFlags != os.O_RDONLY {
		var err error
		if mode, err = o.Probe(path.Dir(name)); err != nil {
			return nil, err
		}
	} else if flags&Direct != 0 && o.best >= ModeDirectSync {
		mode = ModeDirectSync // to read a file no probe, which writes, is needed
	}
	openFiles.opening.RLock()
	defer openFiles.opening.RUnlock()
	f, err := os.OpenFile(name, osFlags, fileMode)
	if err != nil {
		return nil, err
	}
	file, err := newOSFile(o, f, flags, mode)
	if err != nil {
		f.Close()
		return nil, err
	}
	return file, nil
}

// Rename renames a file.
func (o *OS) Rename(oldName, newName string) error {
	info, err := os.Lstat(oldName)
	if err != nil {
		return err
	}
	if info.IsDir() {
		return &iofs.PathError{Op: "rename", Path: oldName, Err: syscall.EISDIR}
	}
	return os.Rename(oldName, newName)
}

// Link gives a file a second name.
func (o *OS) Link(oldName, newName string) error { return os.Link(oldName, newName) }

// MkdirAll creates directories.
func (o *OS) MkdirAll(dir string) error { return os.MkdirAll(dir, dirMode) }

// List returns the sorted names in a directory.
func (o *OS) List(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	names := make([]string, len(entries))
	for i, e := range entries {
		names[i] = e.Name()
	}
	return names, nil
}

// Stat tells size and kind.
func (o *OS) Stat(name string) (Info, error) {
	info, err := os.Stat(name)
	if err != nil {
		return Info{}, err
	}
	if info.IsDir() {
		return Info{Dir: true}, nil
	}
	return Info{Size: info.Size()}, nil
}

// SyncDir flushes a directory.
func (o *OS) SyncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	if info, err := d.Stat(); err != nil {
		return err
	} else if !info.IsDir() {
		return &iofs.PathError{Op: "sync-dir", Path: dir, Err: syscall.ENOTDIR}
	}
	if err := unix.Fsync(int(d.Fd())); err != nil {
		return &iofs.PathError{Op: "sync-dir", Path: dir, Err: err}
	}
	return nil
}

// Lock takes an flock, which belongs to the open file: a second Lock is refused within one process as well.
func (o *OS) Lock(name string) (io.Closer, error) {
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, fileMode)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		defer f.Close()
		if errors.Is(err, unix.EWOULDBLOCK) {
			return nil, &LockedError{Name: name, Holder: readHolder(f)}
		}
		return nil, &iofs.PathError{Op: "lock", Path: name, Err: err}
	}
	// The text only helps people; the lock is the flock. It is therefore not synced.
	if err := writeHolder(f); err != nil {
		f.Close()
		return nil, &iofs.PathError{Op: "lock", Path: name, Err: err}
	}
	return f, nil
}

func writeHolder(f *os.File) error {
	text := fmt.Appendf(nil, "pid %d\n", os.Getpid())
	if _, err := f.WriteAt(text, 0); err != nil && !errors.Is(err, ErrNoSpace) {
		return err // a full disk must not keep a node from starting
	}
	if err := f.Truncate(int64(len(text))); err != nil && !errors.Is(err, ErrNoSpace) {
		return err
	}
	return nil
}

func readHolder(f *os.File) string {
	var text [64]byte
	n, _ := f.ReadAt(text[:], 0)
	line := text[:n]
	for i, c := range line {
		if c < ' ' || c > '~' {
			line = line[:i]
			break
		}
	}
	if len(line) == 0 {
		return "unknown"
	}
	return string(line)
}

// Free asks the file system for its space. What it keeps back from everybody, for root or by a quota, counts neither as
// available nor in the total: else a disk that has only such space left would look half empty.
func (o *OS) Free(dir string) (Space, error) {
	var s unix.Statfs_t
	if err := unix.Statfs(dir, &s); err != nil {
		return Space{}, &iofs.PathError{Op: "free", Path: dir, Err: err}
	}
	used := int64(s.Blocks-s.Bfree) * s.Bsize
	free := int64(s.Bavail) * s.Bsize
	return Space{Total: used + free, Available: free}, nil
}
