//go:build linux

package vfs

import (
	"errors"
	"io"
	iofs "io/fs"
	"os"
	"sync/atomic"
	"syscall"

	"golang.org/x/sys/unix"
)

// osFile is an open file of the machine. System calls that package os does not have go through raw.Control, which
// keeps the descriptor alive while they run: a concurrent Close can not make them hit a stranger's file.
type osFile struct {
	fs      *OS
	f       *os.File
	raw     syscall.RawConn
	mode    Mode
	aligned bool // opened with Direct: writes must be aligned whatever the mode
	id      fileID
	closed  atomic.Bool
}

var _ File = (*osFile)(nil)

func newOSFile(o *OS, f *os.File, flags Flags, mode Mode) (*osFile, error) {
	id, info, err := idOf(f)
	if err != nil {
		return nil, err
	}
	if info.IsDir() {
		return nil, &iofs.PathError{Op: "open", Path: f.Name(), Err: syscall.EISDIR}
	}
	raw, err := f.SyscallConn()
	if err != nil {
		return nil, err
	}
	file := &osFile{fs: o, f: f, raw: raw, mode: mode, aligned: flags&Direct != 0, id: id}
	if mode >= ModeDirectSync {
		if err := file.control("open", func(fd int) error { return setDirect(fd) }); err != nil {
			file.mode = ModeBufferedSync
		}
	}
	countOpen(id)
	return file, nil
}

// control runs one system call on the descriptor and names it in the error.
func (f *osFile) control(op string, call func(fd int) error) error {
	var callErr error
	if err := f.raw.Control(func(fd uintptr) { callErr = call(int(fd)) }); err != nil {
		return f.failed(op, err)
	}
	if callErr != nil {
		return f.failed(op, callErr)
	}
	return nil
}

func (f *osFile) failed(op string, err error) error {
	return &iofs.PathError{Op: op, Path: f.f.Name(), Err: err}
}

func (f *osFile) direct() bool { return f.mode >= ModeDirectSync }

func (f *osFile) Name() string { return f.f.Name() }

func (f *osFile) Mode() Mode { return f.mode }

func (f *osFile) Size() (int64, error) {
	info, err := f.f.Stat()
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}

func (f *osFile) ReadAt(p []byte, off int64) (int, error) {
	switch {
	case !f.direct(), len(p) == 0:
		return f.f.ReadAt(p, off)
	case off < 0:
		return 0, f.failed("read", syscall.EINVAL)
	case Aligned(off, len(p)) && alignedMemory(p):
		return f.readBlocks(p, off)
	default:
		return f.readBounced(p, off)
	}
}

// readBounced reads the blocks that hold the range into aligned memory and copies the range out.
func (f *osFile) readBounced(p []byte, off int64) (int, error) {
	buf := f.fs.bounce.Get()
	defer f.fs.bounce.Put(buf)
	done := 0
	for done < len(p) {
		pos := off + int64(done)
		first := pos &^ (BlockSize - 1)
		skip := int(pos - first)
		want := min(int(RoundUp(int64(skip+len(p)-done))), len(buf))
		n, err := f.readBlocks(buf[:want], first)
		if n > skip {
			done += copy(p[done:], buf[skip:n])
		}
		if err != nil && done < len(p) {
			return done, err
		}
	}
	return done, nil
}

// readBlocks fills aligned memory from an aligned position. A read that stops inside a block has met the end of the
// file: going on from there would be a misaligned request.
func (f *osFile) readBlocks(p []byte, off int64) (int, error) {
	done := 0
	for done < len(p) {
		var n int
		err := f.control("read", func(fd int) (err error) {
			for {
				n, err = unix.Pread(fd, p[done:], off+int64(done))
				if err != unix.EINTR {
					return err
				}
			}
		})
		if err != nil {
			return done, err
		}
		done += n
		if n == 0 || n%BlockSize != 0 {
			break
		}
	}
	if done < len(p) {
		return done, io.EOF
	}
	return done, nil
}

func (f *osFile) WriteAt(p []byte, off int64) (int, error) { return f.write("write", p, off, 0) }

func (f *osFile) WriteAtSync(p []byte, off int64) error {
	if f.mode == ModeDirectDSync {
		_, err := f.write("write-sync", p, off, unix.RWF_DSYNC)
		return err
	}
	if _, err := f.write("write-sync", p, off, 0); err != nil {
		return err
	}
	return f.Sync()
}

// write makes one system call and takes its first answer: what it did not write is not tried again.
func (f *osFile) write(op string, p []byte, off int64, rwFlags int) (int, error) {
	if f.aligned && !Aligned(off, len(p)) {
		return 0, f.failed(op, ErrUnaligned)
	}
	if off < 0 {
		return 0, f.failed(op, syscall.EINVAL)
	}
	if len(p) == 0 {
		return 0, nil
	}
	if f.direct() && !alignedMemory(p) {
		buf := f.fs.bounce.Get()
		defer f.fs.bounce.Put(buf)
		if len(p) > len(buf) {
			buf = AlignedBuffer(len(p))
		}
		p = buf[:copy(buf, p)]
	}
	var n int
	err := f.control(op, func(fd int) (err error) {
		if rwFlags == 0 {
			n, err = unix.Pwrite(fd, p, off)
		} else {
			n, err = unix.Pwritev2(fd, [][]byte{p}, off, rwFlags)
		}
		return err
	})
	n = max(n, 0) // the system's -1
	if err == nil && n < len(p) {
		err = f.failed(op, io.ErrShortWrite)
	}
	return n, err
}

func (f *osFile) Sync() error {
	return f.control("sync", func(fd int) error { return unix.Fdatasync(fd) })
}

func (f *osFile) Truncate(size int64) error { return f.f.Truncate(size) }

func (f *osFile) Preallocate(size int64) error {
	if size <= 0 {
		return nil
	}
	err := f.control("preallocate", func(fd int) error {
		for {
			if err := unix.Fallocate(fd, 0, 0, size); err != unix.EINTR {
				return err
			}
		}
	})
	if errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.ENOSYS) {
		return f.failed("preallocate", errors.ErrUnsupported)
	}
	return err
}

func (f *osFile) Close() error {
	err := f.f.Close()
	if !f.closed.Swap(true) {
		countClosed(f.id)
	}
	return err
}
