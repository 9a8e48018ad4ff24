package errorfs

import (
	iofs "io/fs"

	"queen/engine/vfs"
)

// errorFile is an open file under the rules of its FS. Name and Mode are passed on.
type errorFile struct {
	vfs.File
	fs     *FS
	direct bool // opened with vfs.Direct: a short write ends between blocks
}

// loser is what vfs.Mem's files can do to behave as after a failed flush.
type loser interface{ MarkLost() }

func (f *errorFile) op(kind vfs.OpKind, off, length int64) vfs.Op {
	return vfs.Op{Kind: kind, Name: f.Name(), Off: off, Len: length}
}

func (f *errorFile) Size() (size int64, err error) {
	err = f.fs.do(f.op(vfs.OpSize, 0, 0), func() (err error) {
		size, err = f.File.Size()
		return err
	})
	if err != nil {
		return 0, err
	}
	return size, nil
}

// ReadAt fails by rule, fails on an unreadable range, or sees rotten bits.
func (f *errorFile) ReadAt(p []byte, off int64) (int, error) {
	op := f.op(vfs.OpRead, off, int64(len(p)))
	if r := f.fs.judge(op); r != nil {
		return 0, injected(op, r)
	}
	n, err := f.File.ReadAt(p, off)
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	for _, r := range f.fs.mu.rot {
		switch {
		case r.name != op.Name || r.from >= off+int64(n) || r.to <= off:
		case r.err != nil:
			return 0, &iofs.PathError{Op: "read", Path: op.Name, Err: r.err}
		default:
			p[r.from-off] ^= 1 << r.bit
		}
	}
	return n, err
}

func (f *errorFile) WriteAt(p []byte, off int64) (int, error) {
	op := f.op(vfs.OpWrite, off, int64(len(p)))
	r := f.fs.judge(op)
	if r == nil {
		return f.File.WriteAt(p, off)
	}
	n, err := f.part(r, p, off)
	if err != nil {
		return n, err
	}
	return n, injected(op, r)
}

// part writes what reaches the file below before the call fails. It is not synced.
func (f *errorFile) part(r *rule, p []byte, off int64) (int, error) {
	if !r.After {
		short := min(r.Short, len(p))
		if f.direct {
			short &^= vfs.BlockSize - 1
		}
		p = p[:short]
	}
	if len(p) == 0 {
		return 0, nil
	}
	return f.File.WriteAt(p, off)
}

// WriteAtSync fails by rule. What Short or After let through may be on disk after a crash, or not, like any failed
// write; with After it certainly is.
func (f *errorFile) WriteAtSync(p []byte, off int64) error {
	op := f.op(vfs.OpWriteSync, off, int64(len(p)))
	r := f.fs.judge(op)
	if r == nil {
		return f.File.WriteAtSync(p, off)
	}
	if r.After {
		if err := f.File.WriteAtSync(p, off); err != nil {
			return err
		}
		return injected(op, r)
	}
	if _, err := f.part(r, p, off); err != nil {
		return err
	}
	return injected(op, r)
}

// Sync fails by rule; unless After is set, what was pending is then lost to every later Sync.
func (f *errorFile) Sync() error {
	op := f.op(vfs.OpSync, 0, 0)
	r := f.fs.judge(op)
	if r == nil {
		return f.File.Sync()
	}
	if r.After {
		if err := f.File.Sync(); err != nil {
			return err
		}
	} else if l, ok := f.File.(loser); ok {
		l.MarkLost()
	}
	return injected(op, r)
}

func (f *errorFile) Truncate(size int64) error {
	return f.fs.do(f.op(vfs.OpTruncate, 0, size), func() error { return f.File.Truncate(size) })
}

func (f *errorFile) Preallocate(size int64) error {
	return f.fs.do(f.op(vfs.OpPreallocate, 0, size), func() error { return f.File.Preallocate(size) })
}

// Close closes the file below in any case, so that an injected failure leaks nothing.
func (f *errorFile) Close() error {
	op := f.op(vfs.OpClose, 0, 0)
	r := f.fs.judge(op)
	err := f.File.Close()
	if r != nil {
		return injected(op, r)
	}
	return err
}
