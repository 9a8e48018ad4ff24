package frontendhttp

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/gobwas/ws"
	"github.com/stretchr/testify/require"

	"queen/engine"
	"queen/engine/clock"
	"queen/engine/vfs"
)

// onBoth runs a test over the model and over a real node.
func onBoth(t *testing.T, test func(t *testing.T, n *node)) {
	t.Run("model", func(t *testing.T) { test(t, start(t)) })
	t.Run("node", func(t *testing.T) {
		e, err := engine.OpenLocal(engine.Config{FS: vfs.NewMem(), Clock: clock.Real(), Rand: clock.NewFakeRand(1), Dir: "data",
			SegmentBytes: 1 << 20, PoolReady: 1, SweepEvery: time.Hour})
		require.NoError(t, err)
		t.Cleanup(func() { _ = e.Close(context.Background()) })
		test(t, startWith(t, Options{Engine: e}))
	})
}

func (n *node) pushMany(queue, partition string, from, to int) {
	n.t.Helper()
	var items []string
	for i := from; i < to; i++ {
		items = append(items, fmt.Sprintf(`{"queue":%q,"partition":%q,"transactionId":"m%d","payload":{"n":%d}}`, queue, partition, i, i))
	}
	n.post("/api/v1/push", `{"items":[`+strings.Join(items, ",")+`]}`).is(201)
}

func TestStreamDeliversInOrderAndSettlesInline(t *testing.T) {
	onBoth(t, func(t *testing.T, n *node) {
		n.pushMany("q", "p", 0, 5)
		s := n.openStream(`"queue":"q","consumerGroup":"g","subscriptionMode":"all","maxInFlight":3`)
		var ms []answer
		for i := range 3 {
			m := s.want("message")
			m.equal(fmt.Sprintf(`{"n":%d}`, i), "data").equal(fmt.Sprint(i), "offset").equal(`1`, "deliveryAttempt").
				equal(`"g"`, "consumerGroup").equal(`"p"`, "partition")
			ms = append(ms, m)
		}
		s.quiet()
		s.say(`{"type":"ack","id":7,"acks":[` + ackOf(ms[0], "completed") + `,` + ackOf(ms[2], "completed") + `]}`)
		// The verdict comes before the messages that it made room for, or among them: each stream has two writers.
		var got []int
		acked := false
		for range 3 {
			a := s.next()
			if a.str("type") == "acked" {
				a.equal(`7`, "id").equal(`true`, "results", 0, "success").equal(`true`, "results", 1, "leaseReleased")
				acked = true
				continue
			}
			got = append(got, len(got)+3)
			a.equal(fmt.Sprintf(`{"n":%d}`, got[len(got)-1]), "data")
		}
		require.True(t, acked)
		require.Len(t, got, 2)
		n.pushMany("q", "p", 5, 6) // the partition is leased, so it waits
		s.say(`{"type":"close"}`)
		require.Equal(t, ws.StatusNormalClosure, s.closed())
		p := n.get("/api/v1/pop/queue/q?consumerGroup=g").is(200)
		p.equal(`{"n":3}`, "messages", 0, "data").equal(`1`, "messages", 0, "deliveryAttempt")
	})
}

func TestCreditIsNeverExceeded(t *testing.T) {
	n := start(t)
	for i := range 6 {
		n.pushMany("q", fmt.Sprint("p", i), 0, 4)
	}
	s := n.openStream(`"queue":"q","maxInFlight":5,"batch":2,"partitions":4,"commitOnDelivery":true`)
	read := func(want int) {
		for range want {
			s.want("message")
		}
		waitFor(t, "the pump to wait", func() bool { return n.f.parked.Load() == 0 })
		s.quiet()
	}
	read(5)
	s.say(`{"type":"credit","messages":1}`)
	read(1)
	s.say(`{"type":"credit","messages":7}`)
	read(7)
	s.say(`{"type":"credit","messages":100}`)
	for range 11 {
		s.want("message")
	}
	for frame, field := range map[string]string{`{"type":"credit"}`: "messages", `{"type":"credit","messages":0}`: "messages",
		`{"type":"credit","messages":1048576}`: "messages", `{"type":"credit","messages":"x"}`: "messages"} {
		s.say(frame)
		require.Equal(t, field, s.want("error").str("field"), frame)
	}
}

