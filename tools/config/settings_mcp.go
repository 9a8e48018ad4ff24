package config

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/spf13/pflag"
)

// mcpSettings say what the MCP server offers and to whom.
var mcpSettings = []setting{
	{key: "mcp", def: "127.0.0.1:6633", usage: "address of the MCP server, whose path is /mcp; port 0 takes a free one",
		bind: func(c *Config) pflag.Value { return addr(&c.MCP) }},
	{key: "mcp.mode", def: "read", usage: "the most that MCP clients may do: read, write or admin",
		bind: func(c *Config) pflag.Value { return choice(&c.MCPMode, "read", "write", "admin") }},
	{key: "mcp.toolsets", usage: "groups of MCP tools to offer; default all but consume and ops",
		bind: func(c *Config) pflag.Value { return list(&c.MCPToolsets) }},
	{key: "mcp.tools", usage: "offer these MCP tools only",
		bind: func(c *Config) pflag.Value { return list(&c.MCPTools) }},
	{key: "mcp.read.only", def: "false", usage: "offer reading MCP tools only, whatever mcp.mode says",
		bind: func(c *Config) pflag.Value { return flag(&c.MCPReadOnly) }},
	{key: "mcp.mask", objects: true,
		usage: `what nobody is shown of payloads, over MCP, HTTP and by commands: [{"queue": "orders", "json_pointer": "/card"}]; ` +
			"* is every queue, member or element",
		bind: func(c *Config) pflag.Value { return field[[]MCPMask]{&maskKind, &c.MCPMask} }},
	{key: "mcp.require.human", def: "false", usage: "refuse destructive MCP tools to clients that can not ask a person",
		bind: func(c *Config) pflag.Value { return flag(&c.MCPRequireHuman) }},
	{key: "mcp.public.url", usage: "URL under which clients reach the MCP server, with its path",
		bind: func(c *Config) pflag.Value { return text(&c.MCPPublicURL) }},
	{key: "mcp.hosts", usage: "names that requests to the MCP server may use beside literal addresses and localhost",
		bind: func(c *Config) pflag.Value { return list(&c.MCPHosts) }},
	{key: "mcp.origins", usage: "origins of web pages that may use the MCP server",
		bind: func(c *Config) pflag.Value { return list(&c.MCPOrigins) }},
}

// MCPMask is one rule of mcp.mask; both members are needed.
type MCPMask struct {
	Queue       *string `json:"queue"`
	JSONPointer *string `json:"json_pointer"`
}

// maskKind is a JSON array of objects, as it is written in the file as a list of mappings.
var maskKind = kind[[]MCPMask]{"json", func(s string) (out []MCPMask, err error) {
	if s == "" {
		return nil, nil
	}
	d := json.NewDecoder(bytes.NewReader([]byte(s)))
	d.DisallowUnknownFields()
	if err = d.Decode(&out); err == nil && d.More() {
		err = errors.New("more than one value")
	}
	for _, m := range out {
		if m.Queue == nil || m.JSONPointer == nil {
			err = errors.New("a rule lacks queue or json_pointer")
		}
	}
	if err != nil {
		return nil, fmt.Errorf(`want [{"queue": NAME, "json_pointer": POINTER}]: %w`, err)
	}
	return out, nil
}, func(l []MCPMask) string {
	if len(l) == 0 {
		return ""
	}
	text, _ := json.Marshal(l) // strings
	return string(text)
}}

// Masks reads mcp.mask alone, as a node would from its environment and its file, for who looks at a node's directory in its place. The
// file is the one that the environment names where path is "".
func Masks(path string, environ []string) ([]MCPMask, error) {
	own, file := byKey("mcp.mask"), byKey("config")
	layers := []layer{defaults(nil), nil, {}}
	for _, pair := range environ {
		name, text, _ := strings.Cut(pair, "=")
		switch {
		case text == "":
		case name == own.envName():
			layers[2][own.key] = raw{text, "environment " + name}
		case name == file.envName():
			path = cmp.Or(path, text)
		}
	}
	if path != "" {
		var err error
		if layers[1], err = readFile(path); err != nil {
			return nil, err
		}
	}
	var r Resolved
	err := r.resolve(own, layers)
	return r.Config.MCPMask, err
}

// validateMCP finds what no single setting shows.
func (c *Config) validateMCP() (errs []error) {
	if c.MCPPublicURL == "" && c.Authenticates() && slices.Contains(c.Frontends, "mcp") {
		errs = append(errs, errors.New("mcp.public.url: needed where callers show who they are: "+
			"it is what tokens are for and where clients are sent, as http://127.0.0.1:6633/mcp"))
	}
	if c.MCPPublicURL != "" {
		u, err := url.Parse(c.MCPPublicURL)
		if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
			errs = append(errs, errors.New("mcp.public.url: not an http or https URL"))
		}
	}
	for _, o := range c.MCPOrigins {
		if u, err := url.Parse(o); err != nil || u.Host == "" || u.Path != "" {
			errs = append(errs, fmt.Errorf("mcp.origins: %q is no origin such as https://example.com", o))
		}
	}
	return errs
}
