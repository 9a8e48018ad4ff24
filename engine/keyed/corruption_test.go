package keyed

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dgraph-io/badger/v4/pb"
	"google.golang.org/protobuf/proto"
)

// A damaged directory is made from two originals: a clean one (closed, all rows in tables) and a
// live one (copied from under an open store, as a power cut would leave it: tables and one WAL).
type original struct {
	dir    string
	expect *Manifest
	m      model
}

func copyDir(t *testing.T, from string) string {
	t.Helper()
	to := t.TempDir()
	files, err := listFiles(from)
	if err != nil {
		t.Fatal(err)
	}
	for name := range files {
		b, err := os.ReadFile(filepath.Join(from, name))
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(to, name) // the logs are sparse, and so is the copy
		err = errors.Join(os.WriteFile(path, bytes.TrimRight(b, "\x00"), 0o644), os.Truncate(path, int64(len(b))))
		if err != nil {
			t.Fatal(err)
		}
	}
	return to
}

func makeOriginals(t *testing.T) (clean, live original) {
	t.Helper()
	dir, m := t.TempDir(), model{}
	s := openTest(t, Options{Dir: dir})
	flush := func(c uint64, n, size int) *Manifest {
		o := NewOverlay(OverlayLimits{})
		for i := range n {
			value := bytes.Repeat(fmt.Appendf(nil, "%02d-%06d;", c, i), size/10)
			if err := o.Put(kv(Family(1+i%3), i), value); err != nil {
				t.Fatal(err)
			}
		}
		return record(t, flushOverlay(t, s, c, m, o), 0)
	}
	flush(10, 3000, 1000)
	if err := s.Close(); err != nil { // the first flush lies in a table from here on
		t.Fatal(err)
	}
	s = openTest(t, Options{Dir: dir})
	expect := flush(20, 2000, 500)
	live = original{dir: copyDir(t, dir), expect: expect, m: maps.Clone(m)}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	return original{dir: dir, expect: expect, m: m}, live
}

func glob(t *testing.T, dir, pattern string) string {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, pattern))
	if err != nil || len(names) == 0 {
		t.Fatalf("no %s: %v", pattern, err)
	}
	return names[0]
}

func shorten(t *testing.T, path string, by int64) {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(path, max(0, info.Size()-by)); err != nil {
		t.Fatal(err)
	}
}

// flip changes one bit in place, so that a mapping of the file sees it.
func flip(t *testing.T, path string, pos int64) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var b [1]byte
	if _, err := f.ReadAt(b[:], pos); err != nil {
		t.Fatal(err)
	}
	b[0] ^= 0x10
	if _, err := f.WriteAt(b[:], pos); err != nil {
		t.Fatal(err)
	}
}

func lastNonZero(t *testing.T, path string) int64 {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return int64(len(bytes.TrimRight(b, "\x00")))
}

// refuse opens a damaged directory and wants a CorruptionError that names the culprit; the evidence
// must still be there.
func refuse(t *testing.T, dir string, expect *Manifest, culprit string) {
	t.Helper()
	before, err := listFiles(dir)
	if err != nil {
		t.Fatal(err)
	}
	s, err := Open(Options{Dir: dir, Expect: expect})
	if err == nil {
		_ = s.Close()
		t.Fatal("it opened")
	}
	var ce *CorruptionError
	if !errors.As(err, &ce) || !strings.Contains(ce.File, culprit) {
		t.Fatalf("refused with %v, want damage of %s", err, culprit)
	}
	after, err := listFiles(dir)
	if err != nil {
		t.Fatal(err)
	}
	for name := range before {
		if _, ok := after[name]; !ok && strings.HasSuffix(name, ".sst") {
			t.Fatalf("%s was deleted", name)
		}
	}
}

// damageCase is one way to hurt a directory, and who must be named for it.
type damageCase struct {
	name    string
	damage  func(dir string)
	culprit string
	clean   bool // the clean original
	live    bool
	unknown bool // refused without an expectation as well
}

