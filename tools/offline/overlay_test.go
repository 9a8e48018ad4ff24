package offline

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"queen/engine/vfs"
)

// files reads everything below a directory of one level.
func files(t *testing.T, f vfs.FS, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	names, err := f.List(dir)
	require.NoError(t, err)
	for _, n := range names {
		file, err := f.Open(dir+"/"+n, vfs.ReadOnly)
		require.NoError(t, err, n)
		size, err := file.Size()
		require.NoError(t, err)
		text := make([]byte, size)
		if size > 0 {
			_, err = file.ReadAt(text, 0)
			require.NoError(t, err)
		}
		require.NoError(t, file.Close())
		out[n] = string(text)
	}
	return out
}

// seeded makes a directory with some files.
func seeded(t *testing.T) vfs.FS {
	t.Helper()
	m := vfs.NewMem()
	require.NoError(t, m.MkdirAll("d"))
	for i := range 6 {
		write(t, m, fmt.Sprintf("d/f%d", i), 0, fmt.Sprintf("file %d, as it was", i))
	}
	return m
}

func write(t *testing.T, f vfs.FS, name string, off int64, text string) error {
	t.Helper()
	file, err := f.Open(name, vfs.Create)
	if err != nil {
		return err
	}
	_, err = file.WriteAt([]byte(text), off)
	return errors.Join(err, file.Close())
}

// TestOverlayIsAFileSystem carries out random operations on an overlay and on a plain copy of what is below it: both look
// the same after each, and what is below the overlay never changes.
func TestOverlayIsAFileSystem(t *testing.T) {
	for seed := range uint64(30) {
		random := rand.New(rand.NewPCG(seed, 1))
		lower, plain := seeded(t), seeded(t)
		upper := vfs.NewMem()
		require.NoError(t, upper.MkdirAll("u"))
		over := newOverlay(lower, upper, "d", "u")
		before := files(t, lower, "d")
		name := func() string { return fmt.Sprintf("d/f%d", random.IntN(9)) }
		for step := range 60 {
			var what string
			var a, b error
			switch x, y := name(), name(); random.IntN(5) {
			case 0:
				off, text := int64(random.IntN(30)), fmt.Sprintf("step %d", step)
				what, a, b = "write "+x, write(t, over, x, off, text), write(t, plain, x, off, text)
			case 1:
				what, a, b = "remove "+x, over.Remove(x), plain.Remove(x)
			case 2:
				what, a, b = "rename "+x+" "+y, over.Rename(x, y), plain.Rename(x, y)
			case 3:
				what, a, b = "link "+x+" "+y, over.Link(x, y), plain.Link(x, y)
			case 4:
				_, a = over.Open(x, vfs.Create|vfs.Exclusive)
				_, b = plain.Open(x, vfs.Create|vfs.Exclusive)
				what = "create " + x
			}
			require.Equal(t, errors.Is(b, fs.ErrNotExist), errors.Is(a, fs.ErrNotExist), "seed %d: %s: %v, %v", seed, what, a, b)
			require.Equal(t, b == nil, a == nil, "seed %d: %s: %v, %v", seed, what, a, b)
			require.Equal(t, files(t, plain, "d"), files(t, over, "d"), "seed %d: %s", seed, what)
			require.Equal(t, before, files(t, lower, "d"), "seed %d: %s changed what is below", seed, what)
		}
	}
}
