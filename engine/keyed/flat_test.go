package keyed

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

func openFlatBytes(b []byte) (*FlatReader, error) {
	return OpenFlat(bytes.NewReader(b), int64(len(b)), "test.flat")
}

func mustFlat(t *testing.T, b []byte) *FlatReader {
	t.Helper()
	fr, err := openFlatBytes(b)
	if err != nil {
		t.Fatal(err)
	}
	return fr
}

func randomRows(rng *rand.Rand, n int, tombstones bool) []Row {
	m := map[string]Row{}
	for range n {
		key := kv(Family(1+rng.IntN(5)), rng.IntN(10*n))
		row := Row{Key: key, Value: bytes.Repeat([]byte{byte(n)}, rng.IntN(300))}
		if tombstones && rng.IntN(4) == 0 {
			row = Row{Key: key, Tombstone: true}
		}
		m[string(key)] = row
	}
	rows := make([]Row, 0, len(m))
	for _, key := range slices.Sorted(maps.Keys(m)) {
		rows = append(rows, m[key])
	}
	return rows
}

func sameRow(a, b Row) bool {
	return bytes.Equal(a.Key, b.Key) && bytes.Equal(a.Value, b.Value) && a.Tombstone == b.Tombstone
}

// Goal: a delta reads back as the rows it was written from, whatever their number and sizes.
func TestDeltaRoundTrip(t *testing.T) {
	rng := rand.New(rand.NewPCG(8, 8))
	state := model{string(kv(1, 1)): "x"}.digests()
	for _, n := range []int{0, 1, 2, 100, 3000} {
		rows := randomRows(rng, n, true)
		if n == 2 {
			long := append([]byte{FamilyLastByte}, make([]byte, KeyBytesMax-1)...)
			rows = append(rows, Row{Key: long, Value: make([]byte, ValueBytesMax)})
		}
		var b bytes.Buffer
		info, err := WriteDelta(&b, 10, 20, state, slices.Values(rows))
		if err != nil {
			t.Fatal(err)
		}
		fr := mustFlat(t, b.Bytes())
		if got := fr.Info(); !got.Digests.Equal(state) || got.Sum != info.Sum || got.Rows != uint64(len(rows)) ||
			got.Bytes != int64(b.Len()) || info.Bytes != got.Bytes || got.Base != 10 || got.At != 20 {
			t.Fatalf("info %+v, written %+v", got, info)
		}
		var got []Row
		for row, err := range fr.Rows() {
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, row)
		}
		if !slices.EqualFunc(got, rows, sameRow) {
			t.Fatalf("%d rows, want %d", len(got), len(rows))
		}
		for range fr.Rows() { // stopping early is fine
			break
		}
	}
}

// FamilyLastByte spares the tests a conversion.
const FamilyLastByte = byte(FamilyLast)

// Goal: any changed byte and any shortened file is damage, never other rows.
func TestFlatDamage(t *testing.T) {
	var b bytes.Buffer
	rows := randomRows(rand.New(rand.NewPCG(4, 4)), 60, true)
	if _, err := WriteDelta(&b, 1, 2, nil, slices.Values(rows)); err != nil {
		t.Fatal(err)
	}
	read := func(b []byte) error {
		fr, err := openFlatBytes(b)
		if err != nil {
			return err
		}
		return fr.Verify()
	}
	good := b.Bytes()
	if err := read(good); err != nil {
		t.Fatal(err)
	}
	for i := range good {
		bad := bytes.Clone(good)
		bad[i] ^= 1 << (i % 8)
		if err := read(bad); !isCorrupt(err) {
			t.Fatalf("byte %d changed: %v", i, err)
		}
		if err := read(good[:i]); !isCorrupt(err) {
			t.Fatalf("%d bytes of %d: %v", i, len(good), err)
		}
	}
	newer := bytes.Clone(good)
	newer[9] = flatVersion + 1
	if err := read(newer); !errors.Is(err, ErrFormat) {
		t.Fatalf("a newer format: %v", err)
	}
}

// Goal: two blocks exchanged or one left out is damage although each has its checksum.
func TestFlatBlocksAreOrdered(t *testing.T) {
	var b bytes.Buffer
	var rows []Row
	for i := range 3 {
		rows = append(rows, Row{Key: kv(1, i), Value: make([]byte, flatBlockTarget)}) // a block each
	}
	if _, err := WriteDelta(&b, 1, 2, nil, slices.Values(rows)); err != nil {
		t.Fatal(err)
	}
	good := b.Bytes()
	size := flatFrameBytes + 1 + 1 + 3 + len(rows[0].Key) + flatBlockTarget
	block := func(i int) []byte { return good[flatHeaderBytes+i*size : flatHeaderBytes+(i+1)*size] }
	rest := good[flatHeaderBytes+3*size:]
	for _, order := range [][]int{{0, 2, 1}, {0, 1}, {1, 2}, {0, 1, 2, 2}, {}} {
		bad := bytes.Clone(good[:flatHeaderBytes])
		for _, i := range order {
			bad = append(bad, block(i)...)
		}
		fr := mustFlat(t, append(bad, rest...))
		if err := fr.Verify(); !isCorrupt(err) {
			t.Fatalf("blocks %v: %v", order, err)
		}
	}
}

