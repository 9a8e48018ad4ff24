package main

import (
	"fmt"
	"net"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"queen/engine"
	frontendhttp "queen/frontend-http"
	frontendkafka "queen/frontend-kafka"
	frontendmcp "queen/frontend-mcp"
	"queen/tools/cli"
	"queen/tools/config"
	"queen/tools/remote"
)

// reference makes the pages that are generated, by their names.
var reference = map[string]func() string{
	"routes": routesPage, "settings": settingsPage, "metrics": metricsPage, "cli": cliPage, "mcp-tools": toolsPage, "errors": errorsPage,
}

// TestReferenceIsCurrent compares the generated pages with what the code says now. QUEEN_WRITE_REFERENCE=1 writes them.
func TestReferenceIsCurrent(t *testing.T) {
	for name, page := range reference {
		path := "../docs/pages/reference/" + name + ".md"
		want := page()
		if os.Getenv("QUEEN_WRITE_REFERENCE") != "" {
			if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
				t.Fatal(err)
			}
			continue
		}
		got, err := os.ReadFile(path)
		if err != nil || string(got) != want {
			t.Errorf("%s is out of date (%v): run QUEEN_WRITE_REFERENCE=1 go test ./tools/queen -run TestReferenceIsCurrent", path, err)
		}
	}
}

// cell is a text inside a table.
func cell(s string) string {
	return strings.NewReplacer("|", `\|`, "\n", " ").Replace(s)
}

func code(s string) string {
	if s == "" {
		return ""
	}
	return "`" + cell(s) + "`"
}

func table(b *strings.Builder, head ...string) func(cells ...string) {
	fmt.Fprintf(b, "| %s |\n|%s\n", strings.Join(head, " | "), strings.Repeat("---|", len(head)))
	return func(cells ...string) { fmt.Fprintf(b, "| %s |\n", strings.Join(cells, " | ")) }
}

func routesPage() string {
	var b strings.Builder
	b.WriteString("# Routes\n\nEvery route of the HTTP API, generated from its table. `/openapi.json` has their bodies.\n\n")
	row := table(&b, "method", "path", "access", "what")
	for _, r := range frontendhttp.Routes() {
		what := r.Summary
		if !r.Built {
			what += " Not built yet: answers 501."
		}
		row(r.Method, code(r.Path), r.Access, cell(what))
	}
	return b.String()
}

func settingsPage() string {
	var b strings.Builder
	b.WriteString("# Settings\n\nEvery setting of a node, generated from the table: as a flag, as an environment name, as a key of the YAML " +
		"file. Flags win over the environment, the environment over the file.\n\n")
	row := table(&b, "key", "environment", "default", "what")
	for _, s := range config.Reference() {
		what := s.Usage
		if s.Flag == "" {
			what += ". Environment only"
		}
		row(code(s.Key), code(s.Env), code(s.Default), cell(what))
	}
	return b.String()
}

