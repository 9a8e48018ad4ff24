package checkpoint

import (
	"encoding/binary"
	"fmt"
	"path"

	"github.com/zeebo/xxh3"

	"queen/engine/format"
	"queen/engine/invariants"
	"queen/engine/vfs"
)

// Content is the version of the stream of rows inside a checkpoint file.
const Content = 1

// RowBytesMax bounds one row, so that a damaged length can not take all memory.
const RowBytesMax = 16 << 20

// Failpoints of writing a checkpoint file, in order.
var (
	failFileChunk   = invariants.Register("checkpoint.file.chunk-written")
	failFileSynced  = invariants.Register("checkpoint.file.synced")
	failFileRenamed = invariants.Register("checkpoint.file.renamed")
)

// Row is one row of the state machine: its section (numbered from 1 by the caller), its key in the
// section, its bytes. No bytes mean that the key is gone.
type Row struct {
	Section uint8
	Key     uint64
	Bytes   []byte
}

// Writer writes one checkpoint file under a temporary name.
type Writer struct {
	fs   vfs.FS
	name string
	head format.CheckpointHead
	file vfs.File

	chunk  []byte // head and body of the chunk that is being filled
	number uint32
	size   int64
	sum    *xxh3.Hasher
	rows   uint64
	// Pace, when set, is told how many bytes were just written and may wait.
	Pace func(bytes int)
}

// Create begins the file of h in dir. h.Number must be that of h.Mark and h.Kind.
func Create(fs vfs.FS, dir string, h format.CheckpointHead) (*Writer, error) {
	invariants.Check(h.Number == Number(h.Mark, h.Kind), "checkpoint: file %d of mark %d", h.Number, h.Mark)
	h.Content = Content
	w := &Writer{fs: fs, name: path.Join(dir, FileName(h.Number)), head: h, sum: xxh3.New()}
	var err error
	if w.file, err = vfs.OpenNew(fs, w.name+tmpSuffix); err != nil {
		return nil, fmt.Errorf("checkpoint: create %s: %w", w.name, err)
	}
	block := make([]byte, format.BlockSize)
	w.head.Encode(block)
	if err := w.write(block); err != nil {
		return nil, err
	}
	w.chunk = make([]byte, format.ChunkHeadSize, format.ChunkBytes)
	return w, nil
}

func (w *Writer) write(b []byte) error {
	if _, err := w.file.WriteAt(b, w.size); err != nil {
		w.file.Close()
		return fmt.Errorf("checkpoint: write %s at %d: %w", w.name, w.size, err)
	}
	_, _ = w.sum.Write(b)
	w.size += int64(len(b))
	invariants.Failpoint(failFileChunk)
	if w.Pace != nil {
		w.Pace(len(b))
	}
	return nil
}

// Row appends a row. The bytes are copied. After an error the writer is of no further use.
func (w *Writer) Row(r Row) error {
	if r.Section == 0 || len(r.Bytes) > RowBytesMax {
		w.file.Close()
		return fmt.Errorf("checkpoint: row of section %d with %d bytes", r.Section, len(r.Bytes))
	}
	var head [1 + 2*binary.MaxVarintLen64]byte
	b := append(head[:0], r.Section)
	b = binary.AppendUvarint(b, r.Key)
	b = binary.AppendUvarint(b, uint64(len(r.Bytes)))
	w.rows++
	if err := w.add(b); err != nil {
		return err
	}
	return w.add(r.Bytes)
}

func (w *Writer) add(b []byte) error {
	for len(b) > 0 {
		if len(w.chunk) == format.ChunkBytes {
			if err := w.flush(false); err != nil {
				return err
			}
		}
		n := min(len(b), format.ChunkBytes-len(w.chunk))
		w.chunk = append(w.chunk, b[:n]...)
		b = b[n:]
	}
	return nil
}

func (w *Writer) flush(last bool) error {
	b := w.head.FinishChunk(w.chunk, w.number, last)
	w.number++
	err := w.write(b)
	w.chunk = b[:format.ChunkHeadSize]
	clear(w.chunk)
	return err
}

// Finish makes the file durable under its name and returns its line for the manifest.
func (w *Writer) Finish() (format.ManifestFile, error) {
	// The number of rows ends the stream, so that a stream cut between two rows is noticed.
	end := binary.AppendUvarint([]byte{0}, w.rows)
	err := w.add(end)
	if err == nil {
		err = w.flush(true)
	}
	if err != nil {
		return format.ManifestFile{}, err
	}
	if err := w.file.Sync(); err != nil {
		w.file.Close()
		return format.ManifestFile{}, fmt.Errorf("checkpoint: sync %s: %w", w.name, err)
	}
	invariants.Failpoint(failFileSynced)
	if err := w.file.Close(); err != nil {
		return format.ManifestFile{}, fmt.Errorf("checkpoint: close %s: %w", w.name, err)
	}
	if err := w.fs.Rename(w.name+tmpSuffix, w.name); err != nil {
		return format.ManifestFile{}, fmt.Errorf("checkpoint: %w", err)
	}
	invariants.Failpoint(failFileRenamed)
	if err := w.fs.SyncDir(path.Dir(w.name)); err != nil {
		return format.ManifestFile{}, fmt.Errorf("checkpoint: %w", err)
	}
	return format.ManifestFile{
		Kind: format.FileCheckpoint, Number: w.head.Number, First: w.head.Parent, Last: w.head.Number,
		Size: uint64(w.size), Sum: w.sum.Sum128().Bytes(),
	}, nil
}

// Abort gives an unfinished file up; the next one of the name, or Sweep, removes what is left.
func (w *Writer) Abort() { w.file.Close() }
