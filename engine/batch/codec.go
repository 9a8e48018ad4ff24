package batch

import (
	"bytes"
	"errors"
	"io"
	"math/bits"
	"sync"
	"sync/atomic"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/snappy"
	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"
)

// Codec is how the records of a batch are compressed.
type Codec int8

const (
	None   Codec = 0
	Gzip   Codec = 1
	Snappy Codec = 2
	LZ4    Codec = 3
	Zstd   Codec = 4
)

// String is the name clients configure it by.
func (c Codec) String() string {
	switch c {
	case None:
		return "none"
	case Gzip:
		return "gzip"
	case Snappy:
		return "snappy"
	case LZ4:
		return "lz4"
	case Zstd:
		return "zstd"
	}
	return "unknown"
}

// Limits bound what one batch may take in memory.
type Limits struct {
	// Bytes of the records once decompressed.
	Bytes int
	// Records of one batch.
	Records int
}

// DefaultLimits are those of Verify.
var DefaultLimits = Limits{Bytes: 64 << 20, Records: 1 << 20}

func (l Limits) orDefault() Limits {
	if l.Bytes <= 0 {
		l.Bytes = DefaultLimits.Bytes
	}
	if l.Records <= 0 {
		l.Records = DefaultLimits.Records
	}
	return l
}

// scratch is what one pass over a batch needs; it is used again.
type scratch struct {
	buf  []byte
	src  bytes.Reader
	gz   *gzip.Reader
	lz   *lz4.Reader
	rec  Record
	heap []RecordHeader
}

// What an unused scratch keeps at most.
const (
	scratchKept = 1 << 20
	headersKept = 64
)

var scratches = sync.Pool{New: func() any { return new(scratch) }}

func (s *scratch) release() {
	if cap(s.buf) > scratchKept {
		s.buf = nil
	}
	s.src.Reset(nil)
	if cap(s.heap) > headersKept {
		s.heap = nil
	}
	clear(s.heap[:cap(s.heap)])
	s.rec = Record{}
	scratches.Put(s)
}

// decompress returns what in holds, at most limit bytes. The result is in itself or in s.buf.
func (s *scratch) decompress(c Codec, in []byte, limit int) ([]byte, error) {
	switch c {
	case None:
		if len(in) > limit {
			return nil, tooLarge(limit)
		}
		return in, nil
	case Gzip:
		return s.gunzip(in, limit)
	case Snappy:
		return s.unsnappy(in, limit)
	case LZ4:
		return s.unlz4(in, limit)
	case Zstd:
		return s.unzstd(in, limit)
	}
	return nil, refuse(BadCodec, "compression %d is none of none, gzip, snappy, lz4, zstd", c)
}

// gunzip reads all members of a gzip stream, one after the other.
func (s *scratch) gunzip(in []byte, limit int) ([]byte, error) {
	s.src.Reset(in)
	var err error
	if s.gz == nil {
		s.gz, err = gzip.NewReader(&s.src)
	} else {
		err = s.gz.Reset(&s.src)
	}
	if err != nil {
		return nil, corrupt("gzip: %v", err)
	}
	return s.readAll(s.gz, len(in), limit, Gzip)
}

func (s *scratch) unlz4(in []byte, limit int) ([]byte, error) {
	s.src.Reset(in)
	if s.lz == nil {
		s.lz = lz4.NewReader(nil)
	}
	s.lz.Reset(&s.src)
	out, err := s.readAll(s.lz, len(in), limit, LZ4)
	if err != nil {
		s.lz = nil // it may keep a block of an unfinished frame
		return nil, err
	}
	if s.src.Len() > 0 {
		return nil, corrupt("lz4: %d bytes after the frame", s.src.Len())
	}
	return out, nil
}

// readAll reads r to its end into the scratch's buffer.
func (s *scratch) readAll(r io.Reader, compressed, limit int, c Codec) ([]byte, error) {
	out := s.room(min(limit, max(4*compressed, 4<<10)))
	for {
		if len(out) == cap(out) {
			if len(out) > limit {
				return nil, tooLarge(limit)
			}
			out = append(out, 0)[:len(out)]
		}
		n, err := r.Read(out[len(out):min(cap(out), limit+1)])
		out = out[:len(out)+n]
		s.buf = out
		switch {
		case len(out) > limit:
			return nil, tooLarge(limit)
		case err == io.EOF:
			return out, nil
		case err != nil:
			return nil, corrupt("%v: %v", c, err)
		}
	}
}