func damageCases(t *testing.T) []damageCase {
	const sst = ".sst"
	path := filepath.Join
	return []damageCase{
		{"MANIFEST missing", func(d string) { os.Remove(path(d, badgerLogName)) }, badgerLogName, true, true, true},
		{"MANIFEST empty", func(d string) { shorten(t, path(d, badgerLogName), 1<<20) }, badgerLogName, true, true, true},
		{"MANIFEST without records", func(d string) { os.Truncate(path(d, badgerLogName), 8) }, badgerLogName, true, true, false},
		{"MANIFEST short by 1", func(d string) { shorten(t, path(d, badgerLogName), 1) }, badgerLogName, true, true, false},
		{"MANIFEST short by 5", func(d string) { shorten(t, path(d, badgerLogName), 5) }, badgerLogName, true, true, false},
		{"MANIFEST flipped", func(d string) { flip(t, path(d, badgerLogName), 26) }, badgerLogName, true, true, true},
		{"MANIFEST of another database", func(d string) { foreignLog(t, d) }, badgerLogName, true, true, false},
		{"table missing", func(d string) { os.Remove(glob(t, d, "*.sst")) }, sst, true, true, true},
		{"table empty", func(d string) { os.Truncate(glob(t, d, "*.sst"), 0) }, sst, true, true, true},
		{"table short by 1", func(d string) { shorten(t, glob(t, d, "*.sst"), 1) }, sst, true, true, true},
		{"table short by half", func(d string) { shorten(t, glob(t, d, "*.sst"), 1<<20) }, sst, true, true, true},
		{"table longer", func(d string) { appendTo(t, glob(t, d, "*.sst"), "x") }, sst, true, true, true},
		{"WAL missing", func(d string) { os.Remove(glob(t, d, "*.mem")) }, "", false, true, false},
		{"WAL short", func(d string) { os.Truncate(glob(t, d, "*.mem"), 1000) }, "", false, true, false},
		{"WAL short by its last bytes", func(d string) {
			os.Truncate(glob(t, d, "*.mem"), lastNonZero(t, glob(t, d, "*.mem"))-3)
		}, "", false, true, false},
		{"WAL flipped", func(d string) { flip(t, glob(t, d, "*.mem"), 500_000) }, "", false, true, false},
		{"key registry missing", func(d string) { os.Remove(path(d, "KEYREGISTRY")) }, "KEYREGISTRY", true, false, false},
	}
}

// Goal: every damage that badger would not report is refused by name, before badger deletes what it
// does not know or dies.
func TestDamageIsRefused(t *testing.T) {
	clean, live := makeOriginals(t)
	for i, c := range damageCases(t) {
		if testing.Short() && i%4 != 0 {
			continue
		}
		for _, o := range []struct {
			name string
			original
			use bool
		}{{"clean", clean, c.clean}, {"live", live, c.live}} {
			if !o.use {
				continue
			}
			t.Run(c.name+"/"+o.name, func(t *testing.T) {
				dir := copyDir(t, o.dir)
				c.damage(dir)
				refuse(t, dir, o.expect, c.culprit)
				refuse(t, dir, o.expect, c.culprit) // and again
				if c.unknown {
					dir := copyDir(t, o.dir)
					c.damage(dir)
					refuse(t, dir, nil, c.culprit)
				}
			})
		}
	}
	// The originals do open.
	for _, o := range []original{clean, live} {
		s := openTest(t, Options{Dir: copyDir(t, o.dir), Expect: o.expect})
		checkState(t, s, 20, o.m)
	}
}

func appendTo(t *testing.T, path, tail string) {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, append(b, tail...), 0o644); err != nil {
		t.Fatal(err)
	}
}

// foreignLog puts the MANIFEST of an empty database in place.
func foreignLog(t *testing.T, dir string) {
	t.Helper()
	other := t.TempDir()
	s := openTest(t, Options{Dir: other})
	b, err := os.ReadFile(filepath.Join(other, badgerLogName))
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(s.Close(), os.WriteFile(filepath.Join(dir, badgerLogName), b, 0o644)); err != nil {
		t.Fatal(err)
	}
}

