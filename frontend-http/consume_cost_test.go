package frontendhttp

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/gobwas/ws"
	"github.com/stretchr/testify/require"

	"queen/engine"
	"queen/engine/clock"
	"queen/engine/vfs"
)

// used is what heap and stacks take, after garbage is gone, and how many goroutines there are.
func used() (bytes uint64, goroutines int) {
	for range 4 { // the second one empties pools, each one halves stacks that have shrunk
		runtime.GC()
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc + m.StackInuse, runtime.NumGoroutine()
}

// TestIdleStreamsAreSmall opens streams on a real node and prints what one costs, its client's socket included: a
// goroutine and less than 24 KiB. The goal is 20 KiB of a node's memory; stacks are sized by the runtime.
func TestIdleStreamsAreSmall(t *testing.T) {
	streams := 1000
	if testing.Short() {
		streams = 200
	}
	e, err := engine.OpenLocal(engine.Config{FS: vfs.NewMem(), Clock: clock.Real(), Rand: clock.NewFakeRand(1), Dir: "data",
		SegmentBytes: 1 << 20, PoolReady: 1, SweepEvery: time.Hour})
	require.NoError(t, err)
	t.Cleanup(func() { _ = e.Close(t.Context()) })
	n := startWith(t, Options{Engine: e, Streams: StreamOptions{Heartbeat: time.Hour}})
	n.push1("q", "p", "warm", `1`)
	warm := n.openStream(`"queue":"q","consumerGroup":"g","subscriptionMode":"all"`)
	warm.say(`{"type":"ack","acks":[` + ackOf(warm.want("message"), "completed") + `]}`)
	warm.want("acked")

	for _, kind := range []string{"socket", "events"} {
		before, goroutines := used()
		applied := standing(t, e).Applied
		conns := make([]net.Conn, streams)
		scratch := make([]byte, 4<<10)
		for i := range conns {
			conns[i] = idleStream(t, n, kind, scratch)
		}
		waitFor(t, "all streams to park", func() bool { return n.f.parked.Load() >= int64(streams) })
		if runtime.GOOS == "linux" { // elsewhere a socket keeps a goroutine that reads
			waitFor(t, "all streams to rest", func() bool { return n.f.opts.Listener.Metrics().Parked >= streams })
		}
		after, more := used()
		if per := float64(more-goroutines) / float64(streams); runtime.GOOS == "linux" && per > 1.1 {
			t.Errorf("%s: %.2f goroutines per idle stream", kind, per)
		}
		each := (int64(after) - int64(before)) / int64(streams)
		t.Logf("%s: %d bytes and %.2f goroutines per idle stream (%d streams)", kind, each,
			float64(more-goroutines)/float64(streams), streams)
		require.Less(t, each, int64(24<<10))
		require.Equal(t, applied, standing(t, e).Applied, "idle streams wrote to the log")
		for _, c := range conns {
			_ = c.Close()
		}
		waitFor(t, "all streams to end", func() bool { return n.f.parked.Load() <= 1 })
	}
}

func standing(t *testing.T, e engine.Engine) engine.Status {
	t.Helper()
	s, err := e.Status(t.Context())
	require.NoError(t, err)
	return s
}

// idleStream opens a stream whose client keeps nothing but a socket.
func idleStream(t *testing.T, n *node, kind string, scratch []byte) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", n.addr)
	require.NoError(t, err)
	until := func(mark string) {
		var got []byte
		for !bytes.Contains(got, []byte(mark)) {
			k, err := c.Read(scratch)
			require.NoError(t, err, "%s", got)
			got = append(got, scratch[:k]...)
		}
	}
	if kind == "events" {
		_, err = io.WriteString(c, "GET /api/v1/consume?queue=q&consumerGroup=g HTTP/1.1\r\nHost: h\r\nAccept: text/event-stream\r\n\r\n")
		require.NoError(t, err)
		until("\r\n\r\n")
		return c
	}
	_, err = io.WriteString(c, handshake+"\r\n")
	require.NoError(t, err)
	until("\r\n\r\n")
	require.NoError(t, ws.WriteFrame(c, ws.MaskFrame(ws.NewTextFrame([]byte(`{"type":"open","queue":"q","consumerGroup":"g"}`)))))
	until(`"opened"`)
	return c
}

// BenchmarkPushToDelivery measures one message at a time on an idle node in memory, from the start of its push to the
// arrival of its frame; it prints the median.
func BenchmarkPushToDelivery(b *testing.B) {
	e, err := engine.OpenLocal(engine.Config{FS: vfs.NewMem(), Clock: clock.Real(), Rand: clock.NewFakeRand(1), Dir: "data",
		SegmentBytes: 16 << 20, PoolReady: 1, SweepEvery: time.Hour})
	require.NoError(b, err)
	b.Cleanup(func() { _ = e.Close(b.Context()) })
	n := startWith(b, Options{Engine: e})
	s := n.openStream(`"queue":"q","consumerGroup":"g","subscriptionMode":"all"`)
	pusher := n.dial()
	var took []time.Duration
	for i := range b.N {
		began := time.Now()
		pusher.send(request("POST", "/api/v1/push", fmt.Sprintf(`{"items":[{"queue":"q","transactionId":"m%d","payload":1}]}`, i)))
		m := s.want("message")
		took = append(took, time.Since(began))
		pusher.receive().is(201)
		_ = pusher.SetDeadline(time.Now().Add(patience))
		s.say(`{"type":"ack","acks":[` + ackOf(m, "completed") + `]}`)
		s.want("acked")
	}
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Microseconds())/1000, "median-ms")
}
