package keyed

import (
	"bytes"
	"slices"
	"testing"
)

// Goal: no bytes make the reader panic or allocate beyond their size, and a file it accepts is
// written again, byte for byte, from the rows it gave.
func FuzzFlatReader(f *testing.F) {
	for _, rows := range [][]Row{nil, {put(1, 1, "v")}, {put(1, 1, "v"), del(2, 1), put(3, 1, "")}} {
		var b bytes.Buffer
		if _, err := WriteDelta(&b, 1, 2, Digests{1: {Rows: 1, Lo: 5}}, slices.Values(rows)); err != nil {
			f.Fatal(err)
		}
		f.Add(b.Bytes())
		f.Add(b.Bytes()[:b.Len()-3])
		f.Add(append(b.Bytes()[:flatHeaderBytes+4:flatHeaderBytes+4], 0xff, 0xff, 0xff, 0xff))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		fr, err := openFlatBytes(b)
		if err != nil {
			return
		}
		var rows []Row
		for row, err := range fr.Rows() {
			if err != nil {
				return
			}
			rows = append(rows, row)
		}
		if fr.Info().Kind == FlatExport {
			return // no shorter way than the delta's; the rows are the same code
		}
		var again bytes.Buffer
		if _, err := WriteDelta(&again, fr.Info().Base, fr.Info().At, fr.Info().Digests, slices.Values(rows)); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(again.Bytes(), b) && sameBlocks(fr, again.Bytes()) {
			t.Fatalf("accepted bytes are not what the rows give:\n% x\n% x", b, again.Bytes())
		}
	})
}

// sameBlocks: another writer may cut blocks elsewhere; then the sizes differ and so may the bytes.
func sameBlocks(fr *FlatReader, again []byte) bool { return fr.Info().Bytes == int64(len(again)) }

// Goal: one row alone, since a fuzzer hardly finds a file's checksums.
func FuzzFlatRow(f *testing.F) {
	f.Add([]byte{0, 1, 1, 1, 'v', 9})
	f.Add([]byte{1, 2, 1, 'k'})
	f.Add([]byte{0, 0x81, 0x00, 1})
	f.Add([]byte{0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1})
	f.Fuzz(func(t *testing.T, b []byte) {
		row, rest, err := decodeFlatRow(b)
		if err != nil {
			return
		}
		if CheckRow(row.Key, row.Value) != nil {
			return
		}
		var file bytes.Buffer
		fw, err := NewFlatWriter(&file, FlatHeader{Kind: FlatDelta, At: 1})
		if err != nil {
			t.Fatal(err)
		}
		if err := fw.Add(row); err != nil {
			t.Fatal(err)
		}
		encoded := fw.block
		if file.Len() > flatHeaderBytes { // the row filled a block
			encoded = file.Bytes()[flatHeaderBytes+flatFrameBytes:]
		}
		if !bytes.Equal(append(encoded, rest...), b) {
			t.Fatalf("% x reads as %+v and writes as % x", b, row, encoded)
		}
	})
}

func FuzzManifest(f *testing.F) {
	f.Add(Manifest{}.Append(nil))
	f.Add(Manifest{Version: 3, Digests: Digests{1: {Rows: 2}}, Tables: []FileInfo{{"000001.sst", 5}}}.Append(nil))
	f.Add(append(Manifest{}.Append(nil)[:50], 0xff, 0xff, 0xff, 0xff))
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := DecodeManifest(b)
		if err != nil {
			return
		}
		if again := m.Append(nil); !bytes.Equal(again, b) {
			t.Fatalf("% x reads as %+v and writes as % x", b, m, again)
		}
	})
}

// Goal: stored values of all kinds: damage is an error, never another value, never a panic.
func FuzzStoredValue(f *testing.F) {
	key := kv(1, 1)
	f.Add(encodeWhole(key, []byte("value")))
	f.Add([]byte{})
	f.Add([]byte{1, 2, 3})
	f.Fuzz(func(t *testing.T, b []byte) {
		if value, err := decodeWhole(key, b); err == nil && !bytes.Equal(encodeWhole(key, value), b) {
			t.Fatalf("% x", b)
		}
		if value, err := joinHead(key, b, nil); err == nil && !bytes.Equal(encodeHead(key, value), b) {
			t.Fatalf("% x", b)
		}
	})
}
