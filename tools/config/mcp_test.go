package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestMCPMask: the same rules are read from a flag and from a list of mappings in the file, read back as they are, and a
// slip in them stops the boot.
func TestMCPMask(t *testing.T) {
	const want = `[{"queue":"orders","json_pointer":"/card/number"},{"queue":"*","json_pointer":""}]`
	for name, from := range map[string]struct {
		args []string
		yaml string
	}{
		"flag": {args: []string{"--mcp-mask", want}},
		"file": {yaml: "mcp:\n  mask:\n    - {queue: orders, json_pointer: /card/number}\n    - queue: '*'\n      json_pointer: ''\n"},
		"text": {yaml: "mcp.mask: '" + want + "'\n"},
	} {
		r, err := load(t, from.args, nil, from.yaml)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if got := r.value(t, "mcp.mask").Text; got != want {
			t.Errorf("%s: reads back as %s", name, got)
		}
		if m := r.Config.MCPMask; len(m) != 2 || *m[0].Queue != "orders" || *m[1].JSONPointer != "" {
			t.Errorf("%s: %+v", name, m)
		}
	}
	for _, yaml := range []string{"mcp.mask: [{queue: q}]\n", "mcp.mask: [{queue: q, json_pointer: /a, more: 1}]\n", "mcp.mask: [{queue: q, json_pointer: [1]}]\n",
		"mcp.mask: orders\n", "mcp.mask: [orders]\n", "mcp.hosts: [{queue: q, json_pointer: /a}]\n"} {
		if _, err := load(t, nil, nil, yaml); err == nil {
			t.Errorf("%q is taken", yaml)
		}
	}
}

// TestMasks: mcp.mask alone is read of a file that has more, of the environment, which wins, and of the file that the environment
// names; what else is wrong is not looked at.
func TestMasks(t *testing.T) {
	dir := t.TempDir()
	file, other, bad := filepath.Join(dir, "file"), filepath.Join(dir, "other"), filepath.Join(dir, "bad")
	for path, text := range map[string]string{file: "mcp.mask: [{queue: a, json_pointer: /f}]\nkafka.advertised: host:1\n",
		other: "mcp.mask: [{queue: b, json_pointer: /o}]\n", bad: "mcp.mask: [{queue: b}]\n"} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	const env = `QUEEN_MCP_MASK=[{"queue":"e","json_pointer":"/e"}]`
	for name, c := range map[string]struct {
		path    string
		environ []string
		want    string // the queue
	}{
		"nothing":     {"", []string{"QUEEN_NONSENSE=1"}, ""},
		"file":        {file, nil, "a"},
		"environment": {file, []string{env}, "e"},
		"its file":    {"", []string{"QUEEN_CONFIG=" + other}, "b"},
		"flag":        {file, []string{"QUEEN_CONFIG=" + other, "QUEEN_MCP_MASK="}, "a"},
	} {
		rules, err := Masks(c.path, c.environ)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		got := ""
		if len(rules) > 0 {
			got = *rules[0].Queue
		}
		if got != c.want {
			t.Errorf("%s: the rule of %q, want %q", name, got, c.want)
		}
	}
	for _, path := range []string{bad, filepath.Join(dir, "none")} {
		if _, err := Masks(path, nil); err == nil {
			t.Errorf("%s is taken", path)
		}
	}
}

// TestMCPPublicURL: where callers show who they are, the MCP server needs to know what tokens are for.
func TestMCPPublicURL(t *testing.T) {
	_, err := load(t, []string{"--frontends", "http,mcp", "--auth-keys", "keys.yaml"}, nil, "")
	if err == nil || !strings.Contains(err.Error(), "mcp.public.url: needed") {
		t.Errorf("%v", err)
	}
	for _, args := range [][]string{{"--frontends", "http", "--auth-keys", "keys.yaml"}, {"--frontends", "http,mcp"},
		{"--frontends", "http,mcp", "--auth-keys", "keys.yaml", "--mcp-public-url", "http://127.0.0.1:6633/mcp"}} {
		if _, err := load(t, args, nil, ""); err != nil {
			t.Errorf("%v: %v", args, err)
		}
	}
}
