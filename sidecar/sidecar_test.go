package sidecar

import (
	"encoding/hex"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"queen/engine/format"
	"queen/engine/vfs"
)

func sample() Sidecar {
	return Sidecar{
		Segment: 7, End: 8192, Checksum: 0xabcdef,
		Chunks: []Chunk{
			{Group: 1, Mark: 3, First: 10, Last: 20, Bytes: 4096, Hash: [16]byte{1, 2, 3}},
			{Group: 1, Mark: 4, First: 21, Last: 40, Bytes: 5, Hash: [16]byte{9}},
		},
		Queues: []Queue{{Queue: 1, Bytes: 77, NewestW: 1_700_000_000_000_000}},
	}
}

// The bytes on disk do not change.
func TestGolden(t *testing.T) {
	s := sample()
	got := hex.EncodeToString(s.Append(nil))
	want := strings.Join([]string{
		"515545454e485343", "0101", "0000", "07000000", "0020000000000000", "efcdab0000000000", "02000000", "01000000",
		hex.EncodeToString(s.Root[:]),
		"0100000000000000", "0300000000000000", "0a00000000000000", "1400000000000000", "0010000000000000",
		"01020300000000000000000000000000",
		"0100000000000000", "0400000000000000", "1500000000000000", "2800000000000000", "0500000000000000",
		"09000000000000000000000000000000",
		"0100000000000000", "4d00000000000000", "00401e18240a0600",
	}, "")
	if got != want {
		t.Fatalf("got  %s\nwant %s", got, want)
	}
	if root := hex.EncodeToString(s.Root[:]); root != "34c12816df2f4c7674b518bd4b21d5cf" {
		t.Fatalf("root %s", root)
	}
}

func TestRoundTripAndDamage(t *testing.T) {
	fs := vfs.NewMem()
	s := sample()
	if err := Write(fs, "/", &s); err != nil {
		t.Fatal(err)
	}
	got, err := Read(fs, "/", 7)
	if err != nil || !reflect.DeepEqual(got, s) {
		t.Fatalf("%+v, %v", got, err)
	}
	b := s.Append(nil)
	for i := range b {
		for bit := range 8 {
			b[i] ^= 1 << bit
			if _, err := Parse(b); err == nil {
				t.Fatalf("bit %d of byte %d flipped and nobody saw it", bit, i)
			}
			b[i] ^= 1 << bit
		}
	}
	if _, err := Parse(b[:len(b)-1]); err == nil {
		t.Fatal("a short file passed")
	}
	if err := fs.Rename("/"+FileName(7), "/"+FileName(8)); err != nil {
		t.Fatal(err)
	}
	if _, err := Read(fs, "/", 8); err == nil {
		t.Fatal("the sidecar of another segment passed")
	}
}

func TestCompare(t *testing.T) {
	c := func(group format.RaftGroup, mark uint64, hash byte) Chunk {
		return Chunk{Group: group, Mark: mark, Hash: [16]byte{hash}}
	}
	have := []Chunk{c(1, 3, 3), c(1, 1, 1), c(1, 4, 4), c(1, 6, 6)}
	want := []Chunk{c(1, 1, 1), c(1, 2, 2), c(1, 3, 3), c(1, 4, 5)}
	var got []string
	for _, d := range Compare(have, want) {
		got = append(got, fmt.Sprint(d.Mark, d.Have != nil, d.Want != nil))
	}
	if s := strings.Join(got, "; "); s != "2 false true; 4 true true; 6 true false" {
		t.Fatal(s)
	}
	if len(Compare(have, have)) != 0 {
		t.Fatal("a list differs from itself")
	}
}

func FuzzParse(f *testing.F) {
	s := sample()
	f.Add(s.Append(nil))
	f.Add([]byte("QUEENHSC"))
	f.Fuzz(func(t *testing.T, b []byte) {
		if s, err := Parse(b); err == nil {
			if got := s.Append(nil); !reflect.DeepEqual(got, b) && b[8] == Version {
				t.Fatalf("%x\n%x", b, got)
			}
		}
	})
}