// Goal: no bit of a table can flip unnoticed, wherever it lies: rows, offsets, lengths, checksums,
// index, footer.
func TestFlippedTableIsRefused(t *testing.T) {
	clean, _ := makeOriginals(t)
	dir := copyDir(t, clean.dir)
	file := glob(t, dir, "*.sst")
	info, err := os.Stat(file)
	if err != nil {
		t.Fatal(err)
	}
	var positions []int64
	for back := int64(1); back <= 40; back++ { // footer, and the end of the index
		positions = append(positions, info.Size()-back)
	}
	rng := rand.New(rand.NewPCG(9, 9))
	for range 60 {
		positions = append(positions, rng.Int64N(info.Size()))
	}
	for _, pos := range positions {
		flip(t, file, pos)
		if err := checkTable(dir, filepath.Base(file), info.Size()); !isCorrupt(err) {
			t.Fatalf("bit flipped at %d of %d: %v", pos, info.Size(), err)
		}
		flip(t, file, pos)
	}
	flip(t, file, 12_345)
	refuse(t, dir, clean.expect, filepath.Base(file))
}

func isCorrupt(err error) bool {
	var ce *CorruptionError
	return errors.As(err, &ce)
}

// Goal: what rots under an open store is never served and never silently absent from a scan of
// everything, also after compaction has put the rotten bytes under fresh checksums.
func TestRotUnderAnOpenStore(t *testing.T) {
	clean, _ := makeOriginals(t)
	for _, compacted := range []bool{false, true} {
		dir := copyDir(t, clean.dir)
		s := openTest(t, Options{Dir: dir, Expect: clean.expect})
		key := kv(1, 2001) // flushed at 10 only; family 1 has the indexes divisible by 3
		value := clean.m[string(key)]
		if value == "" {
			t.Fatal("no such row")
		}
		rotted := 0
		tables, err := filepath.Glob(filepath.Join(dir, "*.sst"))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range tables {
			b, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			for at := bytes.Index(b, []byte(value[:200])); at >= 0 && rotted == 0; rotted++ {
				flip(t, file, int64(at)+100)
			}
		}
		if rotted == 0 {
			t.Fatal("the value was not found in any table")
		}
		if compacted {
			compact(t, s)
		}
		if _, _, err := s.GetAt(20, key); !isCorrupt(err) {
			t.Fatalf("compacted %v: rotten value: %v", compacted, err)
		}
		if _, err := s.VerifyAt(context.Background(), 20); !isCorrupt(err) {
			t.Fatalf("compacted %v: scan over a rotten value: %v", compacted, err)
		}
		if err := s.ScanAt(20, key[:5], nil, 10_000, func(_, _ []byte) bool { return true }); !isCorrupt(err) {
			t.Fatalf("compacted %v: prefix scan over a rotten value: %v", compacted, err)
		}
		if s.Metrics().Corruptions != 3 {
			t.Fatalf("%d corruptions counted", s.Metrics().Corruptions)
		}
	}
}

// Goal: a row that disappears leaves no trace in badger, and the digest finds it.
func TestLostRowShowsInDigest(t *testing.T) {
	clean, _ := makeOriginals(t)
	s := openTest(t, Options{Dir: copyDir(t, clean.dir), Expect: clean.expect})
	batch := s.db.NewWriteBatchAt(20) // behind the store's back, at the checkpoint's own version
	if err := errors.Join(batch.Delete(kv(1, 3)), batch.Flush()); err != nil {
		t.Fatal(err)
	}
	got, err := s.VerifyAt(context.Background(), 20)
	if err != nil {
		t.Fatal(err)
	}
	if err := got.Diff(clean.expect.Digests); err == nil || !strings.Contains(err.Error(), "kv") {
		t.Fatalf("a row of kv is missing: %v", err)
	}
}