func TestBytesInFlightAreBounded(t *testing.T) {
	n := start(t)
	big := `"` + strings.Repeat("x", 998) + `"`
	for i := range 3 {
		n.push1("q", fmt.Sprint("p", i), "id", big)
	}
	s := n.openStream(`"queue":"q","maxInFlightBytes":1500`)
	first := s.want("message")
	waitFor(t, "the pump to wait", func() bool { return n.f.parked.Load() == 0 })
	s.quiet()
	s.say(`{"type":"ack","acks":[` + ackOf(first, "completed") + `]}`)
	kinds := []string{s.next().str("type"), s.next().str("type")}
	require.ElementsMatch(t, []string{"acked", "message"}, kinds)
	s.quiet()
}

func TestHangUpHandsBackUncounted(t *testing.T) {
	for _, how := range []string{"untouched", "settled in part"} {
		t.Run(how, func(t *testing.T) {
			onBoth(t, func(t *testing.T, n *node) {
				n.pushMany("q", "p", 0, 4)
				s := n.openStream(`"queue":"q","consumerGroup":"g","subscriptionMode":"all"`)
				var ms []answer
				for range 4 {
					ms = append(ms, s.want("message"))
				}
				next := `{"n":0}`
				if how != "untouched" {
					s.say(`{"type":"ack","acks":[` + ackOf(ms[1], "completed") + `]}`)
					s.want("acked").equal(`false`, "results", 0, "leaseReleased")
					next = `{"n":2}`
				}
				_ = s.Close()
				p := n.get("/api/v1/pop/queue/q?consumerGroup=g&wait=true&timeout=15000").is(200)
				p.equal(next, "messages", 0, "data").equal(`1`, "messages", 0, "deliveryAttempt")
			})
		})
	}
}

// TestStalledReaderBlocksNobody fills one client's socket until the broker gives it up; another client reads on.
func TestStalledReaderBlocksNobody(t *testing.T) {
	n := startWith(t, Options{Streams: StreamOptions{Stall: 200 * time.Millisecond}})
	stalled := n.openStream(`"queue":"big","consumerGroup":"g","subscriptionMode":"all","maxInFlight":10000,"maxInFlightBytes":67108864`)
	payload := `"` + strings.Repeat("x", 1<<20) + `"`
	other := n.openStream(`"queue":"small","consumerGroup":"g","subscriptionMode":"all"`)
	for i := range 24 {
		n.push1("big", fmt.Sprint("p", i), "id", payload)
		n.push1("small", "p", fmt.Sprint("m", i), `1`)
		s := other.want("message")
		other.say(`{"type":"ack","acks":[` + ackOf(s, "completed") + `]}`)
		other.want("acked")
	}
	_ = stalled
	// Given up, its leases are handed back: everything is there for another consumer, at its first delivery.
	seen := map[string]bool{}
	for len(seen) < 24 {
		p := n.get("/api/v1/pop/queue/big?consumerGroup=g&wait=true&timeout=15000").is(200)
		p.equal(`1`, "messages", 0, "deliveryAttempt")
		seen[p.str("partition")] = true
	}
}