func TestFlatWriterRefusals(t *testing.T) {
	headers := []FlatHeader{
		{}, {Kind: 3, At: 1}, {Kind: FlatExport, Base: 1, At: 2}, {Kind: FlatDelta, Base: 2, At: 2}, {Kind: FlatExport},
	}
	for _, h := range headers {
		if _, err := NewFlatWriter(io.Discard, h); err == nil {
			t.Fatalf("header %+v accepted", h)
		}
	}
	for i, rows := range [][]Row{
		{put(1, 2, ""), put(1, 1, "")}, {put(1, 1, ""), put(1, 1, "")}, {{}}, {del(1, 1)},
		{{Key: []byte{1}, Value: make([]byte, ValueBytesMax+1)}},
	} {
		fw, err := NewFlatWriter(io.Discard, FlatHeader{Kind: FlatExport, At: 1})
		if err != nil {
			t.Fatal(err)
		}
		for _, row := range rows {
			err = fw.Add(row)
		}
		if err == nil {
			t.Fatalf("case %d accepted", i)
		}
		if _, again := fw.Finish(nil); again != err {
			t.Fatalf("case %d: %v, then %v", i, err, again)
		}
	}
	fw, err := NewFlatWriter(io.Discard, FlatHeader{Kind: FlatExport, At: 1})
	if err := errors.Join(err, fw.Add(put(1, 1, "v"))); err != nil {
		t.Fatal(err)
	}
	if _, err := fw.Finish(Digests{1: {Rows: 2}}); !isCorrupt(err) {
		t.Fatalf("an export that is not the state: %v", err)
	}
}

// failingWriter fails at the n-th write.
type failingWriter struct{ left int }

var errFull = errors.New("device full")

func (w *failingWriter) Write(b []byte) (int, error) {
	if w.left--; w.left < 0 {
		return 0, errFull
	}
	return len(b), nil
}

func TestFlatWriterErrors(t *testing.T) {
	rows := randomRows(rand.New(rand.NewPCG(4, 4)), 2000, true)
	for n := 0; ; n++ {
		_, err := WriteDelta(&failingWriter{n}, 1, 2, nil, slices.Values(rows))
		if err == nil {
			if n < 8 {
				t.Fatalf("only %d writes", n)
			}
			return
		}
		if !errors.Is(err, errFull) {
			t.Fatalf("write %d fails with %v", n, err)
		}
	}
}

// Goal: export, import and deltas rebuild a store exactly, and the export of the rebuilt one has the
// same bytes.
func TestExportImportDelta(t *testing.T) {
	ctx := context.Background()
	s, m := openTest(t, Options{Dir: t.TempDir()}), model{}
	rng := rand.New(rand.NewPCG(5, 6))
	var deltas [][]byte
	var base bytes.Buffer
	var last uint64
	for c := uint64(10); c <= 40; c += 10 {
		o := NewOverlay(OverlayLimits{})
		for _, row := range randomRows(rng, 400, true) {
			if err := replaceRow(o, row); err != nil {
				t.Fatal(err)
			}
		}
		if err := o.Put(kv(3, int(c)), bytes.Repeat([]byte("big"), 300_000)); err != nil {
			t.Fatal(err)
		}
		f := flushOverlay(t, s, c, m, o)
		record(t, f, 0)
		if c == 10 {
			if info, err := s.Export(ctx, c, &base); err != nil || !info.Digests.Equal(m.digests()) {
				t.Fatal(info, err)
			}
		} else {
			var b bytes.Buffer
			if _, err := WriteDelta(&b, last, c, m.digests(), o.Rows()); err != nil {
				t.Fatal(err)
			}
			deltas = append(deltas, b.Bytes())
		}
		last = c
	}
	copied := openTest(t, Options{Dir: t.TempDir()})
	if _, err := copied.Import(ctx, mustFlat(t, deltas[0])); !errors.Is(err, ErrWrongBase) {
		t.Fatalf("import of a delta: %v", err)
	}
	f, err := copied.Import(ctx, mustFlat(t, base.Bytes()))
	if err != nil {
		t.Fatal(err)
	}
	record(t, f, 0)
	if _, err := copied.Import(ctx, mustFlat(t, base.Bytes())); !errors.Is(err, ErrNotEmpty) {
		t.Fatalf("second import: %v", err)
	}
	if _, err := copied.ApplyDelta(ctx, mustFlat(t, deltas[1])); !errors.Is(err, ErrWrongBase) {
		t.Fatalf("a delta was left out: %v", err)
	}
	for _, d := range deltas {
		f, err := copied.ApplyDelta(ctx, mustFlat(t, d))
		if err != nil {
			t.Fatal(err)
		}
		record(t, f, 0)
	}
	checkState(t, copied, 40, m)
	var a, b bytes.Buffer
	if _, err := s.Export(ctx, 40, &a); err != nil {
		t.Fatal(err)
	}
	if _, err := copied.Export(ctx, 40, &b); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(a.Bytes(), b.Bytes()) {
		t.Fatal("the same state exports to different bytes")
	}
}

