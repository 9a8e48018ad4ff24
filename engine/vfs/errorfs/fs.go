package errorfs

import (
	"fmt"
	"io"
	iofs "io/fs"
	"slices"
	"sync"
	"syscall"

	"queen/engine/vfs"
)

// FS is a vfs.FS that fails by rule.
type FS struct {
	inner vfs.FS

	mu struct {
		sync.Mutex
		rules  []*rule
		rot    []rot
		counts map[vfs.OpKind]int64
		calls  int64
	}
}

var _ vfs.FS = (*FS)(nil)

// rot is damage that reads of a range meet. It belongs to the name a file was opened under.
type rot struct {
	name     string
	from, to int64
	bit      uint
	err      error // nil: the bit is flipped; else the read fails
}

// New wraps inner. Without rules it changes nothing.
func New(inner vfs.FS) *FS {
	f := &FS{inner: inner}
	f.mu.counts = map[vfs.OpKind]int64{}
	return f
}

// Inject adds a rule. The returned function removes it. Of several rules that pick a call the first added decides,
// but all count it.
func (f *FS) Inject(r Rule) (remove func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	added := &rule{Rule: r}
	f.mu.rules = append(f.mu.rules, added)
	return func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.mu.rules = slices.DeleteFunc(f.mu.rules, func(o *rule) bool { return o == added })
	}
}

// FlipBit makes every read that covers the byte at pos see it with one bit (0 to 7) flipped.
func (f *FS) FlipBit(name string, pos int64, bit uint) {
	f.damage(rot{name: name, from: pos, to: pos + 1, bit: bit & 7})
}

// FailRead makes every read that touches [from, to) fail with err; nil means EIO, what a bad sector gives.
func (f *FS) FailRead(name string, from, to int64, err error) {
	if err == nil {
		err = syscall.EIO
	}
	f.damage(rot{name: name, from: from, to: to, err: err})
}

func (f *FS) damage(r rot) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.mu.rot = append(f.mu.rot, r)
}

// Heal removes all damage of FlipBit and FailRead.
func (f *FS) Heal() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.mu.rot = nil
}

// Count returns how many calls of one kind were made, failed ones included. A call that would create a file is an
// OpCreate.
func (f *FS) Count(kind vfs.OpKind) int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.mu.counts[kind]
}

// Calls returns how many calls of all kinds were made.
func (f *FS) Calls() int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.mu.calls
}

// judge counts a call and returns the rule that makes it fail, or nil.
func (f *FS) judge(op vfs.Op) *rule {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.mu.counts[op.Kind]++
	f.mu.calls++
	var first *rule
	for _, r := range f.mu.rules {
		if r.hit(op) && first == nil {
			first = r
		}
	}
	return first
}

// do makes one call under the rules.
func (f *FS) do(op vfs.Op, call func() error) error {
	r := f.judge(op)
	if r == nil {
		return call()
	}
	if r.After {
		if err := call(); err != nil {
			return err
		}
	}
	return injected(op, r)
}

func injected(op vfs.Op, r *rule) error {
	return &iofs.PathError{Op: op.Kind.String(), Path: op.Name, Err: r.err()}
}

// Open opens a file whose calls are judged as well. With After the file is opened, so perhaps created, and closed
// again.
func (f *FS) Open(name string, flags vfs.Flags) (vfs.File, error) {
	kind := vfs.OpOpen
	if flags&vfs.Create != 0 {
		if _, err := f.inner.Stat(name); err != nil {
			kind = vfs.OpCreate
		}
	}
	var file vfs.File
	err := f.do(vfs.Op{Kind: kind, Name: name}, func() (err error) {
		file, err = f.inner.Open(name, flags)
		return err
	})
	if err != nil {
		if file != nil {
			file.Close()
		}
		return nil, err
	}
	return &errorFile{File: file, fs: f, direct: flags&vfs.Direct != 0}, nil
}

// Rename passes on or fails.
func (f *FS) Rename(oldName, newName string) error {
	op := vfs.Op{Kind: vfs.OpRename, Name: oldName, NewName: newName}
	return f.do(op, func() error { return f.inner.Rename(oldName, newName) })
}

// Link passes on or fails.
func (f *FS) Link(oldName, newName string) error {
	op := vfs.Op{Kind: vfs.OpLink, Name: oldName, NewName: newName}
	return f.do(op, func() error { return f.inner.Link(oldName, newName) })
}

// Remove passes on or fails.
func (f *FS) Remove(name string) error {
	return f.do(vfs.Op{Kind: vfs.OpRemove, Name: name}, func() error { return f.inner.Remove(name) })
}

// MkdirAll passes on or fails.
func (f *FS) MkdirAll(dir string) error {
	return f.do(vfs.Op{Kind: vfs.OpMkdirAll, Name: dir}, func() error { return f.inner.MkdirAll(dir) })
}

// SyncDir passes on or fails.
func (f *FS) SyncDir(dir string) error {
	return f.do(vfs.Op{Kind: vfs.OpSyncDir, Name: dir}, func() error { return f.inner.SyncDir(dir) })
}

// List passes on or fails.
func (f *FS) List(dir string) (names []string, err error) {
	err = f.do(vfs.Op{Kind: vfs.OpList, Name: dir}, func() (err error) {
		names, err = f.inner.List(dir)
		return err
	})
	if err != nil {
		return nil, err
	}
	return names, nil
}

// Stat passes on or fails.
func (f *FS) Stat(name string) (info vfs.Info, err error) {
	err = f.do(vfs.Op{Kind: vfs.OpStat, Name: name}, func() (err error) {
		info, err = f.inner.Stat(name)
		return err
	})
	if err != nil {
		return vfs.Info{}, err
	}
	return info, nil
}

// Free passes on or fails.
func (f *FS) Free(dir string) (space vfs.Space, err error) {
	err = f.do(vfs.Op{Kind: vfs.OpFree, Name: dir}, func() (err error) {
		space, err = f.inner.Free(dir)
		return err
	})
	if err != nil {
		return vfs.Space{}, err
	}
	return space, nil
}

// Lock passes on or fails. With After the lock is taken and released again.
func (f *FS) Lock(name string) (lock io.Closer, err error) {
	err = f.do(vfs.Op{Kind: vfs.OpLock, Name: name}, func() (err error) {
		lock, err = f.inner.Lock(name)
		return err
	})
	if err != nil {
		if lock != nil {
			lock.Close()
		}
		return nil, err
	}
	return lock, nil
}

// String tells what is armed, for a failing test's output.
func (f *FS) String() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return fmt.Sprintf("errorfs: %d calls, %d rules, %d damaged ranges", f.mu.calls, len(f.mu.rules), len(f.mu.rot))
}
