package main

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strconv"

	"queen/engine"
	"queen/engine/clock"
	frontendhttp "queen/frontend-http"
	"queen/frontend-http/wire"
	frontendmcp "queen/frontend-mcp"
	"queen/tools/config"
	"queen/tools/docs"
)

// frontend is one that is bound.
type frontend struct {
	name, addr string
	serve      func() error
	attach     func(engine.Engine)
	shutdown   func(context.Context) error
}

// ended is the end of a frontend's serve.
type ended struct {
	name string
	err  error
}

// bind binds every frontend that is asked for and serves it. What answers calls is attached later. HTTP comes after Kafka
// because it renders its counters.
func (n *node) bind(ticks clock.Clock) error {
	for _, b := range []struct {
		name string
		open func(*node, clock.Clock) (*frontend, error)
	}{{"kafka", bindKafka}, {"http", bindHTTP}, {"mcp", bindMCP}} {
		if !slices.Contains(n.config.Frontends, b.name) {
			continue
		}
		f, err := b.open(n, ticks)
		if err != nil {
			return err
		}
		n.frontends = append(n.frontends, f)
		go func() { n.served <- ended{f.name, f.serve()} }()
	}
	return nil
}

// attach hands the engine to every frontend.
func (n *node) attach(e engine.Engine) {
	for _, f := range n.frontends {
		f.attach(e)
	}
}

// stopFrontends drains every frontend at the same time and waits for the end of each.
func (n *node) stopFrontends(ctx context.Context) (errs []error) {
	results := make(chan error, len(n.frontends))
	for _, f := range n.frontends {
		go func() { results <- f.shutdown(ctx) }()
	}
	for range n.frontends {
		if err := <-results; err != nil {
			errs = append(errs, err)
		}
		if end := <-n.served; end.err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", end.name, end.err))
		}
	}
	return errs
}

func bindHTTP(n *node, ticks clock.Clock) (*frontend, error) {
	c := n.config
	site, err := docs.NewSite(version)
	if err != nil {
		return nil, err
	}
	listener, err := wire.Listen(wire.Options{Addr: c.HTTP, MaxConns: c.HTTPMaxConns, Logger: n.log})
	if err != nil {
		return nil, bindError("http", c.HTTP, err)
	}
	o := frontendhttp.Options{
		Listener: listener, Server: wire.ServerOptions{BodyLimit: int(c.HTTPMaxBody)}, Clock: ticks, Logger: n.log,
		Version: version, Commit: thisBuild().Commit, LabeledQueues: c.MetricsMaxQueues,
		SkipPaths: c.JWTSkipPaths, Tenancy: c.TenancyHeader, TrustedProxies: c.TrustedProxies, Quotas: n.plans.quotas, Masks: n.masks,
		ManyTenants: c.TenancyHeader || c.JWTTenantClaim != "" || c.AuthKeys != "",
		Starting:    func() (string, float64) { return "opening the data directory", 0 },
		Docs: func(path, query string) (string, string, []byte, bool) {
			a, ok := site.Find(path, query)
			return a.Type, a.ETag, a.Body, ok
		},
	}
	if n.auth != nil {
		o.Auth = n.auth
	}
	if n.kafka != nil {
		o.Collectors = n.kafka.Collectors()
	}
	if slices.Contains(c.Frontends, "mcp") {
		n.mcpMetrics = frontendmcp.NewMetrics()
		o.Collectors = append(o.Collectors, n.mcpMetrics.Collectors()...)
	}
	if n.certs != nil {
		o.Server.TLS = n.certs.Config("http/1.1")
	}
	if n.http, err = frontendhttp.New(o); err != nil {
		listener.Drain(context.Background())
		return nil, err
	}
	n.ready.HTTP = listener.Addr().String()
	return &frontend{name: "http", addr: n.ready.HTTP, serve: n.http.Serve, attach: n.http.Attach, shutdown: func(ctx context.Context) error {
		forced, err := n.http.Shutdown(ctx)
		if err == nil && forced > 0 {
			n.log.Warn("connections were closed by force", "connections", forced)
		}
		return err
	}}, nil
}

