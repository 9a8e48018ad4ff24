package docs

import (
	"go/ast"
	"go/parser"
	"go/token"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// when is what the condition of a note may be.
var when = regexp.MustCompile(`^(always|login|(before|from) \d+(\.\d+)*)$`)

// TestKafkaClients: every client of the page has names that are of no other, a version, a program that connects to the address
// of the page and, where it names a topic, to one of its own; notes say of which versions they are true, one of them how to log in.
func TestKafkaClients(t *testing.T) {
	seen, all := map[string]string{}, KafkaClients()
	require.True(t, slices.IsSortedFunc(all, func(a, b KafkaClient) int { return strings.Compare(a.Name, b.Name) }))
	page, ok := Find(KafkaPage)
	require.True(t, ok)
	require.Len(t, all, strings.Count(page.Text, "\n## "), "a section without a program")
	for _, c := range all {
		for _, name := range append([]string{c.Name}, c.Names...) {
			require.Regexp(t, `^[a-z0-9./-]+$`, name, c.Name)
			require.Empty(t, seen[name], "%s and %s are both called %s", c.Name, seen[name], name)
			seen[name] = c.Name
		}
		require.Regexp(t, `^\d+(\.\d+)+$`, c.Version, c.Name)
		require.Contains(t, c.Code, "127.0.0.1:9092", c.Name)
		require.Contains(t, []string{"go", "java", "javascript", "properties", "python"}, c.Language, c.Name)
		require.Contains(t, c.Code, c.Name, "%s: no topic of its own", c.Name)
		login := false
		for _, n := range c.Notes {
			require.Regexp(t, when, n.When, c.Name)
			require.NotEmpty(t, n.Text, c.Name)
			login = login || n.When == "login"
		}
		require.True(t, login, "%s does not say how to log in", c.Name)
		if c.Language == "go" {
			file, err := parser.ParseFile(token.NewFileSet(), c.Name+".go", c.Code, parser.AllErrors)
			require.NoError(t, err, c.Name)
			require.True(t, slices.ContainsFunc(file.Imports, func(i *ast.ImportSpec) bool { return strings.Contains(i.Path.Value, c.Package) }), c.Name)
		}
	}
}

// TestKafkaNotes: a note is a line that says when it is true; what else is in a section is none.
func TestKafkaNotes(t *testing.T) {
	require.Equal(t, []KafkaNote{{"always", "a | b"}, {"from 1.2", "c"}},
		kafkaNotes("## x\n\n- **always** | a | b\n- a list\n- **from 1.2** | c\n- **bold** but no note\ntext\n"))
}
