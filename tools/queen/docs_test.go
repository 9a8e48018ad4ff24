package main

import (
	"path/filepath"
	"strings"
	"testing"

	"queen/tools/docs"
)

// executed are the pages whose blocks of shell are run.
var executed = []string{"quickstart", "agent-session"}

// TestPagesRun runs the blocks of shell of pages as a reader would, each page against a node of its own, and compares the
// answers that are shown. No other page has such blocks: what is only shown is marked as console.
func TestPagesRun(t *testing.T) {
	for _, p := range docs.Pages() {
		blocks := shown(t, &p)
		if !contains(executed, p.Name) {
			if len(blocks) > 0 {
				t.Errorf("%s has blocks of shell that nothing runs", p.Name)
			}
			continue
		}
		t.Run(p.Name, func(t *testing.T) {
			ready := filepath.Join(t.TempDir(), "ready.json")
			n := runNode(t, t.TempDir(), nil, "--frontends", "http,mcp", "--mcp", "127.0.0.1:0", "--ready-file", ready)
			runGuide(t, p.Name, blocks, []string{"QUEEN_URL=" + n.url, "QUEEN_MCP_URL=http://" + mcpAddr(t, ready) + "/mcp"})
		})
	}
}

func contains(all []string, one string) bool {
	for _, s := range all {
		if s == one {
			return true
		}
	}
	return false
}

// shown are the blocks of shell of a page with the answers shown behind them.
func shown(t *testing.T, p *docs.Page) (out []guideBlock) {
	for _, b := range p.Blocks() {
		switch b.Lang {
		case "sh":
			out = append(out, guideBlock{line: b.Line, script: b.Text})
		case "json":
			if len(out) == 0 || out[len(out)-1].want != "" {
				t.Fatalf("%s:%d: an answer without a command", p.Name, b.Line)
			}
			out[len(out)-1].want = b.Text
		}
	}
	return out
}

// TestSnippetsAreRun: every snippet that a teaching tool shows is a block of a page that TestPagesRun runs.
func TestSnippetsAreRun(t *testing.T) {
	if len(docs.Snippets()) < 8 {
		t.Fatalf("%d snippets", len(docs.Snippets()))
	}
	for _, s := range docs.Snippets() {
		if !contains(executed, s.Page) || s.Language == "" {
			t.Errorf("%s of %s in %q is not run", s.Task, s.Page, s.Language)
		}
	}
}

// TestServesItsPages: a node answers every page at /docs, rendered and as markdown.
func TestServesItsPages(t *testing.T) {
	n := runNode(t, t.TempDir(), nil)
	for _, p := range docs.Pages() {
		status, body := n.call("GET", "/docs/"+p.Name, nil)
		if status != 200 || !strings.Contains(string(body), "<h1") || !strings.Contains(string(body), "</main>") {
			t.Errorf("/docs/%s: %d", p.Name, status)
		}
		if status, body := n.call("GET", "/docs/"+p.Name+".md", nil); status != 200 || string(body) != p.Text {
			t.Errorf("/docs/%s.md: %d", p.Name, status)
		}
	}
	for _, path := range []string{"/docs", "/docs/", "/docs/llms.txt"} {
		if status, body := n.call("GET", path, nil); status != 200 || len(body) == 0 {
			t.Errorf("%s: %d", path, status)
		}
	}
	if status, _ := n.call("GET", "/docs/none", nil); status != 404 {
		t.Errorf("a page that is not there: %d", status)
	}
}
