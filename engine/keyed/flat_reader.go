package keyed

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"iter"

	"github.com/zeebo/xxh3"
)

// FlatReader reads a flat file. Damage anywhere is a *CorruptionError.
type FlatReader struct {
	r    io.ReaderAt
	name string
	info FlatInfo
	end  int64 // where the footer begins
}

// OpenFlat reads header and footer of a flat file of this size. name stands in errors. The reader
// uses r as long as it lives and does not close it.
func OpenFlat(r io.ReaderAt, size int64, name string) (*FlatReader, error) {
	fr := &FlatReader{r: r, name: name}
	if size < flatHeaderBytes+flatFrameBytes+flatFooterMin+flatTrailerBytes {
		return nil, corrupt(name, "%d bytes are too few for a flat file", size)
	}
	head, err := fr.read(0, flatHeaderBytes)
	if err != nil {
		return nil, err
	}
	if fr.info.FlatHeader, err = decodeFlatHeader(head); err != nil {
		return nil, corrupt(name, "%w", err)
	}
	fr.info.Bytes = size
	return fr, fr.readFooter(size)
}

// Info returns what header and footer say. It is proved only by reading all rows.
func (fr *FlatReader) Info() FlatInfo { return fr.info }

func (fr *FlatReader) readFooter(size int64) error {
	trailer, err := fr.read(size-flatTrailerBytes, flatTrailerBytes)
	if err != nil {
		return err
	}
	length := int64(binary.LittleEndian.Uint32(trailer))
	fr.end = size - flatTrailerBytes - length
	if string(trailer[4:]) != flatEndMagic || length < flatFrameBytes+flatFooterMin ||
		length > flatFrameBytes+flatFooterMax || fr.end < flatHeaderBytes {
		return corrupt(fr.name, "no trailer: %x", trailer)
	}
	footer, err := fr.read(fr.end, int(length))
	if err != nil {
		return err
	}
	head, body := footer[:flatFrameBytes], footer[flatFrameBytes:]
	if binary.LittleEndian.Uint32(head) != 0 || int(binary.LittleEndian.Uint32(head[4:])) != len(body) {
		return corrupt(fr.name, "no footer at %d", fr.end)
	}
	if err := checkFrame(head, body); err != nil {
		return corrupt(fr.name, "footer at %d: %w", fr.end, err)
	}
	if err := fr.info.decodeFooter(body); err != nil {
		return corrupt(fr.name, "footer at %d: %w", fr.end, err)
	}
	return nil
}

func (fr *FlatReader) read(pos int64, n int) ([]byte, error) {
	b := make([]byte, n)
	if got, err := fr.r.ReadAt(b, pos); got < n {
		if err == io.EOF {
			return nil, corrupt(fr.name, "ends at %d", pos+int64(got))
		}
		return nil, fmt.Errorf("keyed: read %s at %d: %w", fr.name, pos, err)
	}
	return b, nil
}

// Rows returns the rows in key order. The last pair may be an error instead of a row: the file
// counts only if none came, since totals are compared at the end. Rows keep their block's memory
// and may be kept.
func (fr *FlatReader) Rows() iter.Seq2[Row, error] {
	return func(yield func(Row, error) bool) {
		w := flatWalk{fr: fr, sum: xxh3.New(), digests: Digests{}, yield: yield}
		if err := w.run(); err != nil {
			yield(Row{}, err)
		}
	}
}

// Verify reads everything and returns the first damage found.
func (fr *FlatReader) Verify() error {
	for _, err := range fr.Rows() {
		if err != nil {
			return err
		}
	}
	return nil
}

// flatWalk is one pass over a file.
type flatWalk struct {
	fr               *FlatReader
	sum              *xxh3.Hasher
	digests          Digests
	rows, tombstones uint64
	last             []byte
	yield            func(Row, error) bool
	stopped          bool
}

func (w *flatWalk) run() error {
	head, err := w.fr.read(0, flatHeaderBytes)
	if err != nil {
		return err
	}
	_, _ = w.sum.Write(head)
	for pos := int64(flatHeaderBytes); pos < w.fr.end; {
		body, rows, err := w.readBlock(pos)
		if err != nil {
			return err
		}
		if err := w.walkBlock(body, rows); err != nil {
			return corrupt(w.fr.name, "block at %d: %w", pos, err)
		}
		if w.stopped {
			return nil
		}
		pos += flatFrameBytes + int64(len(body))
	}
	return w.compareTotals()
}

