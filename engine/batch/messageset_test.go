package batch

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"reflect"
	"testing"

	"github.com/pierrec/lz4/v4"
)

// legacy writes one message of a set.
func legacy(offset int64, magic, attrs int8, ts int64, key, value []byte) []byte {
	m := []byte{0, 0, 0, 0, byte(magic), byte(attrs)}
	if magic == 1 {
		m = binary.BigEndian.AppendUint64(m, uint64(ts))
	}
	for _, v := range [][]byte{key, value} {
		if v == nil {
			m = binary.BigEndian.AppendUint32(m, 1<<32-1)
		} else {
			m = append(binary.BigEndian.AppendUint32(m, uint32(len(v))), v...)
		}
	}
	binary.BigEndian.PutUint32(m, crc32.ChecksumIEEE(m[4:]))
	out := binary.BigEndian.AppendUint64(nil, uint64(offset))
	return append(binary.BigEndian.AppendUint32(out, uint32(len(m))), m...)
}

func join(parts ...[]byte) []byte { return bytes.Join(parts, nil) }

// wrap compresses a set into a message.
func wrap(t testing.TB, c Codec, magic int8, set []byte) []byte {
	t.Helper()
	body, err := compress(c, nil, set)
	if err != nil {
		t.Fatal(err)
	}
	return legacy(2, magic, int8(c), 9, nil, body)
}

// TestMessageSets turns what old clients write into one batch.
func TestMessageSets(t *testing.T) {
	k, v := []byte("k"), []byte("value")
	// Inside a wrapper of magic 1 offsets are relative; what they are is no matter.
	inner1 := join(legacy(0, 1, 0, 5, k, v), legacy(1, 1, 0, 7, nil, nil), legacy(2, 1, 0, 6, []byte{}, v))
	inner0 := join(legacy(40, 0, 0, 0, k, v), legacy(41, 0, 0, 0, nil, v))
	want1 := []Record{{0, 5, k, v, nil}, {1, 7, nil, nil, nil}, {2, 6, []byte{}, v, nil}}
	want0 := []Record{{0, -1, k, v, nil}, {1, -1, nil, v, nil}}
	// Magic 0 clients counted lz4's magic number into the checksum of the frame's head.
	var z bytes.Buffer
	w := lz4.NewWriter(&z)
	w.Write(inner0)
	w.Close()
	broken := z.Bytes()
	head := 4 + 2
	if broken[4]&8 != 0 {
		head += 8
	}
	broken[head] ^= 0x55
	for name, c := range map[string]struct {
		set   []byte
		codec Codec
		want  []Record
	}{
		"v1":      {inner1, None, want1},
		"v0":      {inner0, None, want0},
		"v1 gzip": {wrap(t, Gzip, 1, inner1), Gzip, want1},
		"v1 lz4":  {wrap(t, LZ4, 1, inner1), LZ4, want1},
		"v0 snap": {wrap(t, Snappy, 0, inner0), Snappy, want0},
		"v0 lz4":  {legacy(0, 0, int8(LZ4), 0, nil, broken), LZ4, want0},
		"wrappers": {join(wrap(t, Gzip, 1, legacy(0, 1, 0, 5, k, v)), wrap(t, Snappy, 1, legacy(0, 1, 0, 7, nil, nil)),
			legacy(9, 1, 0, 6, []byte{}, v)), Gzip, want1},
	} {
		got, err := FromMessageSet([]byte("before"), c.set, Limits{})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		h, err := Verify(got[len("before"):])
		if err != nil || h.Codec() != c.codec {
			t.Errorf("%s: %+v %v", name, h, err)
		}
		if rs := read(t, got[len("before"):]); !reflect.DeepEqual(rs, c.want) {
			t.Errorf("%s: %v", name, rs)
		}
	}
}

// TestMessageSetsRefuse breaks them.
func TestMessageSetsRefuse(t *testing.T) {
	v := []byte("v")
	one := legacy(0, 1, 0, 5, nil, v)
	flipped := bytes.Clone(one)
	flipped[len(flipped)-1] ^= 1
	for name, c := range map[string]struct {
		set  []byte
		want Reason
	}{
		"empty":         {nil, Invalid},
		"empty wrapper": {legacy(0, 1, int8(Gzip), 0, nil, []byte{}), Corrupt},
		"nothing in it": {wrap(t, Gzip, 1, nil), Invalid},
		"cut":           {one[:len(one)-1], Corrupt},
		"head cut":      {append(bytes.Clone(one), 1, 2, 3), Corrupt},
		"checksum":      {flipped, Corrupt},
		"magic 2":       {legacy(0, 2, 0, 5, nil, v), BadMagic},
		"zstd":          {wrap(t, Zstd, 1, one), BadCodec},
		"nested":        {wrap(t, Gzip, 1, wrap(t, Gzip, 1, one)), Corrupt},
		"mixed":         {wrap(t, Gzip, 1, legacy(0, 0, 0, 0, nil, v)), Corrupt},
		"bomb":          {wrap(t, Gzip, 1, legacy(0, 1, 0, 5, nil, make([]byte, 1<<20))), TooLarge},
		"bombs":         {bytes.Repeat(wrap(t, Gzip, 1, legacy(0, 1, 0, 5, nil, make([]byte, 60<<10))), 3), TooLarge},
		"records":       {bytes.Repeat(one, 11), TooLarge},
	} {
		got, err := FromMessageSet(nil, c.set, Limits{Bytes: 128 << 10, Records: 10})
		if err == nil || ReasonOf(err) != c.want || got != nil {
			t.Errorf("%s: %v, want reason %d", name, err, c.want)
		}
	}
}

func TestXXH32(t *testing.T) {
	for in, want := range map[string]uint32{"": 0x02cc5d05, "a": 0x550d7456, "abc": 0x32d153ff} {
		if got := xxh32([]byte(in)); got != want {
			t.Errorf("%q: %x", in, got)
		}
	}
}
