package mcp

import (
	"bytes"
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"net/url"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"queen/tools/cli"
)

// manifest is server.json as far as this project fills it in. The registry's schema has these members with these meanings.
type manifest struct {
	Schema      string `json:"$schema"`
	Name        string `json:"name"`
	Title       string `json:"title"`
	Description string `json:"description"`
	Version     string `json:"version"`
	Remotes     []struct {
		Type      string           `json:"type"`
		URL       string           `json:"url"`
		Variables map[string]input `json:"variables"`
		Headers   []struct {
			Name        string           `json:"name"`
			Description string           `json:"description"`
			Value       string           `json:"value"`
			Variables   map[string]input `json:"variables"`
		} `json:"headers"`
	} `json:"remotes"`
}

type input struct {
	Description string `json:"description"`
	Placeholder string `json:"placeholder"`
	Required    bool   `json:"isRequired"`
	Secret      bool   `json:"isSecret"`
}

// versionOf reads the version that the binary tells, of whose package nothing can be imported.
func versionOf(t *testing.T) string {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "../queen/version.go", nil, parser.SkipObjectResolution)
	require.NoError(t, err)
	for _, d := range file.Decls {
		g, ok := d.(*ast.GenDecl)
		if !ok || g.Tok != token.CONST {
			continue
		}
		for _, s := range g.Specs {
			if v := s.(*ast.ValueSpec); v.Names[0].Name == "version" {
				text, err := strconv.Unquote(v.Values[0].(*ast.BasicLit).Value)
				require.NoError(t, err)
				return text
			}
		}
	}
	require.FailNow(t, "version.go has no constant version")
	return ""
}

// variablesIn are the names in braces.
func variablesIn(text string) (names []string) {
	for _, m := range regexp.MustCompile(`\{([a-z]+)\}`).FindAllStringSubmatch(text, -1) {
		names = append(names, m[1])
	}
	return names
}

// TestManifest holds server.json, by which a registry tells clients how to reach a node, to the version of the binary, to where
// its MCP server listens, and to what a registry takes.
func TestManifest(t *testing.T) {
	text, err := os.ReadFile("server.json")
	require.NoError(t, err)
	var m manifest
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	require.NoError(t, d.Decode(&m))
	require.Equal(t, "https://static.modelcontextprotocol.io/schemas/2025-12-11/server.schema.json", m.Schema)
	require.Equal(t, versionOf(t), m.Version)
	require.Regexp(t, `^[a-z0-9.-]+\.[a-z0-9-]+/queen$`, m.Name, "a namespace, one slash, the server's name")
	require.LessOrEqual(t, len(m.Title), 100)
	require.NotEmpty(t, m.Description)
	require.LessOrEqual(t, len(m.Description), 100)

	require.Len(t, m.Remotes, 1)
	r := m.Remotes[0]
	require.Equal(t, "streamable-http", r.Type)
	require.Equal(t, []string{"host"}, variablesIn(r.URL))
	require.Len(t, r.Variables, 1)
	host := r.Variables["host"]
	require.True(t, host.Required)
	filled := strings.ReplaceAll(r.URL, "{host}", host.Placeholder)
	require.NoError(t, (&endpoint{url: filled}).resolve(cli.Streams{}))
	at, err := url.Parse(filled)
	require.NoError(t, err)
	usual, err := url.Parse(defaultURL)
	require.NoError(t, err)
	require.Equal(t, []string{"https", usual.Port(), usual.Path}, []string{at.Scheme, at.Port(), at.Path})

	require.Len(t, r.Headers, 1)
	h := r.Headers[0]
	require.Equal(t, []string{"Authorization", "Bearer {token}"}, []string{h.Name, h.Value}, "what the bridge sends, too")
	require.Equal(t, []string{"token"}, variablesIn(h.Value))
	require.Len(t, h.Variables, 1)
	require.True(t, h.Variables["token"].Secret)
}
