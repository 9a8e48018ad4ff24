//go:build linux

// What only the machine's file system can be asked.
package vfs_test

import (
	"errors"
	"fmt"
	"os"
	"path"
	"strings"
	"syscall"
	"testing"
	"unsafe"

	"queen/engine/vfs"
)

// A full disk is ErrNoSpace, which is the system's own error. /dev/full answers every write with it.
func TestOSNoSpace(t *testing.T) {
	f := must(vfs.NewOS(vfs.OSOptions{}).Open("/dev/full", vfs.Write))(t)
	defer f.Close()
	n, err := f.WriteAt([]byte("x"), 0)
	wantIs(t, err, vfs.ErrNoSpace)
	wantIs(t, err, syscall.ENOSPC)
	if n != 0 {
		t.Errorf("%d bytes written", n)
	}
	wantIs(t, f.WriteAtSync([]byte("x"), 0), vfs.ErrNoSpace)
}

// A write that the system cuts short is a failed write with the count, not one that is continued: at the process's
// limit for file sizes the kernel writes up to the limit and reports success for that part.
func TestOSShortWrite(t *testing.T) {
	if os.Getenv("VFS_SHORT_WRITE_DIR") == "" {
		runSelf(t, "TestOSShortWrite", "VFS_SHORT_WRITE_DIR="+t.TempDir())
		return
	}
	limit := syscall.Rlimit{Cur: 10, Max: 10}
	ok(t, syscall.Setrlimit(syscall.RLIMIT_FSIZE, &limit))
	f := must(vfs.OpenNew(vfs.NewOS(vfs.OSOptions{}), path.Join(os.Getenv("VFS_SHORT_WRITE_DIR"), "a")))(t)
	n, err := f.WriteAt(make([]byte, 20), 0)
	if n != 10 || err == nil || !strings.Contains(err.Error(), "short write") {
		t.Fatalf("%d bytes, %v", n, err)
	}
	if err := f.WriteAtSync(make([]byte, 20), 0); err == nil || !strings.Contains(err.Error(), "short write") {
		t.Fatalf("synced: %v", err)
	}
}

// The lock holds against another process, and the refusal names the holder.
func TestOSLockAcrossProcesses(t *testing.T) {
	if name := os.Getenv("VFS_LOCK_NAME"); name != "" {
		_, err := vfs.NewOS(vfs.OSOptions{}).Lock(name)
		var locked *vfs.LockedError
		if !errors.As(err, &locked) || locked.Holder != fmt.Sprintf("pid %d", os.Getppid()) {
			t.Fatalf("lock: %v, want pid %d", err, os.Getppid())
		}
		return
	}
	name := path.Join(t.TempDir(), "LOCK")
	lock := must(vfs.NewOS(vfs.OSOptions{}).Lock(name))(t)
	defer lock.Close()
	runSelf(t, "TestOSLockAcrossProcesses", "VFS_LOCK_NAME="+name)
}

// The probe leaves no file behind, and a bound on the mode is kept.
func TestOSProbe(t *testing.T) {
	dir := t.TempDir()
	for _, best := range []vfs.Mode{vfs.ModeDirectDSync, vfs.ModeDirectSync, vfs.ModeBufferedSync} {
		fs := vfs.NewOS(vfs.OSOptions{BestMode: best})
		mode := must(fs.Probe(dir))(t)
		t.Logf("best %s: %s", best, mode)
		if mode > best || mode == vfs.ModeMemory {
			t.Errorf("mode %s above %s", mode, best)
		}
		f := must(fs.Open(path.Join(dir, "f"), vfs.Create|vfs.Direct))(t)
		if f.Mode() != mode {
			t.Errorf("file in mode %s, probe said %s", f.Mode(), mode)
		}
		f.Close()
	}
	wantList(t, vfs.NewOS(vfs.OSOptions{}), dir, "f")
	if _, err := vfs.NewOS(vfs.OSOptions{}).Open(path.Join(dir, "none/f"), vfs.Create|vfs.Direct); err == nil {
		t.Error("a direct file in a directory that does not exist")
	}
}

func TestAlignedBuffer(t *testing.T) {
	for _, n := range []int{0, 1, 511, 4096, 4097, 8192, 32768, 100_000, 1 << 20} {
		for range 20 {
			p := vfs.AlignedBuffer(n)
			if len(p) != n || cap(p) != n {
				t.Fatalf("%d: len %d cap %d", n, len(p), cap(p))
			}
			if n > 0 && uintptr(unsafe.Pointer(&p[0]))%vfs.BlockSize != 0 {
				t.Fatalf("%d: not aligned", n)
			}
		}
	}
}

func TestBufferPoolIsBounded(t *testing.T) {
	pool := vfs.NewBufferPool(vfs.BlockSize, 2)
	out := map[*byte][]byte{}
	for range 5 {
		p := pool.Get()
		if len(p) != vfs.BlockSize || out[&p[0]] != nil {
			t.Fatal("a wrong buffer, or one handed out twice")
		}
		out[&p[0]] = p
	}
	for _, p := range out {
		pool.Put(p[:1])
	}
	reused := 0
	for range 5 {
		if p := pool.Get(); out[&p[0]] != nil {
			reused++
		}
	}
	if reused != 2 {
		t.Errorf("%d buffers were kept, want 2", reused)
	}
}
