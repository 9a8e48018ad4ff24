package frontendmcp

import (
	"context"
	"net"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"
)

// TestSubscriptions: over memory and HTTP a change of a queue is told with its URI, once in a while and not when nothing
// happened; what can not be watched is refused; a stop ends the stream and does not wait for it.
func TestSubscriptions(t *testing.T) {
	for _, door := range []string{"memory", "http"} {
		t.Run(door, func(t *testing.T) {
			r := newRig(t, nil)
			r.f.rates.unlimited = true
			r.push("orders", "p", `1`)
			r.push("quiet", "p", `1`)
			told := make(chan string, 100)
			client := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, &mcp.ClientOptions{
				ResourceUpdatedHandler: func(_ context.Context, n *mcp.ResourceUpdatedNotificationRequest) { told <- n.Params.URI }})
			l, err := net.Listen("tcp", "127.0.0.1:0")
			require.NoError(t, err)
			served := make(chan error, 1)
			go func() { served <- r.f.Serve(l) }()
			var transport mcp.Transport = &mcp.StreamableClientTransport{Endpoint: "http://" + l.Addr().String() + "/mcp", DisableStandaloneSSE: true}
			if door == "memory" {
				here, there := mcp.NewInMemoryTransports()
				_, err := r.f.ServerFor(Identity{}).Connect(r.ctx, there, nil)
				require.NoError(t, err)
				transport = here
			}
			s, err := client.Connect(r.ctx, transport, nil)
			require.NoError(t, err)
			for _, uri := range []string{"queen://queues/orders", "queen://queues/quiet"} {
				require.NoError(t, s.Subscribe(r.ctx, &mcp.SubscribeParams{URI: uri}))
			}
			deadline := time.Now().Add(patience)
			for got := ""; got == ""; {
				require.True(t, time.Now().Before(deadline), "nothing was told")
				r.push("orders", "p", `2`) // the subscription may begin after the first one
				r.clock.Advance(watchEvery)
				select {
				case got = <-told:
					require.Equal(t, "queen://queues/orders", got)
				case <-time.After(10 * time.Millisecond): // the clock is moved again
				}
			}
			ctx, cancel := context.WithTimeout(context.Background(), patience)
			defer cancel()
			require.NoError(t, r.f.Shutdown(ctx))
			require.NoError(t, <-served)
			require.Error(t, s.Subscribe(r.ctx, &mcp.SubscribeParams{URI: ""}))
			for len(told) > 0 {
				require.NotEqual(t, "queen://queues/quiet", <-told)
			}
		})
	}
}
