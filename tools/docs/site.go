package docs

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"html/template"
	"maps"
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

// Site is every file under /docs, made once, and the search over them.
type Site struct {
	files   map[string]Answer
	version string
}

// NewSite renders all pages. version is shown on each.
func NewSite(version string) (*Site, error) {
	s := &Site{files: map[string]Answer{}, version: version}
	for _, p := range Pages() {
		body, err := rendered(&p)
		if err != nil {
			return nil, err
		}
		page, err := s.page(p.Title, p.Name, map[string]any{"Body": template.HTML(body)})
		if err != nil {
			return nil, fmt.Errorf("docs: %s: %w", p.Name, err)
		}
		s.files[p.Name] = answer("text/html; charset=utf-8", page)
		s.files[p.Name+".md"] = answer("text/markdown; charset=utf-8", []byte(p.Text))
	}
	s.files[""] = s.files["index"]
	s.files["llms.txt"] = answer("text/plain; charset=utf-8", []byte(llms(version)))
	return s, nil
}

// rendered is a page's markdown as HTML.
func rendered(p *Page) (string, error) {
	var body bytes.Buffer
	if err := markdown.Convert([]byte(linksToHTML(p.Text)), &body); err != nil {
		return "", fmt.Errorf("docs: %s: %w", p.Name, err)
	}
	return body.String(), nil
}

var markdown = goldmark.New(goldmark.WithExtensions(extension.GFM), goldmark.WithParserOptions(parser.WithAutoHeadingID()))

// heading finds the names of second-level headings.
var heading = regexp.MustCompile(`<h2 id="([^"]+)">`)

// anchorsOf are the names of a page's second-level headings, in order.
func anchorsOf(p *Page) (out []string) {
	body, _ := rendered(p) // NewSite tells what is wrong
	for _, m := range heading.FindAllStringSubmatch(body, -1) {
		out = append(out, m[1])
	}
	return out
}

// page puts the frame of all pages around one; name is "" for a page that has no markdown.
func (s *Site) page(title, name string, more map[string]any) ([]byte, error) {
	var page bytes.Buffer
	fields := map[string]any{"Title": title, "Version": s.version, "Pages": Pages(), "Name": name}
	maps.Copy(fields, more)
	err := layout.Execute(&page, fields)
	return page.Bytes(), err
}

func answer(kind string, body []byte) Answer {
	sum := sha256.Sum256(body)
	return Answer{Type: kind, Body: body, ETag: `"` + hex.EncodeToString(sum[:8]) + `"`}
}

// maxFound is how many sections a search shows, queryBytes how long what is looked for may be.
const (
	maxFound   = 20
	queryBytes = 200
)

// found is one section on the page of a search.
type found struct{ Title, Page, Link, Text string }

// Search is the page of a search, or with asText the same as markdown.
func (s *Site) Search(query string, asText bool) (Answer, error) {
	query = strings.ToValidUTF8(query[:min(len(query), queryBytes)], "")
	var all []found
	for _, r := range Search(query, maxFound) {
		link := "/docs/" + r.Page
		if asText {
			link += ".md"
		} else if r.Anchor != "" {
			link += "#" + r.Anchor
		}
		p, _ := Find(r.Page)
		all = append(all, found{Title: r.Title, Page: p.Title, Link: link, Text: r.excerpt()})
	}
	if !asText {
		body, err := s.page("Search", "", map[string]any{"Search": true, "Query": query, "Found": all})
		return answer("text/html; charset=utf-8", body), err
	}
	var b strings.Builder
	fmt.Fprintf(&b, "# Search\n\n%d sections fit.\n\n", len(all))
	for _, f := range all {
		fmt.Fprintf(&b, "- [%s: %s](%s): %s\n", f.Page, f.Title, f.Link, f.Text)
	}
	return answer("text/markdown; charset=utf-8", []byte(b.String())), nil
}

// File finds what is at a path below /docs/, without a leading slash; "" is the first page.
func (s *Site) File(path string) (Answer, bool) {
	a, ok := s.files[strings.TrimSuffix(path, "/")]
	return a, ok
}

// Find finds a file, or the page of a search for query at search and search.md.
func (s *Site) Find(path, query string) (Answer, bool) {
	if path != "search" && path != "search.md" {
		return s.File(path)
	}
	a, err := s.Search(query, path == "search.md")
	return a, err == nil
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
nav input{width:100%;box-sizing:border-box;font:inherit;padding:.3rem .5rem;margin:.6rem 0}
nav a[aria-current]{font-weight:700}
main{flex:4 1 30rem;max-width:52rem;padding:1.5rem;min-width:0}
pre{overflow-x:auto;padding:.8rem;border:1px solid #8884;border-radius:6px}
code{font:.9em ui-monospace,monospace}
table{border-collapse:collapse;display:block;overflow-x:auto}
td,th{border:1px solid #8886;padding:.3rem .6rem;text-align:left;vertical-align:top}
</style></head>
<body><nav aria-label="Pages"><strong>Queen {{.Version}}</strong>
<form action="/docs/search" role="search"><input type="search" name="q" value="{{.Query}}" aria-label="Search the documentation" placeholder="Search"></form>
{{range .Pages}}<a href="/docs/{{.Name}}"{{if eq .Name $.Name}} aria-current="page"{{end}}>{{.Title}}</a>
{{end}}{{if .Name}}<a href="/docs/{{.Name}}.md">This page as markdown</a>{{end}}</nav>
<main>{{if .Search}}<h1>Search</h1>
<p role="status">{{len .Found}} sections fit.</p>
{{range .Found}}<h2><a href="{{.Link}}">{{.Page}}: {{.Title}}</a></h2>
<p>{{.Text}}</p>
{{end}}{{else}}{{.Body}}{{end}}</main></body></html>
`))