func metricsPage() string {
	var b strings.Builder
	b.WriteString("# Metrics\n\nThe families of `/metrics` and `/metrics/prometheus` beside those of the Go runtime, generated from the " +
		"table. Values of `queue` and `group` are capped by `metrics.max.queues`; the rest is `_other`.\n\n")
	row := table(&b, "family", "labels", "what")
	for _, m := range frontendhttp.Metrics() {
		row(code(m.Name), cell(strings.Join(m.Labels, ", ")), cell(m.Help))
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	defer l.Close()
	kafka, err := frontendkafka.New(frontendkafka.Options{Listeners: []frontendkafka.Listener{{Listener: l}}})
	if err != nil {
		panic(err)
	}
	b.WriteString("\n## Kafka clients\n\nWith `--frontends kafka`.\n\n")
	described(table(&b, "family", "labels", "what"), kafka.Collectors())
	b.WriteString("\n## MCP clients\n\nWith `--frontends mcp`.\n\n")
	described(table(&b, "family", "labels", "what"), frontendmcp.NewMetrics().Collectors())
	return b.String()
}

// desc is how the library prints what a family is called, means and is labelled with.
var desc = regexp.MustCompile(`fqName: "([^"]*)", help: "(.*?)"(?:, unit: "[^"]*")?, constLabels: .*variableLabels: \{([^}]*)\}`)

func described(row func(...string), all []prometheus.Collector) {
	for _, c := range all {
		ch := make(chan *prometheus.Desc, 8)
		c.Describe(ch)
		close(ch)
		for d := range ch {
			m := desc.FindStringSubmatch(d.String())
			row(code(m[1]), cell(strings.ReplaceAll(m[3], ",", ", ")), cell(m[2]))
		}
	}
}

func cliPage() string {
	var b strings.Builder
	b.WriteString("# Command line\n\nEvery command and its flags, generated from the program. The settings of `serve` and `dev` are on a " +
		"[page of their own](settings.md).\n\n## Exit codes\n\n")
	row := table(&b, "code", "meaning")
	for _, c := range cli.Meanings {
		row(fmt.Sprint(c.Code), c.Text)
	}
	b.WriteString("\n## Flags of many commands\n\nWhat prints rows takes `-o`, and what calls a node says which:\n\n")
	common := commonFlags()
	for _, f := range common {
		fmt.Fprintf(&b, "- `--%s`: %s\n", f.Name, cell(f.Usage))
	}
	settings := pflag.NewFlagSet("", pflag.ContinueOnError)
	config.AddFlags(settings)
	var walk func(c *cobra.Command)
	walk = func(c *cobra.Command) {
		if c.Runnable() && c.HasParent() && !c.Hidden && !c.HasSubCommands() {
			fmt.Fprintf(&b, "\n## %s\n\n%s.\n", c.CommandPath(), strings.TrimSuffix(c.Short, "."))
			fmt.Fprintf(&b, "\n`%s`\n", c.UseLine())
			flags := []string{}
			c.Flags().VisitAll(func(f *pflag.Flag) {
				shared := slices.ContainsFunc(common, func(c *pflag.Flag) bool {
					return c.Name == f.Name && (c.Usage == f.Usage || f.Name == "output" && strings.HasPrefix(f.Usage, strings.Join(cli.Formats, ", ")))
				})
				if settings.Lookup(f.Name) == nil && f.Name != "help" && !shared {
					flags = append(flags, fmt.Sprintf("- `--%s`: %s", f.Name, cell(f.Usage)))
				}
			})
			if len(flags) > 0 {
				fmt.Fprintf(&b, "\n%s\n", strings.Join(flags, "\n"))
			}
		}
		for _, sub := range c.Commands() {
			walk(sub)
		}
	}
	walk(rootCommand(cli.Streams{Env: []string{"HOME=/home/you"}}))
	return b.String()
}

// commonFlags are the flags that Command of tools/cli and of tools/remote add.
func commonFlags() (flags []*pflag.Flag) {
	cmd := remote.Command(cli.Streams{}, &cobra.Command{}, "", nil, func(*remote.Conn, *cli.Printer[cli.Row], []string) error { return nil })
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if f.Name == "output" {
			f.Usage = strings.Join(cli.Formats, ", ") + "; default: a table on a terminal; elsewhere json, or ndjson for what can be long"
		}
		flags = append(flags, f)
	})
	return flags
}

func toolsPage() string {
	var b strings.Builder
	b.WriteString("# MCP tools\n\nEvery tool, prompt and resource of the MCP server, generated from its registry. What a client gets depends on " +
		"`mcp.mode`, `mcp.toolsets`, `mcp.tools` and the caller's role; arguments are in the schemas of `queen mcp tools -o json`.\n\n")
	row := table(&b, "tool", "toolset", "mode", "role", "hints", "what")
	for _, t := range frontendmcp.Tools() {
		var hints []string
		if t.Mode == frontendmcp.ModeRead {
			hints = append(hints, "read-only")
		}
		if t.Destructive {
			hints = append(hints, "destructive, plans first")
		}
		if t.Idempotent {
			hints = append(hints, "idempotent")
		}
		row(code(t.Name), t.Toolset, string(t.Mode), t.Level, strings.Join(hints, ", "), cell(t.Text))
	}
	b.WriteString("\n## Prompts\n\n")
	row = table(&b, "prompt", "arguments", "what")
	for _, p := range frontendmcp.Prompts() {
		row(code(p.Name), strings.ReplaceAll(strings.Join(p.Args, ", "), "*", " (needed)"), p.Text)
	}
	b.WriteString("\n## Resources\n\n")
	row = table(&b, "resource", "what")
	for _, r := range frontendmcp.Resources() {
		row(code(r.URI), r.Text)
	}
	return b.String()
}

func errorsPage() string {
	var b strings.Builder
	b.WriteString("# Error codes\n\nEvery code of a refused call, generated from the code. HTTP answers them as `code` with the status here; MCP " +
		"tools as `code` of an error.\n\n")
	row := table(&b, "code", "HTTP", "meaning", "what helps")
	for _, x := range frontendmcp.Explanations() {
		row(code(x.Code), fmt.Sprint(frontendhttp.StatusOf(engine.ErrorCode(x.Code))), cell(x.Meaning), cell(x.Remedy))
	}
	return b.String()
}
