package batch

import (
	"bytes"
	"sync"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/snappy"
	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"
)

var zstdEncoder = sync.OnceValue(func() *zstd.Encoder {
	e, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithEncoderLevel(zstd.SpeedFastest),
		zstd.WithLowerEncoderMem(true))
	if err != nil {
		panic(err) // the options are constants
	}
	return e
})

// compress appends in to out under codec c. lz4 blocks are independent: Java's reader refuses others.
func compress(c Codec, out, in []byte) ([]byte, error) {
	switch c {
	case None:
		return append(out, in...), nil
	case Gzip:
		w := bytes.NewBuffer(out)
		z := gzip.NewWriter(w)
		if _, err := z.Write(in); err != nil {
			return nil, err
		}
		err := z.Close()
		return w.Bytes(), err
	case Snappy:
		return append(out, snappy.Encode(nil, in)...), nil
	case LZ4:
		w := bytes.NewBuffer(out)
		z := lz4.NewWriter(w)
		if _, err := z.Write(in); err != nil {
			return nil, err
		}
		err := z.Close()
		return w.Bytes(), err
	case Zstd:
		return zstdEncoder().EncodeAll(in, out), nil
	}
	return nil, refuse(BadCodec, "compression %d is none of none, gzip, snappy, lz4, zstd", c)
}
