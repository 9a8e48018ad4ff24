package docs

import (
	"embed"
	"io/fs"
	"slices"
	"strings"
	"sync"
)

//go:embed pages
var files embed.FS

// Page is one document.
type Page struct {
	// Name is its path without extension, such as "reference/cli". Title and Summary are its first heading and its first
	// paragraph.
	Name, Title, Summary string
	// Text is markdown.
	Text string
}

// order is how pages are listed; those that are not in it follow by name.
var order = []string{"index", "quickstart", "concepts", "guarantees", "traps", "command-line", "kafka", "kafka-clients",
	"agents", "agent-session", "operations", "recovery"}

// Pages are all pages. They are the same at every call and not to be changed.
var Pages = sync.OnceValue(func() []Page {
	var all []Page
	err := fs.WalkDir(files, "pages", func(path string, d fs.DirEntry, err error) error {
		name, ok := strings.CutSuffix(path, ".md")
		if err != nil || d.IsDir() || !ok {
			return err
		}
		text, err := files.ReadFile(path)
		if err != nil {
			return err
		}
		all = append(all, parse(strings.TrimPrefix(name, "pages/"), string(text)))
		return nil
	})
	if err != nil {
		panic("docs: " + err.Error()) // the pages are in the binary
	}
	rank := func(p *Page) int {
		if i := slices.Index(order, p.Name); i >= 0 {
			return i
		}
		return len(order)
	}
	slices.SortStableFunc(all, func(a, b Page) int { return rank(&a) - rank(&b) })
	return all
})

func parse(name, text string) Page {
	p := Page{Name: name, Text: text}
	var summary []string
	for line := range strings.SplitSeq(text, "\n") {
		title, ok := strings.CutPrefix(line, "# ")
		switch {
		case ok && p.Title == "":
			p.Title = title
		case p.Title == "", line == "" && summary == nil:
		case line == "" || strings.HasPrefix(line, "#"):
			p.Summary = strings.Join(summary, " ")
			return p
		default:
			summary = append(summary, line)
		}
	}
	p.Summary = strings.Join(summary, " ")
	return p
}

// Find finds a page by name; false when there is none.
func Find(name string) (Page, bool) {
	i := slices.IndexFunc(Pages(), func(p Page) bool { return p.Name == name })
	if i < 0 {
		return Page{}, false
	}
	return Pages()[i], true
}

// Block is one fenced block of a page.
type Block struct {
	Page string
	Line int // of its text in the page, from 1
	// Lang is the first word behind the fence, Attrs are "key=value" words behind it.
	Lang, Text string
	Attrs      map[string]string
}

// Blocks are the fenced blocks of a page in order.
func (p *Page) Blocks() (out []Block) {
	var b *Block
	var body strings.Builder
	for i, line := range strings.Split(p.Text, "\n") {
		info, fence := strings.CutPrefix(line, "```")
		switch {
		case fence && b == nil:
			words := strings.Fields(info)
			b = &Block{Page: p.Name, Line: i + 2, Attrs: map[string]string{}}
			if len(words) > 0 {
				b.Lang = words[0]
				for _, w := range words[1:] {
					k, v, _ := strings.Cut(w, "=")
					b.Attrs[k] = v
				}
			}
			body.Reset()
		case fence:
			b.Text = body.String()
			out = append(out, *b)
			b = nil
		case b != nil:
			body.WriteString(line + "\n")
		}
	}
	return out
}

// Snippet is a block that shows how to do a task; tests run every one.
type Snippet struct {
	Task, Language, Title, Code, Page string
}

// Snippets are the blocks with a task, of all pages.
var Snippets = sync.OnceValue(func() (out []Snippet) {
	for _, p := range Pages() {
		for _, b := range p.Blocks() {
			if task := b.Attrs["task"]; task != "" {
				out = append(out, Snippet{Task: task, Language: b.Attrs["language"], Code: b.Text, Page: p.Name,
					Title: strings.ReplaceAll(task, "-", " ")})
			}
		}
	}
	return out
})
