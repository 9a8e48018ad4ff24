package batch

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"hash/crc32"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/snappy"
	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"
)

var codecs = []Codec{None, Gzip, Snappy, LZ4, Zstd}

// made builds a batch of records.
func made(t testing.TB, h Header, recs ...Record) []byte {
	t.Helper()
	b := NewBuilder(nil, h)
	for i := range recs {
		b.Add(&recs[i])
	}
	out, err := b.Finish(0)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// read collects the records of a batch.
func read(t testing.TB, b []byte) []Record {
	t.Helper()
	var out []Record
	if err := Records(b, Limits{}, func(r *Record) bool {
		out = append(out, clone(r))
		return true
	}); err != nil {
		t.Fatal(err)
	}
	return out
}

func clone(r *Record) Record {
	c := *r
	c.Key, c.Value, c.Headers = bytes.Clone(r.Key), bytes.Clone(r.Value), nil
	for _, h := range r.Headers {
		c.Headers = append(c.Headers, RecordHeader{bytes.Clone(h.Key), bytes.Clone(h.Value)})
	}
	return c
}

func nothing(*Record) error { return nil }

func randomRecords(r *rand.Rand, n int) []Record {
	some := func() []byte {
		switch r.IntN(4) {
		case 0:
			return nil
		case 1:
			return []byte{}
		}
		return bytes.Repeat([]byte{byte(r.IntN(256))}, r.IntN(300))
	}
	out := make([]Record, n)
	for i := range out {
		out[i] = Record{OffsetDelta: int32(i), Timestamp: 1_790_000_000_000 + r.Int64N(10_000) - 5_000, Key: some(), Value: some()}
		for range r.IntN(3) {
			out[i].Headers = append(out[i].Headers, RecordHeader{[]byte(strings.Repeat("h", r.IntN(4))), some()})
		}
	}
	return out
}

// TestRoundTrip makes batches under every codec and reads the same records back.
func TestRoundTrip(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, c := range codecs {
		for range 50 {
			recs := randomRecords(r, 1+r.IntN(40))
			h := Head(77)
			h.Attributes = int16(c)
			b := made(t, h, recs...)
			got, err := Verify(b)
			if err != nil {
				t.Fatalf("%v: %v", c, err)
			}
			most := recs[0].Timestamp
			for _, x := range recs {
				most = max(most, x.Timestamp)
			}
			if got.Codec() != c || got.Count != int32(len(recs)) || got.BaseOffset != 77 || got.Size() != len(b) ||
				got.MaxTimestamp != most || got.BaseTimestamp != recs[0].Timestamp {
				t.Fatalf("%v: header %+v", c, got)
			}
			if back := read(t, append(b, "behind"...)); !reflect.DeepEqual(back, recs) {
				t.Fatalf("%v: read %v, wrote %v", c, back, recs)
			}
		}
	}
}

// TestGolden holds the bytes of one batch and of a marker, computed once by hand from the format.
func TestGolden(t *testing.T) {
	h := Head(5)
	h.ProducerID, h.ProducerEpoch, h.BaseSequence = 7, 1, 3
	h.Attributes = flagTransactional
	b := made(t, h, Record{Timestamp: 1000, Key: []byte("k"), Value: []byte("v")},
		Record{OffsetDelta: 1, Timestamp: 1002, Value: []byte{}, Headers: []RecordHeader{{[]byte("a"), nil}}})
	want := "0000000000000005" + "00000044" + "ffffffff" + "02" + "%s" + "0010" + "00000001" +
		"00000000000003e8" + "00000000000003ea" + "0000000000000007" + "0001" + "00000003" + "00000002" +
		"10" + "00" + "00" + "00" + "026b" + "0276" + "00" +
		"12" + "00" + "04" + "02" + "01" + "00" + "02" + "0261" + "01"
	want = fmt.Sprintf(want, hex.EncodeToString(b[posCRC:posAttributes]))
	if hex.EncodeToString(b) != want {
		t.Errorf("\n%x\n%s", b, want)
	}
	if crc32.Checksum(b[21:], crc32.MakeTable(crc32.Castagnoli)) != binary.BigEndian.Uint32(b[17:]) {
		t.Error("checksum")
	}
	m := Marker{ProducerID: 9, ProducerEpoch: 2, CoordinatorEpoch: 4, Commit: true, Timestamp: 50}
	c := AppendControl([]byte("x"), 12, 3, m)[1:]
	if got := hex.EncodeToString(c[HeaderBytes:]); got != "20"+"00"+"00"+"00"+"08"+"00000001"+"0c"+"000000000004"+"00" {
		t.Errorf("control record %s", got)
	}
	if _, err := Verify(c); err == nil { // it has a producer and no sequence: not what a producer may send
		t.Error("a control batch passes as a producer's")
	}
	if got, err := ParseControl(c); err != nil || got != m {
		t.Errorf("control %+v %v", got, err)
	}
}

// TestPatch writes over what the checksum does not cover, and what it does.
func TestPatch(t *testing.T) {
	b := made(t, Head(0), Record{Timestamp: 5}, Record{OffsetDelta: 1, Timestamp: 9})
	Patch(b, 1<<40, 17)
	if h, err := Verify(b); err != nil || h.BaseOffset != 1<<40 || h.LeaderEpoch != 17 {
		t.Errorf("%+v %v", h, err)
	}
	SetAppendTime(b, 123)
	if h, err := Verify(b); err != nil || !h.AppendTime() || h.MaxTimestamp != 123 {
		t.Errorf("%+v %v", h, err)
	}
	for _, r := range read(t, b) {
		if r.Timestamp != 123 {
			t.Errorf("timestamp %d", r.Timestamp)
		}
	}
}

func TestLastSequenceWraps(t *testing.T) {
	h := Header{BaseSequence: 1<<31 - 2, LastOffsetDelta: 4}
	if h.LastSequence() != 2 {
		t.Errorf("%d", h.LastSequence())
	}
	h = Header{BaseSequence: NoSequence, LastOffsetDelta: 4}
	if h.LastSequence() != NoSequence {
		t.Errorf("%d", h.LastSequence())
	}
}

// TestGaps: what compaction leaves can be read, but no producer sends it.
func TestGaps(t *testing.T) {
	b := NewBuilder(nil, Head(10))
	b.Add(&Record{OffsetDelta: 2})
	b.Add(&Record{OffsetDelta: 5})
	out, err := b.Finish(9)
	if err != nil {
		t.Fatal(err)
	}
	if rs := read(t, out); len(rs) != 2 || rs[1].OffsetDelta != 5 {
		t.Errorf("%v", rs)
	}
	if _, err := Verify(out); ReasonOf(err) != Invalid {
		t.Errorf("%v", err)
	}
	if h, _ := ParseHeader(out); h.LastOffsetDelta != 9 {
		t.Errorf("%+v", h)
	}
}

// TestVerifyRefuses breaks a batch in every way that has an answer of its own.
func TestVerifyRefuses(t *testing.T) {
	good := made(t, Head(0), Record{Key: []byte("k")}, Record{OffsetDelta: 1, Value: []byte("v")})
	change := func(f func(b []byte) []byte) []byte { return f(bytes.Clone(good)) }
	sealed := func(f func(b []byte)) []byte {
		return change(func(b []byte) []byte { f(b); seal(b); return b })
	}
	for name, c := range map[string]struct {
		b    []byte
		want Reason
	}{
		"empty":        {nil, Corrupt},
		"short":        {good[:40], Corrupt},
		"cut":          {good[:len(good)-1], Corrupt},
		"two":          {append(bytes.Clone(good), good...), Invalid},
		"crc":          {change(func(b []byte) []byte { b[len(b)-1] ^= 1; return b }), Corrupt},
		"magic":        {change(func(b []byte) []byte { b[posMagic] = 1; return b }), BadMagic},
		"codec":        {sealed(func(b []byte) { b[posAttributes+1] = 5 }), BadCodec},
		"not gzip":     {sealed(func(b []byte) { b[posAttributes+1] = 1 }), Corrupt},
		"count 0":      {sealed(func(b []byte) { b[posCount+3] = 0 }), Invalid},
		"delta":        {sealed(func(b []byte) { b[posLastDelta+3] = 4 }), Invalid},
		"fewer":        {sealed(func(b []byte) { b[posCount+3], b[posLastDelta+3] = 1, 0 }), Invalid},
		"more":         {sealed(func(b []byte) { b[posCount+3], b[posLastDelta+3] = 3, 2 }), Corrupt},
		"huge count":   {sealed(func(b []byte) { b[posCount], b[posLastDelta], b[posLastDelta+3] = 0x7f, 0x7f, 1 }), TooLarge},
		"offset order": {sealed(func(b []byte) { b[HeaderBytes+3] = 2 }), Invalid},
		"record size":  {sealed(func(b []byte) { b[HeaderBytes] = 0x7e }), Corrupt},
		"producer":     {sealed(func(b []byte) { clear(b[posProducer:posEpochOfProd]) }), Invalid},
	} {
		if _, err := Verify(c.b); err == nil || ReasonOf(err) != c.want {
			t.Errorf("%s: %v, want reason %d", name, err, c.want)
		}
		if _, err := VerifyRecords(c.b, Limits{}, nothing); err == nil || ReasonOf(err) != c.want {
			t.Errorf("%s, record by record: %v, want reason %d", name, err, c.want)
		}
	}
	if _, err := Verify(good); err != nil {
		t.Error(err)
	}
}

// compressedBatch is a batch of one record whose body someone else compressed.
func compressedBatch(c Codec, body []byte) []byte {
	h := Head(0)
	h.Attributes, h.Count = int16(c), 1
	h.Length = int32(HeaderBytes - prefixBytes + len(body))
	b := append(appendHeader(nil, &h), body...)
	seal(b)
	return b
}

// TestForeignCompression reads what other writers make: gzip of several members, snappy in xerial frames, lz4 with
// dependent blocks, zstd without a content size, and refuses half of each.
func TestForeignCompression(t *testing.T) {
	want := Record{Value: bytes.Repeat([]byte("value "), 30_000)}
	raw := appendRecord(nil, &want, 0)
	var multi, dependent, stream bytes.Buffer
	for _, part := range [][]byte{raw[:1000], raw[1000:]} {
		z := gzip.NewWriter(&multi)
		z.Write(part)
		z.Close()
	}
	lz := lz4.NewWriter(&dependent)
	lz.Apply(lz4.BlockSizeOption(lz4.Block64Kb), lz4.ChecksumOption(true))
	lz.Write(raw)
	lz.Close()
	zs, _ := zstd.NewWriter(&stream)
	zs.Write(raw[:70_000])
	zs.Flush()
	zs.Write(raw[70_000:])
	zs.Close()
	xerial := append(bytes.Clone(xerialMagic), 0, 0, 0, 1, 0, 0, 0, 1)
	for i := 0; i < len(raw); i += 32 << 10 {
		block := snappy.Encode(nil, raw[i:min(i+32<<10, len(raw))])
		xerial = append(binary.BigEndian.AppendUint32(xerial, uint32(len(block))), block...)
	}
	for name, c := range map[string]struct {
		codec Codec
		body  []byte
	}{
		"gzip members": {Gzip, multi.Bytes()}, "xerial": {Snappy, xerial}, "snappy": {Snappy, snappy.Encode(nil, raw)},
		"lz4": {LZ4, dependent.Bytes()}, "zstd stream": {Zstd, stream.Bytes()},
	} {
		b := compressedBatch(c.codec, c.body)
		if _, err := Verify(b); err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if got := read(t, b); len(got) != 1 || !bytes.Equal(got[0].Value, want.Value) {
			t.Errorf("%s: another record", name)
		}
		if _, err := Verify(compressedBatch(c.codec, c.body[:len(c.body)-9])); ReasonOf(err) != Corrupt || err == nil {
			t.Errorf("%s cut off: %v", name, err)
		}
	}
}

// TestBombs: what grows beyond the limit is an error, whatever it is compressed with, and takes little memory.
func TestBombs(t *testing.T) {
	const limit = 1 << 20
	raw := appendRecord(nil, &Record{Value: make([]byte, 64<<20)}, 0)
	for _, c := range codecs[1:] {
		body, err := compress(c, nil, raw)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := VerifyRecords(compressedBatch(c, body), Limits{Bytes: limit}, nothing); ReasonOf(err) != TooLarge {
			t.Errorf("%v: %v", c, err)
		}
	}
	var stream bytes.Buffer
	zs, _ := zstd.NewWriter(&stream, zstd.WithWindowSize(1<<20))
	zs.Write(raw[:32<<20])
	zs.Flush()
	zs.Write(raw[32<<20:])
	zs.Close()
	if _, err := VerifyRecords(compressedBatch(Zstd, stream.Bytes()), Limits{Bytes: limit}, nothing); ReasonOf(err) != TooLarge {
		t.Errorf("zstd without content size: %v", err)
	}
	block := snappy.Encode(nil, make([]byte, 512<<10))
	xerial := append(bytes.Clone(xerialMagic), 0, 0, 0, 1, 0, 0, 0, 1)
	for range 64 {
		xerial = append(binary.BigEndian.AppendUint32(xerial, uint32(len(block))), block...)
	}
	if _, err := VerifyRecords(compressedBatch(Snappy, xerial), Limits{Bytes: limit}, nothing); ReasonOf(err) != TooLarge {
		t.Errorf("xerial: %v", err)
	}
	// Headers take more memory than bytes.
	many := Record{Headers: make([]RecordHeader, maxHeaders+1)}
	if _, err := Verify(compressedBatch(None, appendRecord(nil, &many, 0))); ReasonOf(err) != Corrupt || err == nil {
		t.Errorf("headers: %v", err)
	}
}

// TestEnvelope holds the bytes of the JSON form and what is taken for one.
func TestEnvelope(t *testing.T) {
	for _, c := range []struct {
		r    Record
		want string
	}{
		{Record{Timestamp: 1790948491582, Key: []byte("alice"), Value: []byte(`{"x":1}`),
			Headers: []RecordHeader{{[]byte("source"), []byte("shop")}}},
			`{"h":[{"k":"source","v":"c2hvcA=="}],"k":"YWxpY2U=","t":1790948491582,"v":"eyJ4IjoxfQ=="}`},
		{Record{Timestamp: -1}, `{"k":null,"v":null}`},
		{Record{Timestamp: 0, Key: []byte{}, Value: []byte{}}, `{"k":"","t":0,"v":""}`},
		{Record{Timestamp: -1, Key: []byte{0xff, 0xfb}, Headers: []RecordHeader{{[]byte("é\"\n\x01"), nil}, {[]byte("é\"\n\x01"), []byte{}}}},
			`{"h":[{"k":"é\"\n\u0001","v":null},{"k":"é\"\n\u0001","v":""}],"k":"//s=","v":null}`},
	} {
		got := string(AppendEnvelope(nil, &c.r))
		if got != c.want {
			t.Errorf("%s\nwant %s", got, c.want)
		}
		back, ok := ParseEnvelope([]byte(got))
		if !ok || !reflect.DeepEqual(back, c.r) {
			t.Errorf("%s: back %v %+v", got, ok, back)
		}
	}
	if r, ok := ParseEnvelope([]byte(" { \"v\" : null, \"t\":5,\n\"k\":\"\\u0051Q==\"} ")); !ok || string(r.Key) != "A" || r.Timestamp != 5 {
		t.Errorf("spaces: %v %+v", ok, r)
	}
	for _, s := range []string{"", "null", "1", `"k"`, `[]`, `{}`, `{"k":null}`, `{"v":null}`, `{"k":1,"v":null}`,
		`{"k":null,"v":null,"x":1}`, `{"k":null,"v":null,"t":1.5}`, `{"k":null,"v":null,"t":"1"}`, `{"k":null,"v":null,"t":null}`,
		`{"k":"a","v":null}`, `{"k":"YQ","v":null}`, `{"k":"_w==","v":null}`, `{"k":null,"k":null,"v":null}`, `{"k":null,"v":null}x`,
		`{"k":null,"v":null}{}`, `{"k":null,"v":null,"h":{}}`, `{"k":null,"v":null,"h":[{"k":"a"}]}`, `{"k":null,"v":null,"h":[{"v":null}]}`,
		`{"k":null,"v":null,"h":[{"k":"a","v":null,"x":1}]}`, `{"k":null,"v":null,"h":[{"k":null,"v":null}]}`, "{\"k\":null,\"v\":\"\xff\"}"} {
		if r, ok := ParseEnvelope([]byte(s)); ok {
			t.Errorf("%q is taken for an envelope: %+v", s, r)
		}
	}
	for in, want := range map[string]string{"": "null", `{"a": 1}`: `{"a": 1}`, "x": `"x"`, "\"\xff": `"\"` + "\ufffd\"", "1 2": `"1 2"`} {
		if got := string(AppendNative(nil, []byte(in))); got != want {
			t.Errorf("%q: %s, want %s", in, got, want)
		}
	}
}