func bindMCP(n *node, ticks clock.Clock) (*frontend, error) {
	o := mcpOptions(n.config, ticks)
	o.Logger, o.Quotas, o.Metrics, o.Masks = n.log, n.plans.quotas, n.mcpMetrics, n.masks
	if n.http != nil {
		o.OpenAPI = n.http.OpenAPI()
	}
	if n.auth != nil {
		o.Auth = n.auth
	}
	if n.certs != nil {
		o.TLS = n.certs.Config("h2", "http/1.1")
	}
	if n.kafka != nil { // which is bound by now
		rows, err := n.config.KafkaListeners()
		if err != nil {
			return nil, err
		}
		first := rows[0]
		o.Kafka = frontendmcp.KafkaListener{Addr: cmp.Or(first.Advertised, n.ready.Kafka), TLS: first.TLS, Login: first.SASL}
	}
	f, err := frontendmcp.New(o)
	if err != nil {
		return nil, err
	}
	listener, err := net.Listen("tcp", n.config.MCP)
	if err != nil {
		return nil, bindError("mcp", n.config.MCP, err)
	}
	n.ready.MCP = listener.Addr().String()
	return &frontend{name: "mcp", addr: n.ready.MCP, serve: func() error { return f.Serve(listener) }, attach: f.Attach,
		shutdown: f.Shutdown}, nil
}

// mcpOptions are what the settings say about the MCP server, and the pages it teaches from.
func mcpOptions(c *config.Config, ticks clock.Clock) frontendmcp.Options {
	o := frontendmcp.Options{
		Clock: ticks, Version: version, Frontends: c.Frontends, Tenancy: c.TenancyHeader, PublicURL: c.MCPPublicURL, Hosts: c.MCPHosts, Origins: c.MCPOrigins,
		Mode: frontendmcp.Mode(c.MCPMode), Toolsets: c.MCPToolsets, Tools: c.MCPTools, RequireHuman: c.MCPRequireHuman,
		ReadOnly: c.MCPReadOnly, Audiences: c.JWTAudience,
	}
	if u, err := url.Parse(c.JWTIssuer); err == nil && u.Host != "" { // else it is a name, where nobody finds a server
		o.AuthorizationServers = []string{c.JWTIssuer}
	}
	if c.Cluster.Node > 0 {
		o.Node = strconv.Itoa(c.Cluster.Node)
	}
	o.Settings = func() (out []frontendmcp.Setting) {
		for _, v := range c.Shown {
			out = append(out, frontendmcp.Setting{Key: v.Key, Value: v.Text, Default: v.Default, Source: v.Source, Changed: v.Changed})
		}
		return out
	}
	for _, p := range docs.Pages() {
		o.Pages = append(o.Pages, frontendmcp.Page{Name: p.Name, Title: p.Title, Summary: p.Summary, Text: p.Text})
	}
	o.Search = func(topic string, most int) (out []frontendmcp.Section) {
		for _, s := range docs.Search(topic, most) {
			out = append(out, frontendmcp.Section{Page: s.Page, Title: s.Title, Text: s.Text})
		}
		return out
	}
	for _, s := range docs.Snippets() {
		o.Snippets = append(o.Snippets, frontendmcp.Snippet{Task: s.Task, Language: s.Language, Code: s.Code, Page: s.Page})
	}
	for _, k := range docs.KafkaClients() {
		client := frontendmcp.KafkaClient{Name: k.Name, Names: k.Names, Package: k.Package, Version: k.Version, Language: k.Language, Code: k.Code,
			Page: docs.KafkaPage}
		for _, note := range k.Notes {
			client.Notes = append(client.Notes, frontendmcp.KafkaNote(note))
		}
		o.KafkaClients = append(o.KafkaClients, client)
	}
	return o
}
