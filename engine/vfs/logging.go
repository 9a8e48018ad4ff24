package vfs

import (
	"io"
)

// Logging passes every operation on and prints one line for each, so that the order of writes, flushes, renames and
// directory syncs is a text that can be reviewed and compared. A failed operation's line ends with its error.
type Logging struct {
	inner FS
	log   func(line string)
	reads bool
}

var _ FS = (*Logging)(nil)

// NewLogging wraps fs. log gets each line, without a newline, after the operation, from the goroutine that made it.
// Operations that change nothing (open, read, size, list, stat, free, close) are printed only if reads is set.
func NewLogging(fs FS, reads bool, log func(line string)) *Logging {
	return &Logging{inner: fs, log: log, reads: reads}
}

func (l *Logging) print(op Op, err error) {
	switch {
	case op.Kind.Mutating(), op.Kind == OpLock, op.Kind == OpUnlock, l.reads:
	default:
		return
	}
	line := op.String()
	if err != nil && err != io.EOF {
		line += " ! " + err.Error()
	}
	l.log(line)
}

// Open prints create if the call made the file, else open, and then truncate if it emptied one.
func (l *Logging) Open(name string, flags Flags) (File, error) {
	kind, cut := OpOpen, false
	if flags&(Create|Truncate) != 0 {
		info, err := l.inner.Stat(name)
		if err != nil && flags&Create != 0 {
			kind = OpCreate
		}
		cut = err == nil && flags&Truncate != 0 && info.Size > 0
	}
	f, err := l.inner.Open(name, flags)
	l.print(Op{Kind: kind, Name: name}, err)
	if err != nil {
		return nil, err
	}
	if cut {
		l.print(Op{Kind: OpTruncate, Name: name}, nil)
	}
	return &loggingFile{File: f, l: l}, nil
}

// Rename passes on and prints.
func (l *Logging) Rename(oldName, newName string) error {
	err := l.inner.Rename(oldName, newName)
	l.print(Op{Kind: OpRename, Name: oldName, NewName: newName}, err)
	return err
}

// Link passes on and prints.
func (l *Logging) Link(oldName, newName string) error {
	err := l.inner.Link(oldName, newName)
	l.print(Op{Kind: OpLink, Name: oldName, NewName: newName}, err)
	return err
}

// Remove passes on and prints.
func (l *Logging) Remove(name string) error {
	err := l.inner.Remove(name)
	l.print(Op{Kind: OpRemove, Name: name}, err)
	return err
}

// MkdirAll passes on and prints.
func (l *Logging) MkdirAll(dir string) error {
	err := l.inner.MkdirAll(dir)
	l.print(Op{Kind: OpMkdirAll, Name: dir}, err)
	return err
}

// List passes on and prints.
func (l *Logging) List(dir string) ([]string, error) {
	names, err := l.inner.List(dir)
	l.print(Op{Kind: OpList, Name: dir}, err)
	return names, err
}

// Stat passes on and prints.
func (l *Logging) Stat(name string) (Info, error) {
	info, err := l.inner.Stat(name)
	l.print(Op{Kind: OpStat, Name: name}, err)
	return info, err
}

// SyncDir passes on and prints.
func (l *Logging) SyncDir(dir string) error {
	err := l.inner.SyncDir(dir)
	l.print(Op{Kind: OpSyncDir, Name: dir}, err)
	return err
}

// Lock passes on and prints, and prints unlock when the lock is closed.
func (l *Logging) Lock(name string) (io.Closer, error) {
	lock, err := l.inner.Lock(name)
	l.print(Op{Kind: OpLock, Name: name}, err)
	if err != nil {
		return nil, err
	}
	return closerFunc(func() error {
		err := lock.Close()
		l.print(Op{Kind: OpUnlock, Name: name}, err)
		return err
	}), nil
}

// Free passes on and prints.
func (l *Logging) Free(dir string) (Space, error) {
	space, err := l.inner.Free(dir)
	l.print(Op{Kind: OpFree, Name: dir}, err)
	return space, err
}

type closerFunc func() error

// Close calls the function.
func (f closerFunc) Close() error { return f() }

// loggingFile prints the operations on one open file; Name and Mode are passed on silently.
type loggingFile struct {
	File
	l *Logging
}

func (f *loggingFile) op(kind OpKind, off, length int64) Op {
	return Op{Kind: kind, Name: f.Name(), Off: off, Len: length}
}

func (f *loggingFile) Size() (int64, error) {
	size, err := f.File.Size()
	f.l.print(f.op(OpSize, 0, 0), err)
	return size, err
}

func (f *loggingFile) ReadAt(p []byte, off int64) (int, error) {
	n, err := f.File.ReadAt(p, off)
	f.l.print(f.op(OpRead, off, int64(len(p))), err)
	return n, err
}

func (f *loggingFile) WriteAt(p []byte, off int64) (int, error) {
	n, err := f.File.WriteAt(p, off)
	f.l.print(f.op(OpWrite, off, int64(len(p))), err)
	return n, err
}

func (f *loggingFile) WriteAtSync(p []byte, off int64) error {
	err := f.File.WriteAtSync(p, off)
	f.l.print(f.op(OpWriteSync, off, int64(len(p))), err)
	return err
}

func (f *loggingFile) Sync() error {
	err := f.File.Sync()
	f.l.print(f.op(OpSync, 0, 0), err)
	return err
}

func (f *loggingFile) Truncate(size int64) error {
	err := f.File.Truncate(size)
	f.l.print(f.op(OpTruncate, 0, size), err)
	return err
}

func (f *loggingFile) Preallocate(size int64) error {
	err := f.File.Preallocate(size)
	f.l.print(f.op(OpPreallocate, 0, size), err)
	return err
}

func (f *loggingFile) Close() error {
	err := f.File.Close()
	f.l.print(f.op(OpClose, 0, 0), err)
	return err
}
