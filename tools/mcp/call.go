package mcp

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/spf13/cobra"

	"queen/tools/cli"
)

// connect opens a session with the node.
func (e *endpoint) connect(ctx context.Context, s cli.Streams) (*sdk.ClientSession, error) {
	if err := e.connectAs(ctx, s); err != nil {
		return nil, err
	}
	c := sdk.NewClient(&sdk.Implementation{Name: "queen", Version: "cli"}, nil)
	session, err := c.Connect(ctx, &sdk.StreamableClientTransport{Endpoint: e.url, HTTPClient: e.client(), DisableStandaloneSSE: true, MaxRetries: -1}, nil)
	if err == nil {
		return session, nil
	}
	if text := err.Error(); strings.Contains(text, "401") || strings.Contains(text, "403") || strings.Contains(text, "Unauthorized") ||
		strings.Contains(text, "Forbidden") {
		return nil, cli.Errorf(cli.Auth, "%s does not take the credential of %s: %w", e.url, cmp.Or(e.tokenFrom, "QUEEN_TOKEN"), err)
	}
	return nil, cli.Errorf(cli.Server, "no MCP server answers at %s (%w): is the frontend mcp running?", e.url, err)
}

// toolRow is a tool as "queen mcp tools" prints it.
type toolRow struct {
	Name         string `json:"name"`
	Kind         string `json:"kind"`
	Description  string `json:"description"`
	InputSchema  any    `json:"inputSchema"`
	OutputSchema any    `json:"outputSchema"`
}

func toolsCommand(s cli.Streams) *cobra.Command {
	var e endpoint
	cmd := &cobra.Command{Use: "tools", Short: "List the tools that a client would get", Args: cobra.NoArgs}
	e.flags(s, cmd)
	format := cmd.Flags().StringP("output", "o", "", "table, json, ndjson or yaml; json has the schemas")
	cmd.RunE = func(*cobra.Command, []string) error {
		as, err := cli.CheckFormat(*format, "json", s.Out)
		if err != nil {
			return err
		}
		ctx, stop := interrupted()
		defer stop()
		session, err := e.connect(ctx, s)
		if err != nil {
			return err
		}
		defer session.Close()
		p := cli.NewPrinter(s.Out, as, []cli.Column[toolRow]{
			{Head: "tool", Cell: func(r toolRow) string { return r.Name }}, {Head: "kind", Cell: func(r toolRow) string { return r.Kind }},
			{Head: "description", Cell: func(r toolRow) string { return r.Description }}})
		for t, err := range session.Tools(ctx, nil) {
			if err != nil {
				return cli.Errorf(cli.Server, "%w", err)
			}
			if err := p.Add(toolRow{t.Name, kindOf(t), t.Description, t.InputSchema, t.OutputSchema}); err != nil {
				return err
			}
		}
		return p.Close()
	}
	return cmd
}

// kindOf says what calling a tool may do.
func kindOf(t *sdk.Tool) string {
	switch a := t.Annotations; {
	case a == nil:
		return "unknown"
	case a.ReadOnlyHint:
		return "read"
	case a.DestructiveHint != nil && !*a.DestructiveHint:
		return "write"
	}
	return "destructive"
}

func callCommand(s cli.Streams) *cobra.Command {
	var e endpoint
	cmd := &cobra.Command{
		Use: "call TOOL", Short: "Call one tool", Args: cobra.ExactArgs(1),
		Long: `Calls a tool of a node's MCP server and prints its answer as JSON:

  queen mcp call message_peek --args '{"queue": "orders", "partition": "customer-42"}'

A destructive tool answers its plan at first; --yes carries the plan out.`,
	}
	e.flags(s, cmd)
	args := cmd.Flags().String("args", "{}", "arguments as a JSON object")
	yes := cmd.Flags().Bool("yes", false, "carry out the plan of a destructive tool")
	cmd.RunE = func(_ *cobra.Command, names []string) error {
		var in map[string]any
		d := json.NewDecoder(strings.NewReader(*args))
		d.UseNumber()
		if err := d.Decode(&in); err != nil || in == nil {
			return cli.Errorf(cli.Usage, "--args is no JSON object")
		}
		ctx, stop := interrupted()
		defer stop()
		session, err := e.connect(ctx, s)
		if err != nil {
			return err
		}
		defer session.Close()
		res, err := session.CallTool(ctx, &sdk.CallToolParams{Name: names[0], Arguments: in})
		if err == nil && *yes {
			if token, ok := planToken(res); ok {
				in["confirm_token"] = token
				res, err = session.CallTool(ctx, &sdk.CallToolParams{Name: names[0], Arguments: in})
			}
		}
		if err != nil {
			return cli.Errorf(cli.Usage, "%w", err)
		}
		return show(s, res)
	}
	return cmd
}

// planToken finds the token of a plan.
func planToken(res *sdk.CallToolResult) (string, bool) {
	m, _ := res.StructuredContent.(map[string]any)
	token, ok := m["confirm_token"].(string)
	return token, ok && m["done"] == false
}

// show prints an answer; that of a tool that refused is an error of its class.
func show(s cli.Streams, res *sdk.CallToolResult) error {
	var text string
	for _, c := range res.Content {
		if t, ok := c.(*sdk.TextContent); ok {
			text += t.Text
		}
	}
	if res.IsError {
		return refusalOf(text)
	}
	var out bytes.Buffer
	if err := json.Indent(&out, []byte(text), "", "  "); err != nil {
		return cli.Errorf(cli.Server, "the answer is no JSON: %w", err)
	}
	_, err := fmt.Fprintln(s.Out, out.String())
	return err
}

// refusalOf is the error of what a tool refused.
func refusalOf(text string) error {
	var e struct {
		Code, Message, Hint, Outcome string
		Retryable                    bool
	}
	if json.Unmarshal([]byte(text), &e) != nil {
		return cli.Errorf(cli.Server, "%s", text)
	}
	err := errors.New(e.Message + " (" + e.Code + ")")
	switch {
	case e.Outcome == "unknown":
		return &cli.Error{Code: cli.OutcomeUnknown, Err: err}
	case e.Retryable || e.Code == "internal" || e.Code == "corrupt":
		return &cli.Error{Code: cli.Server, Err: err}
	}
	return &cli.Error{Code: cli.Usage, Err: err}
}
