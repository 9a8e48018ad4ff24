package docs

import (
	"cmp"
	"math"
	"slices"
	"strings"
	"sync"
	"unicode"
)

// Section is a part of a page, under a second-level heading or before the first one.
type Section struct {
	Page  string
	Title string // of the page for its first section
	Text  string // markdown, with the heading
	// Anchor is the heading's name in the rendered page; "" for the page's top.
	Anchor string
}

// Sections cuts a page at its second-level headings.
func (p *Page) Sections() (out []Section) {
	s := Section{Page: p.Name, Title: p.Title}
	code := false
	for line := range strings.SplitSeq(p.Text, "\n") {
		if strings.HasPrefix(line, "```") {
			code = !code
		}
		if title, ok := strings.CutPrefix(line, "## "); ok && !code {
			out = append(out, s)
			s = Section{Page: p.Name, Title: title}
		}
		s.Text += line + "\n"
	}
	return append(out, s)
}

// scored is a section with the words that a search looks at.
type scored struct {
	Section
	words map[string]int
	count int
}

// index is every section of every page with its words, made at the first search.
var index = sync.OnceValues(func() (all []scored, in map[string]int) {
	in = map[string]int{}
	for _, p := range Pages() {
		anchors := anchorsOf(&p)
		for i, s := range p.Sections() {
			if i > 0 && i <= len(anchors) {
				s.Anchor = anchors[i-1]
			}
			d := scored{Section: s, words: map[string]int{}}
			for _, w := range wordsOf(s.Text + strings.Repeat(" "+s.Title, 3)) {
				d.words[w]++
				d.count++
			}
			for w := range d.words {
				in[w]++
			}
			all = append(all, d)
		}
	}
	return all, in
})

// maxQuery bounds the words of a search.
const maxQuery = 32

// Search finds the sections that fit words best, most at most, the best first: Okapi's BM25 over their words, headings
// counted thrice, and half of that for generated pages.
func Search(query string, most int) []Section {
	all, in := index()
	total := 0
	for i := range all {
		total += all[i].count
	}
	mean := float64(total) / float64(max(len(all), 1))
	type hit struct {
		at    int
		score float64
	}
	var hits []hit
	words := wordsOf(query)
	for i := range all {
		score := 0.0
		for _, w := range words[:min(len(words), maxQuery)] {
			weight := math.Log(1 + (float64(len(all))-float64(in[w])+0.5)/(float64(in[w])+0.5))
			f := float64(all[i].words[w])
			score += weight * f * 2.2 / (f + 1.2*(0.25+0.75*float64(all[i].count)/mean))
		}
		if strings.HasPrefix(all[i].Page, "reference/") {
			score /= 2 // lists name everything: what explains comes first
		}
		if score > 0 {
			hits = append(hits, hit{i, score})
		}
	}
	slices.SortStableFunc(hits, func(a, b hit) int { return cmp.Compare(b.score, a.score) })
	out := make([]Section, 0, most)
	for _, h := range hits[:min(most, len(hits))] {
		out = append(out, all[h.at].Section)
	}
	return out
}

// wordsOf are the words of a text, in lower case and without a plural's s.
func wordsOf(text string) []string {
	words := strings.FieldsFunc(strings.ToLower(text), func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) && r != '_' })
	for i, w := range words {
		if len(w) > 3 {
			words[i] = strings.TrimSuffix(w, "s")
		}
	}
	return words
}

// excerpt is the beginning of a section's prose, in one line: no heading, no table, no code.
func (s *Section) excerpt() string {
	const most = 240
	var b strings.Builder
	code := false
	for line := range strings.SplitSeq(s.Text, "\n") {
		switch {
		case strings.HasPrefix(line, "```"):
			code = !code
		case code, strings.HasPrefix(line, "#"), strings.HasPrefix(line, "|"), strings.TrimSpace(line) == "":
		case b.Len() < most:
			b.WriteString(strings.TrimSpace(line) + " ")
		}
	}
	text := strings.TrimSpace(b.String())
	if len(text) > most {
		text = strings.ToValidUTF8(text[:most], "") + "…"
	}
	return text
}
