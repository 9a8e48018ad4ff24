package keyed

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/dgraph-io/badger/v4/fb"
	"github.com/dgraph-io/badger/v4/pb"
	"github.com/dgraph-io/badger/v4/y"
	"google.golang.org/protobuf/proto"
)

// checkTable reads a badger table whole and checks every byte of it:
//
//	| block ... | index | index length : 4 | checksum | checksum length : 4 |
//	block: | entries | entry offsets : 4 each | entry count : 4 | checksum | checksum length : 4 |
//
// Lengths are big-endian, checksums are small protobuf messages. badger verifies the same sums when
// it opens a table, but trusts the lengths on the way there: a flipped length, or a file cut short,
// is a panic in a goroutine of Open.
func checkTable(dir, name string, size int64) (err error) {
	f, err := os.Open(filepath.Join(dir, name))
	if err != nil {
		return fmt.Errorf("keyed: check table: %w", err)
	}
	defer f.Close()
	defer func() { // the index is a flatbuffer; its checksum has passed, its shape is not checked
		if r := recover(); r != nil {
			err = corrupt(name, "index: %v", r)
		}
	}()
	index, start, err := readTableIndex(f, name, size)
	if err != nil {
		return err
	}
	r := bufio.NewReaderSize(io.NewSectionReader(f, 0, start), 1<<20)
	var block fb.BlockOffset
	var buf []byte
	pos := int64(0)
	for i := range index.OffsetsLength() {
		if !index.Offsets(&block, i) || int64(block.Offset()) != pos || int64(block.Len()) > start-pos {
			return corrupt(name, "block %d is not at %d", i, pos)
		}
		buf = append(buf[:0], make([]byte, block.Len())...)
		if _, err := io.ReadFull(r, buf); err != nil {
			return fmt.Errorf("keyed: check table %s: %w", name, err)
		}
		if err := checkBlock(buf); err != nil {
			return corrupt(name, "block %d at %d: %w", i, pos, err)
		}
		pos += int64(block.Len())
	}
	if pos != start || pos == 0 {
		return corrupt(name, "blocks end at %d, the index begins at %d", pos, start)
	}
	return nil
}

// readTableIndex walks the footer from the end and returns the checked index and where it begins.
func readTableIndex(f io.ReaderAt, name string, size int64) (*fb.TableIndex, int64, error) {
	checksum, pos, err := readBack(f, size)
	if err != nil {
		return nil, 0, corrupt(name, "checksum of the index: %w", err)
	}
	index, pos, err := readBack(f, pos)
	if err != nil {
		return nil, 0, corrupt(name, "index: %w", err)
	}
	if err := verify(index, checksum); err != nil {
		return nil, 0, corrupt(name, "index: %w", err)
	}
	if len(index) < 8 {
		return nil, 0, corrupt(name, "index of %d bytes", len(index))
	}
	return fb.GetRootAsTableIndex(index, 0), pos, nil
}

// readBack reads the bytes before end that are followed by their own length.
func readBack(f io.ReaderAt, end int64) ([]byte, int64, error) {
	var length [4]byte
	if end < 4 {
		return nil, 0, fmt.Errorf("file ends at %d", end)
	}
	if _, err := f.ReadAt(length[:], end-4); err != nil {
		return nil, 0, err
	}
	n := int64(beUint32(length[:]))
	if n > end-4 {
		return nil, 0, fmt.Errorf("%d bytes before %d", n, end)
	}
	b := make([]byte, n)
	_, err := f.ReadAt(b, end-4-n)
	return b, end - 4 - n, err
}

func checkBlock(b []byte) error {
	if len(b) < 8 {
		return fmt.Errorf("%d bytes", len(b))
	}
	n := int64(beUint32(b[len(b)-4:]))
	if n > int64(len(b)-8) {
		return fmt.Errorf("checksum of %d bytes", n)
	}
	data := b[:int64(len(b)-4)-n]
	if err := verify(data, b[len(data):len(b)-4]); err != nil {
		return err
	}
	if entries := int64(beUint32(data[len(data)-4:])); entries*4 > int64(len(data)-4) {
		return fmt.Errorf("%d entries in %d bytes", entries, len(data))
	}
	return nil
}

// verify compares data with an encoded checksum. badger's own function panics over an algorithm it
// does not know.
func verify(data, checksum []byte) error {
	var want pb.Checksum
	if len(checksum) > 64 {
		return fmt.Errorf("checksum of %d bytes", len(checksum))
	}
	if err := proto.Unmarshal(checksum, &want); err != nil {
		return fmt.Errorf("checksum: %w", err)
	}
	if want.Algo != pb.Checksum_CRC32C && want.Algo != pb.Checksum_XXHash64 {
		return fmt.Errorf("checksum algorithm %d", want.Algo)
	}
	return y.VerifyChecksum(data, &want)
}