// room is an empty slice with at least n bytes of capacity.
func (s *scratch) room(n int) []byte {
	if cap(s.buf) < n {
		s.buf = make([]byte, 0, n)
	}
	return s.buf[:0]
}

// zstdWindow is the largest window of a zstd frame, that of its highest level. It may be more than limits allow to come
// out, of a frame that does not say how little it holds.
const zstdWindow = 1 << 27

// zstdDecoders are one for each power of two that bounds window and content, by its exponent: the bound is an option of
// the decoder. Only those in use exist; each works for as many callers at once as there are processors.
var zstdDecoders [64]atomic.Pointer[zstd.Decoder]

func zstdDecoder(exponent int) *zstd.Decoder {
	at := &zstdDecoders[exponent]
	if d := at.Load(); d != nil {
		return d
	}
	d, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(0), zstd.WithDecoderLowmem(true),
		zstd.WithDecoderMaxMemory(1<<exponent))
	if err != nil {
		panic(err) // the options are constants but for a positive bound
	}
	if !at.CompareAndSwap(nil, d) {
		d.Close()
	}
	return at.Load()
}

func (s *scratch) unzstd(in []byte, limit int) ([]byte, error) {
	var head zstd.Header
	if err := head.Decode(in); err != nil {
		return nil, corrupt("zstd: %v", err)
	}
	if head.HasFCS && head.FrameContentSize > uint64(limit) || head.WindowSize > max(zstdWindow, uint64(limit)) {
		return nil, tooLarge(limit)
	}
	bound := max(uint64(limit), head.WindowSize, zstd.MinWindowSize)
	out, err := zstdDecoder(bits.Len64(bound-1)).DecodeAll(in, s.room(min(limit, max(4*len(in), 4<<10))))
	switch {
	case len(out) > limit, errors.Is(err, zstd.ErrDecoderSizeExceeded), errors.Is(err, zstd.ErrWindowSizeExceeded):
		return nil, tooLarge(limit)
	case err != nil:
		return nil, corrupt("zstd: %v", err)
	}
	s.buf = out
	return out, nil
}

// xerialMagic starts the framing that Java's snappy streams have around plain snappy blocks.
var xerialMagic = []byte{0x82, 'S', 'N', 'A', 'P', 'P', 'Y', 0}

const xerialHead = 16 // magic, version, lowest compatible version

// unsnappy reads one plain block, or the blocks of a xerial frame.
func (s *scratch) unsnappy(in []byte, limit int) ([]byte, error) {
	if !bytes.HasPrefix(in, xerialMagic) {
		return s.snappyBlock(in, s.buf[:0], limit)
	}
	if len(in) < xerialHead {
		return nil, corrupt("snappy: the frame's head is cut off")
	}
	out := s.room(min(limit, 4*len(in)))
	for in = in[xerialHead:]; len(in) > 0; {
		if bytes.HasPrefix(in, xerialMagic) && len(in) >= xerialHead { // a stream that was appended to
			in = in[xerialHead:]
			continue
		}
		if len(in) < 4 {
			return nil, corrupt("snappy: a block's length is cut off")
		}
		n := int64(in[0])<<24 | int64(in[1])<<16 | int64(in[2])<<8 | int64(in[3])
		if n > int64(len(in)-4) {
			return nil, corrupt("snappy: a block of %d bytes is cut off", n)
		}
		var err error
		if out, err = s.snappyBlock(in[4:4+n], out, limit); err != nil {
			return nil, err
		}
		in = in[4+n:]
	}
	return out, nil
}

// snappyBlock appends a block to out, which is in s.buf.
func (s *scratch) snappyBlock(in, out []byte, limit int) ([]byte, error) {
	n, err := snappy.DecodedLen(in)
	switch {
	case err != nil:
		return nil, corrupt("snappy: %v", err)
	case n > limit-len(out):
		return nil, tooLarge(limit)
	}
	if cap(out)-len(out) < n {
		grown := make([]byte, len(out), max(len(out)+n, min(2*cap(out), limit)))
		copy(grown, out)
		s.buf, out = grown[:0], grown
	}
	got, err := snappy.DecodeStrict(out[len(out):len(out)+n], in)
	if err != nil {
		return nil, corrupt("snappy: %v", err)
	}
	return out[:len(out)+len(got)], nil
}
