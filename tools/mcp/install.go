package mcp

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"queen/tools/cli"
)

// agent is a client that can be configured.
type agent struct {
	// project and user are the files, the latter below the home directory; "" where the client has none.
	project, user string
	// key is the object of servers in the file.
	key string
	// entry is the entry of a node; token names an environment variable with the token, or is "".
	entry func(e *endpoint, token string) map[string]any
	toml  bool
}

var agents = map[string]agent{
	"claude-code": {project: ".mcp.json", user: ".claude.json", key: "mcpServers", entry: func(e *endpoint, token string) map[string]any {
		return withToken(map[string]any{"type": "http", "url": e.url}, "${"+token+"}", token)
	}},
	"cursor": {project: ".cursor/mcp.json", user: ".cursor/mcp.json", key: "mcpServers", entry: func(e *endpoint, token string) map[string]any {
		return withToken(map[string]any{"url": e.url}, "${env:"+token+"}", token)
	}},
	"vscode": {project: ".vscode/mcp.json", user: ".config/Code/User/mcp.json", key: "servers", entry: func(e *endpoint, token string) map[string]any {
		return withToken(map[string]any{"type": "http", "url": e.url}, "${env:"+token+"}", token)
	}},
	"claude-desktop": {user: ".config/Claude/claude_desktop_config.json", key: "mcpServers", entry: func(e *endpoint, _ string) map[string]any {
		where := []string{"--url", e.url}
		if e.context != "" { // which has the token, too
			where = []string{"--context", e.context}
		}
		return map[string]any{"command": "queen", "args": append([]string{"mcp", "stdio"}, where...)}
	}},
	"codex": {project: ".codex/config.toml", user: ".codex/config.toml", toml: true},
}

func withToken(entry map[string]any, ref, token string) map[string]any {
	if token != "" {
		entry["headers"] = map[string]any{"Authorization": "Bearer " + ref}
	}
	return entry
}

func installCommand(s cli.Streams) *cobra.Command {
	var e endpoint
	names := slices.Sorted(maps.Keys(agents))
	cmd := &cobra.Command{
		Use: "install", Short: "Enter a node into the configuration of a coding agent", Args: cobra.NoArgs,
		Long: `Adds a server named queen to the configuration of a client: ` + strings.Join(names, ", ") + `. What else is in the
file stays. A token is never written; --token-env names the environment variable that the client takes it from.`,
	}
	e.flags(s, cmd)
	client := cmd.Flags().String("client", "", strings.Join(names, ", "))
	scope := cmd.Flags().String("scope", "user", "user or project: the working directory")
	token := cmd.Flags().String("token-env", "", "environment variable with the token, for the client to read")
	dry := cmd.Flags().Bool("dry-run", false, "print the file instead of writing it")
	cmd.RunE = func(*cobra.Command, []string) error {
		a, ok := agents[*client]
		if !ok {
			return cli.Errorf(cli.Usage, "--client %s: there are %s", *client, strings.Join(names, ", "))
		}
		if err := e.resolve(s); err != nil {
			return err
		}
		path, err := a.path(s, *scope)
		if err != nil {
			return err
		}
		text, err := a.merged(path, &e, *token)
		if err != nil {
			return err
		}
		if *dry {
			_, err := s.Out.Write(text)
			return err
		}
		if err := replaceFile(path, text); err != nil {
			return cli.Errorf(cli.Usage, "%w", err)
		}
		fmt.Fprintf(s.Err, "queen: %s has the server queen, at %s\n", path, e.url)
		return nil
	}
	return cmd
}

// path is the file of a scope.
func (a *agent) path(s cli.Streams, scope string) (string, error) {
	switch {
	case scope == "project" && a.project != "":
		return a.project, nil
	case scope == "user" && a.user != "":
		home := s.Getenv("HOME")
		if home == "" {
			return "", cli.Errorf(cli.Usage, "HOME is not set: use --scope project")
		}
		return filepath.Join(home, a.user), nil
	}
	return "", cli.Errorf(cli.Usage, "--scope %s: this client has user%s", scope, map[bool]string{true: " and project"}[a.project != ""])
}

// merged is the file with the entry in it.
func (a *agent) merged(path string, e *endpoint, token string) ([]byte, error) {
	old, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, cli.Errorf(cli.Usage, "%w", err)
	}
	if a.toml {
		return mergedTOML(path, string(old), e.url, token)
	}
	file := map[string]json.RawMessage{}
	if len(strings.TrimSpace(string(old))) > 0 {
		if err := json.Unmarshal(old, &file); err != nil {
			return nil, cli.Errorf(cli.Usage, "%s is not plain JSON, so it is left alone: %w", path, err)
		}
	}
	servers := map[string]json.RawMessage{}
	if raw, ok := file[a.key]; ok {
		if err := json.Unmarshal(raw, &servers); err != nil {
			return nil, cli.Errorf(cli.Usage, "%s: %s is no object, so it is left alone", path, a.key)
		}
	}
	if servers["queen"], err = json.Marshal(a.entry(e, token)); err != nil {
		return nil, err
	}
	if file[a.key], err = json.Marshal(servers); err != nil {
		return nil, err
	}
	text, err := json.MarshalIndent(file, "", "  ")
	return append(text, '\n'), err
}

// mergedTOML appends a section: a file that has one already is left alone, because only a person knows what else is in it.
func mergedTOML(path, old, url, token string) ([]byte, error) {
	const head = "[mcp_servers.queen]"
	if strings.Contains(old, head) {
		return nil, cli.Errorf(cli.Usage, "%s has a section %s already: edit it by hand", path, head)
	}
	if old != "" && !strings.HasSuffix(old, "\n") {
		old += "\n"
	}
	text := old + head + "\nurl = " + fmt.Sprintf("%q", url) + "\n"
	if token != "" {
		text += "bearer_token_env_var = " + fmt.Sprintf("%q", token) + "\n"
	}
	return []byte(text), nil
}

// replaceFile writes a file so that a reader finds the old text or the new one. Only its owner may read it: such files
// can hold secrets.
func replaceFile(path string, text []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	mode := fs.FileMode(0o600)
	if st, err := os.Stat(path); err == nil {
		mode = st.Mode().Perm()
	}
	tmp, err := os.CreateTemp(filepath.Dir(path), ".queen-*")
	if err != nil {
		return err
	}
	defer os.Remove(tmp.Name()) // gone after the rename
	_, err = tmp.Write(text)
	if closed := tmp.Close(); err == nil {
		err = closed
	}
	if err == nil {
		err = os.Chmod(tmp.Name(), mode)
	}
	if err == nil {
		err = os.Rename(tmp.Name(), path)
	}
	return err
}
