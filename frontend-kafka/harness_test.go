package frontendkafka

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"log/slog"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kbin"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"queen/engine"
	"queen/engine/clock"
	"queen/engine/format"
	"queen/engine/vfs"
)

// patience is how long a test waits for something that must happen; it fails the test and never makes one pass.
const patience = 30 * time.Second

// testNode is a frontend on real sockets over a real node whose files are in memory.
type testNode struct {
	t      testing.TB
	f      *Frontend
	engine *engine.Node
	addr   string
	served chan error
	logged *logBuffer
}

// logBuffer collects the log.
type logBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// start serves on one listener in the clear; tune changes the options, nil does not.
func start(t testing.TB, tune func(*Options)) *testNode {
	t.Helper()
	return startOn(t, engine.Config{SegmentBytes: 4 << 20}, tune)
}

// startOn is start on an engine that is configured.
func startOn(t testing.TB, cfg engine.Config, tune func(*Options)) *testNode {
	t.Helper()
	cfg.FS, cfg.Clock, cfg.Rand, cfg.Dir, cfg.PoolReady = vfs.NewMem(), clock.Real(), clock.RealRand(), "data", 1
	e, err := engine.OpenLocal(cfg)
	require.NoError(t, err)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := e.Close(ctx); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	n := &testNode{t: t, engine: e, logged: &logBuffer{}, served: make(chan error, 1)}
	o := Options{Engine: e, Rows: e, Partitions: 4, Logger: slog.New(slog.NewTextHandler(n.logged, nil)),
		Listeners: []Listener{{Listener: listen(t)}}}
	o.Groups.JoinDelay = 0
	if tune != nil {
		tune(&o)
	}
	n.addr = o.Listeners[0].Listener.Addr().String()
	n.f, err = New(o)
	require.NoError(t, err)
	go func() { n.served <- n.f.Serve() }()
	t.Cleanup(n.stop)
	return n
}

func listen(t testing.TB) net.Listener {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	return ln
}

func (n *testNode) stop() {
	if n.served == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if forced := n.f.Shutdown(ctx); forced > 0 {
		n.t.Errorf("%d connections did not end", forced)
	}
	if err := <-n.served; err != nil {
		n.t.Errorf("serve: %v", err)
	}
	n.served = nil
	if n.t.Failed() {
		n.t.Logf("log:\n%s", n.logged.String())
	}
}

// client makes a franz-go client of the node.
func (n *testNode) client(opts ...kgo.Opt) *kgo.Client {
	n.t.Helper()
	cl, err := kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(n.addr), kgo.ClientID("test")}, opts...)...)
	require.NoError(n.t, err)
	n.t.Cleanup(cl.Close)
	return cl
}

// caller is who a client without a name is.
func (n *testNode) caller() engine.Caller { return engine.Caller{Tenant: format.DefaultTenant} }

// raw speaks frames on one connection, so that a test decides every byte.
type raw struct {
	net.Conn
	t           testing.TB
	correlation int32
}

func (n *testNode) dial() *raw { return dialTo(n.t, n.addr) }

func dialTo(t testing.TB, addr string) *raw {
	t.Helper()
	nc, err := net.Dial("tcp", addr)
	require.NoError(t, err)
	t.Cleanup(func() { _ = nc.Close() })
	require.NoError(t, nc.SetDeadline(time.Now().Add(patience)))
	return &raw{Conn: nc, t: t}
}

// send writes a request without waiting for its answer.
func (r *raw) send(req kmsg.Request) {
	r.t.Helper()
	r.correlation++
	f := kmsg.NewRequestFormatter(kmsg.FormatterClientID("raw"))
	_, err := r.Write(f.AppendRequest(nil, req, r.correlation))
	require.NoError(r.t, err)
}

// frame writes bytes with their length in front.
func (r *raw) frame(b []byte) {
	r.t.Helper()
	_, err := r.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(b))), b...))
	require.NoError(r.t, err)
}

// body reads one answer without its header.
func (r *raw) body(flexible bool) (correlation int32, body []byte, err error) {
	var size [4]byte
	if _, err := io.ReadFull(r, size[:]); err != nil {
		return 0, nil, err
	}
	b := make([]byte, binary.BigEndian.Uint32(size[:]))
	if _, err := io.ReadFull(r, b); err != nil {
		return 0, nil, err
	}
	rd := kbin.Reader{Src: b}
	correlation = rd.Int32()
	if flexible {
		kmsg.SkipTags(&rd)
	}
	return correlation, rd.Src, rd.Complete()
}

// receive reads the answer of the request before.
func (r *raw) receive(req kmsg.Request) kmsg.Response {
	r.t.Helper()
	resp := req.ResponseKind()
	correlation, body, err := r.body(resp.IsFlexible() && resp.Key() != apiVersionsKey)
	require.NoError(r.t, err)
	require.Equal(r.t, r.correlation, correlation)
	require.NoError(r.t, resp.ReadFrom(body))
	return resp
}

// ask sends a request and reads its answer.
func (r *raw) ask(req kmsg.Request) kmsg.Response {
	r.t.Helper()
	r.send(req)
	return r.receive(req)
}

// closed wants the other side to close.
func (r *raw) closed() {
	r.t.Helper()
	rest, err := io.ReadAll(r)
	if err != nil {
		var ne net.Error
		require.False(r.t, errors.As(err, &ne) && ne.Timeout(), "the connection stays open")
	}
	require.Empty(r.t, rest)
}
