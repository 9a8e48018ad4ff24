package lossyfs

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// mounted mounts what a test is about. It is skipped only where nobody can mount: without the device or the right to.
func mounted(t *testing.T, dir, backing string, lie bool) *FS {
	t.Helper()
	if _, err := os.Stat("/dev/fuse"); err != nil || os.Getuid() != 0 {
		t.Skip("no device or no right to mount")
	}
	f, err := Mount(dir, backing, lie)
	require.NoError(t, err)
	return f
}

// TestCrash: what was flushed stays, what was not goes, byte by byte and in length. It needs the right to mount.
func TestCrash(t *testing.T) {
	for _, lie := range []bool{false, true} {
		dir, backing := t.TempDir(), t.TempDir()
		f := mounted(t, dir, backing, lie)
		unmounted := false
		t.Cleanup(func() {
			if !unmounted {
				_ = f.Unmount()
			}
		})
		name := filepath.Join(dir, "a")
		file, err := os.Create(name)
		require.NoError(t, err)
		_, err = file.WriteString("durable text")
		require.NoError(t, err)
		require.NoError(t, file.Sync())
		_, err = file.WriteAt([]byte("fleeting"), 0)
		require.NoError(t, err)
		_, err = file.WriteAt([]byte("more"), 12)
		require.NoError(t, err)
		require.NoError(t, file.Close())
		got, err := os.ReadFile(name)
		require.NoError(t, err)
		require.Equal(t, "fleetingtextmore", string(got))
		require.NoError(t, f.Crash())
		got, err = os.ReadFile(name)
		require.NoError(t, err)
		want := "durable text"
		if lie {
			want = ""
		}
		require.Equal(t, want, string(got))
		_, lost := f.Counts()
		require.NotZero(t, lost)
		require.NoError(t, f.Unmount())
		unmounted = true
	}
}

// TestDelay: a flush is held up until the delay ends and is a flush then, one that is not held up is not counted, and who waits goes on when
// the delay ends early.
func TestDelay(t *testing.T) {
	dir, backing := t.TempDir(), t.TempDir()
	f := mounted(t, dir, backing, false)
	t.Cleanup(func() { require.NoError(t, f.Unmount()) })
	name := filepath.Join(dir, "a")
	file, err := os.Create(name)
	require.NoError(t, err)
	_, err = file.WriteString("text")
	require.NoError(t, err)
	require.NoError(t, file.Sync())
	held, longest := f.Delay(time.Hour)
	require.Zero(t, held)
	require.Zero(t, longest)

	_, err = file.WriteString(" and more")
	require.NoError(t, err)
	flushed := make(chan error)
	go func() { flushed <- file.Sync() }()
	require.Eventually(t, func() bool {
		f.stall.mu.Lock()
		defer f.stall.mu.Unlock()
		return f.stall.held == 1
	}, time.Minute, time.Millisecond)
	select {
	case <-flushed:
		t.Fatal("the flush ended before the delay")
	default:
	}
	f.Release()
	require.NoError(t, <-flushed)
	held, longest = f.Delay(0)
	require.Equal(t, 1, held)
	require.Positive(t, longest)
	held, _ = f.Delay(0)
	require.Zero(t, held, "told once")
	require.NoError(t, file.Close())
	require.NoError(t, f.Crash())
	got, err := os.ReadFile(name)
	require.NoError(t, err)
	require.Equal(t, "text and more", string(got))
}
