package vfs

import (
	iofs "io/fs"
	"path"
	"slices"
	"strings"
	"syscall"
)

// Open opens or creates a file.
func (m *Mem) Open(name string, flags Flags) (File, error) {
	write := flags&(Write|Create|Truncate) != 0
	n, err := m.lookupOrCreate(name, flags)
	if err != nil {
		return nil, err
	}
	f := &memFile{m: m, name: name, n: n, writable: write, aligned: flags&Direct != 0}
	if flags&Truncate != 0 && n.curSize(m) > 0 {
		if err := f.Truncate(0); err != nil {
			f.Close()
			return nil, err
		}
	}
	return f, nil
}

// lookupOrCreate returns the inode of a file with one more opener.
func (m *Mem) lookupOrCreate(name string, flags Flags) (*inode, error) {
	p := clean(name)
	if err := m.lockOn(OpOpen, name); err != nil {
		return nil, err
	}
	n := m.names[p]
	create := n == nil && flags&Create != 0
	if !create {
		defer m.mu.Unlock()
		switch {
		case n == nil:
			return nil, memError("open", name, iofs.ErrNotExist)
		case flags&Create != 0 && flags&Exclusive != 0:
			return nil, memError("open", name, iofs.ErrExist)
		case n.dir:
			return nil, memError("open", name, syscall.EISDIR)
		}
		n.opens++
		return n, nil
	}
	err := m.place("open", name)
	m.mu.Unlock()
	if err != nil {
		return nil, err
	}
	if err := m.begin(Op{Kind: OpCreate, Name: name}); err != nil {
		return nil, err
	}
	if err := m.lockOn(OpCreate, name); err != nil {
		return nil, err
	}
	defer m.mu.Unlock()
	if m.names[p] != nil {
		return nil, memError("open", name, iofs.ErrExist) // somebody else created it while the hook ran
	}
	n = m.newInode(false)
	n.opens++
	m.edit(path.Dir(p), nameEdit{p, n})
	return n, nil
}

func (n *inode) curSize(m *Mem) int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return n.cur.size
}

// Rename renames a file.
func (m *Mem) Rename(oldName, newName string) error {
	if err := m.begin(Op{Kind: OpRename, Name: oldName, NewName: newName}); err != nil {
		return err
	}
	if err := m.lockOn(OpRename, oldName); err != nil {
		return err
	}
	defer m.mu.Unlock()
	n, err := m.file("rename", oldName)
	if err != nil {
		return err
	}
	if err := m.place("rename", newName); err != nil {
		return err
	}
	from, to := clean(oldName), clean(newName)
	old := m.names[to]
	switch {
	case old == n:
		return nil // also two names of one file: POSIX leaves both
	case old != nil && old.dir:
		return memError("rename", newName, iofs.ErrExist)
	}
	m.edit(path.Dir(to), nameEdit{to, n}, nameEdit{from, nil})
	return nil
}

// Link gives a file a second name.
func (m *Mem) Link(oldName, newName string) error {
	if err := m.begin(Op{Kind: OpLink, Name: oldName, NewName: newName}); err != nil {
		return err
	}
	if err := m.lockOn(OpLink, oldName); err != nil {
		return err
	}
	defer m.mu.Unlock()
	n, err := m.file("link", oldName)
	if err != nil {
		return err
	}
	if err := m.place("link", newName); err != nil {
		return err
	}
	to := clean(newName)
	if m.names[to] != nil {
		return memError("link", newName, iofs.ErrExist)
	}
	m.edit(path.Dir(to), nameEdit{to, n})
	return nil
}

// Remove removes a file's name or an empty directory.
func (m *Mem) Remove(name string) error {
	if err := m.begin(Op{Kind: OpRemove, Name: name}); err != nil {
		return err
	}
	if err := m.lockOn(OpRemove, name); err != nil {
		return err
	}
	defer m.mu.Unlock()
	p := clean(name)
	n := m.names[p]
	switch {
	case n == nil:
		return memError("remove", name, iofs.ErrNotExist)
	case p == "/":
		return memError("remove", name, syscall.EBUSY)
	case n.dir && len(m.children(p)) > 0:
		return memError("remove", name, syscall.ENOTEMPTY)
	}
	m.edit(path.Dir(p), nameEdit{p, nil})
	return nil
}

// MkdirAll creates directories.
func (m *Mem) MkdirAll(dir string) error {
	if err := m.begin(Op{Kind: OpMkdirAll, Name: dir}); err != nil {
		return err
	}
	if err := m.lockOn(OpMkdirAll, dir); err != nil {
		return err
	}
	defer m.mu.Unlock()
	var missing []string
	for p := clean(dir); ; p = path.Dir(p) {
		n := m.names[p]
		if n != nil && !n.dir {
			return memError("mkdir-all", dir, syscall.ENOTDIR)
		}
		if n != nil {
			break
		}
		missing = append(missing, p)
	}
	for _, p := range slices.Backward(missing) {
		m.edit(path.Dir(p), nameEdit{p, m.newInode(true)})
	}
	return nil
}

// List returns the sorted names in a directory.
func (m *Mem) List(dir string) ([]string, error) {
	if err := m.lockOn(OpList, dir); err != nil {
		return nil, err
	}
	defer m.mu.Unlock()
	n := m.names[clean(dir)]
	switch {
	case n == nil:
		return nil, memError("list", dir, iofs.ErrNotExist)
	case !n.dir:
		return nil, memError("list", dir, syscall.ENOTDIR)
	}
	return m.children(clean(dir)), nil
}

func (m *Mem) children(dir string) []string {
	names := []string{}
	prefix := strings.TrimSuffix(dir, "/") + "/"
	for p := range m.names {
		if rest, ok := strings.CutPrefix(p, prefix); ok && rest != "" && !strings.Contains(rest, "/") {
			names = append(names, rest)
		}
	}
	slices.Sort(names)
	return names
}

// Stat tells size and kind.
func (m *Mem) Stat(name string) (Info, error) {
	if err := m.lockOn(OpStat, name); err != nil {
		return Info{}, err
	}
	defer m.mu.Unlock()
	n := m.names[clean(name)]
	if n == nil {
		return Info{}, memError("stat", name, iofs.ErrNotExist)
	}
	return Info{Size: n.cur.size, Dir: n.dir}, nil
}
