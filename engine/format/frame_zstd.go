package format

import (
	"sync"

	"github.com/klauspost/compress/zstd"
)

// One encoder and one decoder serve the process: their EncodeAll and DecodeAll may run at the same
// time in any number of goroutines and keep a bounded pool of states inside.
var (
	zstdEncoder = sync.OnceValue(func() *zstd.Encoder {
		e, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest),
			zstd.WithEncoderCRC(false), zstd.WithSingleSegment(true))
		if err != nil {
			panic("format: zstd encoder options: " + err.Error())
		}
		return e
	})
	zstdDecoder = sync.OnceValue(func() *zstd.Decoder {
		d, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(0),
			zstd.WithDecoderMaxMemory(MaxFrameRaw), zstd.WithDecodeAllCapLimit(true))
		if err != nil {
			panic("format: zstd decoder options: " + err.Error())
		}
		return d
	})
	scratchPool = sync.Pool{New: func() any { return new([]byte) }}
)

// scratchKeep bounds what a pooled compression buffer may hold on to.
const scratchKeep = 1 << 20

// compressBody replaces dst[from:] by its compressed form when that saves 10 %.
func compressBody(dst []byte, from int) ([]byte, FrameCodec) {
	raw := len(dst) - from
	buf := scratchPool.Get().(*[]byte)
	out := zstdEncoder().EncodeAll(dst[from:], (*buf)[:0])
	codec := CodecNone
	if len(out) <= raw-raw/10 {
		dst = append(dst[:from], out...)
		codec = CodecZstd
	}
	if cap(out) <= scratchKeep {
		*buf = out[:0]
		scratchPool.Put(buf)
	}
	return dst, codec
}

// Decompress appends the raw body to dst and returns it; an uncompressed body is copied. It
// allocates at most RawLen bytes, which ParseFrame has held to MaxFrameRaw.
func (h FrameHead) Decompress(dst, body []byte) ([]byte, error) {
	if h.Codec == CodecNone {
		return append(dst, body...), nil
	}
	start := len(dst)
	end := start + int(h.RawLen)
	if cap(dst) < end {
		dst = append(make([]byte, 0, end), dst...)
	}
	// The three-index slice is the bound: the decoder never writes past the promised length.
	out, err := zstdDecoder().DecodeAll(body, dst[:start:end])
	if err != nil {
		return dst[:start], errorf("frame body", FrameHeadSize, "zstd: %v", err)
	}
	if len(out) != end {
		return dst[:start], errorf("frame body", 12, "raw length %d want %d", len(out)-start, h.RawLen)
	}
	return out, nil
}