// Goal: a damaged export never becomes a checkpoint.
func TestImportOfDamage(t *testing.T) {
	s, m := openTest(t, Options{Dir: t.TempDir()}), model{}
	record(t, flushOverlay(t, s, 10, m, overlayOf(t, randomRows(rand.New(rand.NewPCG(5, 6)), 500, false)...)), 0)
	var b bytes.Buffer
	if _, err := s.Export(context.Background(), 10, &b); err != nil {
		t.Fatal(err)
	}
	bad := b.Bytes()
	bad[len(bad)/2] ^= 1
	empty := openTest(t, Options{Dir: t.TempDir()})
	if _, err := empty.Import(context.Background(), mustFlat(t, bad)); !isCorrupt(err) {
		t.Fatalf("import of damage: %v", err)
	}
	if _, err := empty.VerifyAt(context.Background(), 10); !errors.Is(err, ErrVersion) {
		t.Fatalf("damage can be read: %v", err)
	}
}

// Goal: the bytes of both kinds are pinned; files of version 1 stay readable.
func TestFlatGolden(t *testing.T) {
	rows := []Row{put(1, 1, "one"), {Key: kv(1, 2), Value: []byte{}}, put(3, 1, "three")}
	state := Digests{}
	for _, row := range rows {
		state.Add(row.Key, row.Value)
	}
	var export, delta bytes.Buffer
	fw, err := NewFlatWriter(&export, FlatHeader{Kind: FlatExport, At: 7})
	for _, row := range rows {
		err = errors.Join(err, fw.Add(row))
	}
	if _, finish := fw.Finish(nil); err != nil || finish != nil {
		t.Fatal(err, finish)
	}
	_, err = WriteDelta(&delta, 5, 7, state, slices.Values([]Row{rows[0], del(2, 9), rows[2]}))
	if err != nil {
		t.Fatal(err)
	}
	manifest := Manifest{Version: 7, Digests: state, Tables: []FileInfo{{"000001.sst", 4711}, {"000002.sst", 1}},
		Log: LogPrefix{Size: 99, First: [16]byte{1, 2}, Sum: [16]byte{3, 4}}}
	golden(t, "flat_export_v1", export.Bytes())
	golden(t, "flat_delta_v1", delta.Bytes())
	golden(t, "manifest_v1", manifest.Append(nil))
	golden(t, "mark_clean_v1", encodeMark(markClean, []byte{0, 0, 0, 0}))
	for _, name := range []string{"flat_export_v1", "flat_delta_v1"} {
		if err := mustFlat(t, readGolden(t, name)).Verify(); err != nil {
			t.Fatal(err)
		}
	}
	if m, err := DecodeManifest(readGolden(t, "manifest_v1")); err != nil || fmt.Sprint(m) != fmt.Sprint(manifest) {
		t.Fatal(m, err)
	}
}

func readGolden(t *testing.T, name string) []byte {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", name+".hex"))
	if err != nil {
		t.Fatal(err)
	}
	var b []byte
	for _, field := range bytes.Fields(text) {
		var x byte
		if _, err := fmt.Sscanf(string(field), "%02x", &x); err != nil {
			t.Fatal(err)
		}
		b = append(b, x)
	}
	return b
}

// golden compares with testdata/name.hex; a missing file is written, which shows in review.
func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", name+".hex")
	if _, err := os.Stat(path); err != nil && os.Getenv("KEYED_WRITE_GOLDEN") != "" {
		var text bytes.Buffer
		for line := range slices.Chunk(got, 16) {
			fmt.Fprintf(&text, "% x\n", line)
		}
		if err := os.WriteFile(path, text.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if want := readGolden(t, name); !bytes.Equal(got, want) {
		t.Fatalf("%s:\n got % x\nwant % x", name, got, want)
	}
}
