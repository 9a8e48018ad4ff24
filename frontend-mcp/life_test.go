package frontendmcp

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"queen/engine"
	"queen/engine/auth"
)

// TestClientsThatNeverSayGoodbye: a thousand clients of both eras that connect, begin and vanish, without a DELETE, leave no
// goroutine and no server behind.
func TestClientsThatNeverSayGoodbye(t *testing.T) {
	r := newRig(t, nil)
	addr := r.listen()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}} // each request is a connection
	send := func(body string, header map[string]string) {
		req, err := http.NewRequest("POST", "http://"+addr+"/mcp", strings.NewReader(body))
		require.NoError(t, err)
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Accept", "application/json, text/event-stream")
		for k, v := range header {
			req.Header.Set(k, v)
		}
		res, err := client.Do(req)
		require.NoError(t, err)
		require.Equal(t, 200, res.StatusCode)
		require.NoError(t, res.Body.Close())
	}
	hello := `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"x","version":"1"}}}`
	discover := strings.Replace(listNew, "tools/list", "server/discover", 1)
	before := goleak.IgnoreCurrent()
	for range 500 {
		send(hello, nil)
		send(discover, map[string]string{"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": "server/discover"})
	}
	var leak error
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); {
		if leak = goleak.Find(before); leak == nil {
			break
		}
	}
	require.NoError(t, leak)
	r.f.mu.Lock()
	defer r.f.mu.Unlock()
	require.Len(t, r.f.mu.servers, 1)
}

// TestLimitsOfCallers: a caller has eight calls under way at a time; the ninth is told to come back, and a place that is
// given back can be taken. Streams watch 64 resources at most.
func TestLimitsOfCallers(t *testing.T) {
	r := newRig(t, nil)
	id := &Identity{Principal: &auth.Principal{Subject: "a"}}
	for range maxConcurrent {
		require.NoError(t, r.f.rates.enter(id, 0))
	}
	err := r.f.rates.enter(id, 0)
	require.Equal(t, "rate_limited", err.(*toolError).Code)
	require.Positive(t, err.(*toolError).RetryAfterMs)
	require.NoError(t, r.f.rates.enter(&Identity{Principal: &auth.Principal{Subject: "b"}}, 0), "another caller")
	r.f.rates.leave(id)
	require.NoError(t, r.f.rates.enter(id, 0))

	many := []string{}
	for i := range maxWatched + 1 {
		many = append(many, fmt.Sprintf(`"queen://queues/q%d"`, i))
	}
	meta := `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}`
	body := `{"jsonrpc":"2.0","id":1,"method":"subscriptions/listen","params":{` + meta + `,"notifications":{"resourceSubscriptions":[` +
		strings.Join(many, ",") + `]}}}`
	_, _, answer := post(t, r.listen(), "/mcp", body, map[string]string{"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": "subscriptions/listen"})
	require.Contains(t, answer, "at most 64 resources")
}

// TestPanicsEndOneCall: a fault of ours in one call is an internal error of that call, and the next one is served.
func TestPanicsEndOneCall(t *testing.T) {
	r := newRig(t, nil)
	s := r.connect(Identity{}, nil)
	r.f.Attach(panicking{r.engine})
	_, err := s.CallTool(r.ctx, &mcp.CallToolParams{Name: "cluster_status"})
	var rpc *jsonrpc.Error
	require.ErrorAs(t, err, &rpc)
	require.EqualValues(t, jsonrpc.CodeInternalError, rpc.Code)
	require.NotContains(t, rpc.Message, "secret")
	r.f.Attach(r.engine)
	ask(t, s, "cluster_status", nil)
}

type panicking struct{ engine.Engine }

func (panicking) Status(context.Context) (engine.Status, error) { panic("secret") }

// TestProgressAndCancel: a scan tells a client that asked how far it is, and ends when the client no longer wants it.
func TestProgressAndCancel(t *testing.T) {
	r := newRig(t, nil)
	slow := &slowReads{Engine: r.engine, entered: make(chan struct{}), ended: make(chan error, 1)}
	for i := range 4 {
		r.push("big", "p"+digits(uint64(i)), `"`+strings.Repeat("y", 1<<20)+`"`)
	}
	told := make(chan float64, 100)
	here, there := mcp.NewInMemoryTransports()
	_, err := r.f.ServerFor(Identity{}).Connect(r.ctx, there, nil)
	require.NoError(t, err)
	s, err := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, &mcp.ClientOptions{
		ProgressNotificationHandler: func(_ context.Context, n *mcp.ProgressNotificationClientRequest) { told <- n.Params.Progress }}).Connect(r.ctx, here, nil)
	require.NoError(t, err)
	params := &mcp.CallToolParams{Name: "message_search", Arguments: map[string]any{"queue": "big", "contains": "nothing"}}
	params.SetProgressToken("t")
	res, err := s.CallTool(r.ctx, params)
	require.NoError(t, err)
	require.False(t, res.IsError)
	require.Greater(t, <-told, 0.0)

	r.f.Attach(slow)
	ctx, cancel := context.WithCancel(r.ctx)
	done := make(chan error, 1)
	go func() {
		_, err := s.CallTool(ctx, params)
		done <- err
	}()
	<-slow.entered
	cancel()
	require.ErrorIs(t, <-done, context.Canceled)
	require.ErrorIs(t, <-slow.ended, context.Canceled, "the scan goes on")
}

