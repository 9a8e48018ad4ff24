package wire

import (
	"fmt"
	"net"
	"time"
)

// refusingMax bounds the connections above the cap that are being answered politely; the rest are closed at once.
const refusingMax = 64

// refusal is the whole answer to a connection above the cap, because no server ever sees the request.
var refusal = refusalAnswer(`{"error":"Too many connections","code":"too_many_connections"}`)

func refusalAnswer(body string) []byte {
	return fmt.Appendf(nil, "HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\n"+
		"Content-Length: %d\r\nRetry-After: 1\r\nConnection: close\r\n\r\n%s", len(body), body)
}

// refuse answers 503 and closes. It waits for the first bytes of the request, since many clients take an answer that
// comes before the question for a protocol fault, and reads the rest away so that the close does not reset the answer.
// The caller has counted it in l.refusals.
func (l *Listener) refuse(tcp *net.TCPConn) {
	if l.refusing.Add(1) > refusingMax {
		l.refusing.Add(-1)
		_ = tcp.Close()
		l.refusals.Done()
		return
	}
	go func() {
		defer l.refusals.Done()
		defer l.refusing.Add(-1)
		defer func() { _ = tcp.Close() }()
		if tcp.SetDeadline(time.Now().Add(l.opts.LingerTime)) != nil {
			return
		}
		var first [1]byte
		if _, err := tcp.Read(first[:]); err != nil {
			return
		}
		if _, err := tcp.Write(refusal); err != nil || tcp.CloseWrite() != nil {
			return
		}
		discard(tcp, l.opts.LingerBytes, nil)
	}()
}
