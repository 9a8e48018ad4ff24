package offline

import (
	"errors"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"
	"sync"

	"queen/engine/vfs"
)

// overlay is a file system in which everything under root looks as it is in lower, and every change goes to files of
// upper below dir. A file of lower that is to be written is copied first.
type overlay struct {
	lower, upper vfs.FS
	root, dir    string

	mu sync.Mutex
	// gone are names of lower that were removed or renamed.
	gone map[string]bool
}

var _ vfs.FS = (*overlay)(nil)

func newOverlay(lower, upper vfs.FS, root, dir string) *overlay {
	return &overlay{lower: lower, upper: upper, root: path.Clean(root), dir: dir, gone: map[string]bool{}}
}

// over is where changes of a name go.
func (o *overlay) over(name string) string {
	name = path.Clean(name)
	if rel, ok := strings.CutPrefix(name, o.root); ok {
		return path.Join(o.dir, rel)
	}
	return path.Join(o.dir, "elsewhere", name)
}

func (o *overlay) inUpper(name string) bool {
	_, err := o.upper.Stat(o.over(name))
	return err == nil
}

// inLower tells whether a name of lower is still to be seen.
func (o *overlay) inLower(name string) bool {
	if o.gone[path.Clean(name)] {
		return false
	}
	_, err := o.lower.Stat(name)
	return err == nil
}

func notThere(op, name string) error { return &fs.PathError{Op: op, Path: name, Err: fs.ErrNotExist} }

func (o *overlay) Open(name string, flags vfs.Flags) (vfs.File, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	writes := flags&(vfs.Write|vfs.Create|vfs.Truncate) != 0
	switch {
	case o.inUpper(name):
		return o.upper.Open(o.over(name), flags)
	case !o.inLower(name) && flags&vfs.Create == 0:
		return nil, notThere("open", name)
	case !writes:
		return o.lower.Open(name, flags)
	case o.inLower(name) && flags&vfs.Exclusive != 0:
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrExist}
	}
	if err := o.upper.MkdirAll(path.Dir(o.over(name))); err != nil {
		return nil, err
	}
	if o.inLower(name) {
		if err := o.copyUp(name); err != nil {
			return nil, err
		}
	}
	delete(o.gone, path.Clean(name))
	return o.upper.Open(o.over(name), flags)
}

// copyUp copies a file of lower; the caller has the lock.
func (o *overlay) copyUp(name string) error {
	if o.inUpper(name) {
		return nil
	}
	if !o.inLower(name) {
		return notThere("open", name)
	}
	if err := o.upper.MkdirAll(path.Dir(o.over(name))); err != nil {
		return err
	}
	from, err := o.lower.Open(name, vfs.ReadOnly)
	if err != nil {
		return err
	}
	defer from.Close()
	to, err := o.upper.Open(o.over(name), vfs.Write|vfs.Create|vfs.Truncate)
	if err != nil {
		return err
	}
	defer to.Close()
	buffer := make([]byte, 1<<20)
	for off := int64(0); ; {
		n, err := from.ReadAt(buffer, off)
		if n > 0 && !zero(buffer[:n]) {
			if _, err := to.WriteAt(buffer[:n], off); err != nil {
				return err
			}
		}
		off += int64(n)
		switch {
		case errors.Is(err, io.EOF):
			return to.Truncate(off)
		case err != nil:
			return err
		}
	}
}

// zero tells whether there is nothing to write: the new file is zero where nothing was written.
func zero(p []byte) bool { return !slices.ContainsFunc(p, func(b byte) bool { return b != 0 }) }

func (o *overlay) Rename(oldName, newName string) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if err := o.copyUp(oldName); err != nil {
		return err
	}
	if err := o.upper.MkdirAll(path.Dir(o.over(newName))); err != nil {
		return err
	}
	if err := o.upper.Rename(o.over(oldName), o.over(newName)); err != nil {
		return err
	}
	o.gone[path.Clean(oldName)] = true
	delete(o.gone, path.Clean(newName))
	return nil
}

func (o *overlay) Link(oldName, newName string) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.inLower(oldName) && !o.inUpper(oldName) {
		return notThere("link", oldName)
	}
	if o.inLower(newName) || o.inUpper(newName) {
		return &fs.PathError{Op: "link", Path: newName, Err: fs.ErrExist}
	}
	if err := o.copyUp(oldName); err != nil {
		return err
	}
	if err := o.upper.MkdirAll(path.Dir(o.over(newName))); err != nil {
		return err
	}
	delete(o.gone, path.Clean(newName))
	return o.upper.Link(o.over(oldName), o.over(newName))
}

func (o *overlay) Remove(name string) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	below, above := o.inLower(name), o.inUpper(name)
	if !below && !above {
		return notThere("remove", name)
	}
	if above {
		if err := o.upper.Remove(o.over(name)); err != nil {
			return err
		}
	}
	if below {
		o.gone[path.Clean(name)] = true
	}
	return nil
}

func (o *overlay) MkdirAll(dir string) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.gone, path.Clean(dir))
	return o.upper.MkdirAll(o.over(dir))
}

func (o *overlay) List(dir string) ([]string, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	var names []string
	below, errBelow := o.lower.List(dir)
	for _, n := range below {
		if !o.gone[path.Join(path.Clean(dir), n)] {
			names = append(names, n)
		}
	}
	above, errAbove := o.upper.List(o.over(dir))
	if errBelow != nil && errAbove != nil {
		return nil, errBelow
	}
	names = append(names, above...)
	slices.Sort(names)
	return slices.Compact(names), nil
}

func (o *overlay) Stat(name string) (vfs.Info, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	switch {
	case o.inUpper(name):
		return o.upper.Stat(o.over(name))
	case !o.inLower(name):
		return vfs.Info{}, notThere("stat", name)
	}
	return o.lower.Stat(name)
}

// SyncDir makes nothing durable: what is written is thrown away.
func (o *overlay) SyncDir(string) error { return nil }

// Lock is always free: the directory itself is locked by Open.
func (o *overlay) Lock(string) (io.Closer, error) { return io.NopCloser(strings.NewReader("")), nil }

func (o *overlay) Free(string) (vfs.Space, error) { return o.upper.Free(o.dir) }
