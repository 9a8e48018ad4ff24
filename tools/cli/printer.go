package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"
	"sigs.k8s.io/yaml"
)

// Formats are the values of -o.
var Formats = []string{"table", "json", "ndjson", "yaml"}

// Column is one column of a table.
type Column[R any] struct {
	Head string
	Cell func(R) string
}

// Printer prints rows of one kind: as a table of its columns, or whole in the other formats.
type Printer[R any] struct {
	out     io.Writer
	format  string
	columns []Column[R]
	rows    []R
}

// NewPrinter makes a Printer; format is one of Formats.
func NewPrinter[R any](out io.Writer, format string, columns []Column[R]) *Printer[R] {
	return &Printer[R]{out: out, format: format, columns: columns}
}

// CheckFormat refuses an unknown format; "" becomes usual on a pipe and a table on a terminal.
func CheckFormat(format, usual string, out io.Writer) (string, error) {
	if format == "" {
		if Terminal(out) {
			return "table", nil
		}
		return usual, nil
	}
	if !slices.Contains(Formats, format) {
		return "", Errorf(Usage, "-o %s: there are %s", format, strings.Join(Formats, ", "))
	}
	return format, nil
}

// Add prints a row: NDJSON at once, the other formats at Close.
func (p *Printer[R]) Add(row R) error {
	if p.format == "ndjson" {
		return p.line(row)
	}
	p.rows = append(p.rows, row)
	return nil
}

// Close prints what is left. A table without rows prints nothing.
func (p *Printer[R]) Close() error {
	switch p.format {
	case "json":
		if p.rows == nil {
			p.rows = []R{}
		}
		return p.indented(p.rows)
	case "yaml":
		return PrintYAML(p.out, p.rows)
	case "table":
		return p.table()
	}
	return nil
}

// One prints a single thing: an object in JSON and YAML, a row elsewhere.
func (p *Printer[R]) One(row R) error {
	switch p.format {
	case "json":
		return p.indented(row)
	case "yaml":
		return PrintYAML(p.out, row)
	}
	if err := p.Add(row); err != nil {
		return err
	}
	return p.Close()
}

func (p *Printer[R]) line(v any) error {
	e := json.NewEncoder(p.out)
	e.SetEscapeHTML(false)
	return e.Encode(v)
}

func (p *Printer[R]) indented(v any) error {
	e := json.NewEncoder(p.out)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return e.Encode(v)
}

// PrintYAML prints v by its JSON names.
func PrintYAML(out io.Writer, v any) error {
	b, err := yaml.Marshal(v)
	if err == nil {
		_, err = out.Write(b)
	}
	return err
}

func (p *Printer[R]) table() error {
	if len(p.rows) == 0 {
		return nil
	}
	w := table.NewWriter()
	style := table.StyleDefault
	style.Options = table.OptionsNoBordersAndSeparators
	style.Box.PaddingLeft, style.Box.PaddingRight = "", "  "
	style.Format.Header = text.FormatUpper
	w.SetStyle(style)
	head := make(table.Row, len(p.columns))
	for i, c := range p.columns {
		head[i] = c.Head
	}
	w.AppendHeader(head)
	for _, r := range p.rows {
		row := make(table.Row, len(p.columns))
		for i, c := range p.columns {
			row[i] = printable(c.Cell(r))
		}
		w.AppendRow(row)
	}
	for line := range strings.SplitSeq(w.Render(), "\n") {
		if _, err := fmt.Fprintln(p.out, strings.TrimRight(line, " ")); err != nil {
			return err
		}
	}
	return nil
}

// printable keeps what a message holds from moving the cursor or colouring the terminal.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f || (r >= 0x80 && r < 0xa0) {
			return '?'
		}
		return r
	}, s)
}
