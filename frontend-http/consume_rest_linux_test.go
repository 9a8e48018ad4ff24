package frontendhttp

import (
	"testing"
	"time"

	"github.com/gobwas/ws"
	"github.com/stretchr/testify/require"
)

// rests waits until the broker holds no goroutine for what the client of its one stream may say.
func (n *node) rests() {
	n.t.Helper()
	waitFor(n.t, "the stream to rest", func() bool { return n.f.opts.Listener.Metrics().Parked == 1 })
}

// TestQuietStreamRestsAndHears: what a client says after it was quiet is carried out, and its end is noticed.
func TestQuietStreamRestsAndHears(t *testing.T) {
	n := start(t)
	s := n.openStream(`"queue":"q","consumerGroup":"g","subscriptionMode":"all"`)
	n.rests()
	n.push1("q", "p", "a", `1`)
	m := s.want("message")
	n.rests()
	s.say(`{"type":"ack","acks":[` + ackOf(m, "completed") + `]}`)
	s.want("acked").equal(`true`, "results", 0, "success")
	n.rests()
	s.quiet() // a ping is answered
	n.rests()
	s.frame(ws.NewFrame(ws.OpText, false, []byte(`{"type":`))) // a message that is not whole keeps its reader
	s.quiet()
	s.frame(ws.NewFrame(ws.OpContinuation, true, []byte(`"odd"}`)))
	s.want("error").equal(`"type"`, "field")
	n.push1("q", "p", "b", `2`)
	s.want("message").equal(`2`, "data")
	n.rests()
	_ = s.Close()
	n.get("/api/v1/pop/queue/q?consumerGroup=g&wait=true&timeout=15000").is(200).equal(`2`, "messages", 0, "data").
		equal(`1`, "messages", 0, "deliveryAttempt")
}

// TestRestingStreamsEnd: by the silence of their client, and at Shutdown.
func TestRestingStreamsEnd(t *testing.T) {
	silent := startWith(t, Options{Streams: StreamOptions{Silence: 3 * attention}}).openStream(`"queue":"q"`)
	require.Equal(t, ws.StatusGoingAway, silent.closed())

	n := startWith(t, Options{Streams: StreamOptions{Heartbeat: time.Hour}})
	s := n.openStream(`"queue":"q"`)
	n.rests()
	done := make(chan struct{})
	go func() {
		defer close(done)
		n.stop()
	}()
	require.Equal(t, ws.StatusGoingAway, s.closed())
	_ = s.Close()
	<-done
}
