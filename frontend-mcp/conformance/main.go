package main

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	frontendmcp "queen/frontend-mcp"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// run serves on a free port of loopback and prints the URL.
func run() error {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	f, err := frontendmcp.New(frontendmcp.Options{Version: "conformance", Toolsets: []string{"docs"},
		Extra: func(s *mcp.Server) { addTools(s); addResources(s); addPrompts(s) }})
	if err != nil {
		return err
	}
	fmt.Printf("http://%s/mcp\n", l.Addr())
	return f.Serve(l)
}

// pixel is a PNG of one pixel, tone a WAV without samples.
var (
	pixel, _ = base64.StdEncoding.DecodeString("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==")
	tone     = append([]byte("RIFF\x24\x00\x00\x00WAVEfmt \x10\x00\x00\x00\x01\x00\x01\x00\x40\x1f\x00\x00\x80\x3e\x00\x00\x02\x00\x10\x00data"), 0, 0, 0, 0)
)

func text(s string) *mcp.TextContent { return &mcp.TextContent{Text: s} }

func embedded(uri, kind, s string) *mcp.EmbeddedResource {
	return &mcp.EmbeddedResource{Resource: &mcp.ResourceContents{URI: uri, MIMEType: kind, Text: s}}
}

// addTools adds the tools that scenarios call by name.
func addTools(s *mcp.Server) {
	object := map[string]any{"type": "object"}
	add := func(name string, run func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error)) {
		s.AddTool(&mcp.Tool{Name: name, Description: "Fixture.", InputSchema: object}, run)
	}
	content := func(name string, c ...mcp.Content) {
		add(name, func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			return &mcp.CallToolResult{Content: c}, nil
		})
	}
	content("test_simple_text", text("This is a simple text response for testing."))
	content("test_image_content", &mcp.ImageContent{Data: pixel, MIMEType: "image/png"})
	content("test_audio_content", &mcp.AudioContent{Data: tone, MIMEType: "audio/wav"})
	content("test_embedded_resource", embedded("test://embedded-resource", "text/plain", "This is an embedded resource content."))
	content("test_multiple_content_types", text("Multiple content types test:"), &mcp.ImageContent{Data: pixel, MIMEType: "image/png"},
		embedded("test://mixed-content-resource", "application/json", `{"test":"data","value":123}`))
	add("test_error_handling", func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		res := &mcp.CallToolResult{IsError: true, Content: []mcp.Content{text("This tool intentionally returns an error for testing")}}
		return res, nil
	})
	add("test_tool_with_progress", func(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		token := req.Params.GetProgressToken()
		for _, done := range []float64{0, 50, 100} {
			if token == nil {
				break
			}
			if err := req.Session.NotifyProgress(ctx, &mcp.ProgressNotificationParams{ProgressToken: token, Progress: done, Total: 100}); err != nil {
				return nil, err
			}
		}
		return &mcp.CallToolResult{Content: []mcp.Content{text("done")}}, nil
	})
	add("test_tool_with_logging", func(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return &mcp.CallToolResult{Content: []mcp.Content{text("this server does not log to clients")}}, nil
	})
	s.AddTool(&mcp.Tool{Name: "json_schema_2020_12_tool", Description: "Fixture.", InputSchema: map[string]any{
		"$schema": "https://json-schema.org/draft/2020-12/schema", "type": "object", "additionalProperties": false,
		"allOf": []any{map[string]any{"anyOf": []any{map[string]any{"type": "object"}, map[string]any{"required": []string{"name"}}}}},
		"if":    map[string]any{"required": []string{"address"}}, "then": map[string]any{"required": []string{"name"}}, "else": map[string]any{},
		"$defs": map[string]any{"address": map[string]any{"$anchor": "address", "type": "object", "properties": map[string]any{
			"street": map[string]any{"type": "string"}, "city": map[string]any{"type": "string"}}}},
		"properties": map[string]any{"name": map[string]any{"type": "string"}, "address": map[string]any{"$ref": "#/$defs/address"}},
	}}, func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return &mcp.CallToolResult{Content: []mcp.Content{text("ok")}}, nil
	})
}

func addResources(s *mcp.Server) {
	fixed := func(uri, kind string, c mcp.ResourceContents) {
		c.URI, c.MIMEType = uri, kind
		s.AddResource(&mcp.Resource{URI: uri, Name: strings.TrimPrefix(uri, "test://"), Description: "Fixture.", MIMEType: kind},
			func(context.Context, *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
				return &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{&c}}, nil
			})
	}
	fixed("test://static-text", "text/plain", mcp.ResourceContents{Text: "This is the content of the static text resource."})
	fixed("test://static-binary", "image/png", mcp.ResourceContents{Blob: pixel})
	fixed("test://watched-resource", "text/plain", mcp.ResourceContents{Text: "Watched resource content."})
	s.AddResourceTemplate(&mcp.ResourceTemplate{URITemplate: "test://template/{id}/data", Name: "template", MIMEType: "application/json"},
		func(_ context.Context, req *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
			id := strings.TrimSuffix(strings.TrimPrefix(req.Params.URI, "test://template/"), "/data")
			return &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{{URI: req.Params.URI, MIMEType: "application/json",
				Text: fmt.Sprintf(`{"id":%q,"templateTest":true,"data":"Data for ID: %s"}`, id, id)}}}, nil
		})
}

func addPrompts(s *mcp.Server) {
	user := func(c ...mcp.Content) (out []*mcp.PromptMessage) {
		for _, x := range c {
			out = append(out, &mcp.PromptMessage{Role: "user", Content: x})
		}
		return out
	}
	add := func(name string, args []string, fill func(map[string]string) ([]*mcp.PromptMessage, error)) {
		p := &mcp.Prompt{Name: name, Description: "Fixture."}
		for _, a := range args {
			p.Arguments = append(p.Arguments, &mcp.PromptArgument{Name: a, Required: true})
		}
		s.AddPrompt(p, func(_ context.Context, req *mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
			for _, a := range args {
				if _, ok := req.Params.Arguments[a]; !ok {
					return nil, errors.New("argument " + a + " is missing")
				}
			}
			m, err := fill(req.Params.Arguments)
			return &mcp.GetPromptResult{Messages: m}, err
		})
	}
	add("test_simple_prompt", nil, func(map[string]string) ([]*mcp.PromptMessage, error) {
		return user(text("This is a simple prompt for testing.")), nil
	})
	add("test_prompt_with_arguments", []string{"arg1", "arg2"}, func(a map[string]string) ([]*mcp.PromptMessage, error) {
		return user(text(fmt.Sprintf("Prompt with arguments: arg1='%s', arg2='%s'", a["arg1"], a["arg2"]))), nil
	})
	add("test_prompt_with_embedded_resource", []string{"resourceUri"}, func(a map[string]string) ([]*mcp.PromptMessage, error) {
		return user(embedded(a["resourceUri"], "text/plain", "Embedded resource content for testing."), text("Please process the embedded resource above.")), nil
	})
	add("test_prompt_with_image", nil, func(map[string]string) ([]*mcp.PromptMessage, error) {
		return user(&mcp.ImageContent{Data: pixel, MIMEType: "image/png"}, text("Please analyze the image above.")), nil
	})
}
