package batch

import (
	"bytes"
	"math"
	"math/rand/v2"
	"reflect"
	"testing"
)

// tight limits keep the fuzzer's inputs cheap.
var tight = Limits{Bytes: 64 << 10, Records: 4096}

// FuzzVerify: whatever passes can be read, and made again of what was read.
func FuzzVerify(f *testing.F) {
	r := rand.New(rand.NewPCG(3, 4))
	for _, c := range codecs {
		h := Head(3)
		h.Attributes = int16(c)
		f.Add(made(f, h, randomRecords(r, 5)...))
	}
	f.Add(AppendControl(nil, 1, 2, Marker{ProducerID: 3}))
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) >= HeaderBytes {
			b = bytes.Clone(b)
			seal(b) // else hardly anything gets past the checksum
		}
		ParseControl(b)
		n, most := 0, int64(math.MinInt64)
		h, err := VerifyRecords(b, tight, func(r *Record) error { n++; most = max(most, r.Timestamp); return nil })
		_, skimmed, err2 := VerifyTime(b, tight)
		if (err == nil) != (err2 == nil) || err == nil && most != skimmed || err != nil && ReasonOf(err) != ReasonOf(err2) {
			t.Fatalf("record by record %v, time %d; skimmed %v, time %d", err, most, err2, skimmed)
		}
		if err != nil {
			Records(b, tight, func(*Record) bool { return true })
			return
		}
		if n != int(h.Count) {
			t.Fatalf("%d records, the header says %d", n, h.Count)
		}
		var recs []Record
		if err := Records(b, tight, func(r *Record) bool { recs = append(recs, clone(r)); return true }); err != nil {
			t.Fatal(err)
		}
		h.Attributes &^= codecMask
		if again := read(t, made(t, h, recs...)); !reflect.DeepEqual(again, recs) {
			t.Fatalf("read %v, then %v", recs, again)
		}
	})
}

// FuzzMessageSet: whatever is converted passes.
func FuzzMessageSet(f *testing.F) {
	f.Add(legacy(0, 1, 0, 5, nil, []byte("v")))
	f.Add(wrap(f, Gzip, 1, legacy(0, 1, 0, 5, []byte("k"), []byte("v"))))
	f.Add(wrap(f, LZ4, 0, legacy(0, 0, 0, 5, []byte("k"), []byte("v"))))
	f.Fuzz(func(t *testing.T, b []byte) {
		out, err := FromMessageSet(nil, b, tight)
		if err != nil {
			return
		}
		if _, err := VerifyRecords(out, DefaultLimits, nothing); err != nil {
			t.Fatal(err)
		}
	})
}

// FuzzDecompress: nothing but bytes or an error, within the limit.
func FuzzDecompress(f *testing.F) {
	for _, c := range codecs {
		body, err := compress(c, nil, bytes.Repeat([]byte("abc"), 100))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(byte(c), body)
	}
	f.Add(byte(Snappy), append(bytes.Clone(xerialMagic), 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 1, 0))
	f.Fuzz(func(t *testing.T, c byte, in []byte) {
		s := scratches.Get().(*scratch)
		defer s.release()
		if out, err := s.decompress(Codec(c%6), in, tight.Bytes); err == nil && len(out) > tight.Bytes {
			t.Fatalf("%d bytes", len(out))
		}
	})
}

// FuzzEnvelope: what is an envelope is the same once written again.
func FuzzEnvelope(f *testing.F) {
	f.Add([]byte(`{"h":[{"k":"source","v":"c2hvcA=="}],"k":"YWxpY2U=","t":1790948491582,"v":null}`))
	f.Add([]byte(`{"v":"","k":null}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		AppendNative(nil, b)
		r, ok := ParseEnvelope(b)
		if !ok {
			return
		}
		again, ok := ParseEnvelope(AppendEnvelope(nil, &r))
		if len(r.Headers) == 0 {
			r.Headers = nil // "h":[] is read, never written
		}
		if r.Timestamp == NoTimestamp {
			again.Timestamp = NoTimestamp
		}
		if !ok || !reflect.DeepEqual(again, r) {
			t.Fatalf("%+v, then %v %+v", r, ok, again)
		}
	})
}
