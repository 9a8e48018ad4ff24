package frontendhttp

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/gobwas/ws"

	"queen/frontend-http/wire"
)

// maxClientFrame bounds one message of a client, all its fragments together, bytes.
const maxClientFrame = 1 << 20

// keptFrame is the largest buffer that a socket keeps between two frames of its client.
const keptFrame = 4 << 10

var (
	errClosedByPeer = errors.New("the client closed the stream")
	errFrameSize    = errors.New("a frame exceeds 1048576 bytes")
	errNotText      = errors.New("frames must be text")
	errNotUTF8      = errors.New("a text frame is not UTF-8")
)

// frameReader reads the messages of a client. Control frames between them are answered through control.
type frameReader struct {
	conn    *wire.Stream
	r       *bufio.Reader
	silence time.Duration
	// stopped is asked after every new deadline: one that was set to end the stream must not be pushed back.
	stopped func() bool
	// control answers a ping; its error ends the stream.
	control func(op ws.OpCode, payload []byte) error
	buf     []byte
}

// next returns the next text message, valid until the one after. Every error ends the stream; closeCode says how.
func (f *frameReader) next() ([]byte, error) {
	if cap(f.buf) > keptFrame {
		f.buf = nil
	}
	f.buf = f.buf[:0]
	state := ws.StateServerSide
	for {
		if err := f.conn.SetReadDeadline(time.Now().Add(f.silence)); err != nil {
			return nil, err
		}
		if f.stopped() {
			return nil, errClosedByPeer
		}
		h, err := ws.ReadHeader(f.r)
		if err != nil {
			return nil, err
		}
		if err := ws.CheckHeader(h, state); err != nil {
			return nil, err
		}
		if h.OpCode.IsControl() {
			if err := f.answer(h); err != nil {
				return nil, err
			}
			continue
		}
		if err := f.take(h); err != nil {
			return nil, err
		}
		if h.Fin {
			if !utf8.Valid(f.buf) {
				return nil, errNotUTF8
			}
			return f.buf, nil
		}
		state = state.Set(ws.StateFragmented)
	}
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
	var payload [ws.MaxControlFramePayloadSize]byte
	p := payload[:h.Length]
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
		return f.control(ws.OpPong, bytes.Clone(p))
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
