//go:build linux

package vfs

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// largeFile is a file of three pieces and a bit, and a look at it that this package does not know of.
func largeFile(t *testing.T, name string) (content []byte, look *os.File) {
	t.Helper()
	content = bytes.Repeat([]byte("queen"), (3*cutBytes+1000)/5)
	require.NoError(t, os.WriteFile(name, content, 0o600))
	look, err := os.Open(name)
	require.NoError(t, err)
	t.Cleanup(func() { look.Close() })
	return content, look
}

func sizeOf(t *testing.T, f *os.File) int64 {
	t.Helper()
	openFiles.cutting.Wait()
	info, err := f.Stat()
	require.NoError(t, err)
	return info.Size()
}

func readAll(t *testing.T, f File) []byte {
	t.Helper()
	size, err := f.Size()
	require.NoError(t, err)
	p := make([]byte, size)
	n, err := f.ReadAt(p, 0)
	if err != io.EOF {
		require.NoError(t, err)
	}
	return p[:n]
}

// Goal: a large file without a name is cut piece by piece, but not while anybody has it open, and each File counts once.
func TestRemovedFileStaysWhileItIsOpen(t *testing.T) {
	o, other := NewOS(OSOptions{}), NewOS(OSOptions{})
	name := filepath.Join(t.TempDir(), "large")
	content, look := largeFile(t, name)
	first, err := o.Open(name, ReadOnly)
	require.NoError(t, err)
	second, err := other.Open(name, ReadOnly)
	require.NoError(t, err)

	require.NoError(t, o.Remove(name))
	require.NoFileExists(t, name)
	require.EqualValues(t, len(content), sizeOf(t, look))
	require.NoError(t, first.Close())
	require.Error(t, first.Close()) // and counts no second time
	require.EqualValues(t, len(content), sizeOf(t, look))
	require.True(t, bytes.Equal(content, readAll(t, second)))
	require.NoError(t, second.Close())
	require.LessOrEqual(t, sizeOf(t, look), int64(cutBytes))
}

// Goal: what nobody has open is cut at once; a file with another name is left whole until that is removed too.
func TestRemovedNameOfTwo(t *testing.T) {
	o := NewOS(OSOptions{})
	name := filepath.Join(t.TempDir(), "large")
	content, look := largeFile(t, name)
	require.NoError(t, o.Link(name, name+"2"))
	require.NoError(t, o.Remove(name))
	require.EqualValues(t, len(content), sizeOf(t, look))
	kept, err := o.Open(name+"2", ReadOnly)
	require.NoError(t, err)
	require.True(t, bytes.Equal(content, readAll(t, kept)))
	require.NoError(t, kept.Close())
	require.EqualValues(t, len(content), sizeOf(t, look)) // it has a name
	require.NoError(t, o.Remove(name+"2"))
	require.LessOrEqual(t, sizeOf(t, look), int64(cutBytes))
	require.Empty(t, openFiles.open)
	require.Empty(t, openFiles.removed)
}

// Goal: names that can not be removed say so as the system does.
func TestRemoveErrors(t *testing.T) {
	o := NewOS(OSOptions{})
	dir := t.TempDir()
	require.ErrorIs(t, o.Remove(filepath.Join(dir, "missing")), os.ErrNotExist)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "file"), nil, 0o600))
	require.Error(t, o.Remove(dir)) // not empty
	require.NoError(t, o.Remove(filepath.Join(dir, "file")))
}
