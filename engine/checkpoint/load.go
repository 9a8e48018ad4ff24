package checkpoint

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"path"

	"github.com/zeebo/xxh3"

	"queen/engine/format"
	"queen/engine/vfs"
)

// CorruptionError says that a file is missing or that its bytes are not those that were written.
type CorruptionError struct {
	File string
	Pos  int64
	Err  error
}

// Error names file and position.
func (e *CorruptionError) Error() string {
	return fmt.Sprintf("checkpoint: %s is damaged at %d: %v", e.File, e.Pos, e.Err)
}

// Unwrap is what was found.
func (e *CorruptionError) Unwrap() error { return e.Err }

func corrupt(file string, pos int64, text string, args ...any) error {
	return &CorruptionError{File: file, Pos: pos, Err: fmt.Errorf(text, args...)}
}

// Chains lists the ways to load the position at a mark: each begins with a base and goes on with the
// deltas after it, in the order of loading; the shortest is first. A mark that has a base and a delta
// is the same state by either.
func Chains(files []format.ManifestFile, mark uint64) [][]format.ManifestFile {
	byNumber := map[uint64]format.ManifestFile{}
	for _, f := range files {
		if f.Kind == format.FileCheckpoint {
			byNumber[f.Number] = f
		}
	}
	var chains [][]format.ManifestFile
	var deltas []format.ManifestFile // newest first
	for at := mark; ; {
		if base, ok := byNumber[Number(at, format.CheckpointBase)]; ok {
			chain := []format.ManifestFile{base}
			for i := len(deltas) - 1; i >= 0; i-- {
				chain = append(chain, deltas[i])
			}
			chains = append(chains, chain)
		}
		delta, ok := byNumber[Number(at, format.CheckpointDelta)]
		if !ok || MarkOf(delta.First) >= at {
			return chains
		}
		deltas = append(deltas, delta)
		at = MarkOf(delta.First)
	}
}

// Load reads one checkpoint file and calls fn for every row, in order. The row's bytes are valid
// during the call. A *CorruptionError says that the file is not the one that f describes; rows that
// were handed out before it are to be thrown away. An error of fn is returned as it is.
func Load(fs vfs.FS, dir string, f format.ManifestFile, fn func(Row) error) (format.CheckpointHead, error) {
	name := path.Join(dir, FileName(f.Number))
	file, err := fs.Open(name, vfs.ReadOnly)
	if err != nil {
		return format.CheckpointHead{}, &CorruptionError{File: name, Err: err}
	}
	defer file.Close()
	l := loader{file: file, name: name, sum: xxh3.New(), fn: fn}
	if err := l.open(f); err != nil {
		return l.head, err
	}
	if err := l.chunks(); err != nil {
		return l.head, err
	}
	if l.pos != int64(f.Size) {
		return l.head, corrupt(name, l.pos, "ends at %d of %d bytes", l.pos, f.Size)
	}
	if got := l.sum.Sum128().Bytes(); got != f.Sum {
		return l.head, corrupt(name, 0, "checksum of the file %x want %x", got, f.Sum)
	}
	return l.head, nil
}

type loader struct {
	file vfs.File
	name string
	head format.CheckpointHead
	sum  *xxh3.Hasher
	fn   func(Row) error

	pos  int64
	rest []byte // bytes of the stream that are no whole row yet
	rows uint64
	done bool // the end of the stream was read
}

func (l *loader) open(f format.ManifestFile) error {
	size, err := l.file.Size()
	if err != nil {
		return &CorruptionError{File: l.name, Err: err}
	}
	if size != int64(f.Size) {
		return corrupt(l.name, 0, "%d bytes, the manifest says %d", size, f.Size)
	}
	block := make([]byte, format.BlockSize)
	if err := l.read(block); err != nil {
		return err
	}
	if l.head, err = format.ParseCheckpointHead(block); err != nil {
		return &CorruptionError{File: l.name, Err: err}
	}
	h := &l.head
	if h.Number != f.Number || h.Parent != f.First || h.Number != Number(h.Mark, h.Kind) || h.Content != Content {
		return corrupt(l.name, 0, "file %d on %d at mark %d, content %d; want %d on %d", h.Number, h.Parent, h.Mark,
			h.Content, f.Number, f.First)
	}
	return nil
}

func (l *loader) read(b []byte) error {
	n, err := l.file.ReadAt(b, l.pos)
	if n < len(b) {
		if err == nil || errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		return &CorruptionError{File: l.name, Pos: l.pos, Err: err}
	}
	_, _ = l.sum.Write(b)
	l.pos += int64(len(b))
	return nil
}

func (l *loader) chunks() error {
	size, err := l.file.Size()
	if err != nil {
		return &CorruptionError{File: l.name, Err: err}
	}
	buf := make([]byte, format.ChunkBytes)
	for number := uint32(0); ; number++ {
		at := l.pos
		b := buf[:min(format.ChunkBytes, size-at)]
		if err := l.read(b); err != nil {
			return err
		}
		body, last, err := l.head.ParseChunk(b, number)
		if err != nil {
			return &CorruptionError{File: l.name, Pos: at, Err: err}
		}
		l.rest = append(l.rest, body...)
		if err := l.walk(at); err != nil {
			return err
		}
		if last {
			break
		}
	}
	if !l.done || len(l.rest) > 0 {
		return corrupt(l.name, l.pos, "the rows end early, or %d bytes are left over", len(l.rest))
	}
	return nil
}

// walk hands out the whole rows of rest.
func (l *loader) walk(at int64) error {
	b := l.rest
	for len(b) > 0 {
		row, n, err := parseRow(b)
		if err != nil || n > 0 && l.done {
			return corrupt(l.name, at, "row %d: %v", l.rows, err)
		}
		if n == 0 {
			break
		}
		b = b[n:]
		if row.Section == 0 {
			if row.Key != l.rows {
				return corrupt(l.name, at, "%d rows, the end says %d", l.rows, row.Key)
			}
			l.done = true
			continue
		}
		l.rows++
		if err := l.fn(row); err != nil {
			return err
		}
	}
	l.rest = append(l.rest[:0], b...)
	return nil
}

// parseRow reads one row, or the end of the stream as section 0 with the number of rows as its key. n
// is 0 when b holds no whole one.
func parseRow(b []byte) (r Row, n int, err error) {
	r.Section, n = b[0], 1
	var length uint64
	for i := range 2 {
		if i == 1 && r.Section == 0 {
			break
		}
		v, k := binary.Uvarint(b[n:])
		if k < 0 {
			return r, 0, errors.New("a number of more than 64 bits")
		}
		if k == 0 {
			return r, 0, nil
		}
		n += k
		if i == 0 {
			r.Key = v
		} else {
			length = v
		}
	}
	if length > RowBytesMax {
		return r, 0, fmt.Errorf("row of %d bytes", length)
	}
	if uint64(len(b)-n) < length {
		return r, 0, nil
	}
	r.Bytes = b[n : n+int(length)]
	return r, n + int(length), nil
}
