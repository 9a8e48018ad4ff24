package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"queen/tools/cli"
)

// maxRunning bounds the requests that are under way to the node.
const maxRunning = 16

// codeUnreachable is the error that a client gets when the node does not answer.
const codeUnreachable = -32000

// bridge passes messages on until the input ends. Every request has a connection to the node of its own: the server
// keeps no sessions, so a request that fails spoils no other one.
func bridge(ctx context.Context, e *endpoint, s cli.Streams) error {
	local, err := (&sdk.IOTransport{Reader: io.NopCloser(s.In), Writer: writeCloser{s.Out}}).Connect(ctx)
	if err != nil {
		return err
	}
	b := &passer{endpoint: e, local: local, running: map[any]context.CancelFunc{}, places: make(chan struct{}, maxRunning)}
	defer b.done.Wait()
	for {
		msg, err := local.Read(ctx)
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case ctx.Err() != nil:
			return cli.Exit(cli.Interrupted)
		case err != nil:
			return cli.Errorf(cli.Usage, "standard input: %w", err)
		}
		req, ok := msg.(*jsonrpc.Request)
		if !ok {
			continue // an answer: the node asks nothing
		}
		if !req.ID.IsValid() {
			b.notice(ctx, req)
			continue
		}
		b.start(ctx, req)
	}
}

type writeCloser struct{ io.Writer }

func (writeCloser) Close() error { return nil }

// passer is a bridge at work.
type passer struct {
	*endpoint
	local  sdk.Connection
	places chan struct{}
	done   sync.WaitGroup

	mu      sync.Mutex
	running map[any]context.CancelFunc // by the request's id
}

// notice handles a message that wants no answer: a cancellation ends its request; of others the node keeps nothing.
func (b *passer) notice(ctx context.Context, req *jsonrpc.Request) {
	if req.Method != "notifications/cancelled" {
		return
	}
	var p struct {
		ID any `json:"requestId"`
	}
	if json.Unmarshal(req.Params, &p) != nil {
		return
	}
	if n, ok := p.ID.(float64); ok {
		p.ID = int64(n)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if cancel := b.running[p.ID]; cancel != nil {
		cancel()
	}
}

// start passes one request on, when there is a place for it.
func (b *passer) start(ctx context.Context, req *jsonrpc.Request) {
	select {
	case b.places <- struct{}{}:
	case <-ctx.Done():
		return
	}
	ctx, cancel := context.WithCancel(ctx)
	b.mu.Lock()
	b.running[req.ID.Raw()] = cancel
	b.mu.Unlock()
	b.done.Add(1)
	go func() {
		defer b.done.Done()
		err := b.pass(ctx, req)
		stopped := ctx.Err() != nil
		b.mu.Lock()
		delete(b.running, req.ID.Raw())
		b.mu.Unlock()
		cancel()
		<-b.places
		if err != nil && !stopped {
			_ = b.local.Write(context.Background(), &jsonrpc.Response{ID: req.ID,
				Error: &jsonrpc.Error{Code: codeUnreachable, Message: fmt.Sprintf("no answer from %s: %v", b.url, err)}})
		}
	}()
}

// pass sends a request to the node and everything that comes back to the client.
func (b *passer) pass(ctx context.Context, req *jsonrpc.Request) error {
	t := &sdk.StreamableClientTransport{Endpoint: b.url, HTTPClient: b.client(), DisableStandaloneSSE: true, MaxRetries: -1}
	remote, err := t.Connect(ctx)
	if err != nil {
		return err
	}
	defer remote.Close()
	if err := remote.Write(ctx, req); err != nil {
		return err
	}
	for {
		msg, err := remote.Read(ctx)
		if err != nil {
			return err
		}
		if err := b.local.Write(ctx, msg); err != nil {
			return err
		}
		if res, ok := msg.(*jsonrpc.Response); ok && res.ID == req.ID {
			return nil
		}
	}
}
