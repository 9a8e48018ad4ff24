package checkpoint

import (
	"errors"
	"fmt"
	iofs "io/fs"
	"path"

	"queen/engine/format"
	"queen/engine/invariants"
	"queen/engine/vfs"
)

// Failpoints of writing the manifest, in order.
var (
	failManifestWritten = invariants.Register("checkpoint.manifest.written")
	failManifestSynced  = invariants.Register("checkpoint.manifest.synced")
)

// Found is what ReadManifest saw.
type Found struct {
	// Manifest is the valid one of the highest generation, nil when there is none.
	Manifest *format.Manifest
	// Damaged names files that are there and do not verify: a write that a crash cut short, or rot.
	Damaged []error
}

// ReadManifest reads both manifest files of dir. An error is one of reading a file that is there, or
// of a newer format; damage is not an error here, since the caller knows what else there is.
func ReadManifest(fs vfs.FS, dir string) (Found, error) {
	var found Found
	for g := range uint64(2) {
		name := path.Join(dir, format.ManifestName(g))
		b, err := vfs.ReadFile(fs, name, format.MaxManifestBytes)
		if errors.Is(err, iofs.ErrNotExist) {
			continue
		}
		if err != nil {
			return found, fmt.Errorf("checkpoint: read the manifest: %w", err)
		}
		m, err := format.ParseManifest(b)
		if err == nil && m.Generation%2 != g {
			err = fmt.Errorf("generation %d", m.Generation)
		}
		if err != nil {
			found.Damaged = append(found.Damaged, &CorruptionError{File: name, Err: err})
			continue
		}
		if found.Manifest == nil || found.Manifest.Generation < m.Generation {
			found.Manifest = &m
		}
	}
	return found, nil
}

// WriteManifest writes the next generation of m over the older of the two files; it is durable when
// WriteManifest returns. m.Generation is raised.
func WriteManifest(fs vfs.FS, dir string, m *format.Manifest) error {
	m.Generation++
	name := path.Join(dir, format.ManifestName(m.Generation))
	b := m.Append(nil)
	if len(b) > format.MaxManifestBytes {
		return fmt.Errorf("checkpoint: manifest of %d bytes", len(b))
	}
	f, err := vfs.OpenNew(fs, name)
	if err != nil {
		return fmt.Errorf("checkpoint: write the manifest: %w", err)
	}
	_, err = f.WriteAt(b, 0)
	invariants.Failpoint(failManifestWritten)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err == nil {
		invariants.Failpoint(failManifestSynced)
		err = fs.SyncDir(dir)
	}
	if err != nil {
		return fmt.Errorf("checkpoint: write the manifest: %w", err)
	}
	return nil
}

// Sweep removes checkpoint files that files does not list, finished or not, and reports how many.
func Sweep(fs vfs.FS, dir string, files []format.ManifestFile) (int, error) {
	listed := map[string]bool{}
	for _, f := range files {
		if f.Kind == format.FileCheckpoint {
			listed[FileName(f.Number)] = true
		}
	}
	names, err := fs.List(dir)
	if err != nil {
		return 0, fmt.Errorf("checkpoint: %w", err)
	}
	gone := 0
	for _, name := range names {
		if !IsOurs(name) || listed[name] {
			continue
		}
		if err := fs.Remove(path.Join(dir, name)); err != nil {
			return gone, fmt.Errorf("checkpoint: %w", err)
		}
		gone++
	}
	return gone, nil
}
