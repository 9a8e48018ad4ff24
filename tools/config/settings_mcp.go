package config

import (
	"errors"
	"fmt"
	"net/url"

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
	{key: "mcp.require.human", def: "false", usage: "refuse destructive MCP tools to clients that can not ask a person",
		bind: func(c *Config) pflag.Value { return flag(&c.MCPRequireHuman) }},
	{key: "mcp.public.url", usage: "URL under which clients reach the MCP server, with its path",
		bind: func(c *Config) pflag.Value { return text(&c.MCPPublicURL) }},
	{key: "mcp.hosts", usage: "names that requests to the MCP server may use beside literal addresses and localhost",
		bind: func(c *Config) pflag.Value { return list(&c.MCPHosts) }},
	{key: "mcp.origins", usage: "origins of web pages that may use the MCP server",
		bind: func(c *Config) pflag.Value { return list(&c.MCPOrigins) }},
}

// validateMCP finds what no single setting shows.
func (c *Config) validateMCP() (errs []error) {
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
