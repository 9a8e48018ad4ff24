package frontendhttp

import (
	"bufio"
	"encoding/binary"
	"errors"
	"io"
	"os"
	"slices"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/gobwas/ws"
)

// maxClientFrame bounds one message of a client, all its fragments together, bytes.
const maxClientFrame = 1 << 20

const (
	// keptFrame is the largest message buffer that goes back into the pool with its reader.
	keptFrame = 4 << 10
	// frameReadSize is the buffer in front of the connection.
	frameReadSize = 4 << 10
)

var (
	errClosedByPeer = errors.New("the client closed the stream")
	errSilent       = errors.New("the client is silent")
	errFrameSize    = errors.New("a frame exceeds 1048576 bytes")
	errNotText      = errors.New("frames must be text")
	errNotUTF8      = errors.New("a text frame is not UTF-8")
)

// frameReader reads the messages of a client and answers control frames between them. One goroutine uses it at a time;
// a stream whose client is quiet has none.
type frameReader struct {
	s       *socket
	r       *bufio.Reader
	state   ws.State
	buf     []byte // the message so far
	control [ws.MaxControlFramePayloadSize]byte
}

// frameReaders hold those of streams whose client is quiet.
var frameReaders = sync.Pool{New: func() any { return &frameReader{r: bufio.NewReaderSize(nil, frameReadSize)} }}

func newFrameReader(s *socket) *frameReader {
	f := frameReaders.Get().(*frameReader)
	f.s, f.state = s, ws.StateServerSide
	f.r.Reset(s.conn)
	return f
}

// free gives the reader back; nothing that it has read may be left in it.
func (f *frameReader) free() {
	if cap(f.buf) > keptFrame {
		f.buf = nil
	}
	f.s, f.buf = nil, f.buf[:0]
	f.r.Reset(nil)
	frameReaders.Put(f)
}

// within bounds the reads that follow. A deadline that was set to end the stream must not be pushed back, which is why
// the end is looked for after the new one is set: whoever ends a stream cancels first.
func (f *frameReader) within(d time.Duration) error {
	if err := f.s.conn.SetReadDeadline(time.Now().Add(d)); err != nil {
		return err
	}
	if f.s.ctx.Err() != nil {
		return errClosedByPeer
	}
	return nil
}

// quiet waits d for the client's next frame. It reports true when nothing came; nothing of a frame is in f then.
func (f *frameReader) quiet(d time.Duration) (bool, error) {
	if f.state.Fragmented() {
		return false, nil
	}
	if err := f.within(d); err != nil {
		return false, err
	}
	_, err := f.r.Peek(1)
	if errors.Is(err, os.ErrDeadlineExceeded) && f.s.ctx.Err() == nil {
		return true, nil
	}
	return false, err
}

// next reads one frame. whole says that it made a message whole, which is valid until the next call. Every error ends
// the stream; closeCode says how.
func (f *frameReader) next(patience time.Duration) (text []byte, whole bool, err error) {
	if err := f.within(patience); err != nil {
		return nil, false, err
	}
	h, err := ws.ReadHeader(f.r)
	if err != nil {
		return nil, false, err
	}
	f.s.hear()
	if err := ws.CheckHeader(h, f.state); err != nil {
		return nil, false, err
	}
	if h.OpCode.IsControl() {
		return nil, false, f.answer(h)
	}
	if !f.state.Fragmented() {
		f.buf = f.buf[:0]
	}
	if err := f.take(h); err != nil {
		return nil, false, err
	}
	if !h.Fin {
		f.state = f.state.Set(ws.StateFragmented)
		return nil, false, nil
	}
	f.state = f.state.Clear(ws.StateFragmented)
	if !utf8.Valid(f.buf) {
		return nil, false, errNotUTF8
	}
	return f.buf, true, nil
}

// take reads one fragment. Its length is judged before anything is allocated.
func (f *frameReader) take(h ws.Header) error {
	switch {
	case h.OpCode == ws.OpBinary:
		return errNotText
	case h.Length > maxClientFrame-int64(len(f.buf)):
		return errFrameSize
	}
	from := len(f.buf)
	f.buf = slices.Grow(f.buf, int(h.Length))[:from+int(h.Length)]
	if _, err := io.ReadFull(f.r, f.buf[from:]); err != nil {
		return err
	}
	ws.Cipher(f.buf[from:], h.Mask, 0)
	return nil
}

// answer reads a control frame, at most 125 bytes, and answers it.
func (f *frameReader) answer(h ws.Header) error {
	p := f.control[:h.Length]
	if _, err := io.ReadFull(f.r, p); err != nil {
		return err
	}
	ws.Cipher(p, h.Mask, 0)
	switch h.OpCode {
	case ws.OpClose:
		if len(p) == 1 || len(p) > 1 && ws.CheckCloseFrameData(ws.ParseCloseFrameData(p)) != nil {
			return ws.ErrProtocolStatusCodeUnknown
		}
		return errClosedByPeer
	case ws.OpPing:
		return f.s.send(controlFrame(ws.OpPong, p))
	}
	return nil
}

// closeCode is the status of the close frame that answers an error of next.
func closeCode(err error) ws.StatusCode {
	var protocol ws.ProtocolError
	switch {
	case errors.Is(err, errClosedByPeer):
		return ws.StatusNormalClosure
	case errors.Is(err, errFrameSize):
		return ws.StatusMessageTooBig
	case errors.Is(err, errNotText):
		return ws.StatusUnsupportedData
	case errors.Is(err, errNotUTF8):
		return ws.StatusInvalidFramePayloadData
	case errors.As(err, &protocol), errors.Is(err, ws.ErrHeaderLengthMSB), errors.Is(err, ws.ErrHeaderLengthUnexpected):
		return ws.StatusProtocolError
	}
	return ws.StatusGoingAway
}

// beginFrame leaves room for the short header of a text frame; endFrame fills it in, or widens it.
func beginFrame(b []byte) (_ []byte, start int) { return append(b, 0, 0, 0, 0), len(b) }

// endFrame writes the header of the frame that began at start. Server frames are not masked (RFC 6455 5.1).
func endFrame(b []byte, start int) []byte {
	const text = 0x80 | byte(ws.OpText)
	n := len(b) - start - 4
	switch {
	case n < 126:
		// Two bytes would do. A frame must use the shortest form, so what follows moves up.
		b[start+2], b[start+3] = text, byte(n)
		return slices.Delete(b, start, start+2)
	case n <= 0xffff:
		b[start], b[start+1] = text, 126
		binary.BigEndian.PutUint16(b[start+2:], uint16(n))
		return b
	}
	b = slices.Insert(b, start, 0, 0, 0, 0, 0, 0)
	b[start], b[start+1] = text, 127
	binary.BigEndian.PutUint64(b[start+2:], uint64(n))
	return b
}

// controlFrame is a whole control frame.
func controlFrame(op ws.OpCode, payload []byte) []byte {
	return append([]byte{0x80 | byte(op), byte(len(payload))}, payload...)
}