// TestClosedConnectionsEndScans: over HTTP a scan ends when its connection does, in either era.
func TestClosedConnectionsEndScans(t *testing.T) {
	for name, header := range map[string]map[string]string{"old": {},
		"new": {"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call", "Mcp-Name": "message_peek"}} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, nil)
			r.push("q", "p", `1`)
			slow := &slowReads{Engine: r.engine, entered: make(chan struct{}), ended: make(chan error, 1)}
			r.f.Attach(slow)
			meta := ""
			if name == "new" {
				meta = `,"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}`
			}
			body := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"message_peek","arguments":{"queue":"q","partition":"p"}` + meta + `}}`
			ctx, cancel := context.WithCancel(r.ctx)
			req, err := http.NewRequestWithContext(ctx, "POST", "http://"+r.listen()+"/mcp", strings.NewReader(body))
			require.NoError(t, err)
			req.Header.Set("Content-Type", "application/json")
			req.Header.Set("Accept", "application/json, text/event-stream")
			for k, v := range header {
				req.Header.Set(k, v)
			}
			done := make(chan struct{})
			go func() {
				defer close(done)
				if res, err := http.DefaultClient.Do(req); err == nil {
					_, _ = io.Copy(io.Discard, res.Body)
					res.Body.Close()
				}
			}()
			<-slow.entered
			cancel()
			require.ErrorIs(t, <-slow.ended, context.Canceled)
			<-done
		})
	}
}

// slowReads is an engine whose reads wait until nobody wants them.
type slowReads struct {
	engine.Engine
	entered chan struct{}
	ended   chan error
}

func (e *slowReads) Read(ctx context.Context, _ engine.Caller, _ engine.ReadRequest) (*engine.ReadResult, error) {
	close(e.entered)
	<-ctx.Done()
	e.ended <- ctx.Err()
	return nil, ctx.Err()
}

// TestShutdown: a frontend that stops answers what runs, refuses what comes, and Serve returns.
func TestShutdown(t *testing.T) {
	r := newRig(t, nil)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	served := make(chan error, 1)
	go func() { served <- r.f.Serve(l) }()
	s := r.overHTTP(l.Addr().String(), "/mcp")
	ask(t, s, "cluster_status", nil)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	require.NoError(t, r.f.Shutdown(ctx))
	require.NoError(t, <-served)
	_, err = s.CallTool(r.ctx, &mcp.CallToolParams{Name: "cluster_status"})
	require.Error(t, err)
}

// FuzzBody: no body makes the server panic, answer something else than HTTP, or change the broker.
func FuzzBody(f *testing.F) {
	r := newRig(f, nil)
	r.f.rates.unlimited = true
	r.furnish()
	f.Add(listOld)
	f.Add(listNew)
	f.Add(`[{"jsonrpc":"2.0","id":1,"method":"ping"},{"jsonrpc":"2.0","method":"notifications/initialized"}]`)
	f.Add(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"queue_list","arguments":{"cursor":"x","limit":-1}}}`)
	f.Add(`{"jsonrpc":"2.0","id":{},"method":"tools/call","params":[]}`)
	f.Add(`{"jsonrpc":"2.0","id":1,"method":"resources/read","params":{"uri":"queen://queues/%"}}`)
	f.Add(`{"jsonrpc":"2.0","id":1,"method":"completion/complete","params":{"ref":{"type":"ref/resource","uri":"x"},"argument":{"name":"queue","value":""}}}`)
	f.Fuzz(func(t *testing.T, body string) {
		w := newRecorder()
		req, err := http.NewRequest("POST", "http://127.0.0.1/mcp", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		req.Host = "127.0.0.1"
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Accept", "application/json, text/event-stream")
		r.f.Handler().ServeHTTP(w, req.WithContext(t.Context()))
		if w.Code < 200 || w.Code > 599 || strings.Contains(w.Body.String(), "internal error: the node's log") {
			t.Fatalf("%d %s", w.Code, w.Body)
		}
	})
}
