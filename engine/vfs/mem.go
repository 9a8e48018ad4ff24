package vfs

import (
	"io"
	iofs "io/fs"
	"maps"
	"path"
	"slices"
	"sync"
	"syscall"
)

// Mem is a file system in memory that can lose power. It keeps two states, what readers see and what is certain to
// be on disk, and the list of changes between them; Crash makes a disk out of them (mem_crash.go).
//
//   - A write, Truncate or Preallocate is pending until Sync of that file, or until a WriteAtSync covers its bytes.
//   - A name is pending until SyncDir of its directory; a Rename belongs to the directory of the new name and is
//     atomic.
//   - After a failed Sync (see SetHook) what was pending stays visible but no later Sync makes it durable.
//
// Tests stop it at any operation: SetHook is called before each mutating one, PowerOffAt makes the n-th and
// everything after it fail. With one goroutine everything is deterministic.
type Mem struct {
	mu       sync.Mutex
	names    map[string]*inode // as seen, by clean absolute path
	durable  map[string]*inode // as on disk
	pending  []*nameChange     // from durable to names, in order
	locks    map[string]bool
	nextID   uint64
	capacity int64 // bytes; 0 = no limit
	used     int64 // allocated by inodes that have a name or are open

	hook  func(Op) error
	ops   int64 // mutating operations so far
	offAt int64 // the value of ops at which the power goes off; 0 = never
	off   bool
}

var _ FS = (*Mem)(nil)

// nameChange is one pending atomic change of names: which path now leads to which inode (nil: to none).
type nameChange struct {
	dir   string // whose SyncDir makes it durable
	edits []nameEdit
}

type nameEdit struct {
	path string
	node *inode
}

// memTotal is what Free reports as the total when there is no limit.
const memTotal = 1 << 50

// NewMem returns an empty file system with a root directory. Relative names are relative to the root.
func NewMem() *Mem {
	m := &Mem{names: map[string]*inode{}, durable: map[string]*inode{}, locks: map[string]bool{}}
	root := m.newInode(true)
	root.links = 1
	m.names["/"], m.durable["/"] = root, root
	return m
}

// SetCapacity limits the space of all files, counted in whole blocks; 0 lifts the limit. Writes beyond it fail with
// ErrNoSpace and write nothing.
func (m *Mem) SetCapacity(bytes int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.capacity = bytes
}

// SetHook sets a function that is called before each mutating operation, without any lock held: it may call Crash.
// If it returns an error the operation fails with it and does not happen; a failed OpSync or OpPersist additionally
// loses what it would have flushed. nil removes it.
func (m *Mem) SetHook(hook func(Op) error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.hook = hook
}

// Ops returns how many mutating operations there were. A WriteAtSync counts as two: OpWriteSync and OpPersist.
func (m *Mem) Ops() int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.ops
}

// PowerOffAt makes the n-th mutating operation from now (the first is 1) not happen, and every operation from then
// on, reads too, fail with ErrPowerOff. Crash then tells what the disk holds. If n is 0 the power stays on.
func (m *Mem) PowerOffAt(n int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.offAt = 0
	if n > 0 {
		m.offAt = m.ops + n
	}
}

// PoweredOff reports whether PowerOffAt has struck.
func (m *Mem) PoweredOff() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.off
}

// FlipBit changes one bit of a file on the disk and in what readers see: bit rot that no operation caused. The bit
// is 0 to 7.
func (m *Mem) FlipBit(name string, pos int64, bit uint) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	n, err := m.file("flip-bit", name)
	if err != nil {
		return err
	}
	if pos < 0 || pos >= n.cur.size || bit > 7 {
		return memError("flip-bit", name, syscall.EINVAL)
	}
	for _, im := range []*image{&n.cur, &n.disk} {
		var b [1]byte
		if im.readAt(b[:], pos) == 1 {
			b[0] ^= 1 << bit
			im.writeAt(b[:], pos)
		}
	}
	for _, c := range n.pending {
		if c.kind == changeWrite && c.off <= pos && pos < c.end() {
			c.data = slices.Clone(c.data) // pieces of one write share memory
			c.data[pos-c.off] ^= 1 << bit
		}
	}
	return nil
}

// begin counts a mutating operation and asks the hook. It runs without the lock held.
func (m *Mem) begin(op Op) error {
	m.mu.Lock()
	if m.off {
		m.mu.Unlock()
		return memError(op.Kind.String(), op.Name, ErrPowerOff)
	}
	m.ops++
	if m.offAt > 0 && m.ops >= m.offAt {
		m.off = true
		m.mu.Unlock()
		return memError(op.Kind.String(), op.Name, ErrPowerOff)
	}
	hook := m.hook
	m.mu.Unlock()
	if hook == nil {
		return nil
	}
	return hook(op)
}

// lockOn takes the lock and refuses if the power went off since begin.
func (m *Mem) lockOn(op OpKind, name string) error {
	m.mu.Lock()
	if m.off {
		m.mu.Unlock()
		return memError(op.String(), name, ErrPowerOff)
	}
	return nil
}

