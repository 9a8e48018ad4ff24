package frontendmcp

import (
	"context"
	"encoding/json"
	"net"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"queen/engine"
	"queen/engine/clock"
	"queen/engine/enginetest"
	"queen/engine/enginetest/memnode"
	"queen/engine/format"
)

// patience is how long a test waits for something that must happen; it fails the test and never makes one pass.
const patience = 20 * time.Second

// rig is a frontend over a node in memory whose clock the test moves.
type rig struct {
	t      testing.TB
	ctx    context.Context
	f      *Frontend
	engine engine.Engine
	clock  *clock.Fake
	caller engine.Caller
	target enginetest.Target
}

// newRig opens a node and a frontend over it; change may be nil.
func newRig(t testing.TB, change func(*Options)) *rig {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 4*patience)
	target := memnode.Open(memnode.Options{Seed: 1})
	r := &rig{t: t, ctx: ctx, engine: target.Engine, clock: target.Clock, target: target, caller: engine.Caller{Tenant: format.DefaultTenant}}
	o := Options{Engine: r.engine, Clock: r.clock, Version: "test", Mode: ModeAdmin, Toolsets: KnownToolsets}
	if change != nil {
		change(&o)
	}
	f, err := New(o)
	require.NoError(t, err)
	r.f = f
	t.Cleanup(func() { cancel(); target.Close() })
	return r
}

// listen serves the frontend on a socket and returns the address.
func (r *rig) listen() string {
	r.t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(r.t, err)
	served := make(chan error, 1)
	go func() { served <- r.f.Serve(l) }()
	r.t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		require.NoError(r.t, r.f.Shutdown(ctx))
		require.NoError(r.t, <-served)
	})
	return l.Addr().String()
}

// connect is a client in memory.
func (r *rig) connect(id Identity, o *mcp.ClientOptions) *mcp.ClientSession {
	r.t.Helper()
	here, there := mcp.NewInMemoryTransports()
	_, err := r.f.ServerFor(id).Connect(r.ctx, there, nil)
	require.NoError(r.t, err)
	s, err := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, o).Connect(r.ctx, here, nil)
	require.NoError(r.t, err)
	r.t.Cleanup(func() { _ = s.Close() })
	return s
}

// overHTTP is a client of a frontend that listens.
func (r *rig) overHTTP(addr, path string) *mcp.ClientSession {
	r.t.Helper()
	s, err := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, nil).Connect(r.ctx,
		&mcp.StreamableClientTransport{Endpoint: "http://" + addr + path, DisableStandaloneSSE: true}, nil)
	require.NoError(r.t, err)
	r.t.Cleanup(func() { _ = s.Close() })
	return s
}

// ask calls a tool and returns its structured content, which must be there.
func ask(t testing.TB, s *mcp.ClientSession, name string, args any) map[string]any {
	t.Helper()
	res := try(t, s, name, args)
	require.False(t, res.IsError, "%s: %s", name, textOf(res))
	out, ok := res.StructuredContent.(map[string]any)
	require.True(t, ok, "%s has no structured content", name)
	return out
}

// refused calls a tool that must answer an error and returns it.
func refused(t testing.TB, s *mcp.ClientSession, name string, args any) (e toolError) {
	t.Helper()
	res := try(t, s, name, args)
	require.True(t, res.IsError, "%s: %s", name, textOf(res))
	require.NoError(t, json.Unmarshal([]byte(textOf(res)), &e), "%s", textOf(res))
	return e
}

func try(t testing.TB, s *mcp.ClientSession, name string, args any) *mcp.CallToolResult {
	t.Helper()
	if args == nil {
		args = map[string]any{}
	}
	res, err := s.CallTool(context.Background(), &mcp.CallToolParams{Name: name, Arguments: args})
	require.NoError(t, err, name)
	return res
}

func textOf(res *mcp.CallToolResult) (text string) {
	for _, c := range res.Content {
		if b, ok := c.(*mcp.TextContent); ok {
			text += b.Text
		}
	}
	return text
}

// push appends messages of JSON text to a partition.
func (r *rig) push(queue, partition string, payloads ...string) []engine.MessageResult {
	r.t.Helper()
	op := &engine.Append{Queue: queue, Partition: partition}
	for _, p := range payloads {
		op.Messages = append(op.Messages, engine.Message{Payload: []byte(p)})
	}
	return r.do(op).Messages
}

// do carries out one op that must succeed.
func (r *rig) do(op engine.Op) engine.Result {
	r.t.Helper()
	res, err := r.engine.Do(r.ctx, r.caller, engine.Batch{Ops: []engine.Op{op}})
	require.NoError(r.t, err)
	require.Nil(r.t, res[0].Err)
	return res[0]
}

// pop takes messages under a lease; nil when there is nothing.
func (r *rig) pop(q engine.PopRequest) *engine.Delivery {
	r.t.Helper()
	d, err := r.engine.Pop(r.ctx, r.caller, q)
	require.NoError(r.t, err)
	if d != nil {
		for _, err := range d.Messages() {
			require.NoError(r.t, err)
		}
		d.Delivered()
	}
	return d
}

// newRecorder takes an answer in memory.
func newRecorder() *httptest.ResponseRecorder { return httptest.NewRecorder() }
