package frontendmcp

import (
	"cmp"
	"slices"
	"strings"
	"unicode"

	"queen/engine"
)

// Snippet is a piece of program that shows how to do a task. A test ran it.
type Snippet struct {
	Task, Language, Code, Page string
}

// Sizes of what the teaching tools answer, in bytes.
const (
	sectionMax = 6_000
	snippetMax = 8_000
)

func docsTools() []*tool {
	return []*tool{
		row(tool{name: "guide", title: "Read the documentation", toolset: "docs",
			text: "The sections of this version's documentation that fit a topic, or a whole page. Without arguments: the pages."}, guide),
		row(tool{name: "example", title: "Show an example", toolset: "docs",
			text: "A tested snippet for a task. Without arguments: the tasks."}, example),
		row(tool{name: "check", title: "List traps", toolset: "docs",
			text: "Mistakes that programs make with Queen, to review code against."}, checkTraps),
		row(tool{name: "explain_error", title: "Explain an error", toolset: "docs",
			text: "What an error code or text means and what helps."}, explainError),
		row(tool{name: "kafka_client", title: "Connect a Kafka client", toolset: "docs",
			text: "How a program with a Kafka client comes to this node: tested code and what to know. Without arguments: the clients."}, kafkaClient),
		row(tool{name: "setup", title: "Set something up", toolset: "docs",
			text: "How to connect an agent or a program, and how to run a node."}, setup),
	}
}

// section is a part of a page with a heading.
type section struct {
	Page  string `json:"page"`
	Title string `json:"title"`
	Text  string `json:"text" jsonschema:"markdown"`
	Cut   bool   `json:"truncated,omitempty"`
}

type pageRow struct {
	Page    string `json:"page"`
	Title   string `json:"title"`
	Summary string `json:"summary"`
}

type guideArgs struct {
	Topic   string `json:"topic,omitempty" jsonschema:"words to look for"`
	Page    string `json:"page,omitempty" jsonschema:"name of a page, such as concepts"`
	Section string `json:"section,omitempty" jsonschema:"heading within page"`
}

type guideResult struct {
	Meta
	Version  string    `json:"version"`
	Pages    []pageRow `json:"pages"`
	Sections []section `json:"sections"`
}

func guide(c *call, in guideArgs) (out guideResult, err error) {
	out.Meta, out.Version, out.Pages, out.Sections = c.meta(), c.f.opts.Version, []pageRow{}, []section{}
	switch {
	case in.Page != "":
		i := slices.IndexFunc(c.f.opts.Pages, func(p Page) bool { return p.Name == in.Page })
		if i < 0 {
			return out, &toolError{Code: "not_found", Message: "there is no such page", Field: "page", Hint: "call guide without arguments for the pages"}
		}
		p := &c.f.opts.Pages[i]
		c.linkPage(p.Name)
		if in.Section == "" {
			out.Sections = c.wholePage(&out.Meta, p)
			break
		}
		for _, s := range sections(p) {
			if strings.EqualFold(s.Title, in.Section) {
				out.Sections = append(out.Sections, cutSection(s, sectionMax))
			}
		}
		if len(out.Sections) == 0 {
			return out, &toolError{Code: "not_found", Message: "the page has no such section", Field: "section", Hint: "call guide with page alone"}
		}
		c.shorten(out.Sections)
	case in.Topic != "":
		out.Sections = append(out.Sections, c.search(in.Topic, 3)...)
		if len(out.Sections) == 0 {
			out.Hint = "nothing fits: see the pages"
			out.Pages = pageRows(c.f.opts.Pages)
		}
	default:
		out.Pages = pageRows(c.f.opts.Pages)
	}
	return out, nil
}

func pageRows(pages []Page) []pageRow {
	rows := []pageRow{}
	for i := range pages {
		rows = append(rows, pageRow{pages[i].Name, pages[i].Title, pages[i].Summary})
	}
	return rows
}

func cutSection(s section, most int) section {
	if len(s.Text) > most {
		s.Text, s.Cut = strings.ToValidUTF8(s.Text[:most], ""), true
	}
	return s
}

