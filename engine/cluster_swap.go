package engine

import (
	"errors"
	"fmt"
	"io"
	iofs "io/fs"
	"os"
	"path"
	"slices"
	"strings"

	"queen/engine/invariants"
	"queen/engine/vfs"
)

// Failpoints of an image's way into its place, in order.
var (
	failPullMarked  = invariants.Register("engine.pull.marked")
	failPullRemoved = invariants.Register("engine.pull.old-removed")
	failPullMoved   = invariants.Register("engine.pull.moved")
)

// An image is written into pullDir inside of the data directory, and counts as soon as pullMark lists its files. Then what was
// there before goes, and the files move up; whichever start comes next does that as far as it is left to do. The keyed store has a
// directory of its own, with pulledSuffix until then.
const (
	pullDir      = "pull"
	pullMark     = "WHOLE"
	pulledSuffix = ".pulled"
	// pulledKeyed stands in the mark for the keyed store.
	pulledKeyed = "/keyed"
	maxPullMark = 16 << 20
)

// LockDir takes the lock of a data directory, which it creates when absent.
func LockDir(cfg Config) (io.Closer, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	cfg = cfg.withDefaults()
	if err := vfs.MkdirAllSync(cfg.FS, cfg.Dir); err != nil {
		return nil, fmt.Errorf("engine: data directory %s: %w", cfg.Dir, err)
	}
	lock, err := cfg.FS.Lock(path.Join(cfg.Dir, lockName))
	if err != nil {
		return nil, fmt.Errorf("engine: data directory %s is in use: %w", cfg.Dir, err)
	}
	return lock, nil
}

// dropPull removes an image that is not whole.
func dropPull(cfg Config) error {
	dir := path.Join(cfg.Dir, pullDir)
	names, err := filesIn(cfg.FS, dir)
	if err != nil || names == nil {
		return err
	}
	if slices.Contains(names, pullMark) {
		return settlePull(cfg)
	}
	for _, name := range names {
		if err := cfg.FS.Remove(path.Join(dir, name)); err != nil && !errors.Is(err, iofs.ErrNotExist) { // a pool that was cut off may still have renamed it
			return fmt.Errorf("engine: pull: %w", err)
		}
	}
	if cfg.KeyedDir != "" {
		if err := os.RemoveAll(cfg.KeyedDir + pulledSuffix); err != nil {
			return fmt.Errorf("engine: pull: %w", err)
		}
	}
	return removeDir(cfg, dir)
}

func removeDir(cfg Config, dir string) error {
	if err := cfg.FS.Remove(dir); err != nil {
		return fmt.Errorf("engine: pull: %w", err)
	}
	return cfg.FS.SyncDir(cfg.Dir)
}

// filesIn lists the files of a directory, without directories; nil when it is not there.
func filesIn(fs vfs.FS, dir string) ([]string, error) {
	all, err := fs.List(dir)
	if errors.Is(err, iofs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("engine: pull: %w", err)
	}
	names := []string{}
	for _, name := range all {
		info, err := fs.Stat(path.Join(dir, name))
		if err != nil {
			return nil, fmt.Errorf("engine: pull: %w", err)
		}
		if !info.Dir {
			names = append(names, name)
		}
	}
	return names, nil
}

// markPulled says durably that the image is whole.
func markPulled(cfg Config) error {
	dir := path.Join(cfg.Dir, pullDir)
	if err := cfg.FS.SyncDir(dir); err != nil {
		return fmt.Errorf("engine: pull: %w", err)
	}
	names, err := filesIn(cfg.FS, dir)
	if err != nil {
		return err
	}
	if cfg.KeyedDir != "" {
		if _, err := os.Stat(cfg.KeyedDir + pulledSuffix); err == nil {
			names = append(names, pulledKeyed)
		}
	}
	if err := vfs.WriteFileSync(cfg.FS, path.Join(dir, pullMark), []byte(strings.Join(names, "\n"))); err != nil {
		return fmt.Errorf("engine: pull: %w", err)
	}
	invariants.Failpoint(failPullMarked)
	return nil
}

// settlePull puts a whole image in its place. It can be repeated from any point.
func settlePull(cfg Config) error {
	dir := path.Join(cfg.Dir, pullDir)
	b, err := vfs.ReadFile(cfg.FS, path.Join(dir, pullMark), maxPullMark)
	if err != nil {
		return fmt.Errorf("engine: pull: %w", err)
	}
	names := strings.Split(string(b), "\n")
	if err := removeReplaced(cfg, names); err != nil {
		return fmt.Errorf("engine: pull: %w", err)
	}
	invariants.Failpoint(failPullRemoved)
	left, err := filesIn(cfg.FS, dir)
	if err != nil {
		return err
	}
	for _, name := range left {
		if !slices.Contains(names, name) {
			continue
		}
		if err := cfg.FS.Rename(path.Join(dir, name), path.Join(cfg.Dir, name)); err != nil {
			return fmt.Errorf("engine: pull: %w", err)
		}
	}
	if err := swapKeyed(cfg, slices.Contains(names, pulledKeyed)); err != nil {
		return fmt.Errorf("engine: pull: %w", err)
	}
	if err := cfg.FS.SyncDir(cfg.Dir); err != nil {
		return fmt.Errorf("engine: pull: %w", err)
	}
	invariants.Failpoint(failPullMoved)
	// What is left is the mark, and what it does not list. From here on the directory is the node's like any other.
	if err := cfg.FS.Remove(path.Join(dir, pullMark)); err != nil {
		return fmt.Errorf("engine: pull: %w", err)
	}
	if err := cfg.FS.SyncDir(dir); err != nil {
		return fmt.Errorf("engine: pull: %w", err)
	}
	return dropPull(cfg)
}

// removeReplaced removes what the node had: everything of its log and its state that the image does not bring.
func removeReplaced(cfg Config, names []string) error {
	old, err := filesIn(cfg.FS, cfg.Dir)
	if err != nil {
		return err
	}
	for _, name := range old {
		if name == lockName || slices.Contains(names, name) {
			continue
		}
		if err := cfg.FS.Remove(path.Join(cfg.Dir, name)); err != nil {
			return err
		}
	}
	// A log without its newest segments must not be taken for one, should the image's files get lost.
	return cfg.FS.SyncDir(cfg.Dir)
}

// swapKeyed puts the keyed store in its place, or removes the old one when the image has no keyed rows.
func swapKeyed(cfg Config, pulled bool) error {
	if !pulled {
		if cfg.KeyedDir == "" {
			return nil
		}
		return os.RemoveAll(cfg.KeyedDir)
	}
	from := cfg.KeyedDir + pulledSuffix
	if _, err := os.Stat(from); errors.Is(err, iofs.ErrNotExist) {
		return nil // it was put there before
	}
	if err := os.RemoveAll(cfg.KeyedDir); err != nil {
		return err
	}
	if err := os.Rename(from, cfg.KeyedDir); err != nil {
		return err
	}
	d, err := os.Open(path.Dir(cfg.KeyedDir))
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
