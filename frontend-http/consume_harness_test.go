package frontendhttp

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/gobwas/ws"
	"github.com/stretchr/testify/require"
)

// socketClient speaks WebSocket frame by frame.
type socketClient struct {
	net.Conn
	t testing.TB
	r *bufio.Reader
	// pings counts those it has answered.
	pings int
}

const handshake = "GET /api/v1/consume HTTP/1.1\r\nHost: broker.internal\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n" +
	"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n"

// socket opens a WebSocket.
func (n *node) socket() *socketClient {
	n.t.Helper()
	c, err := net.Dial("tcp", n.addr)
	require.NoError(n.t, err)
	n.t.Cleanup(func() { _ = c.Close() })
	s := &socketClient{Conn: c, t: n.t, r: bufio.NewReader(c)}
	_, err = io.WriteString(c, handshake+"\r\n")
	require.NoError(n.t, err)
	_ = c.SetDeadline(time.Now().Add(patience))
	res, err := http.ReadResponse(s.r, nil)
	require.NoError(n.t, err)
	require.Equal(n.t, 101, res.StatusCode)
	require.Equal(n.t, "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=", res.Header.Get("Sec-WebSocket-Accept"))
	return s
}

// open opens a stream with the members of an open frame.
func (n *node) openStream(members string) *socketClient {
	n.t.Helper()
	s := n.socket()
	s.say(`{"type":"open",` + members + `}`)
	require.Equal(n.t, "opened", s.next().str("type"))
	return s
}

func (s *socketClient) frame(f ws.Frame) {
	s.t.Helper()
	require.NoError(s.t, ws.WriteFrame(s.Conn, ws.MaskFrame(f)))
}

// say sends a text frame.
func (s *socketClient) say(text string) {
	s.t.Helper()
	s.frame(ws.NewTextFrame([]byte(text)))
}

// read returns the next text frame, or the code of a close frame.
func (s *socketClient) read() (text string, code ws.StatusCode, err error) {
	_ = s.SetReadDeadline(time.Now().Add(patience))
	for {
		f, err := ws.ReadFrame(s.r)
		if err != nil {
			return "", 0, err
		}
		if f.Header.Masked || !f.Header.Fin {
			return "", 0, fmt.Errorf("header %+v", f.Header)
		}
		switch f.Header.OpCode {
		case ws.OpText:
			var frame struct{ Type string }
			if err := json.Unmarshal(f.Payload, &frame); err != nil {
				return "", 0, fmt.Errorf("%w: %s", err, f.Payload)
			}
			streamed(s.t, "/api/v1/consume", 101, frame.Type, f.Payload)
			return string(f.Payload), 0, nil
		case ws.OpPing:
			s.pings++
			s.frame(ws.NewPongFrame(f.Payload))
		case ws.OpClose:
			code, _ = ws.ParseCloseFrameData(f.Payload)
			return "", code, nil
		}
	}
}

// next wants a text frame.
func (s *socketClient) next() answer {
	s.t.Helper()
	text, code, err := s.read()
	require.NoError(s.t, err)
	require.Zero(s.t, code, "the stream was closed")
	require.True(s.t, json.Valid([]byte(text)), text)
	return answer{t: s.t, body: text, parsed: new(any)}
}

// want wants a frame of a type.
func (s *socketClient) want(kind string) answer {
	s.t.Helper()
	a := s.next()
	require.Equal(s.t, kind, a.str("type"), a.body)
	return a
}

// closed wants a close frame, whatever comes before it.
func (s *socketClient) closed() ws.StatusCode {
	s.t.Helper()
	for {
		_, code, err := s.read()
		require.NoError(s.t, err)
		if code != 0 {
			return code
		}
	}
}

// quiet wants no text frame until the answer to a ping comes back: whatever the broker had to say is before it only if
// it said it; callers make sure that it had the chance.
func (s *socketClient) quiet() {
	s.t.Helper()
	s.frame(ws.NewPingFrame([]byte("quiet")))
	for {
		_ = s.SetReadDeadline(time.Now().Add(patience))
		f, err := ws.ReadFrame(s.r)
		require.NoError(s.t, err)
		require.NotEqual(s.t, ws.OpText, f.Header.OpCode, "%s", f.Payload)
		if f.Header.OpCode == ws.OpPong && string(f.Payload) == "quiet" {
			return
		}
	}
}

// ackOf is one element of acks for a message frame.
func ackOf(m answer, status string) string {
	return fmt.Sprintf(`{"transactionId":%q,"partitionId":%q,"leaseId":%q,"status":%q}`, m.str("transactionId"),
		m.str("partitionId"), m.str("leaseId"), status)
}

// eventReader reads an event stream.
type eventReader struct {
	net.Conn
	t    testing.TB
	path string
	r    *bufio.Reader
	// beats counts the comments that came.
	beats int
}

type event struct{ kind, id, data string }

func (n *node) events(target string, headers ...string) *eventReader {
	n.t.Helper()
	c := n.dial()
	c.send("GET " + target + " HTTP/1.1\r\nHost: h\r\nAccept: text/event-stream\r\n" + strings.Join(append(headers, "\r\n"), "\r\n"))
	head, err := http.ReadResponse(c.r, nil)
	require.NoError(n.t, err)
	require.Equal(n.t, 200, head.StatusCode)
	require.Equal(n.t, "text/event-stream", head.Header.Get("Content-Type"))
	path, _, _ := strings.Cut(target, "?")
	return &eventReader{Conn: c.Conn, t: n.t, path: path, r: c.r}
}

// next is the next event; ok is false at the end of the stream.
func (e *eventReader) next() (ev event, ok bool) {
	e.t.Helper()
	for {
		line, err := e.r.ReadString('\n')
		if err == io.EOF {
			return ev, false
		}
		require.NoError(e.t, err)
		key, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), ":")
		value = strings.TrimPrefix(value, " ")
		switch {
		case line == "\n" && ev != event{}:
			streamed(e.t, e.path, 200, ev.kind, []byte(ev.data))
			return ev, true
		case line == "\n":
		case key == "":
			e.beats++
		case key == "event":
			ev.kind = value
		case key == "id":
			ev.id = value
		case key == "data":
			ev.data = value
		default:
			e.t.Fatalf("line %q", line)
		}
	}
}

func (e *eventReader) want(kind string) event {
	e.t.Helper()
	ev, ok := e.next()
	require.True(e.t, ok, "the stream ended")
	require.Equal(e.t, kind, ev.kind, ev.data)
	return ev
}
