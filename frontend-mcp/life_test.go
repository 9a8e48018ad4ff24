package frontendmcp

import (
	"context"
	"net"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"
)

// TestClientsThatNeverSayGoodbye: a thousand requests of clients of both eras that begin and vanish leave no goroutine and
// no server behind.
func TestClientsThatNeverSayGoodbye(t *testing.T) {
	r := newRig(t, nil)
	addr := r.listen()
	transport := &http.Transport{}
	client := &http.Client{Transport: transport}
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
	round := func(n int) {
		for range n {
			send(hello, nil)
			send(discover, map[string]string{"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": "server/discover"})
		}
		transport.CloseIdleConnections()
	}
	round(10)
	settled := func() int { // the count once it no longer falls
		least := runtime.NumGoroutine()
		for deadline := time.Now().Add(patience); time.Now().Before(deadline); {
			runtime.Gosched()
			runtime.GC()
			n := runtime.NumGoroutine()
			if n >= least {
				return least
			}
			least = n
		}
		return least
	}
	before := settled()
	round(500)
	ok := false
	for deadline := time.Now().Add(patience); time.Now().Before(deadline) && !ok; {
		ok = settled() <= before+20
	}
	require.True(t, ok, "%d goroutines before, %d after", before, runtime.NumGoroutine())
	r.f.mu.Lock()
	defer r.f.mu.Unlock()
	require.Len(t, r.f.mu.servers, 1)
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
