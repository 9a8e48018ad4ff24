package format

import "testing"

// BenchmarkEncodeOneMessageFrame is what the edge pays per one-message push: frame, command, ids.
func BenchmarkEncodeOneMessageFrame(b *testing.B) {
	m := []FrameMessage{{
		TransactionID: []byte("0196b4c2-7d5e-7b1e-8f7a-2d4b5c6d7e8f"), HasID: true,
		Payload: make([]byte, 256),
	}}
	a, frame := oneMessage(256)
	var buf CommandBuf
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		if i%1000 == 0 {
			buf.Reset()
		}
		frame = EncodeFrame(frame[:0], m, FrameOptions{Compress: true})
		buf.AddAppend(a, frame)
	}
}

// BenchmarkDecodeAppend is what apply pays per one-message frame before it decides anything.
func BenchmarkDecodeAppend(b *testing.B) {
	raw := frameEntry(1000, 256)
	e, err := ParseEntry(raw)
	if err != nil {
		b.Fatal(err)
	}
	r := e.Reader()
	var a Append
	b.ReportAllocs()
	for b.Loop() {
		if !r.Next() {
			r = e.Reader()
			r.Next()
		}
		if err := r.Append(&a); err != nil {
			b.Fatal(err)
		}
	}
}
