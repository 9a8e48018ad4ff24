package lossyfs

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestCrash: what was flushed stays, what was not goes, byte by byte and in length. It needs the right to mount.
func TestCrash(t *testing.T) {
	for _, lie := range []bool{false, true} {
		dir, backing := t.TempDir(), t.TempDir()
		f, err := Mount(dir, backing, lie)
		if err != nil {
			t.Skipf("can not mount: %v", err)
		}
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