func TestBadFramesAreAnsweredByName(t *testing.T) {
	n := start(t)
	s := n.socket()
	bad := func(frame, code, field string) {
		t.Helper()
		s.say(frame)
		a := s.want("error").equal(`"`+code+`"`, "code")
		if field == "" {
			a.lacks("field")
		} else {
			a.equal(`"`+field+`"`, "field")
		}
	}
	bad(`{`, "bad_frame", "")
	bad(`[]`, "bad_frame", "")
	bad(`{"type":3}`, "bad_frame", "type")
	bad(`{"type":"what"}`, "bad_frame", "type")
	bad(`{"type":"ack","acks":[]}`, "bad_frame", "type")
	bad(`{"type":"open"}`, "bad_request", "queue")
	bad(`{"type":"open","queue":7}`, "bad_frame", "queue")
	bad(`{"type":"open","queue":"q","wait":true}`, "bad_frame", "wait")
	bad(`{"type":"open","queue":"q","maxInFlight":0}`, "bad_request", "maxInFlight")
	bad(`{"type":"open","queue":"q","maxInFlight":10001}`, "bad_request", "maxInFlight")
	bad(`{"type":"open","queue":"q","maxInFlightBytes":67108865}`, "bad_request", "maxInFlightBytes")
	bad(`{"type":"open","queue":"q","partitions":65}`, "bad_request", "partitions")
	bad(`{"type":"open","queue":"q","leaseSeconds":-1}`, "bad_request", "leaseSeconds")
	bad(`{"type":"open","queue":"q","subscriptionFrom":"x"}`, "bad_request", "subscriptionFrom")
	bad(`{"type":"open","queue":"`+strings.Repeat("q", 500)+`"}`, "name_too_long", "")
	bad(`{"type":"open","id":{},"queue":"q"}`, "bad_frame", "id")
	s.say(`{"type":"open","queue":"q"}`)
	s.want("opened").equal(`256`, "maxInFlight").equal(`60`, "leaseSeconds")
	bad(`{"type":"open","queue":"q"}`, "bad_frame", "type")
	bad(`{"type":"ack","id":"a"}`, "bad_request", "acks")
	bad(`{"type":"ack","acks":7}`, "bad_body", "")
	bad(`{"type":"ack","acks":[{"partitionId":7}]}`, "bad_body", "")
	bad(`{"type":"extend","leaseId":"x","seconds":0}`, "bad_request", "seconds")
	bad(`{"type":"extend"}`, "bad_request", "leaseId")
	s.say(`{"type":"ack","id":"x","acks":[{"transactionId":"none","partitionId":"1","leaseId":"none","status":"odd"}]}`)
	s.want("acked").equal(`"x"`, "id").equal(`false`, "results", 0, "success")
	s.say(`{"type":"extend","id":1,"leaseId":"none"}`)
	s.want("extended").equal(`false`, "success").equal(`null`, "expiresAt")
}

func TestFramesThatEndTheStream(t *testing.T) {
	n := start(t)
	text := func(p string) ws.Frame { return ws.NewTextFrame([]byte(p)) }
	huge := ws.Header{Fin: true, OpCode: ws.OpText, Masked: true, Length: 1<<20 + 1}
	for name, c := range map[string]struct {
		send func(s *socketClient)
		code ws.StatusCode
	}{
		"oversized":   {func(s *socketClient) { require.NoError(t, ws.WriteHeader(s.Conn, huge)) }, ws.StatusMessageTooBig},
		"binary":      {func(s *socketClient) { s.frame(ws.NewBinaryFrame([]byte("{}"))) }, ws.StatusUnsupportedData},
		"not UTF-8":   {func(s *socketClient) { s.frame(text("\xff")) }, ws.StatusInvalidFramePayloadData},
		"not masked":  {func(s *socketClient) { require.NoError(t, ws.WriteFrame(s.Conn, text("{}"))) }, ws.StatusProtocolError},
		"close":       {func(s *socketClient) { s.frame(ws.NewCloseFrame(nil)) }, ws.StatusNormalClosure},
		"lonely rest": {func(s *socketClient) { s.frame(ws.NewFrame(ws.OpContinuation, true, nil)) }, ws.StatusProtocolError},
	} {
		t.Run(name, func(t *testing.T) {
			s := n.openStream(`"queue":"q"`)
			c.send(s)
			require.Equal(t, c.code, s.closed())
			_, err := s.r.ReadByte()
			require.Equal(t, io.EOF, err)
		})
	}
	s := n.socket() // fragments make one message, with a ping between them
	s.frame(ws.NewFrame(ws.OpText, false, []byte(`{"type":"open",`)))
	s.frame(ws.NewPingFrame([]byte("x")))
	s.frame(ws.NewFrame(ws.OpContinuation, true, []byte(`"queue":"q"}`)))
	s.want("opened")
}

func TestStreamCarriesBytes(t *testing.T) {
	n := start(t)
	n.do("POST", "/api/v1/push/raw?queue=q&partition=p&transactionId=b", "\x00\xff", "Content-Type: image/png", "Queen-H-k: v").is(201)
	long := `"` + strings.Repeat("y", 70000) + `"`
	n.push1("q", "p", "long", long)
	s := n.openStream(`"queue":"q"`)
	s.want("message").equal(`"AP8="`, "data").equal(`"base64"`, "encoding").equal(`"image/png"`, "contentType").
		equal(`[{"name":"k","value":"v"}]`, "headers")
	s.want("message").equal(long, "data")
}