// shorten cuts the texts of sections until the answer has room for each of them.
func (c *call) shorten(rows []section) {
	for i := range rows {
		room := c.room
		for !c.take(rows[i]) && rows[i].Text != "" {
			rows[i], c.room = cutSection(rows[i], len(rows[i].Text)/2), room
		}
	}
}

// wholePage is a page as far as the answer has room for it: where it ends, sections stand with their titles alone.
func (c *call) wholePage(m *Meta, p *Page) []section {
	whole, room := section{Page: p.Name, Title: p.Title, Text: p.Text}, c.room
	if c.take(whole) {
		return []section{whole}
	}
	c.room = room
	all := sections(p)
	titles := make([]section, len(all))
	for i := range all {
		titles[i] = section{Page: p.Name, Title: all[i].Title, Cut: true}
	}
	rows, left := fit(c, titles)
	for i := range rows {
		room := c.room
		if !c.take(all[i]) {
			c.room = room
			break
		}
		rows[i] = all[i]
	}
	const rest = "ask for a section by its title, or read the page as a resource"
	c.cut(m, left, rest)
	c.cut(m, -1, rest)
	return rows
}

// sections cuts a page at its second-level headings.
func sections(p *Page) (out []section) {
	s := section{Page: p.Name, Title: p.Title}
	code := false
	for line := range strings.SplitSeq(p.Text, "\n") {
		if strings.HasPrefix(line, "```") {
			code = !code
		}
		if title, ok := strings.CutPrefix(line, "## "); ok && !code {
			out = append(out, s)
			s = section{Page: p.Name, Title: title}
		}
		s.Text += line + "\n"
	}
	return append(out, s)
}

// search finds the sections that fit words best.
func (c *call) search(topic string, most int) (out []section) {
	if c.f.opts.Search == nil {
		return nil
	}
	for _, s := range c.f.opts.Search(topic, most) {
		c.linkPage(s.Page)
		out = append(out, cutSection(section{Page: s.Page, Title: s.Title, Text: s.Text}, sectionMax))
	}
	c.shorten(out)
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
	return words[:min(len(words), 20_000)]
}

type exampleArgs struct {
	Task     string `json:"task,omitempty"`
	Language string `json:"language,omitempty" jsonschema:"curl or cli; default both"`
}

type snippetRow struct {
	Task     string `json:"task"`
	Language string `json:"language"`
	Page     string `json:"page"`
	Code     string `json:"code,omitempty"`
}

type exampleResult struct {
	Meta
	Version  string       `json:"version"`
	Snippets []snippetRow `json:"snippets"`
}

func example(c *call, in exampleArgs) (out exampleResult, err error) {
	out.Meta, out.Version, out.Snippets = c.meta(), c.f.opts.Version, []snippetRow{}
	want := wordsOf(in.Task)
	for _, s := range c.f.opts.Snippets {
		if in.Language != "" && s.Language != in.Language {
			continue
		}
		r := snippetRow{Task: s.Task, Language: s.Language, Page: s.Page}
		if in.Task != "" {
			if !slices.ContainsFunc(wordsOf(strings.ReplaceAll(s.Task, "-", " ")), func(w string) bool { return slices.Contains(want, w) }) {
				continue
			}
			r.Code = strings.ToValidUTF8(s.Code[:min(len(s.Code), snippetMax)], "")
		}
		out.Snippets = append(out.Snippets, r)
	}
	if len(out.Snippets) == 0 {
		out.Hint = "nothing fits: call example without arguments for the tasks"
	}
	return out, nil
}

type trapArgs struct {
	Language string `json:"language,omitempty" jsonschema:"curl, cli or kafka; default all"`
}

type trap struct {
	Severity string `json:"severity" jsonschema:"breaks, surprise or perf"`
	Language string `json:"language"`
	Text     string `json:"text"`
}

type trapsResult struct {
	Meta
	Version string `json:"version"`
	Traps   []trap `json:"traps"`
}

