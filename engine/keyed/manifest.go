package keyed

import (
	"encoding/binary"
	"fmt"
	"strings"
)

// FileInfo is a file of the store's directory. Tables are immutable, so their size is exact.
type FileInfo struct {
	Name string
	Size uint64
}

// Manifest says what a flush left behind. The caller records it durably; the recording is what makes
// the flush a checkpoint. It is handed back to Open as Options.Expect.
type Manifest struct {
	// Version is C: the rows of the checkpoint are those visible at this version.
	Version uint64
	// Digests count and sum the whole state at Version, per family, not only the rows flushed.
	Digests Digests
	// Tables are badger's tables at the time of the flush, ascending by name. Later ones may have
	// been added and these merged away; those that are still listed by badger must have this size.
	Tables []FileInfo
	// Log is how far badger's own MANIFEST, an append-only file, had come.
	Log LogPrefix
}

// LogPrefix identifies the beginning of an append-only file. A file that is merely longer keeps it;
// a file cut short, or another one, does not. badger replaces its MANIFEST from time to time by a
// compact one: then the first record differs and Sum no longer applies.
type LogPrefix struct {
	Size  uint64   // bytes
	First [16]byte // xxh3-128 of the header and the first record
	Sum   [16]byte // xxh3-128 of the first Size bytes
}

const (
	manifestVersion    = 1
	manifestTablesMax  = 1 << 20
	manifestNameMax    = 64
	manifestTableBytes = 1 + 1 + 8 // the least a table entry takes
)

// Append appends the encoded manifest: a version byte, then the fields in order. It carries no
// checksum; the record it is put into has one.
func (m Manifest) Append(dst []byte) []byte {
	dst = append(dst, manifestVersion)
	dst = binary.LittleEndian.AppendUint64(dst, m.Version)
	dst = appendDigests(dst, m.Digests)
	dst = binary.LittleEndian.AppendUint64(dst, m.Log.Size)
	dst = append(dst, m.Log.First[:]...)
	dst = append(dst, m.Log.Sum[:]...)
	dst = binary.LittleEndian.AppendUint32(dst, uint32(len(m.Tables)))
	for _, f := range m.Tables {
		dst = append(dst, byte(len(f.Name)))
		dst = append(dst, f.Name...)
		dst = binary.LittleEndian.AppendUint64(dst, f.Size)
	}
	return dst
}

// DecodeManifest reads one manifest, which must fill b exactly.
func DecodeManifest(b []byte) (Manifest, error) {
	m, err := decodeManifest(b)
	if err != nil {
		return Manifest{}, fmt.Errorf("keyed: decode manifest: %w", err)
	}
	return m, nil
}

func decodeManifest(b []byte) (m Manifest, err error) {
	if len(b) < 9 {
		return m, errShort
	}
	if b[0] != manifestVersion {
		return m, fmt.Errorf("%w %d", ErrFormat, b[0])
	}
	m.Version = binary.LittleEndian.Uint64(b[1:])
	if m.Digests, b, err = decodeDigests(b[9:]); err != nil {
		return m, err
	}
	if len(b) < 8+16+16+4 {
		return m, errShort
	}
	m.Log.Size = binary.LittleEndian.Uint64(b)
	copy(m.Log.First[:], b[8:])
	copy(m.Log.Sum[:], b[24:])
	n := binary.LittleEndian.Uint32(b[40:])
	m.Tables, b, err = decodeFiles(b[44:], n)
	if err == nil && len(b) > 0 {
		err = fmt.Errorf("%d bytes too many", len(b))
	}
	return m, err
}

// decodeFiles reads n entries. What it allocates is bounded by len(b), whatever n claims.
func decodeFiles(b []byte, n uint32) ([]FileInfo, []byte, error) {
	if n > manifestTablesMax || int64(n)*manifestTableBytes > int64(len(b)) {
		return nil, nil, fmt.Errorf("%d files in %d bytes", n, len(b))
	}
	files := make([]FileInfo, 0, n)
	for range n {
		if len(b) < 1 || len(b) < 1+int(b[0])+8 {
			return nil, nil, errShort
		}
		name := string(b[1 : 1+b[0]])
		if !plainName(name) || len(files) > 0 && files[len(files)-1].Name >= name {
			return nil, nil, fmt.Errorf("file name %q", name)
		}
		files = append(files, FileInfo{Name: name, Size: binary.LittleEndian.Uint64(b[1+len(name):])})
		b = b[1+len(name)+8:]
	}
	return files, b, nil
}

// plainName keeps a name read off disk from leaving the directory.
func plainName(name string) bool {
	return name != "" && len(name) <= manifestNameMax && name[0] != '.' && !strings.ContainsAny(name, "/\\\x00")
}

// appendSentinel encodes the value of the sentinel row: what a flush wrote, but for the files.
func appendSentinel(dst []byte, version uint64, ds Digests) []byte {
	dst = append(dst, manifestVersion)
	dst = binary.LittleEndian.AppendUint64(dst, version)
	return appendDigests(dst, ds)
}

var sentinelKey = []byte{byte(familySentinel)}
