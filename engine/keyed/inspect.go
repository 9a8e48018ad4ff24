package keyed

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/dgraph-io/badger/v4"
	"github.com/dgraph-io/badger/v4/table"
	"github.com/zeebo/xxh3"
)

// This file looks at a directory before badger does. badger takes a missing MANIFEST for an empty
// database and deletes all tables as orphans, cuts a short one at the last whole record and deletes
// what that record listed, and dies over a table cut short.

// badgerLogName is badger's MANIFEST: the append-only list of its tables.
const badgerLogName = badger.ManifestFilename

// badgerLog as replayed from disk.
type tableLog struct {
	tables map[uint64]badger.TableManifest
	size   int64 // of the file
	end    int64 // of the last whole record
}

// inspectDir refuses a directory that lost something and changes nothing.
func inspectDir(dir string, expect *Manifest) (OpenReport, error) {
	files, err := listFiles(dir)
	if err != nil {
		return OpenReport{}, err
	}
	clean, err := readCleanMark(dir)
	if err != nil {
		return OpenReport{}, err
	}
	if _, ok := files[badgerLogName]; !ok {
		return inspectFresh(files, expect, clean)
	}
	report := OpenReport{Unclean: clean == nil}
	log, err := replayTableLog(dir)
	if err != nil {
		return report, err
	}
	report.TornLog = log.end < log.size
	if err := checkExpected(dir, log, expect); err != nil {
		return report, err
	}
	if err := checkClean(files, clean); err != nil {
		return report, err
	}
	report.Orphans = orphans(files, log)
	if len(report.Orphans) > 0 && clean != nil {
		return report, corrupt(badgerLogName, "does not list %v, yet the store was closed cleanly", report.Orphans)
	}
	report.Tables = len(log.tables)
	return report, checkTables(dir, files, log, expect)
}

// inspectFresh judges a directory without badger's MANIFEST: it must hold no database at all.
func inspectFresh(files map[string]int64, expect *Manifest, clean []FileInfo) (OpenReport, error) {
	if expect != nil {
		return OpenReport{}, corrupt(badgerLogName, "%w, a checkpoint at version %d is expected", fs.ErrNotExist, expect.Version)
	}
	if clean != nil {
		return OpenReport{}, corrupt(badgerLogName, "%w, the mark of a clean close is there", fs.ErrNotExist)
	}
	for name := range files {
		if strings.HasSuffix(name, ".sst") || strings.HasSuffix(name, ".mem") {
			return OpenReport{}, corrupt(badgerLogName, "%w, yet there is %s", fs.ErrNotExist, name)
		}
	}
	return OpenReport{Fresh: true}, nil
}

func listFiles(dir string) (map[string]int64, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("keyed: list directory: %w", err)
	}
	files := make(map[string]int64, len(entries))
	for _, e := range entries {
		info, err := e.Info()
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("keyed: list directory: %w", err)
		}
		if info.Mode().IsRegular() {
			files[e.Name()] = info.Size()
		}
	}
	return files, nil
}

// replayTableLog reads badger's MANIFEST without changing it.
func replayTableLog(dir string) (tableLog, error) {
	f, err := os.Open(filepath.Join(dir, badgerLogName))
	if err != nil {
		return tableLog{}, fmt.Errorf("keyed: read %s: %w", badgerLogName, err)
	}
	defer f.Close()
	m, end, err := badger.ReplayManifestFile(f, 0, badger.DefaultOptions(dir).WithLogger(nil))
	if err != nil {
		return tableLog{}, corrupt(badgerLogName, "%w", err)
	}
	info, err := f.Stat()
	if err != nil {
		return tableLog{}, fmt.Errorf("keyed: read %s: %w", badgerLogName, err)
	}
	return tableLog{tables: m.Tables, size: info.Size(), end: end}, nil
}

// describeLog identifies the first size bytes of badger's MANIFEST.
func describeLog(dir string, size int64) (LogPrefix, error) {
	f, err := os.Open(filepath.Join(dir, badgerLogName))
	if err != nil {
		return LogPrefix{}, fmt.Errorf("keyed: read %s: %w", badgerLogName, err)
	}
	defer f.Close()
	var head [badgerLogHeader + badgerRecordHeader]byte
	if _, err := f.ReadAt(head[:], 0); err != nil {
		return LogPrefix{}, corrupt(badgerLogName, "first record: %w", err)
	}
	first := int64(len(head)) + int64(beUint32(head[badgerLogHeader:]))
	if first > size {
		return LogPrefix{}, corrupt(badgerLogName, "first record of %d bytes in %d", first, size)
	}
	p := LogPrefix{Size: uint64(size)}
	if p.First, err = hashPrefix(f, first); err == nil {
		p.Sum, err = hashPrefix(f, size)
	}
	if err != nil {
		return LogPrefix{}, fmt.Errorf("keyed: read %s: %w", badgerLogName, err)
	}
	return p, nil
}

