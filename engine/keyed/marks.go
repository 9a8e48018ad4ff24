package keyed

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Two small files of our own lie beside badger's. Both have the same frame:
//
//	| magic "QNKM" : 4 | version : 1 | min reader : 1 | kind : 1 | 0 : 1 | body | crc32c of all before : 4 |
//
// keyed.clean (kind 1) is written when the store was closed: a count (4) and the files with their
// sizes, as in a manifest. It is removed before badger opens, so its presence means that nobody
// wrote since. keyed.opening (kind 2) counts (4) the Opens that began and never returned.
const (
	cleanFile   = "keyed.clean"
	openingFile = "keyed.opening"

	markVersion   = 1
	markClean     = 1
	markOpening   = 2
	markHeader    = 8
	markBytesMax  = 64 << 20
	markMinBytes  = markHeader + 4
	badgerLockExt = "LOCK"
)

var markMagic = [4]byte{'Q', 'N', 'K', 'M'}

func encodeMark(kind byte, body []byte) []byte {
	b := append(markMagic[:len(markMagic):len(markMagic)], markVersion, markVersion, kind, 0)
	b = append(b, body...)
	return binary.LittleEndian.AppendUint32(b, crc32.Checksum(b, castagnoli))
}

// decodeMark returns the body. A mark that is damaged is an error, one of a newer format ErrFormat.
func decodeMark(kind byte, b []byte) ([]byte, error) {
	if len(b) < markMinBytes || [4]byte(b[:4]) != markMagic {
		return nil, errors.New("no mark")
	}
	if b[5] > markVersion {
		return nil, fmt.Errorf("%w %d of a mark", ErrFormat, b[4])
	}
	body := b[:len(b)-4]
	if crc32.Checksum(body, castagnoli) != binary.LittleEndian.Uint32(b[len(b)-4:]) {
		return nil, errors.New("checksum of a mark")
	}
	if b[6] != kind {
		return nil, fmt.Errorf("mark of kind %d, want %d", b[6], kind)
	}
	return body[markHeader:], nil
}

// writeFile puts a small file in place durably: temporary name, sync, rename, directory sync.
func writeFile(dir, name string, b []byte) error {
	path := filepath.Join(dir, name)
	f, err := os.OpenFile(path+".tmp", os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o644)
	if err != nil {
		return fmt.Errorf("keyed: write %s: %w", name, err)
	}
	_, err = f.Write(b)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(path+".tmp", path)
	}
	if err != nil {
		return fmt.Errorf("keyed: write %s: %w", name, err)
	}
	return syncDir(dir)
}

// removeFile removes a file durably; one that is not there is fine.
func removeFile(dir, name string) error {
	err := os.Remove(filepath.Join(dir, name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("keyed: remove %s: %w", name, err)
	}
	return syncDir(dir)
}

// readMark returns the body of a mark, nil if there is none or it is damaged: a mark only ever makes
// a check stricter, so one that can not be read counts as absent.
func readMark(dir, name string, kind byte) ([]byte, error) {
	info, err := os.Stat(filepath.Join(dir, name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("keyed: read %s: %w", name, err)
	}
	if info.Size() > markBytesMax {
		return nil, nil
	}
	b, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		return nil, fmt.Errorf("keyed: read %s: %w", name, err)
	}
	body, err := decodeMark(kind, b)
	if errors.Is(err, ErrFormat) {
		return nil, err
	}
	if err != nil {
		return nil, nil
	}
	return body, nil
}

// writeCleanMark lists all files of badger with their sizes.
func writeCleanMark(dir string) error {
	sizes, err := listFiles(dir)
	if err != nil {
		return err
	}
	var files []FileInfo
	for name, size := range sizes {
		if !strings.HasPrefix(name, "keyed.") && name != badgerLockExt {
			files = append(files, FileInfo{Name: name, Size: uint64(size)})
		}
	}
	slices.SortFunc(files, func(a, b FileInfo) int { return strings.Compare(a.Name, b.Name) })
	body := binary.LittleEndian.AppendUint32(nil, uint32(len(files)))
	for _, f := range files {
		body = append(append(body, byte(len(f.Name))), f.Name...)
		body = binary.LittleEndian.AppendUint64(body, f.Size)
	}
	return writeFile(dir, cleanFile, encodeMark(markClean, body))
}

// readCleanMark returns the files at the last clean close, nil if the store was not closed cleanly.
func readCleanMark(dir string) ([]FileInfo, error) {
	body, err := readMark(dir, cleanFile, markClean)
	if err != nil || len(body) < 4 {
		return nil, err
	}
	files, rest, err := decodeFiles(body[4:], binary.LittleEndian.Uint32(body))
	if err != nil || len(rest) > 0 {
		return nil, nil
	}
	return files, nil
}

// attempt is one Open in progress. If the process dies in it the file stays behind, and enough such
// files in a row mean that badger can not open this directory and live.
type attempt struct{ dir string }

func beginAttempt(dir string, limit int) (attempt, error) {
	body, err := readMark(dir, openingFile, markOpening)
	if err != nil {
		return attempt{}, err
	}
	var before uint32
	if len(body) == 4 {
		before = binary.LittleEndian.Uint32(body)
	}
	if limit >= 0 && before >= uint32(limit) {
		return attempt{}, &CorruptionError{File: dir, Err: fmt.Errorf("%w: %d times", ErrOpenCrashed, before)}
	}
	body = binary.LittleEndian.AppendUint32(nil, before+1)
	return attempt{dir}, writeFile(dir, openingFile, encodeMark(markOpening, body))
}

// end says that Open returned, with or without success.
func (a attempt) end() error { return removeFile(a.dir, openingFile) }
