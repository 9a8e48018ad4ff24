//go:build linux

package vfs

import (
	"errors"
	iofs "io/fs"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// Probe finds out which mode Direct files in this directory get, by writing one block to a file without a name. The
// answer is remembered per file system, so that only the first call costs a write. The node calls it at start to
// report the mode.
func (o *OS) Probe(dir string) (Mode, error) {
	info, err := os.Stat(dir)
	if err != nil {
		return 0, err
	}
	device := info.Sys().(*syscall.Stat_t).Dev
	o.mu.Lock()
	defer o.mu.Unlock()
	if mode, ok := o.mu.modes[device]; ok {
		return mode, nil
	}
	mode, err := probe(dir, o.best)
	if err != nil {
		return 0, &iofs.PathError{Op: "probe direct I/O", Path: dir, Err: err}
	}
	o.mu.modes[device] = mode
	return mode, nil
}

func probe(dir string, best Mode) (Mode, error) {
	if best <= ModeBufferedSync {
		return ModeBufferedSync, nil
	}
	f, err := openUnnamed(dir)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	fd := int(f.Fd())
	if err := setDirect(fd); err != nil {
		return ModeBufferedSync, nil
	}
	block := AlignedBuffer(BlockSize)
	if best >= ModeDirectDSync {
		ok, err := supported(unix.Pwritev2(fd, [][]byte{block}, 0, unix.RWF_DSYNC))
		if ok || err != nil {
			return ModeDirectDSync, err
		}
	}
	ok, err := supported(unix.Pwrite(fd, block, 0))
	if ok || err != nil {
		return ModeDirectSync, err
	}
	return ModeBufferedSync, nil
}

// supported reads the answer to a probing write. A full disk is a yes: flags and alignment are judged before space
// is looked for, and a node must be able to start on a full disk.
func supported(_ int, err error) (bool, error) {
	switch {
	case err == nil, errors.Is(err, unix.ENOSPC), errors.Is(err, unix.EDQUOT):
		return true, nil
	case errors.Is(err, unix.EINVAL), errors.Is(err, unix.EOPNOTSUPP), errors.Is(err, unix.ENOSYS):
		return false, nil
	default:
		return false, err
	}
}

// openUnnamed opens a file that vanishes with its descriptor; where the file system has no such thing, a named one
// whose name is taken away at once.
func openUnnamed(dir string) (*os.File, error) {
	f, err := os.OpenFile(dir, os.O_RDWR|unix.O_TMPFILE, fileMode)
	if err == nil {
		return f, nil
	}
	f, err = os.CreateTemp(dir, ".probe-*")
	if err != nil {
		return nil, err
	}
	if err := os.Remove(f.Name()); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// setDirect turns O_DIRECT on for an open file.
func setDirect(fd int) error {
	flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFL, 0)
	if err != nil {
		return err
	}
	_, err = unix.FcntlInt(uintptr(fd), unix.F_SETFL, flags|unix.O_DIRECT)
	return err
}