func TestLeaseOfAStreamRunsOutAndMakesRoom(t *testing.T) {
	c := clock.NewFake(time.Date(2026, 11, 30, 10, 0, 0, 0, time.UTC).UnixMicro())
	n := startWith(t, Options{Clock: c})
	n.pushMany("q", "p", 0, 1)
	s := n.openStream(`"queue":"q","maxInFlight":1,"leaseSeconds":5`)
	first := s.want("message")
	s.say(`{"type":"extend","id":"e","leaseId":"` + first.str("leaseId") + `","seconds":7}`)
	s.want("extended").equal(`"e"`, "id").equal(`true`, "success")
	waitFor(t, "the second delivery", func() bool {
		c.Advance(time.Second)
		_ = s.SetReadDeadline(time.Now().Add(10 * time.Millisecond))
		_, err := s.r.Peek(4)
		return err == nil
	})
	s.want("message").equal(`2`, "deliveryAttempt").equal(`{"n":0}`, "data")
}

func TestStreamsEndAtDrain(t *testing.T) {
	n := start(t)
	s, unopened := n.openStream(`"queue":"q"`), n.socket()
	e := n.events("/api/v1/consume?queue=q")
	w := n.events("/api/v1/kv/watch?ns=n")
	done := make(chan struct{})
	go func() {
		defer close(done)
		n.stop()
	}()
	require.Equal(t, ws.StatusGoingAway, s.closed())
	require.Equal(t, ws.StatusGoingAway, unopened.closed())
	for _, r := range []*eventReader{e, w} {
		_, ok := r.next()
		require.False(t, ok)
	}
	for _, c := range []io.Closer{s, unopened, e, w} {
		_ = c.Close()
	}
	<-done
}

func TestHandshakeRefusals(t *testing.T) {
	n := startWith(t, Options{Streams: StreamOptions{Origins: []string{"https://app.example"}}})
	try := func(status int, request string) *http.Response {
		t.Helper()
		c := n.dial()
		c.send(request)
		res, err := http.ReadResponse(c.r, nil)
		require.NoError(t, err)
		require.Equal(t, status, res.StatusCode, request)
		return res
	}
	try(101, handshake+"\r\n")
	try(101, handshake+"Origin: https://app.example\r\n\r\n")
	try(101, handshake+"Origin: http://broker.internal\r\n\r\n")
	try(403, handshake+"Origin: https://evil.example\r\n\r\n")
	try(403, handshake+"Origin: null\r\n\r\n")
	require.Equal(t, "13", try(426, strings.Replace(handshake, "n: 13", "n: 8", 1)+"\r\n").Header.Get("Sec-WebSocket-Version"))
	try(400, strings.Replace(handshake, "dGhl", "!!!!", 1)+"\r\n")
	try(400, strings.Replace(handshake, "Connection: Upgrade", "Connection: close", 1)+"\r\n")
	try(426, "GET /api/v1/consume?queue=q HTTP/1.1\r\nHost: h\r\n\r\n")
	try(400, "GET /api/v1/consume HTTP/1.1\r\nHost: h\r\nAccept: text/event-stream\r\n\r\n")
	try(400, "GET /api/v1/consume?queue=q&batch=0 HTTP/1.1\r\nHost: h\r\nAccept: text/event-stream\r\n\r\n")
}

func TestPingsKeepAnIdleStreamAlive(t *testing.T) {
	n := startWith(t, Options{Streams: StreamOptions{Heartbeat: 5 * time.Millisecond, Silence: patience}})
	s := n.openStream(`"queue":"q"`)
	for s.pings < 3 {
		f, err := ws.ReadFrame(s.r)
		require.NoError(t, err)
		require.Equal(t, ws.OpPing, f.Header.OpCode)
		s.pings++
	}
	silent := startWith(t, Options{Streams: StreamOptions{Silence: 20 * time.Millisecond}}).openStream(`"queue":"q"`)
	require.Equal(t, ws.StatusGoingAway, silent.closed())
}

// TestStreamsAskWhoCalls holds the handshake to the level of its route, as any other request.
func TestStreamsAskWhoCalls(t *testing.T) {
	n := startWith(t, Options{Auth: byRole()})
	for secret, status := range map[string]int{"": 401, "wrong": 401, "nobody": 403, "read-only": 403, "read-write": 101} {
		c := n.dial()
		h := handshake
		if secret != "" {
			h += "Authorization: Bearer " + secret + "\r\n"
		}
		c.send(h + "\r\n")
		res, err := http.ReadResponse(c.r, nil)
		require.NoError(t, err)
		require.Equal(t, status, res.StatusCode, secret)
	}
}
