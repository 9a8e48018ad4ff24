package logstore

import (
	"errors"
	"io"

	"queen/engine/format"
	"queen/engine/vfs"
)

// window reads a file forward in large aligned pieces, and skips what nobody asks for.
type window struct {
	f     vfs.File
	size  int64 // nothing is read at or behind it
	ahead int   // bytes read at once when more than the request is available

	buf   []byte // aligned
	start int64
	n     int
}

const (
	scanAhead   = 1 << 20
	replayAhead = 256 << 10
)

func newWindow(f vfs.File, size int64, ahead int) *window {
	return &window{f: f, size: size, ahead: ahead}
}

// bytes returns n bytes at pos, valid until the next call. io.ErrUnexpectedEOF if the file ends before.
func (w *window) bytes(pos int64, n int) ([]byte, error) {
	if pos < 0 || pos+int64(n) > w.size {
		return nil, io.ErrUnexpectedEOF
	}
	if pos < w.start || pos+int64(n) > w.start+int64(w.n) {
		if err := w.fill(pos, n); err != nil {
			return nil, err
		}
	}
	from := int(pos - w.start)
	return w.buf[from : from+n : from+n], nil
}

func (w *window) fill(pos int64, n int) error {
	first := pos &^ (format.BlockSize - 1)
	want := int(vfs.RoundUp(pos + int64(n) - first))
	if want < w.ahead {
		want = int(min(int64(w.ahead), vfs.RoundUp(w.size-first)))
	}
	if len(w.buf) < want {
		w.buf = vfs.AlignedBuffer(want)
	}
	w.start, w.n = first, 0
	got, err := w.f.ReadAt(w.buf[:want], first)
	if err != nil && err != io.EOF {
		return &readError{err}
	}
	if int64(got) < pos+int64(n)-first {
		return io.ErrUnexpectedEOF
	}
	w.n = got
	return nil
}

// readError marks what the file system said, apart from what the bytes say: it never means a torn write.
type readError struct{ err error }

func (e *readError) Error() string { return e.err.Error() }

func (e *readError) Unwrap() error { return e.err }

func isReadError(err error) bool {
	var r *readError
	return errors.As(err, &r)
}