func checkTraps(c *call, in trapArgs) (out trapsResult, err error) {
	out.Meta, out.Version, out.Traps = c.meta(), c.f.opts.Version, []trap{}
	for _, t := range traps(c.f.opts.Pages) {
		if in.Language == "" || t.Language == "all" || t.Language == in.Language {
			out.Traps = append(out.Traps, t)
		}
	}
	return out, nil
}

// traps reads the page of traps: "- **severity** | language | text".
func traps(pages []Page) (out []trap) {
	i := slices.IndexFunc(pages, func(p Page) bool { return p.Name == "traps" })
	if i < 0 {
		return nil
	}
	for line := range strings.SplitSeq(pages[i].Text, "\n") {
		parts := strings.SplitN(strings.TrimPrefix(line, "- "), " | ", 3)
		if len(parts) == 3 && strings.HasPrefix(line, "- **") {
			out = append(out, trap{strings.Trim(parts[0], "*"), parts[1], parts[2]})
		}
	}
	return out
}

type explainArgs struct {
	Error string `json:"error" jsonschema:"a code such as lease_invalid, or a text that contains one"`
}

type explanationRow struct {
	Code    string `json:"code"`
	Meaning string `json:"meaning"`
	Remedy  string `json:"remedy"`
}

type explainResult struct {
	Meta
	Version      string           `json:"version"`
	Explanations []explanationRow `json:"explanations"`
}

func explainError(c *call, in explainArgs) (out explainResult, err error) {
	out.Meta, out.Version, out.Explanations = c.meta(), c.f.opts.Version, []explanationRow{}
	text := strings.ReplaceAll(strings.ToLower(in.Error), " ", "_")
	for _, x := range Explanations() {
		if strings.Contains(text, x.Code) {
			out.Explanations = append(out.Explanations, explanationRow(x))
		}
	}
	if len(out.Explanations) == 0 {
		out.Hint = "no code of ours is in that text: guide finds what the documentation says"
	}
	return out, nil
}

// Explanations are what is said of every error code, by code.
func Explanations() []Explanation {
	out := make([]Explanation, 0, len(engine.Codes))
	for _, code := range engine.Codes {
		out = append(out, explain(code))
	}
	slices.SortFunc(out, func(a, b Explanation) int { return cmp.Compare(a.Code, b.Code) })
	return out
}

type setupArgs struct {
	Feature string `json:"feature" jsonschema:"an agent's client, kafka, http, cli, authentication, tls, metrics or a word of the documentation"`
}

type setupResult struct {
	Meta
	Version  string    `json:"version"`
	Commands []string  `json:"commands"`
	Sections []section `json:"sections"`
}

// setups are the commands that a feature needs first.
var setups = map[string][]string{
	"claude-code": {"claude mcp add --transport http queen http://127.0.0.1:6633/mcp"},
	"cursor":      {"queen mcp install --client cursor"}, "vscode": {"queen mcp install --client vscode"},
	"codex": {"queen mcp install --client codex"}, "claude-desktop": {"queen mcp install --client claude-desktop"},
	"kafka": {"queen serve --frontends http,kafka --kafka 127.0.0.1:9092"}, "http": {"queen serve"}, "cli": {"queen queue list"},
	"authentication": {"queen auth new-key NAME --role read-write", "queen serve --auth-keys FILE"},
	"tls":            {"queen serve --tls-cert FILE --tls-key FILE"}, "metrics": {"curl -s http://127.0.0.1:6632/metrics/prometheus"},
}

func setup(c *call, in setupArgs) (out setupResult, err error) {
	out.Meta, out.Version, out.Commands, out.Sections = c.meta(), c.f.opts.Version, []string{}, []section{}
	if in.Feature == "" {
		return out, badArgument("feature", "feature is empty")
	}
	out.Commands = append(out.Commands, setups[strings.ToLower(in.Feature)]...)
	topic := in.Feature
	switch strings.ToLower(in.Feature) {
	case "claude-code", "cursor", "vscode", "codex", "claude-desktop":
		topic = "agent connect install client"
	}
	out.Sections = append(out.Sections, c.search(topic, 2)...)
	return out, nil
}
