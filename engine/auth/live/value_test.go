package live

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

type files struct {
	*testing.T
	dir  string
	now  time.Time
	told []error
	made int
}

func (f *files) write(name, text string) {
	f.Helper()
	path := filepath.Join(f.dir, name)
	require.NoError(f, os.WriteFile(path+".new", []byte(text), 0o600))
	require.NoError(f, os.Rename(path+".new", path))
}

func (f *files) open(names ...string) (*Value[string], error) {
	var paths []string
	for _, n := range names {
		paths = append(paths, filepath.Join(f.dir, n))
	}
	return Open(Options[string]{Paths: paths, Now: func() time.Time { return f.now },
		Changed: func(err error) { f.told = append(f.told, err) },
		Make: func(c [][]byte) (string, error) {
			f.made++
			var words []string
			for _, data := range c {
				if string(data) == "bad" {
					return "", errors.New("bad")
				}
				words = append(words, string(data))
			}
			return strings.Join(words, "+"), nil
		}})
}

func newFiles(t *testing.T) *files {
	return &files{T: t, dir: t.TempDir(), now: time.Unix(1e9, 0)}
}

// TestFollows: a changed file is seen at the next look, two that belong together as one value; an unchanged one is not
// read again, and a bad one changes nothing and is told once.
func TestFollows(t *testing.T) {
	f := newFiles(t)
	f.write("a", "1")
	f.write("b", "2")
	v, err := f.open("a", "b")
	require.NoError(t, err)
	look := func(want string, made, told int) {
		t.Helper()
		f.now = f.now.Add(time.Second)
		require.Equal(t, want, v.Get())
		require.Equal(t, made, f.made, "made")
		require.Len(t, f.told, told, "told")
	}
	look("1+2", 1, 0)
	f.write("a", "3")
	require.Equal(t, "1+2", v.Get(), "it looked within the second")
	look("3+2", 2, 1)
	f.write("b", "bad")
	look("3+2", 3, 2)
	look("3+2", 4, 2)
	require.NoError(t, os.Remove(filepath.Join(f.dir, "b")))
	look("3+2", 4, 3)
	look("3+2", 4, 3)
	f.write("b", "4")
	look("3+4", 5, 4)
	require.NoError(t, f.told[3])
	f.now = f.now.Add(-time.Hour)
	f.write("a", "5")
	require.Equal(t, "5+4", v.Get(), "a clock that was set back puts looking off")
}

// TestReload reads at once, and reports what is wrong to whoever asked.
func TestReload(t *testing.T) {
	f := newFiles(t)
	_, err := f.open("a")
	require.ErrorIs(t, err, os.ErrNotExist)
	f.write("a", "bad")
	_, err = f.open("a")
	require.ErrorContains(t, err, "bad")
	f.write("a", "1")
	v, err := f.open("a")
	require.NoError(t, err)
	f.write("a", "2")
	require.NoError(t, v.Reload())
	require.Equal(t, "2", v.Get())
	f.write("a", "bad")
	require.Error(t, v.Reload())
	require.Equal(t, "2", v.Get())
	require.NoError(t, os.Truncate(filepath.Join(f.dir, "a"), sizeMax+1))
	require.ErrorContains(t, v.Reload(), "at most")
}

// TestManyReaders is for the race detector.
func TestManyReaders(t *testing.T) {
	f := newFiles(t)
	f.write("a", "1")
	v, err := Open(Options[string]{Paths: []string{filepath.Join(f.dir, "a")}, Now: time.Now, Every: time.Nanosecond,
		Make: func(c [][]byte) (string, error) { return string(c[0]), nil }})
	require.NoError(t, err)
	var wg sync.WaitGroup
	for range 4 {
		wg.Add(1)
		go func() {
			defer wg.Done()
			for range 200 {
				if s := v.Get(); s != "1" && s != "2" {
					t.Errorf("%q", s)
				}
			}
		}()
	}
	f.write("a", "2")
	wg.Wait()
}
