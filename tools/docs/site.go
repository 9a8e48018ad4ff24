package docs

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"html/template"
	"regexp"
	"strings"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/extension"
	"github.com/yuin/goldmark/parser"
)

// Answer is one file of the site.
type Answer struct {
	Type string
	Body []byte
	// ETag is a validator of Body, with its quotes.
	ETag string
}

// Site is every file under /docs, made once.
type Site struct{ files map[string]Answer }

// NewSite renders all pages. version is shown on each.
func NewSite(version string) (*Site, error) {
	s := &Site{files: map[string]Answer{}}
	md := goldmark.New(goldmark.WithExtensions(extension.GFM), goldmark.WithParserOptions(parser.WithAutoHeadingID()))
	for _, p := range Pages() {
		var body bytes.Buffer
		if err := md.Convert([]byte(linksToHTML(p.Text)), &body); err != nil {
			return nil, fmt.Errorf("docs: %s: %w", p.Name, err)
		}
		var page bytes.Buffer
		err := layout.Execute(&page, map[string]any{"Title": p.Title, "Version": version, "Pages": Pages(), "Name": p.Name,
			"Body": template.HTML(body.String())})
		if err != nil {
			return nil, fmt.Errorf("docs: %s: %w", p.Name, err)
		}
		s.add(p.Name, "text/html; charset=utf-8", page.Bytes())
		s.add(p.Name+".md", "text/markdown; charset=utf-8", []byte(p.Text))
	}
	s.files[""] = s.files["index"]
	s.add("llms.txt", "text/plain; charset=utf-8", []byte(llms(version)))
	return s, nil
}

func (s *Site) add(path, kind string, body []byte) {
	sum := sha256.Sum256(body)
	s.files[path] = Answer{Type: kind, Body: body, ETag: `"` + hex.EncodeToString(sum[:8]) + `"`}
}

// File finds what is at a path below /docs/, without a leading slash; "" is the first page.
func (s *Site) File(path string) (Answer, bool) {
	a, ok := s.files[strings.TrimSuffix(path, "/")]
	return a, ok
}

// Paths are the paths of all files.
func (s *Site) Paths() (out []string) {
	for p := range s.files {
		out = append(out, p)
	}
	return out
}

// linkTo finds links to other pages, which name the markdown file.
var linkTo = regexp.MustCompile(`\]\(((?:\.\./)?[a-z0-9/-]+)\.md(#[a-z0-9-]+)?\)`)

// linksToHTML makes links between pages lead to the rendered ones.
func linksToHTML(text string) string { return linkTo.ReplaceAllString(text, "]($1$2)") }

// llms is the table of contents for models.
func llms(version string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "# Queen %s\n\n> A durable event broker with one ordered partition per entity. One binary; HTTP, Kafka clients and MCP.\n\n"+
		"Every page is markdown at its address.\n\n## Pages\n\n", version)
	for _, p := range Pages() {
		fmt.Fprintf(&b, "- [%s](/docs/%s.md): %s\n", p.Title, p.Name, p.Summary)
	}
	return b.String()
}

var layout = template.Must(template.New("page").Parse(`<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>{{.Title}} · Queen</title>
<style>
:root{color-scheme:light dark}
body{font:16px/1.55 system-ui,sans-serif;margin:0;display:flex;flex-wrap:wrap}
nav{flex:1 1 14rem;max-width:18rem;padding:1.5rem;font-size:.95rem}
nav a{display:block;padding:.15rem 0;text-decoration:none}
nav a[aria-current]{font-weight:700}
main{flex:4 1 30rem;max-width:52rem;padding:1.5rem;min-width:0}
pre{overflow-x:auto;padding:.8rem;border:1px solid #8884;border-radius:6px}
code{font:.9em ui-monospace,monospace}
table{border-collapse:collapse;display:block;overflow-x:auto}
td,th{border:1px solid #8886;padding:.3rem .6rem;text-align:left;vertical-align:top}
</style></head>
<body><nav aria-label="Pages"><strong>Queen {{.Version}}</strong>
{{range .Pages}}<a href="/docs/{{.Name}}"{{if eq .Name $.Name}} aria-current="page"{{end}}>{{.Title}}</a>
{{end}}<a href="/docs/{{.Name}}.md">This page as markdown</a></nav>
<main>{{.Body}}</main></body></html>
`))