func (m *Mem) newInode(dir bool) *inode {
	m.nextID++
	return &inode{id: m.nextID, dir: dir}
}

// take accounts for more space, or refuses.
func (m *Mem) take(bytes int64) error {
	if m.capacity > 0 && bytes > 0 && m.used+bytes > m.capacity {
		return ErrNoSpace
	}
	m.used += bytes
	return nil
}

// drop gives the space of an inode back once nothing leads to it.
func (m *Mem) drop(n *inode) {
	if n.links == 0 && n.opens == 0 {
		m.used -= n.cur.allocated()
	}
}

// edit changes names, as seen at once and on disk after SyncDir(dir).
func (m *Mem) edit(dir string, edits ...nameEdit) {
	for _, e := range edits {
		m.setName(e.path, e.node)
	}
	m.pending = append(m.pending, &nameChange{dir: dir, edits: edits})
}

func (m *Mem) setName(p string, n *inode) {
	old := m.names[p]
	if n == nil {
		delete(m.names, p)
	} else {
		n.links++
		m.names[p] = n
	}
	if old != nil {
		old.links--
		m.drop(old)
	}
}

// file finds a file, not a directory.
func (m *Mem) file(op, name string) (*inode, error) {
	n := m.names[clean(name)]
	switch {
	case n == nil:
		return nil, memError(op, name, iofs.ErrNotExist)
	case n.dir:
		return nil, memError(op, name, syscall.EISDIR)
	}
	return n, nil
}

// place checks that a name may be created: the directory above it exists.
func (m *Mem) place(op, name string) error {
	parent := m.names[path.Dir(clean(name))]
	switch {
	case parent == nil:
		return memError(op, name, iofs.ErrNotExist)
	case !parent.dir:
		return memError(op, name, syscall.ENOTDIR)
	}
	return nil
}

// SyncDir makes the names in a directory durable.
func (m *Mem) SyncDir(dir string) error {
	if err := m.begin(Op{Kind: OpSyncDir, Name: dir}); err != nil {
		return err
	}
	if err := m.lockOn(OpSyncDir, dir); err != nil {
		return err
	}
	defer m.mu.Unlock()
	d := clean(dir)
	if n := m.names[d]; n == nil {
		return memError("sync-dir", dir, iofs.ErrNotExist)
	} else if !n.dir {
		return memError("sync-dir", dir, syscall.ENOTDIR)
	}
	all := m.pending
	m.pending = nil
	for _, c := range all {
		if c.dir != d {
			m.pending = append(m.pending, c)
			continue
		}
		for _, e := range c.edits {
			applyName(m.durable, e)
			m.forget(e.path)
		}
	}
	return nil
}

// forget removes older pending edits of a path whose newest state has become durable, so that they can not undo it.
func (m *Mem) forget(p string) {
	for _, c := range m.pending {
		c.edits = slices.DeleteFunc(c.edits, func(e nameEdit) bool { return e.path == p })
	}
	m.pending = slices.DeleteFunc(m.pending, func(c *nameChange) bool { return len(c.edits) == 0 })
}

func applyName(names map[string]*inode, e nameEdit) {
	if e.node == nil {
		delete(names, e.path)
	} else {
		names[e.path] = e.node
	}
}

// Lock takes a lock that ends with Close, or with a Crash.
func (m *Mem) Lock(name string) (io.Closer, error) {
	if err := m.lockOn(OpLock, name); err != nil {
		return nil, err
	}
	defer m.mu.Unlock()
	p := clean(name)
	if m.locks[p] {
		return nil, &LockedError{Name: name, Holder: "this process"}
	}
	if n := m.names[p]; n == nil {
		if err := m.place("lock", name); err != nil {
			return nil, err
		}
		m.edit(path.Dir(p), nameEdit{p, m.newInode(false)})
	} else if n.dir {
		return nil, memError("lock", name, syscall.EISDIR)
	}
	m.locks[p] = true
	return &memLock{m: m, path: p}, nil
}

type memLock struct {
	m    *Mem
	path string
	once sync.Once
}

// Close releases the lock; a second Close does nothing, also if the lock has a new holder.
func (l *memLock) Close() error {
	l.once.Do(func() {
		l.m.mu.Lock()
		defer l.m.mu.Unlock()
		delete(l.m.locks, l.path)
	})
	return nil
}

// Free tells the limit and what is left of it.
func (m *Mem) Free(dir string) (Space, error) {
	if err := m.lockOn(OpFree, dir); err != nil {
		return Space{}, err
	}
	defer m.mu.Unlock()
	if m.names[clean(dir)] == nil {
		return Space{}, memError("free", dir, iofs.ErrNotExist)
	}
	total := m.capacity
	if total == 0 {
		total = memTotal
	}
	return Space{Total: total, Available: max(0, total-m.used)}, nil
}

// sortedNames returns all paths as seen, parents before what is in them.
func sortedNames(names map[string]*inode) []string { return slices.Sorted(maps.Keys(names)) }

func clean(name string) string { return path.Clean("/" + name) }

func memError(op, name string, err error) error {
	return &iofs.PathError{Op: op, Path: name, Err: err}
}
