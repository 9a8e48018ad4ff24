package batch

import (
	"bytes"
	"testing"
)

// BenchmarkVerify checks a batch of 100 records of 256 bytes.
func BenchmarkVerify(b *testing.B) {
	recs := make([]Record, 100)
	for i := range recs {
		recs[i] = Record{OffsetDelta: int32(i), Timestamp: int64(i), Key: []byte("key"),
			Value: bytes.Repeat([]byte("0123456789abcdef"), 16)}
	}
	for _, c := range codecs {
		b.Run(c.String(), func(b *testing.B) {
			h := Head(0)
			h.Attributes = int16(c)
			batch := made(b, h, recs...)
			b.SetBytes(100 * 256)
			b.ReportAllocs()
			for b.Loop() {
				if _, err := Verify(batch); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
