package lossyfs

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"github.com/hanwen/go-fuse/v2/fs"
	"github.com/hanwen/go-fuse/v2/fuse"
)

// FS is a mounted file system. Crash and Unmount are for one goroutine, the rest for any.
type FS struct {
	dir, backing string
	journal      journal
	stall        stall
	server       *fuse.Server
}

// Mount shows backing at dir, an empty directory. It needs the right to mount.
func Mount(dir, backing string, lie bool) (*FS, error) {
	f := &FS{dir: dir, backing: backing}
	f.Lie(lie)
	if err := f.mount(); err != nil {
		return nil, err
	}
	return f, nil
}

// Lie says whether flushes are answered and not done from now on.
func (f *FS) Lie(on bool) { f.journal.lie.Store(on) }

// Delay holds each flush up that comes from now on, for d at most; 0 ends it, and lets go those that are held up. It says how
// many the delay before held up, and for how long the one that waited longest.
func (f *FS) Delay(d time.Duration) (held int, longest time.Duration) { return f.stall.set(d) }

// Release ends a delay as Delay(0) does, and leaves it to that to tell: whoever kills a process of which a flush is held up
// needs it, since the kernel waits for the flush.
func (f *FS) Release() { f.stall.end() }

func (f *FS) mount() error {
	var st syscall.Stat_t
	if err := syscall.Stat(f.backing, &st); err != nil {
		return fmt.Errorf("lossyfs: %w", err)
	}
	root := &fs.LoopbackRoot{Path: f.backing, Dev: uint64(st.Dev)}
	top := &node{LoopbackNode: &fs.LoopbackNode{RootData: root}, fs: f}
	root.RootNode = top
	var err error
	f.server, err = fs.Mount(f.dir, top, &fs.Options{MountOptions: fuse.MountOptions{DirectMount: true, FsName: fsName,
		MaxWrite: 1 << 20, DisableSplice: true}})
	if err != nil {
		return fmt.Errorf("lossyfs: mount %s: %w", f.dir, err)
	}
	keepFromChildren()
	return nil
}

// keepFromChildren closes the kernel's side of the file system in programs that are started: one that had it open would be held by what it
// asks of the file system when nobody serves that any more, and could not be killed.
func keepFromChildren() {
	const dir = "/proc/self/fd/"
	files, _ := os.ReadDir(dir)
	for _, f := range files {
		if to, err := os.Readlink(dir + f.Name()); err == nil && to == "/dev/fuse" {
			if fd, err := strconv.Atoi(f.Name()); err == nil {
				syscall.CloseOnExec(fd)
			}
		}
	}
}

// Crash loses what was not flushed. No process may have a file of the file system open.
func (f *FS) Crash() error {
	if err := f.Unmount(); err != nil {
		return err
	}
	if err := f.journal.undo(); err != nil {
		return fmt.Errorf("lossyfs: undo: %w", err)
	}
	return f.mount()
}

// Unmount takes the file system away; nothing is lost by it.
func (f *FS) Unmount() error {
	if err := f.server.Unmount(); err != nil {
		return fmt.Errorf("lossyfs: unmount %s: %w", f.dir, err)
	}
	f.server.Wait()
	return nil
}

// Counts are the bytes that flushes made durable and that crashes lost, so far.
func (f *FS) Counts() (flushed, lost int64) { return f.journal.counts() }

// node is one file or directory.
type node struct {
	*fs.LoopbackNode
	fs *FS
}

// WrapChild makes nodes of this file system of those that the loopback one makes.
func (n *node) WrapChild(_ context.Context, child fs.InodeEmbedder) fs.InodeEmbedder {
	if plain, ok := child.(*fs.LoopbackNode); ok {
		return &node{LoopbackNode: plain, fs: n.fs}
	}
	return child
}

var _ = (fs.NodeWrapChilder)((*node)(nil))
var _ = (fs.NodeOpener)((*node)(nil))
var _ = (fs.NodeCreater)((*node)(nil))
var _ = (fs.NodeSetattrer)((*node)(nil))

func (n *node) path() string { return filepath.Join(n.fs.backing, n.EmbeddedInode().Path(nil)) }

// plainFlags are those the backing file is opened with: how it is written is this file system's affair.
func plainFlags(flags uint32) int {
	return int(flags) &^ (syscall.O_APPEND | syscall.O_DIRECT | syscall.O_DSYNC | syscall.O_SYNC | fuse.FMODE_EXEC)
}

// Open opens a file for reading and writing, so that what a write replaces can be read.
func (n *node) Open(_ context.Context, flags uint32) (fs.FileHandle, uint32, syscall.Errno) {
	f, err := os.OpenFile(n.path(), plainFlags(flags), 0)
	if err != nil {
		return nil, 0, fs.ToErrno(err)
	}
	return &handle{LoopbackFile: fs.NewLoopbackFileFromOS(f), os: f, fs: n.fs}, 0, 0
}

func (n *node) Create(ctx context.Context, name string, flags, mode uint32, out *fuse.EntryOut) (
	*fs.Inode, fs.FileHandle, uint32, syscall.Errno,
) {
	inode, h, _, errno := n.LoopbackNode.Create(ctx, name, uint32(plainFlags(flags)), mode, out)
	if errno != 0 {
		return nil, nil, 0, errno
	}
	if r, ok := h.(fs.FileReleaser); ok {
		r.Release(ctx)
	}
	f, err := os.OpenFile(filepath.Join(n.path(), name), plainFlags(flags)&^(os.O_CREATE|os.O_EXCL|os.O_TRUNC), 0)
	if err != nil {
		return nil, nil, 0, fs.ToErrno(err)
	}
	return inode, &handle{LoopbackFile: fs.NewLoopbackFileFromOS(f), os: f, fs: n.fs}, 0, 0
}

// Setattr notes what a truncation cuts off.
func (n *node) Setattr(ctx context.Context, h fs.FileHandle, in *fuse.SetAttrIn, out *fuse.AttrOut) syscall.Errno {
	if size, ok := in.GetSize(); ok {
		f, err := os.OpenFile(n.path(), os.O_RDWR, 0)
		if err != nil {
			return fs.ToErrno(err)
		}
		err = n.fs.journal.note(f, int64(size), -1)
		f.Close()
		if err != nil {
			return fs.ToErrno(err)
		}
	}
	return n.LoopbackNode.Setattr(ctx, h, in, out)
}

// handle is one open file.
type handle struct {
	*fs.LoopbackFile
	os *os.File
	fs *FS
}

var _ = (fs.FileWriter)((*handle)(nil))
var _ = (fs.FileFsyncer)((*handle)(nil))
var _ = (fs.FileAllocater)((*handle)(nil))

// PassthroughFd keeps the kernel from writing to the backing file past this file system.
func (h *handle) PassthroughFd() (int, bool) { return 0, false }

func (h *handle) Write(ctx context.Context, data []byte, off int64) (uint32, syscall.Errno) {
	if err := h.fs.journal.note(h.os, off, len(data)); err != nil {
		return 0, fs.ToErrno(err)
	}
	return h.LoopbackFile.Write(ctx, data, off)
}

func (h *handle) Fsync(ctx context.Context, flags uint32) syscall.Errno {
	h.fs.stall.wait()
	h.fs.journal.flush(h.os)
	return 0
}

func (h *handle) Allocate(ctx context.Context, off, size uint64, mode uint32) syscall.Errno {
	if err := h.fs.journal.note(h.os, int64(off), 0); err != nil {
		return fs.ToErrno(err)
	}
	return h.LoopbackFile.Allocate(ctx, off, size, mode)
}
