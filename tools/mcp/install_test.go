package mcp

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"queen/tools/cli"
)

// installs are what each client's file holds in the end, compact.
var installs = []struct{ client, scope, file, want string }{
	{"claude-code", "user", ".claude.json", `{"mcpServers":{"queen":{"headers":{"Authorization":"Bearer ${TOKEN}"},"type":"http","url":"http://n/mcp"}}}`},
	{"claude-code", "project", ".mcp.json", `{"mcpServers":{"queen":{"headers":{"Authorization":"Bearer ${TOKEN}"},"type":"http","url":"http://n/mcp"}}}`},
	{"cursor", "user", ".cursor/mcp.json", `{"mcpServers":{"queen":{"headers":{"Authorization":"Bearer ${env:TOKEN}"},"url":"http://n/mcp"}}}`},
	{"cursor", "project", ".cursor/mcp.json", `{"mcpServers":{"queen":{"headers":{"Authorization":"Bearer ${env:TOKEN}"},"url":"http://n/mcp"}}}`},
	{"vscode", "user", ".config/Code/User/mcp.json",
		`{"servers":{"queen":{"headers":{"Authorization":"Bearer ${env:TOKEN}"},"type":"http","url":"http://n/mcp"}}}`},
	{"vscode", "project", ".vscode/mcp.json", `{"servers":{"queen":{"headers":{"Authorization":"Bearer ${env:TOKEN}"},"type":"http","url":"http://n/mcp"}}}`},
	{"claude-desktop", "user", ".config/Claude/claude_desktop_config.json",
		`{"mcpServers":{"queen":{"args":["mcp","stdio","--url","http://n/mcp"],"command":"queen"}}}`},
	{"codex", "user", ".codex/config.toml", "[mcp_servers.queen]\nurl = \"http://n/mcp\"\nbearer_token_env_var = \"TOKEN\"\n"},
	{"codex", "project", ".codex/config.toml", "[mcp_servers.queen]\nurl = \"http://n/mcp\"\nbearer_token_env_var = \"TOKEN\"\n"},
}

// TestInstall enters a node for every client and scope into a home of its own: into a file that is not there, which only its
// owner may read then, with a dry run that writes nothing before it; no token of the environment is written.
func TestInstall(t *testing.T) {
	covered := map[string]bool{}
	for _, c := range installs {
		covered[c.client] = true
		home, project := t.TempDir(), t.TempDir()
		t.Chdir(project)
		env := []string{"HOME=" + home, "QUEEN_TOKEN=very-secret"}
		path := filepath.Join(map[string]string{"user": home, "project": project}[c.scope], c.file)
		args := []string{"install", "--client", c.client, "--scope", c.scope, "--url", "http://n/mcp", "--token-env", "TOKEN"}
		code, shown, complaint := queen(t, env, append(args, "--dry-run")...)
		require.Equal(t, cli.Done, code, complaint)
		require.NoFileExists(t, path)
		code, out, complaint := queen(t, env, args...)
		require.Equal(t, cli.Done, code, complaint)
		require.Empty(t, out)
		require.Contains(t, complaint, "has the server queen, at http://n/mcp")
		text, err := os.ReadFile(path)
		require.NoError(t, err, "%s %s", c.client, c.scope)
		require.Equal(t, shown, string(text), "the dry run showed something else")
		require.NotContains(t, string(text), "very-secret")
		if strings.HasSuffix(path, ".json") {
			var v any
			require.NoError(t, json.Unmarshal(text, &v))
			text, err = json.Marshal(v)
			require.NoError(t, err)
		}
		require.Equal(t, c.want, string(text), "%s %s", c.client, c.scope)
		st, err := os.Stat(path)
		require.NoError(t, err)
		require.EqualValues(t, 0o600, st.Mode().Perm())
		left, err := filepath.Glob(filepath.Join(filepath.Dir(path), ".queen-*"))
		require.NoError(t, err)
		require.Empty(t, left)
	}
	for client := range agents {
		require.True(t, covered[client], "%s is not tested", client)
	}
}

// TestInstallKeepsTheRest: what else is in a file, and its permissions, stay; an entry of ours is replaced; what can not be
// changed safely is left alone.
func TestInstallKeepsTheRest(t *testing.T) {
	home := t.TempDir()
	env := []string{"HOME=" + home}
	path := filepath.Join(home, ".cursor/mcp.json")
	require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
	const old = `{"other": [1, 12345678901234567890], "mcpServers": {"queen": {"url": "old"}, "files": {"command": "f"}}}`
	require.NoError(t, os.WriteFile(path, []byte(old), 0o640))
	install := func(args ...string) (int, string) {
		code, _, complaint := queen(t, env, append([]string{"install", "--url", "http://n/mcp"}, args...)...)
		return code, complaint
	}
	code, complaint := install("--client", "cursor")
	require.Equal(t, cli.Done, code, complaint)
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	var v struct {
		Other      json.RawMessage
		MCPServers map[string]map[string]any `json:"mcpServers"`
	}
	require.NoError(t, json.Unmarshal(text, &v))
	require.Equal(t, "[1,12345678901234567890]", strings.Join(strings.Fields(string(v.Other)), ""))
	require.Equal(t, map[string]map[string]any{"queen": {"url": "http://n/mcp"}, "files": {"command": "f"}}, v.MCPServers)
	st, err := os.Stat(path)
	require.NoError(t, err)
	require.EqualValues(t, 0o640, st.Mode().Perm())

	for _, odd := range []string{"// comment\n{}", `[]`, `{"mcpServers": []}`} {
		require.NoError(t, os.WriteFile(path, []byte(odd), 0o600))
		code, complaint := install("--client", "cursor")
		require.Equal(t, cli.Usage, code)
		require.Contains(t, complaint, "left alone")
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		require.Equal(t, odd, string(text))
	}
	toml := filepath.Join(home, ".codex/config.toml")
	require.NoError(t, os.MkdirAll(filepath.Dir(toml), 0o755))
	require.NoError(t, os.WriteFile(toml, []byte("model = \"m\""), 0o600))
	code, complaint = install("--client", "codex")
	require.Equal(t, cli.Done, code, complaint)
	text, err = os.ReadFile(toml)
	require.NoError(t, err)
	require.Equal(t, "model = \"m\"\n[mcp_servers.queen]\nurl = \"http://n/mcp\"\n", string(text))
	code, complaint = install("--client", "codex")
	require.Equal(t, cli.Usage, code)
	require.Contains(t, complaint, "edit it by hand")

	for want, args := range map[string][]string{"there are claude-code, claude-desktop, codex, cursor, vscode": {"--client", "emacs"},
		"--client :": {}, "--scope world": {"--client", "cursor", "--scope", "world"},
		"this client has user": {"--client", "claude-desktop", "--scope", "project"}, "--url ftp:": {"--client", "cursor", "--url", "ftp://x"}} {
		code, complaint := install(args...)
		require.Equal(t, cli.Usage, code, args)
		require.Contains(t, complaint, want)
	}
	env = nil
	code, complaint = install("--client", "cursor")
	require.Equal(t, cli.Usage, code)
	require.Contains(t, complaint, "HOME is not set")
}