func (w *flatWalk) readBlock(pos int64) ([]byte, uint32, error) {
	left := w.fr.end - pos
	if left < flatFrameBytes {
		return nil, 0, corrupt(w.fr.name, "%d bytes at %d before the footer", left, pos)
	}
	head, err := w.fr.read(pos, flatFrameBytes)
	if err != nil {
		return nil, 0, err
	}
	length := int64(binary.LittleEndian.Uint32(head))
	if length == 0 || length > flatBlockMax || length > left-flatFrameBytes {
		return nil, 0, corrupt(w.fr.name, "block of %d bytes at %d", length, pos)
	}
	body, err := w.fr.read(pos+flatFrameBytes, int(length))
	if err != nil {
		return nil, 0, err
	}
	if err := checkFrame(head, body); err != nil {
		return nil, 0, corrupt(w.fr.name, "block at %d: %w", pos, err)
	}
	_, _ = w.sum.Write(head)
	_, _ = w.sum.Write(body)
	return body, binary.LittleEndian.Uint32(head[4:]), nil
}

func (w *flatWalk) walkBlock(body []byte, rows uint32) error {
	for ; rows > 0; rows-- {
		row, rest, err := decodeFlatRow(body)
		if err != nil {
			return err
		}
		if err := w.count(row); err != nil {
			return err
		}
		if !w.yield(row, nil) {
			w.stopped = true
			return nil
		}
		body = rest
	}
	if len(body) > 0 {
		return fmt.Errorf("%d bytes behind the last row", len(body))
	}
	return nil
}

func (w *flatWalk) count(row Row) error {
	if err := CheckRow(row.Key, row.Value); err != nil {
		return err
	}
	if w.rows > 0 && bytes.Compare(w.last, row.Key) >= 0 {
		return ErrUnsorted
	}
	w.last = row.Key
	w.rows++
	if row.Tombstone {
		w.tombstones++
	} else {
		w.digests.Add(row.Key, row.Value)
	}
	return nil
}

func (w *flatWalk) compareTotals() error {
	info := w.fr.info
	if w.rows != info.Rows || w.tombstones != info.Tombstones {
		return corrupt(w.fr.name, "%d rows, %d tombstones; the footer says %d and %d",
			w.rows, w.tombstones, info.Rows, info.Tombstones)
	}
	if sum := w.sum.Sum128().Bytes(); sum != info.Sum {
		return corrupt(w.fr.name, "hash %x, the footer says %x", sum, info.Sum)
	}
	if info.Kind == FlatExport {
		if err := w.digests.Diff(info.Digests); err != nil {
			return corrupt(w.fr.name, "%w", err)
		}
	}
	return nil
}

// decodeFlatRow reads one row, whose slices lie in b, and returns the rest of b.
func decodeFlatRow(b []byte) (Row, []byte, error) {
	if len(b) == 0 || b[0] > 1 {
		return Row{}, nil, fmt.Errorf("no row in %d bytes", len(b))
	}
	row := Row{Tombstone: b[0] == 1}
	keyLength, b, err := cutUvarint(b[1:], KeyBytesMax)
	if err != nil {
		return Row{}, nil, fmt.Errorf("key length: %w", err)
	}
	valueLength := 0
	if !row.Tombstone {
		if valueLength, b, err = cutUvarint(b, ValueBytesMax); err != nil {
			return Row{}, nil, fmt.Errorf("value length: %w", err)
		}
	}
	if len(b) < keyLength+valueLength {
		return Row{}, nil, errShort
	}
	row.Key = b[:keyLength:keyLength]
	if !row.Tombstone {
		row.Value = b[keyLength : keyLength+valueLength : keyLength+valueLength]
	}
	return row, b[keyLength+valueLength:], nil
}

// cutUvarint reads a shortest-form uvarint of at most limit.
func cutUvarint(b []byte, limit uint64) (int, []byte, error) {
	v, n := binary.Uvarint(b)
	switch {
	case n <= 0:
		return 0, nil, errShort
	case n > 1 && b[n-1] == 0:
		return 0, nil, fmt.Errorf("uvarint is not in its shortest form")
	case v > limit:
		return 0, nil, fmt.Errorf("%d, at most %d", v, limit)
	}
	return int(v), b[n:], nil
}
