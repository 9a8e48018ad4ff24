package runfile

import (
	"path"
	"strings"

	"github.com/zeebo/xxh3"

	"queen/engine/format"
	"queen/engine/vfs"
)

// TempSuffix ends the name of a run in the making. Such a file means nothing after a crash.
const TempSuffix = ".tmp"

// writeBytes is how much is handed to the file at a time.
const writeBytes = 256 << 10

// writeBuffers are kept between writers: there is one every second or so, and a few at a time.
var writeBuffers = vfs.NewBufferPool(writeBytes, 4)

// Writer makes one run file. Rows come in order. After an error only Abort is of use.
type Writer struct {
	fs        vfs.FS
	dir, name string
	file      vfs.File
	run       format.RunWriter
	head      format.RunHead
	buf       []byte // aligned, filled up to used
	used      int
	pos       int64
	sum       *xxh3.Hasher
	rows      uint64
}

// Info is what a finished run is known by.
type Info struct {
	Head format.RunHead
	Name string
	Rows uint64
	Size int64
	// Sum is xxh3-128 of the whole file.
	Sum [16]byte
}

// Create begins a run file that will be called name in dir. Writing bypasses the page cache where it
// can, so that a large run does not displace what readers use nor end in one long flush.
func Create(fs vfs.FS, dir, name string, head format.RunHead) (*Writer, error) {
	f, err := fs.Open(path.Join(dir, name+TempSuffix), vfs.Write|vfs.Create|vfs.Truncate|vfs.Direct)
	if err != nil {
		return nil, err
	}
	w := &Writer{fs: fs, dir: dir, name: name, file: f, head: head, buf: writeBuffers.Get(), sum: xxh3.New()}
	if err := w.put(w.run.Begin(head)); err != nil {
		w.Abort()
		return nil, err
	}
	return w, nil
}

// AddRow adds a row to a run of rows.
func (w *Writer) AddRow(r *format.Row) error {
	w.rows++
	if full := w.run.AddRow(r); full != nil {
		return w.put(full)
	}
	return nil
}

// AddID adds a row to a run of ids; spread is its Spread.
func (w *Writer) AddID(spread uint64, r *format.IDRow) error {
	w.rows++
	if full := w.run.AddID(spread, r); full != nil {
		return w.put(full)
	}
	return nil
}

// put takes whole blocks.
func (w *Writer) put(b []byte) error {
	for len(b) > 0 {
		n := copy(w.buf[w.used:], b)
		w.used += n
		b = b[n:]
		if w.used == len(w.buf) {
			if err := w.drain(); err != nil {
				return err
			}
		}
	}
	return nil
}

func (w *Writer) drain() error {
	if w.used == 0 {
		return nil
	}
	p := w.buf[:w.used]
	w.sum.Write(p)
	if _, err := w.file.WriteAt(p, w.pos); err != nil {
		return err
	}
	w.pos += int64(len(p))
	w.used = 0
	return nil
}

// Finish writes the rest, flushes, and gives the file its name, replacing the file that had it. When
// it returns nil the run is durable under its name.
//
// INVARIANT: bytes are flushed before the rename, and the rename before the return, so the name never
// leads to a part of a run (TestCrashes of packages rows and idruns).
func (w *Writer) Finish() (Info, error) {
	if err := w.finish(); err != nil {
		w.Abort()
		return Info{}, err
	}
	w.free()
	return Info{Head: w.head, Name: w.name, Rows: w.rows, Size: w.pos, Sum: w.sum.Sum128().Bytes()}, nil
}

func (w *Writer) finish() error {
	if err := w.put(w.run.Finish()); err != nil {
		return err
	}
	if err := w.drain(); err != nil {
		return err
	}
	if err := w.file.Sync(); err != nil {
		return err
	}
	f := w.file
	w.file = nil
	if err := f.Close(); err != nil {
		return err
	}
	if err := w.fs.Rename(path.Join(w.dir, w.name+TempSuffix), path.Join(w.dir, w.name)); err != nil {
		return err
	}
	return w.fs.SyncDir(w.dir)
}

// Abort gives up: the temporary file is removed, or else by RemoveTemp at the next start.
func (w *Writer) Abort() {
	if w.file != nil {
		_ = w.file.Close()
		w.file = nil
	}
	_ = w.fs.Remove(path.Join(w.dir, w.name+TempSuffix)) // what is left means nothing
	w.free()
}

func (w *Writer) free() {
	if w.buf != nil {
		writeBuffers.Put(w.buf)
		w.buf, w.used = nil, 0
	}
}

// RemoveTemp removes what interrupted writers left in dir of files whose names (without TempSuffix)
// ours accepts. Durable with the directory's next flush; what comes back means nothing.
func RemoveTemp(fs vfs.FS, dir string, names []string, ours func(name string) bool) error {
	for _, name := range names {
		base, ok := strings.CutSuffix(name, TempSuffix)
		if !ok || !ours(base) {
			continue
		}
		if err := fs.Remove(path.Join(dir, name)); err != nil {
			return err
		}
	}
	return nil
}

// Sum is xxh3-128 of a whole file, as Info.Sum.
func Sum(fs vfs.FS, dir, name string) (sum [16]byte, err error) {
	f, err := fs.Open(path.Join(dir, name), vfs.ReadOnly)
	if err != nil {
		return sum, &Error{File: name, Err: err}
	}
	defer f.Close()
	size, err := f.Size()
	if err != nil {
		return sum, &Error{File: name, Err: err}
	}
	h := xxh3.New()
	buf := make([]byte, writeBytes)
	for at := int64(0); at < size; {
		p := buf[:min(int64(len(buf)), size-at)]
		if n, err := f.ReadAt(p, at); n < len(p) {
			return sum, &Error{File: name, Pos: at, Err: err}
		}
		h.Write(p)
		at += int64(len(p))
	}
	return h.Sum128().Bytes(), nil
}
