package vfs

import (
	"io"
	iofs "io/fs"
	"slices"
	"syscall"
)

// memFile is an open file of Mem.
type memFile struct {
	m        *Mem
	name     string
	n        *inode
	writable bool
	aligned  bool
	closed   bool // guarded by m.mu
}

var _ File = (*memFile)(nil)

func (f *memFile) Name() string { return f.name }

func (f *memFile) Mode() Mode { return ModeMemory }

// lock takes the file system's lock for an operation on the open file.
func (f *memFile) lock(op OpKind) error {
	if err := f.m.lockOn(op, f.name); err != nil {
		return err
	}
	if f.closed {
		f.m.mu.Unlock()
		return f.failed(op, iofs.ErrClosed)
	}
	return nil
}

func (f *memFile) failed(op OpKind, err error) error { return memError(op.String(), f.name, err) }

func (f *memFile) Size() (int64, error) {
	if err := f.lock(OpSize); err != nil {
		return 0, err
	}
	defer f.m.mu.Unlock()
	return f.n.cur.size, nil
}

func (f *memFile) ReadAt(p []byte, off int64) (int, error) {
	if err := f.lock(OpRead); err != nil {
		return 0, err
	}
	defer f.m.mu.Unlock()
	if off < 0 {
		return 0, f.failed(OpRead, syscall.EINVAL)
	}
	n := f.n.cur.readAt(p, off)
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

func (f *memFile) WriteAt(p []byte, off int64) (int, error) {
	if _, err := f.write(OpWrite, p, off); err != nil {
		return 0, err
	}
	return len(p), nil
}

// WriteAtSync is a write and then a flush of just that write. They are two operations, because between them a crash
// finds any part of the write on disk.
func (f *memFile) WriteAtSync(p []byte, off int64) error {
	w, err := f.write(OpWriteSync, p, off)
	if err != nil || w == nil {
		return err
	}
	err = f.m.begin(Op{Kind: OpPersist, Name: f.name, Off: off, Len: int64(len(p))})
	f.m.mu.Lock()
	defer f.m.mu.Unlock()
	switch {
	case err != nil:
		w.lost = true
		return err
	case f.m.off:
		return f.failed(OpPersist, ErrPowerOff)
	}
	f.n.persist(w)
	return nil
}

// write makes p visible and pending. It returns nil for an empty p.
func (f *memFile) write(op OpKind, p []byte, off int64) (*change, error) {
	switch {
	case !f.writable:
		return nil, f.failed(op, syscall.EBADF)
	case f.aligned && !Aligned(off, len(p)):
		return nil, f.failed(op, ErrUnaligned)
	case off < 0:
		return nil, f.failed(op, syscall.EINVAL)
	case len(p) == 0:
		return nil, nil
	}
	if err := f.m.begin(Op{Kind: op, Name: f.name, Off: off, Len: int64(len(p))}); err != nil {
		return nil, err
	}
	if err := f.lock(op); err != nil {
		return nil, err
	}
	defer f.m.mu.Unlock()
	if err := f.m.take(f.n.cur.missing(off, int64(len(p)))); err != nil {
		return nil, f.failed(op, err)
	}
	w := &change{kind: changeWrite, off: off, data: slices.Clone(p)}
	f.n.apply(w)
	return w, nil
}

func (f *memFile) Sync() error {
	if err := f.m.begin(Op{Kind: OpSync, Name: f.name}); err != nil {
		f.MarkLost()
		return err
	}
	if err := f.lock(OpSync); err != nil {
		return err
	}
	defer f.m.mu.Unlock()
	f.n.sync()
	return nil
}

// MarkLost makes the file behave as after a failed flush: what is pending stays visible, may be lost, and no later
// Sync makes it durable. Wrappers that invent a failing Sync call it.
func (f *memFile) MarkLost() {
	f.m.mu.Lock()
	defer f.m.mu.Unlock()
	f.n.markLost()
}

func (f *memFile) Truncate(size int64) error {
	return f.reshape(OpTruncate, size, &change{kind: changeResize, size: size})
}

func (f *memFile) Preallocate(size int64) error {
	return f.reshape(OpPreallocate, size, &change{kind: changeAllocate, size: size})
}

func (f *memFile) reshape(op OpKind, size int64, c *change) error {
	switch {
	case !f.writable:
		return f.failed(op, syscall.EBADF)
	case size < 0:
		return f.failed(op, syscall.EINVAL)
	}
	if err := f.m.begin(Op{Kind: op, Name: f.name, Len: size}); err != nil {
		return err
	}
	if err := f.lock(op); err != nil {
		return err
	}
	defer f.m.mu.Unlock()
	if op == OpPreallocate {
		if err := f.m.take(f.n.cur.missing(0, size)); err != nil {
			return f.failed(op, err)
		}
		f.n.apply(c)
		return nil
	}
	before := f.n.cur.allocated()
	f.n.apply(c)
	f.m.used -= before - f.n.cur.allocated()
	return nil
}

// Close closes the file. It works without power, so that a test can tear everything down.
func (f *memFile) Close() error {
	f.m.mu.Lock()
	defer f.m.mu.Unlock()
	if f.closed {
		return f.failed(OpClose, iofs.ErrClosed)
	}
	f.closed = true
	f.n.opens--
	f.m.drop(f.n)
	return nil
}