// Sizes in badger's MANIFEST: magic and versions; length and checksum of a record, big-endian.
const (
	badgerLogHeader    = 8
	badgerRecordHeader = 8
)

func beUint32(b []byte) uint32 {
	return uint32(b[0])<<24 | uint32(b[1])<<16 | uint32(b[2])<<8 | uint32(b[3])
}

func hashPrefix(f io.ReaderAt, size int64) ([16]byte, error) {
	h := xxh3.New()
	n, err := io.Copy(h, io.NewSectionReader(f, 0, size))
	if err == nil && n != size {
		err = io.ErrUnexpectedEOF
	}
	return h.Sum128().Bytes(), err
}

// describeTries: a table listed a moment ago may be merged away before its size is read.
const describeTries = 100

// describeTables returns badger's tables with their sizes, and how far its MANIFEST had come when it
// listed them. Compaction may go on meanwhile.
func describeTables(dir string) ([]FileInfo, LogPrefix, error) {
	var err error
	for range describeTries {
		var log tableLog
		if log, err = replayTableLog(dir); err != nil {
			return nil, LogPrefix{}, err
		}
		var prefix LogPrefix
		if prefix, err = describeLog(dir, log.end); err != nil {
			return nil, LogPrefix{}, err
		}
		var files []FileInfo
		if files, err = sizeTables(dir, log); err == nil {
			return files, prefix, nil
		}
		if !errors.Is(err, fs.ErrNotExist) {
			break
		}
	}
	return nil, LogPrefix{}, fmt.Errorf("keyed: describe tables: %w", err)
}

func sizeTables(dir string, log tableLog) ([]FileInfo, error) {
	files := make([]FileInfo, 0, len(log.tables))
	for id := range log.tables {
		name := table.IDToFilename(id)
		info, err := os.Stat(filepath.Join(dir, name))
		if err != nil {
			return nil, err
		}
		files = append(files, FileInfo{Name: name, Size: uint64(info.Size())})
	}
	slices.SortFunc(files, func(a, b FileInfo) int { return strings.Compare(a.Name, b.Name) })
	return files, nil
}

// checkExpected compares badger's MANIFEST with what the checkpoint recorded of it.
func checkExpected(dir string, log tableLog, expect *Manifest) error {
	if expect == nil {
		return nil
	}
	now, err := describeLog(dir, log.end)
	if err != nil {
		return err
	}
	if now.First != expect.Log.First {
		// Replaced by a compact one, which badger writes and renames as a whole.
		if log.end < log.size {
			return corrupt(badgerLogName, "was replaced and ends in half a record")
		}
		return nil
	}
	if log.end < int64(expect.Log.Size) {
		return corrupt(badgerLogName, "%d whole bytes of at least %d", log.end, expect.Log.Size)
	}
	if now, err = describeLog(dir, int64(expect.Log.Size)); err != nil {
		return err
	}
	if now.Sum != expect.Log.Sum {
		return corrupt(badgerLogName, "does not begin as recorded at version %d", expect.Version)
	}
	return nil
}

// checkClean holds every file to the size it had when the store was closed.
func checkClean(files map[string]int64, clean []FileInfo) error {
	for _, want := range clean {
		size, ok := files[want.Name]
		if !ok {
			return corrupt(want.Name, "%w", fs.ErrNotExist)
		}
		if size != int64(want.Size) {
			return corrupt(want.Name, "%d bytes, closed with %d", size, want.Size)
		}
	}
	return nil
}

func orphans(files map[string]int64, log tableLog) (names []string) {
	for name := range files {
		if !strings.HasSuffix(name, ".sst") {
			continue
		}
		id, ok := table.ParseFileID(name)
		if _, listed := log.tables[id]; !ok || !listed {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// checkTables wants every listed table there, of the recorded size if one was recorded, and whole.
func checkTables(dir string, files map[string]int64, log tableLog, expect *Manifest) error {
	recorded := map[string]uint64{}
	if expect != nil {
		for _, f := range expect.Tables {
			recorded[f.Name] = f.Size
		}
	}
	for id := range log.tables {
		name := table.IDToFilename(id)
		size, ok := files[name]
		if !ok {
			return corrupt(name, "%w, badger lists it", fs.ErrNotExist)
		}
		if want, ok := recorded[name]; ok && uint64(size) != want {
			return corrupt(name, "%d bytes, recorded with %d", size, want)
		}
		if err := checkTable(dir, name, size); err != nil {
			return err
		}
	}
	return nil
}
