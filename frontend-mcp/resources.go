package frontendmcp

import (
	"context"
	"encoding/json"
	"net/url"
	"slices"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"queen/engine/auth"
)

// live are resources that answer what a tool answers: reading one is a call of the tool with fixed arguments.
var live = []struct {
	uri, name, tool, text string
	// args turn the names in the URI into arguments; nil for a resource without names.
	args []string
}{
	{uri: "queen://cluster", name: "cluster", tool: "cluster_status", text: "Health of the node that answers."},
	{uri: "queen://alarms", name: "alarms", tool: "diagnose", text: "What is wrong now."},
	{uri: "queen://config", name: "config", tool: "config_show", text: "Settings, with secrets masked."},
	{uri: "queen://metrics", name: "metrics", tool: "metrics_read", text: "Counters and gauges."},
	{uri: "queen://queues", name: "queues", tool: "queue_list", text: "Queues."},
	{uri: "queen://queues/{queue}", name: "queue", tool: "queue_describe", text: "One queue.", args: []string{"queue"}},
	{uri: "queen://queues/{queue}/partitions/{partition}", name: "partition", tool: "message_peek", text: "First messages of a partition.",
		args: []string{"queue", "partition"}},
	{uri: "queen://queues/{queue}/groups/{group}", name: "group", tool: "group_describe", text: "One consumer group on a queue.",
		args: []string{"queue", "group"}},
	{uri: "queen://dlq/{queue}", name: "dlq", tool: "dlq_list", text: "Dead letters of a queue.", args: []string{"queue"}},
}

// addResources adds what a view may read to a server.
func (f *Frontend) addResources(s *mcp.Server, v view) {
	for _, r := range live {
		i := slices.IndexFunc(registry(), func(t *tool) bool { return t.name == r.tool })
		t := registry()[i]
		if !f.offers(v, t) {
			continue
		}
		handler := func(ctx context.Context, req *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
			args, ok := namesIn(r.uri, req.Params.URI)
			if !ok {
				return nil, mcp.ResourceNotFoundError(req.Params.URI)
			}
			return f.readLive(ctx, t, req, args)
		}
		if r.args == nil {
			s.AddResource(&mcp.Resource{URI: r.uri, Name: r.name, Description: r.text, MIMEType: "application/json"}, handler)
		} else {
			s.AddResourceTemplate(&mcp.ResourceTemplate{URITemplate: r.uri, Name: r.name, Description: r.text, MIMEType: "application/json"}, handler)
		}
	}
	if !slices.Contains(f.opts.Toolsets, "docs") || !(&auth.Principal{Roles: v.roles}).May(auth.LevelReadOnly) {
		return
	}
	if len(f.opts.OpenAPI) > 0 {
		s.AddResource(&mcp.Resource{URI: "queen://openapi", Name: "openapi", Description: "The HTTP API.", MIMEType: "application/json"},
			text("queen://openapi", "application/json", string(f.opts.OpenAPI)))
	}
	for _, p := range f.opts.Pages {
		uri := pageURI(p.Name)
		s.AddResource(&mcp.Resource{URI: uri, Name: p.Name, Title: p.Title, Description: p.Summary, MIMEType: pageType},
			text(uri, pageType, p.Text))
	}
}

// text is a resource that never changes while the node runs.
func text(uri, kind, body string) mcp.ResourceHandler {
	return func(context.Context, *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
		return &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{{URI: uri, MIMEType: kind, Text: body}}}, nil
	}
}

// readLive answers a resource by calling a tool in the caller's name.
func (f *Frontend) readLive(ctx context.Context, t *tool, req *mcp.ReadResourceRequest, args map[string]any) (*mcp.ReadResourceResult, error) {
	body, err := t.read(f, ctx, args)
	if err != nil {
		err = asToolError(err, nil)
		if e, ok := err.(*toolError); ok && strings.HasPrefix(e.Code, "unknown_") {
			return nil, mcp.ResourceNotFoundError(req.Params.URI)
		}
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: "the resource can not be read", Data: json.RawMessage(err.Error())}
	}
	return &mcp.ReadResourceResult{Cacheable: mcp.Cacheable{TTLMs: 1000, CacheScope: "private"},
		Contents: []*mcp.ResourceContents{{URI: req.Params.URI, MIMEType: "application/json", Text: string(body)}}}, nil
}

// namesIn finds the names of a template in a URI. A name stands percent-encoded.
func namesIn(template, uri string) (map[string]any, bool) {
	args := map[string]any{}
	want, got := strings.Split(template, "/"), strings.Split(uri, "/")
	if len(want) != len(got) {
		return nil, false
	}
	for i, w := range want {
		if !strings.HasPrefix(w, "{") {
			if w != got[i] {
				return nil, false
			}
			continue
		}
		name, err := url.PathUnescape(got[i])
		if err != nil {
			return nil, false
		}
		args[strings.Trim(w, "{}")] = name
	}
	return args, true
}

// completeMax bounds the values that a completion offers.
const completeMax = 100

// complete offers names for the arguments of templates and prompts.
func (f *Frontend) complete(ctx context.Context, req *mcp.CompleteRequest) (*mcp.CompleteResult, error) {
	res := &mcp.CompleteResult{Completion: mcp.CompletionResultDetails{Values: []string{}}}
	c, err := f.begin(ctx, nil, &mcp.CallToolRequest{Session: req.Session, Params: &mcp.CallToolParamsRaw{}, Extra: req.Extra})
	if err != nil {
		return res, nil // a completion that can not be had is no error
	}
	defer c.end()
	if !(&auth.Principal{Roles: c.id.roles()}).May(auth.LevelReadOnly) {
		return res, nil
	}
	var known map[string]string
	if req.Params.Context != nil {
		known = req.Params.Context.Arguments
	}
	names, err := c.namesOf(req.Params.Argument.Name, known, req.Params.Argument.Value)
	if err != nil {
		return res, nil
	}
	slices.Sort(names)
	names = slices.Compact(names)
	res.Completion.Total = len(names)
	res.Completion.HasMore = len(names) > completeMax
	res.Completion.Values = append(res.Completion.Values, names[:min(len(names), completeMax)]...)
	return res, nil
}

// namesOf are the names of a kind that begin with a prefix.
func (c *call) namesOf(kind string, known map[string]string, prefix string) (names []string, err error) {
	add := func(name string) {
		if strings.HasPrefix(name, prefix) {
			names = append(names, name)
		}
	}
	switch kind {
	case "queue":
		all, _, err := c.queues()
		for i := range all {
			add(all[i].Name)
		}
		return names, err
	case "group":
		all, err := c.groups(known["queue"], "")
		for i := range all {
			add(all[i].Name)
		}
		return names, err
	case "partition":
		if known["queue"] == "" {
			return nil, nil
		}
		rows, _, err := c.partitions(known["queue"], "", "")
		for i := range rows {
			add(rows[i].Name)
		}
		return names, err
	case "language":
		for _, l := range []string{"curl", "cli", "kafka"} {
			add(l)
		}
	}
	return names, nil
}
