package offline

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"queen/engine"
	"queen/engine/clock"
	"queen/engine/vfs"
)

// keyedMost bounds the keyed store, which is copied before it is opened, in bytes.
const keyedMost = 8 << 30

// Directory is a stopped node's directory, open for reading.
type Directory struct {
	Engine *engine.Node
	Clock  *clock.Fake

	lock *os.File
	temp string
}

// Open opens a directory. It refuses one that a node holds. fatal is told what would have ended a node; it is not called
// for a directory that is merely damaged, which is an error here.
func Open(dir string, log *slog.Logger, fatal func(error)) (d *Directory, err error) {
	d = &Directory{}
	defer func() {
		if err != nil {
			d.release()
			d = nil
		}
	}()
	if st, err := os.Stat(dir); err != nil {
		return d, fmt.Errorf("data directory: %w", err)
	} else if !st.IsDir() {
		return d, fmt.Errorf("data directory %s: not a directory", dir)
	}
	if d.lock, err = hold(filepath.Join(dir, "LOCK")); err != nil {
		return d, err
	}
	if d.temp, err = os.MkdirTemp("", "queen-offline-"); err != nil {
		return d, err
	}
	last, err := lastWrite(dir)
	if err != nil {
		return d, err
	}
	if err = copyKeyed(filepath.Join(dir, "keyed"), filepath.Join(d.temp, "keyed")); err != nil {
		return d, err
	}
	d.Clock = clock.NewFake(last.UnixMicro())
	files := newOverlay(vfs.NewOS(vfs.OSOptions{}), vfs.NewOS(vfs.OSOptions{}), dir, filepath.Join(d.temp, "data"))
	if err = os.MkdirAll(filepath.Join(d.temp, "data"), 0o700); err != nil {
		return d, err
	}
	const never = 10 * 365 * 24 * time.Hour
	d.Engine, err = engine.OpenLocal(engine.Config{FS: files, Clock: d.Clock, Rand: clock.RealRand(), Log: log, Dir: dir,
		KeyedDir: filepath.Join(d.temp, "keyed"), Fatal: fatal, SegmentBytes: 1 << 20, PoolReady: 1, DiskHigh: 100, DiskLow: 100,
		CheckpointEvery: never, RetentionEvery: never, SweepEvery: time.Millisecond, PartitionCleanup: -1})
	if err != nil {
		return d, err
	}
	d.Clock.Advance(2 * time.Millisecond) // one sweep counts what there is
	return d, nil
}

// Close ends the node and throws away what it wrote.
func (d *Directory) Close(ctx context.Context) error {
	err := d.Engine.Close(ctx)
	d.release()
	return err
}

func (d *Directory) release() {
	if d.temp != "" {
		_ = os.RemoveAll(d.temp) // what is left is the system's to clean
	}
	if d.lock != nil {
		_ = d.lock.Close()
	}
}

// hold takes the lock of a directory without writing into it.
func hold(name string) (*os.File, error) {
	f, err := os.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("data directory %s: no node ever ran there", filepath.Dir(name))
	}
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		f.Close()
		if errors.Is(err, unix.EWOULDBLOCK) {
			return nil, fmt.Errorf("data directory %s is in use: ask its node instead, or stop it", filepath.Dir(name))
		}
		return nil, fmt.Errorf("data directory %s: %w", filepath.Dir(name), err)
	}
	return f, nil
}

// lastWrite is when a file of the directory was written last.
func lastWrite(dir string) (last time.Time, err error) {
	err = filepath.WalkDir(dir, func(_ string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		info, err := e.Info()
		if err == nil && info.ModTime().After(last) {
			last = info.ModTime()
		}
		return err
	})
	return last, err
}

// copyKeyed copies the keyed store: its library writes where it opens.
func copyKeyed(from, to string) error {
	var size int64
	err := filepath.WalkDir(from, func(_ string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		info, err := e.Info()
		if err == nil {
			size += allocated(info)
		}
		return err
	})
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case size > keyedMost:
		return fmt.Errorf("the keyed store has %d bytes, at most %d are copied to look at it", size, int64(keyedMost))
	}
	return filepath.WalkDir(from, func(name string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(from, name)
		if err != nil {
			return err
		}
		if e.IsDir() {
			return os.MkdirAll(filepath.Join(to, rel), 0o700)
		}
		if filepath.Base(name) == "LOCK" {
			return nil
		}
		return copySparse(name, filepath.Join(to, rel))
	})
}

// allocated is what a file takes on disk: files of the keyed store are mostly holes.
func allocated(info fs.FileInfo) int64 {
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		return st.Blocks * 512
	}
	return info.Size()
}

// copySparse copies a file and leaves holes where it is zero.
func copySparse(from, to string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	defer out.Close()
	buffer := make([]byte, 1<<20)
	for off := int64(0); ; {
		n, err := in.ReadAt(buffer, off)
		if n > 0 && !zero(buffer[:n]) {
			if _, err := out.WriteAt(buffer[:n], off); err != nil {
				return err
			}
		}
		if off += int64(n); err != nil {
			if errors.Is(err, io.EOF) {
				return out.Truncate(off)
			}
			return err
		}
	}
}