// Goal: a table cut short under an open store is a fault in a mapping; a read turns it into an error
// instead of the end of the process.
func TestFaultBecomesAnError(t *testing.T) {
	clean, _ := makeOriginals(t)
	dir := copyDir(t, clean.dir)
	s, err := Open(Options{Dir: dir, Expect: clean.expect})
	if err != nil {
		t.Fatal(err)
	}
	tables, err := filepath.Glob(filepath.Join(dir, "*.sst"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range tables {
		if err := os.Truncate(file, 0); err != nil {
			t.Fatal(err)
		}
	}
	if _, _, err := s.GetAt(20, kv(1, 2001)); !isCorrupt(err) {
		t.Fatalf("get: %v", err)
	}
	if _, err := s.VerifyAt(context.Background(), 20); !isCorrupt(err) {
		t.Fatalf("scan: %v", err)
	}
	_ = s.Close()
}

// Goal: a directory that kills the process in Open again and again is set aside by name, and one
// Open that returns forgets the earlier deaths.
func TestCrashLoop(t *testing.T) {
	dir := t.TempDir()
	s := openTest(t, Options{Dir: dir})
	m1 := record(t, flushOverlay(t, s, 10, model{}, overlayOf(t, put(1, 1, "v"))), 0)
	crash(t, s)
	die := func() { // an Open that never returns
		if _, err := beginAttempt(dir, 3); err != nil {
			t.Fatal(err)
		}
	}
	die()
	die()
	s = openTest(t, Options{Dir: dir, Expect: m1})
	crash(t, s)
	die()
	die()
	die()
	if _, err := Open(Options{Dir: dir, Expect: m1}); !errors.Is(err, ErrOpenCrashed) || !isCorrupt(err) {
		t.Fatalf("after three deaths: %v", err)
	}
	s = openTest(t, Options{Dir: dir, Expect: m1, OpenAttemptsMax: -1})
	checkState(t, s, 10, model{string(kv(1, 1)): "v"})
}

// Goal: half a record at the end of badger's MANIFEST, beyond what was recorded, is what a power cut
// leaves; it is accepted and reported.
func TestTornLogBeyondTheRecord(t *testing.T) {
	_, live := makeOriginals(t)
	dir := copyDir(t, live.dir)
	appendTo(t, filepath.Join(dir, badgerLogName), "\x00\x00\x00\x20torn")
	s := openTest(t, Options{Dir: dir, Expect: live.expect})
	if r := s.Report(); !r.TornLog || !r.Unclean {
		t.Fatalf("report %+v", r)
	}
	checkState(t, s, 20, live.m)
}

// Goal: marks in files survive their round trip and are refused when any bit is wrong.
func TestMarks(t *testing.T) {
	good := encodeMark(markClean, []byte("body"))
	if body, err := decodeMark(markClean, good); err != nil || string(body) != "body" {
		t.Fatal(body, err)
	}
	for i := range good {
		bad := bytes.Clone(good)
		bad[i] ^= 1
		if _, err := decodeMark(markClean, bad); err == nil {
			t.Fatalf("byte %d changed: accepted", i)
		}
		if _, err := decodeMark(markClean, good[:i]); err == nil {
			t.Fatalf("%d bytes: accepted", i)
		}
	}
	newer := bytes.Clone(good)
	newer[5] = markVersion + 1
	if _, err := decodeMark(markClean, newer); !errors.Is(err, ErrFormat) {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := writeFile(dir, "x", good); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(dir, "x.tmp")); !errors.Is(err, fs.ErrNotExist) {
		t.Fatal("temporary file left behind")
	}
	if err := errors.Join(removeFile(dir, "x"), removeFile(dir, "x")); err != nil {
		t.Fatal(err)
	}
	if s := fmt.Sprint(FamilyKV, Family(9)); s != "kv family-0x09" {
		t.Fatal(s)
	}
}

// Goal: badger's replacement of its MANIFEST by a compact one is no damage; a cut one is. Method:
// write the compact file by hand, since badger does it after ten thousand deleted tables only.
func TestReplacedLog(t *testing.T) {
	_, live := makeOriginals(t)
	dir := copyDir(t, live.dir)
	log, err := replayTableLog(dir)
	if err != nil {
		t.Fatal(err)
	}
	var set pb.ManifestChangeSet
	for id, m := range log.tables {
		set.Changes = append(set.Changes, &pb.ManifestChange{Id: id, Level: uint32(m.Level), Op: pb.ManifestChange_CREATE})
	}
	body, err := proto.Marshal(&set)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, badgerLogName)
	old, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	compact := binary.BigEndian.AppendUint32(old[:badgerLogHeader:badgerLogHeader], uint32(len(body)))
	compact = append(binary.BigEndian.AppendUint32(compact, crc32.Checksum(body, castagnoli)), body...)
	for _, torn := range []bool{false, true} {
		if torn {
			compact = append(compact, 0, 0, 0)
		}
		dir := copyDir(t, dir)
		if err := os.WriteFile(filepath.Join(dir, badgerLogName), compact, 0o644); err != nil {
			t.Fatal(err)
		}
		if torn {
			refuse(t, dir, live.expect, badgerLogName)
			continue
		}
		s := openTest(t, Options{Dir: dir, Expect: live.expect})
		checkState(t, s, 20, live.m)
	}
}
