package frontendmcp

import (
	"context"
	"log/slog"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"queen/engine/format"
)

// listTTL is how long a client may keep a list of tools, prompts or resources, in ms.
const listTTL = 300_000

// maxServers bounds the servers that are kept.
const maxServers = 256

// serverOf is the server of a caller's view; nil when nobody is known.
func (f *Frontend) serverOf(id *Identity) *mcp.Server {
	if id == nil {
		return nil
	}
	v := f.viewOf(id)
	f.mu.Lock()
	defer f.mu.Unlock()
	s := f.mu.servers[v]
	if s == nil { // one per mode, set of roles and tenant; callers of many tenants get one of their own
		s = f.build(v, nil)
		if len(f.mu.servers) < maxServers {
			f.mu.servers[v] = s
		}
	}
	return s
}

// ServerFor is a server for one connection whose caller is known already, as on standard input.
func (f *Frontend) ServerFor(id Identity) *mcp.Server {
	if id.Tenant == (format.Tenant{}) {
		id.Tenant = format.DefaultTenant
	}
	return f.build(f.viewOf(&id), &id)
}

// build makes a server with what a view offers. fixed is who calls when requests do not tell.
func (f *Frontend) build(v view, fixed *Identity) *mcp.Server {
	w := &watcher{f: f, wanted: map[string]int{}, seen: map[string][32]byte{}}
	s := mcp.NewServer(&mcp.Implementation{Name: "queen", Title: "Queen", Version: f.opts.Version}, &mcp.ServerOptions{
		// The library logs names of resources: names are of strangers, and a log is no place for them.
		Instructions: instructions, Logger: slog.New(slog.DiscardHandler), PageSize: 200, SchemaCache: f.schemas,
		Capabilities: &mcp.ServerCapabilities{Tools: &mcp.ToolCapabilities{}, Prompts: &mcp.PromptCapabilities{},
			Resources: &mcp.ResourceCapabilities{Subscribe: true}},
		CompletionHandler: f.complete, SubscribeHandler: w.subscribe, UnsubscribeHandler: w.unsubscribe,
		SetCacheable: func(_ context.Context, _ mcp.Request, c *mcp.Cacheable) {
			c.TTLMs, c.CacheScope = max(c.TTLMs, 0), "private"
			if c.TTLMs == 0 {
				c.TTLMs = listTTL
			}
		},
	})
	w.server = s
	s.AddReceivingMiddleware(f.measured, f.recovered, identified(fixed), f.listening, cleanErrors)
	for _, t := range registry() {
		if f.offers(v, t) {
			t.install(f, s)
		}
	}
	f.addResources(s, v)
	f.addPrompts(s)
	if f.opts.Extra != nil {
		f.opts.Extra(s)
	}
	return s
}

// identified puts the fixed caller of a connection where handlers look for one.
func identified(fixed *Identity) mcp.Middleware {
	return func(next mcp.MethodHandler) mcp.MethodHandler {
		return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
			if fixed != nil {
				ctx = withIdentity(ctx, fixed)
			}
			return next(ctx, method, req)
		}
	}
}
