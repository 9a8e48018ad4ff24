package vfs

import (
	"fmt"
	"io"
	"path"
)

// OpenNew creates a file for writing, or empties the one that has the name.
func OpenNew(fs FS, name string) (File, error) { return fs.Open(name, Write|Create|Truncate) }

// ReadFile returns the whole file. A file longer than limit bytes is refused, so that a damaged or foreign file can
// not take all memory.
func ReadFile(fs FS, name string, limit int64) ([]byte, error) {
	f, err := fs.Open(name, ReadOnly)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	size, err := f.Size()
	if err != nil {
		return nil, err
	}
	if size > limit {
		return nil, fmt.Errorf("vfs: read %s: %d bytes, at most %d allowed", name, size, limit)
	}
	p := make([]byte, size)
	if n, err := f.ReadAt(p, 0); err != nil && !(err == io.EOF && int64(n) == size) {
		return nil, err
	}
	return p, nil
}

// WriteFileSync replaces a file as a whole: it writes name+".tmp", syncs it, renames it and syncs the directory.
// When it returns nil the content is durable under name; after a crash at any moment, or an error, name holds the
// old content or the new one. A ".tmp" file may be left over and is overwritten by the next call.
func WriteFileSync(fs FS, name string, content []byte) error {
	tmp := name + ".tmp"
	f, err := OpenNew(fs, tmp)
	if err != nil {
		return err
	}
	if len(content) > 0 {
		if _, err := f.WriteAt(content, 0); err != nil {
			f.Close()
			return err
		}
	}
	if err := f.Sync(); err != nil {
		f.Close()
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	if err := fs.Rename(tmp, name); err != nil {
		return err
	}
	return fs.SyncDir(path.Dir(name))
}

// MkdirAllSync creates a directory and the missing ones above it and makes each new name durable. The directory
// above the highest missing one is synced as well, and nothing higher.
func MkdirAllSync(fs FS, dir string) error {
	var missing []string
	for d := path.Clean(dir); ; d = path.Dir(d) {
		if _, err := fs.Stat(d); err == nil || d == path.Dir(d) {
			break
		}
		missing = append(missing, d)
	}
	if err := fs.MkdirAll(dir); err != nil {
		return err
	}
	for i := len(missing) - 1; i >= 0; i-- {
		if err := fs.SyncDir(path.Dir(missing[i])); err != nil {
			return err
		}
	}
	return nil
}
