package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/gobwas/ws"
)

const (
	queue       = "q"
	openTimeout = time.Minute
)

// stream is one open stream.
type stream struct {
	nc   net.Conn
	r    *bufio.Reader
	next func(*stream) (text []byte, err error)
}

// openers open a stream of each kind: the answer to the handshake is read, and for a socket that to the open frame.
var openers = map[string]func(addr string) (*stream, error){"socket": openSocket, "events": openEvents}

func dial(addr, request string, status int) (*stream, error) {
	nc, err := net.DialTimeout("tcp", addr, openTimeout)
	if err != nil {
		return nil, err
	}
	s := &stream{nc: nc, r: bufio.NewReaderSize(nc, 512)}
	if err := nc.SetDeadline(time.Now().Add(openTimeout)); err != nil {
		return nil, errors.Join(err, nc.Close())
	}
	if _, err = io.WriteString(nc, request); err == nil {
		var res *http.Response
		// The body of an event stream stays in r: ReadResponse reads the head only.
		if res, err = http.ReadResponse(s.r, nil); err == nil && res.StatusCode != status {
			err = fmt.Errorf("streams: status %d, want %d", res.StatusCode, status)
		}
	}
	if err != nil {
		return nil, errors.Join(err, nc.Close())
	}
	return s, nil
}

func openSocket(addr string) (*stream, error) {
	s, err := dial(addr, "GET /api/v1/consume HTTP/1.1\r\nHost: "+addr+"\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"+
		"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n", http.StatusSwitchingProtocols)
	if err != nil {
		return nil, err
	}
	s.next = nextFrame
	open := `{"type":"open","queue":"` + queue + `","consumerGroup":"g","subscriptionMode":"all","commitOnDelivery":true}`
	err = ws.WriteFrame(s.nc, ws.MaskFrame(ws.NewTextFrame([]byte(open))))
	if err == nil {
		var text []byte
		if text, err = s.next(s); err == nil && !bytes.Contains(text, []byte(`"opened"`)) {
			err = fmt.Errorf("streams: the open frame is answered %.200s", text)
		}
	}
	if err != nil {
		return nil, errors.Join(err, s.nc.Close())
	}
	return s, s.nc.SetDeadline(time.Time{})
}

// nextFrame reads text frames and answers pings.
func nextFrame(s *stream) ([]byte, error) {
	for {
		f, err := ws.ReadFrame(s.r)
		if err != nil {
			return nil, err
		}
		switch f.Header.OpCode {
		case ws.OpText:
			return f.Payload, nil
		case ws.OpPing:
			if err := ws.WriteFrame(s.nc, ws.MaskFrame(ws.NewPongFrame(f.Payload))); err != nil {
				return nil, err
			}
		case ws.OpClose:
			return nil, fmt.Errorf("streams: the node closed a stream: %q", f.Payload)
		}
	}
}

func openEvents(addr string) (*stream, error) {
	s, err := dial(addr, "GET /api/v1/consume?queue="+queue+"&consumerGroup=g&subscriptionMode=all&commitOnDelivery=true HTTP/1.1\r\n"+
		"Host: "+addr+"\r\nAccept: text/event-stream\r\n\r\n", http.StatusOK)
	if err != nil {
		return nil, err
	}
	s.next = nextEvent
	return s, s.nc.SetDeadline(time.Time{})
}

// nextEvent reads the data of the next event; comments, which show that the stream lives, and the lengths of chunks are
// passed over.
func nextEvent(s *stream) ([]byte, error) {
	for {
		line, err := s.r.ReadString('\n')
		if err != nil {
			return nil, err
		}
		if data, ok := strings.CutPrefix(line, "data:"); ok {
			return []byte(strings.TrimSpace(data)), nil
		}
	}
}

// dataOf is what a message carries: the number of its push; false for other frames.
func dataOf(text []byte) (int, bool) {
	var m struct {
		Data *int `json:"data"`
	}
	if json.Unmarshal(text, &m) != nil || m.Data == nil {
		return 0, false
	}
	return *m.Data, true
}
