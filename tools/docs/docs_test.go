package docs

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func site(t *testing.T) *Site {
	t.Helper()
	s, err := NewSite("1.2.3")
	require.NoError(t, err)
	return s
}

// TestEveryPageIsRendered: each page has a heading, its own title, the version, the way to all others and to its markdown,
// which is the page byte for byte; nothing of the template is left, and every file has a validator of its own.
func TestEveryPageIsRendered(t *testing.T) {
	s := site(t)
	require.GreaterOrEqual(t, len(Pages()), 16)
	etags := map[string]string{}
	for _, p := range Pages() {
		require.NotEmpty(t, p.Title, p.Name)
		require.NotEmpty(t, p.Summary, p.Name)
		html, ok := s.File(p.Name)
		require.True(t, ok, p.Name)
		require.Equal(t, "text/html; charset=utf-8", html.Type)
		body := string(html.Body)
		require.Regexp(t, `<h1 id="[^"]+">`, body, p.Name)
		require.Contains(t, body, "Queen 1.2.3")
		require.Contains(t, body, `href="/docs/`+p.Name+`.md"`)
		require.Equal(t, 1, strings.Count(body, `aria-current="page"`), p.Name)
		require.Equal(t, len(Pages()), strings.Count(between(body, "<nav", "</nav>"), "<a href=")-1, p.Name)
		require.NotContains(t, body, "{{end}}")
		require.NotContains(t, body, "```", "%s: a block is not closed", p.Name)
		require.NotContains(t, body, "<script")
		twin, ok := s.File(p.Name + ".md")
		require.True(t, ok)
		require.Equal(t, p.Text, string(twin.Body))
		require.Equal(t, "text/markdown; charset=utf-8", twin.Type)
		for _, a := range []Answer{html, twin} {
			require.Regexp(t, `^"[0-9a-f]{16}"$`, a.ETag)
			require.NotContains(t, etags, a.ETag, "%s has the validator of %s", p.Name, etags[a.ETag])
			etags[a.ETag] = p.Name
		}
	}
	first, _ := s.File("")
	index, _ := s.File("index/")
	require.Equal(t, index.ETag, first.ETag)
	for _, none := range []string{"none", "../doc.go", "pages/index", "INDEX", "index.html", "reference"} {
		_, ok := s.File(none)
		require.False(t, ok, none)
	}
	require.Len(t, s.Paths(), 2*len(Pages())+2)
}

func between(s, from, to string) string {
	_, s, _ = strings.Cut(s, from)
	s, _, _ = strings.Cut(s, to)
	return s
}

var href = regexp.MustCompile(`(?:href|src|action)="([^"]*)"`)

// TestEveryLinkResolves follows every link of every rendered page, with its anchor: none leads out, none into nothing.
func TestEveryLinkResolves(t *testing.T) {
	s, linked := site(t), map[string]bool{"index": true}
	for _, p := range Pages() {
		html, _ := s.File(p.Name)
		_, text, _ := strings.Cut(string(html.Body), "<main>")
		for _, m := range href.FindAllStringSubmatch(text, -1) {
			target, _, _ := strings.Cut(m[1], "#")
			linked[strings.TrimPrefix(target, "../")] = true
		}
		for _, m := range href.FindAllStringSubmatch(string(html.Body), -1) {
			target, anchor, _ := strings.Cut(m[1], "#")
			switch {
			case target == "":
				target = p.Name
			case strings.HasPrefix(target, "/docs/"):
				target = strings.TrimPrefix(target, "/docs/")
			case strings.HasPrefix(target, "../"):
				target = strings.TrimPrefix(target, "../")
			case strings.HasPrefix(p.Name, "reference/"):
				target = "reference/" + target
			}
			a, ok := s.Find(target, "")
			require.True(t, ok, "%s links to %s", p.Name, m[1])
			if anchor != "" {
				require.Contains(t, string(a.Body), `id="`+anchor+`"`, "%s links to %s", p.Name, m[1])
			}
		}
	}
	for _, p := range Pages() {
		require.True(t, linked[p.Name], "no page leads to %s", p.Name)
	}
}

// TestLLMs: the table of contents names every page by the address of its markdown, with what it is about.
func TestLLMs(t *testing.T) {
	a, ok := site(t).File("llms.txt")
	require.True(t, ok)
	require.True(t, strings.HasPrefix(string(a.Body), "# Queen 1.2.3\n\n> "), "the form of llms.txt")
	for _, p := range Pages() {
		require.Contains(t, string(a.Body), "- ["+p.Title+"](/docs/"+p.Name+".md): "+p.Summary+"\n")
	}
}

// TestSearch: words find the sections that are about them, headings before mentions; a link leads to the heading; what is
// looked for is text and nothing else.
func TestSearch(t *testing.T) {
	for words, want := range map[string]string{"leases": "concepts#leases", "consumer groups": "concepts#consumer-groups", "retention": "concepts#retention",
		"mcp.mask hidden": "agents#what-is-hidden-from-an-agent", "transactions": "concepts#transactions"} {
		all := Search(words, 3)
		require.NotEmpty(t, all, words)
		require.Equal(t, want, all[0].Page+"#"+all[0].Anchor, words)
	}
	require.Empty(t, Search("", 5))
	require.Empty(t, Search("zzzzqq", 5))
	require.Len(t, Search("the", 4), 4)
	for _, p := range Pages() { // every page is found by what it is called
		found := Search(p.Title+" "+p.Summary, 20)
		require.True(t, slices.ContainsFunc(found, func(s Section) bool { return s.Page == p.Name }), p.Title)
	}
	s := site(t)
	for _, query := range []string{"leases", `"><script>alert(1)</script>`, strings.Repeat("lease ", 1000), "\xff\xfe", ""} {
		html, ok := s.Find("search", query)
		require.True(t, ok)
		require.NotContains(t, string(html.Body), "<script")
		require.Less(t, len(html.Body), 64<<10)
		for _, m := range href.FindAllStringSubmatch(string(html.Body), -1) {
			target, _, _ := strings.Cut(strings.TrimPrefix(m[1], "/docs/"), "#")
			_, ok := s.Find(target, "")
			require.True(t, ok, m[1])
		}
		text, ok := s.Find("search.md", query)
		require.True(t, ok)
		require.Equal(t, "text/markdown; charset=utf-8", text.Type)
	}
	a, _ := s.Find("search", "leases")
	require.Contains(t, string(a.Body), `<a href="/docs/concepts#leases">`)
	b, _ := s.Find("search", "retention")
	require.NotEqual(t, a.ETag, b.ETag)
}

// TestBlocks: fenced blocks come with their language, attributes and line; snippets are those with a task.
func TestBlocks(t *testing.T) {
	p := Page{Name: "p", Text: "# T\n\n```sh task=a-b language=curl\necho 1\n```\ntext\n```json\n{}\n```\n```\nplain\n```\n"}
	blocks := p.Blocks()
	require.Len(t, blocks, 3)
	require.Equal(t, Block{Page: "p", Line: 4, Lang: "sh", Text: "echo 1\n", Attrs: map[string]string{"task": "a-b", "language": "curl"}}, blocks[0])
	require.Equal(t, []string{"json", ""}, []string{blocks[1].Lang, blocks[2].Lang})
	for _, s := range Snippets() {
		require.NotContains(t, s.Title, "-")
		require.NotEmpty(t, s.Code)
	}
}
