package keyed

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"

	"github.com/zeebo/xxh3"
)

// FlatWriter writes one flat file to an io.Writer: Add for each row in ascending key order, then
// Finish. Making the file durable and giving it its name is the caller's business. After an error
// the file is worth nothing and every call repeats the error.
type FlatWriter struct {
	w       io.Writer
	sum     *xxh3.Hasher
	info    FlatInfo
	digests Digests // of the puts
	block   []byte
	rows    uint32 // in block
	last    []byte
	err     error
}

// NewFlatWriter writes the header.
func NewFlatWriter(w io.Writer, h FlatHeader) (*FlatWriter, error) {
	if err := h.validate(); err != nil {
		return nil, fmt.Errorf("keyed: flat file: %w", err)
	}
	fw := &FlatWriter{w: w, sum: xxh3.New(), info: FlatInfo{FlatHeader: h}, digests: Digests{}}
	return fw, fw.write(h.encode())
}

// Add appends a row. The row is copied.
func (fw *FlatWriter) Add(row Row) error {
	if fw.err != nil {
		return fw.err
	}
	if err := fw.check(row); err != nil {
		fw.err = err
		return err
	}
	fw.last = append(fw.last[:0], row.Key...)
	fw.info.Rows++
	fw.rows++
	if row.Tombstone {
		fw.info.Tombstones++
		fw.block = append(fw.block, 1)
		fw.block = binary.AppendUvarint(fw.block, uint64(len(row.Key)))
		fw.block = append(fw.block, row.Key...)
	} else {
		fw.digests.Add(row.Key, row.Value)
		fw.block = append(fw.block, 0)
		fw.block = binary.AppendUvarint(fw.block, uint64(len(row.Key)))
		fw.block = binary.AppendUvarint(fw.block, uint64(len(row.Value)))
		fw.block = append(append(fw.block, row.Key...), row.Value...)
	}
	if len(fw.block) >= flatBlockTarget {
		return fw.flushBlock()
	}
	return nil
}

func (fw *FlatWriter) check(row Row) error {
	if err := CheckRow(row.Key, row.Value); err != nil {
		return err
	}
	if fw.info.Rows > 0 && bytes.Compare(fw.last, row.Key) >= 0 {
		return fmt.Errorf("%w: %s after %s", ErrUnsorted, shortKey(row.Key), shortKey(fw.last))
	}
	if row.Tombstone && fw.info.Kind == FlatExport {
		return fmt.Errorf("%w: tombstone in an export", ErrKey)
	}
	return nil
}

// Finish writes the rest. state are the digests of the whole state at the file's version; for an
// export nil will do, and what is given must match the rows.
func (fw *FlatWriter) Finish(state Digests) (FlatInfo, error) {
	if fw.err == nil && fw.rows > 0 {
		fw.err = fw.flushBlock()
	}
	if fw.err != nil {
		return FlatInfo{}, fw.err
	}
	fw.info.Digests = state
	if fw.info.Kind == FlatExport {
		fw.info.Digests = fw.digests
		if err := fw.digests.Diff(state); state != nil && err != nil {
			fw.err = corrupt("export", "%w", err)
			return FlatInfo{}, fw.err
		}
	}
	fw.info.Sum = fw.sum.Sum128().Bytes()
	body := fw.info.encodeFooter()
	head := frame(0, uint32(len(body)), body)
	trailer := binary.LittleEndian.AppendUint32(nil, uint32(len(head)+len(body)))
	for _, b := range [][]byte{head[:], body, append(trailer, flatEndMagic...)} {
		if err := fw.write(b); err != nil {
			return FlatInfo{}, err
		}
	}
	fw.err = fmt.Errorf("keyed: flat file is finished")
	return fw.info, nil
}

func (fw *FlatWriter) flushBlock() error {
	head := frame(uint32(len(fw.block)), fw.rows, fw.block)
	if err := fw.write(head[:]); err != nil {
		return err
	}
	err := fw.write(fw.block)
	fw.block, fw.rows = fw.block[:0], 0
	return err
}

func (fw *FlatWriter) write(b []byte) error {
	_, _ = fw.sum.Write(b)
	n, err := fw.w.Write(b)
	fw.info.Bytes += int64(n)
	if err != nil {
		fw.err = fmt.Errorf("keyed: write flat file: %w", err)
	}
	return fw.err
}
