package frontendmcp

import (
	"context"
	"encoding/json"
	"fmt"
	"runtime/debug"
	"slices"
	"strings"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"queen/engine/auth"
)

// tool is one row of the registry.
type tool struct {
	name, title, text string
	toolset           string
	// mode is what the node and the caller must allow, level the role that the caller needs.
	mode  Mode
	level auth.Level
	// destructive tools lose or move something, and plan before they act; idempotent ones do no more when called again.
	destructive, idempotent bool
	// install adds the tool to a server; read answers a call of a reading tool as JSON, for resources.
	install func(f *Frontend, s *mcp.Server)
	read    func(f *Frontend, ctx context.Context, args map[string]any) ([]byte, error)
}

// readOnly tells whether calling the tool changes nothing.
func (t *tool) readOnly() bool { return t.mode == ModeRead }

// registry lists every tool, by name.
var registry = sync.OnceValue(func() []*tool {
	all := slices.Concat(clusterTools(), queueTools(), groupTools(), messageTools(), searchTools(), dlqTools(), stateTools(), nodeTools(), docsTools(),
		writeTools(), writeStateTools(), consumeTools())
	slices.SortFunc(all, func(a, b *tool) int { return strings.Compare(a.name, b.name) })
	return all
})

// row makes a tool of its description and of what it does. In and Out are structs; their JSON schemas are the tool's.
func row[In, Out any](t tool, run func(*call, In) (Out, error)) *tool {
	r := &t
	if r.mode == "" {
		r.mode, r.level, r.idempotent = ModeRead, auth.LevelReadOnly, true
	}
	r.read = func(f *Frontend, ctx context.Context, args map[string]any) ([]byte, error) {
		raw, err := json.Marshal(args)
		if err != nil {
			return nil, err
		}
		var in In
		if err := json.Unmarshal(raw, &in); err != nil {
			return nil, err
		}
		res, _, err := handle(f, r, ctx, &mcp.CallToolRequest{Params: &mcp.CallToolParamsRaw{Name: r.name, Arguments: raw}}, in, run)
		if err != nil {
			return nil, err
		}
		return []byte(res.Content[0].(*mcp.TextContent).Text), nil
	}
	r.install = func(f *Frontend, s *mcp.Server) {
		closed := false
		destructive := r.destructive
		mcp.AddTool(s, &mcp.Tool{
			Name: r.name, Title: r.title, Description: r.text,
			Annotations: &mcp.ToolAnnotations{ReadOnlyHint: r.readOnly(), DestructiveHint: &destructive,
				IdempotentHint: r.idempotent, OpenWorldHint: &closed},
		}, func(ctx context.Context, req *mcp.CallToolRequest, in In) (*mcp.CallToolResult, Out, error) {
			return handle(f, r, ctx, req, in, run)
		})
	}
	return r
}

// handle runs one call of a tool: it counts it, carries it out, and makes an answer of what came out.
func handle[In, Out any](f *Frontend, t *tool, ctx context.Context, req *mcp.CallToolRequest, in In,
	run func(*call, In) (Out, error)) (res *mcp.CallToolResult, out Out, err error) {
	c, err := f.begin(ctx, t, req)
	if err != nil {
		return nil, out, f.counted(err)
	}
	defer c.end()
	if err = c.keepsAudit(in); err == nil {
		out, err = run(c, in)
	}
	if ask, ok := err.(*askPerson); ok {
		return ask.result, out, nil
	}
	c.judge(out, err)
	if err != nil {
		return nil, out, f.counted(asToolError(err, req.Params.Arguments))
	}
	text, err := safeJSON(out)
	if err != nil {
		return nil, out, asToolError(err, nil)
	}
	return &mcp.CallToolResult{Content: c.answer(text)}, out, nil
}

// counted counts an error that is a refusal.
func (f *Frontend) counted(err error) error {
	if e, ok := err.(*toolError); ok {
		f.opts.Metrics.refuse(e.Code)
	}
	return err
}

// recovered turns a panic of one call into a fault of that call.
func (f *Frontend) recovered(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, req mcp.Request) (res mcp.Result, err error) {
		defer func() {
			if p := recover(); p != nil {
				f.opts.Logger.Error("a call panicked", "event", "mcp_panic", "method", method, "panic", fmt.Sprint(p), "stack", string(debug.Stack()))
				res, err = nil, &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: "internal error: the node's log says more"}
			}
		}()
		return next(ctx, method, req)
	}
}
