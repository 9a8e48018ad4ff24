package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"
	"sigs.k8s.io/yaml"
)

// Tone is what a cell says of its row where colours are on.
type Tone int

// The tones of a cell.
const (
	Plain Tone = iota
	Good
	Warn
	Bad
)

// Column is one column of a table and of CSV.
type Column[R any] struct {
	Head string
	Cell func(R) string
	// Field is the member of the JSON form that it shows, for -o help; "" where Head tells.
	Field string
	// Wide leaves the column out of -o table.
	Wide bool
	// Key makes it what -o name prints; without any it is the first column.
	Key bool
	// Help says what it means, for -o help.
	Help string
	// Tone, when it is set, colours the cell.
	Tone func(R) Tone
}

// Printer prints rows of one kind: as a table of its columns, or whole in the other formats. Every format but table and
// wide prints a row at once, so that a command that goes on for ever can print in any.
type Printer[R any] struct {
	printing
	columns []Column[R]

	rows   []R // of a table, up to its next Flush
	n      int // rows that were added
	headed bool
	whole  bool // One or Detail printed all there is
	csv    csvLines
}

// printing is what printers of all kinds have.
type printing struct {
	out    io.Writer
	format string // without what stands behind =
	shape  shape  // of jsonpath and template
	color  bool
	zone   *time.Location
	err    error // a format that is none: what every call returns
}

func (inv *Invocation) printer() printing {
	p := newPrinting(inv.Out, inv.Format)
	p.color, p.zone = inv.Color, inv.Zone
	return p
}

func newPrinting(out io.Writer, format string) printing {
	kind, _, _ := strings.Cut(format, "=")
	p := printing{out: out, format: kind, zone: time.UTC}
	p.shape, p.err = parseShape(format)
	return p
}

// NewPrinter makes a Printer without Command, which must be closed; format is one of Formats.
func NewPrinter[R any](out io.Writer, format string, columns []Column[R]) *Printer[R] {
	return &Printer[R]{printing: newPrinting(out, format), columns: columns}
}

// Print makes a Printer of other rows than those that the command is wired with, which must be closed.
func Print[R any](inv *Invocation, columns []Column[R]) *Printer[R] {
	return &Printer[R]{printing: inv.printer(), columns: columns}
}

// timed is a row with times, as RFC 3339.
type timed interface{ ShiftTimes(*time.Location) }

// shift puts the times of a row into the zone of the command.
func (p *printing) shift(row any) {
	if t, ok := row.(timed); ok {
		t.ShiftTimes(p.zone)
	}
}

// Silence keeps the Printer from printing anything, for a command that prints in a way of its own.
func (p *Printer[R]) Silence() { p.whole = true }

// Rows is how many rows were added.
func (p *Printer[R]) Rows() int { return p.n }

// Skip leaves all printing to the command, which does it by another Printer or past all of them.
func (p *Printer[R]) Skip() { p.whole = true }

// Table tells whether rows are printed as cells for people.
func (p *Printer[R]) Table() bool { return p.format == "table" || p.format == "wide" }

// Add prints a row; that of a table at the next Flush.
func (p *Printer[R]) Add(row R) error {
	if p.err != nil {
		return p.err
	}
	p.shift(&row)
	p.n++
	switch p.format {
	case "table", "wide":
		p.rows = append(p.rows, row)
		return nil
	case "json":
		return p.element(row)
	case "ndjson":
		return p.line(row)
	case "yaml":
		return printYAML(p.out, []R{row})
	case "csv":
		return p.record(row)
	case "name":
		return printText(p.out, p.name(row))
	case "help": // of a command without Command, which would not have run
		return nil
	}
	return p.shape.print(p.out, row)
}

// AddAll adds rows.
func (p *Printer[R]) AddAll(rows []R) error {
	for _, r := range rows {
		if err := p.Add(r); err != nil {
			return err
		}
	}
	return nil
}

// Flush prints the rows of a table that were added so far, for a command that goes on.
func (p *Printer[R]) Flush() error {
	if len(p.rows) == 0 {
		return nil
	}
	rows := p.rows
	p.rows = nil
	return p.table(rows)
}

// Close prints what is left. A table without rows prints nothing, a list without elements is one in JSON and YAML.
func (p *Printer[R]) Close() error {
	switch {
	case p.err != nil || p.whole:
		return p.err
	case p.format == "help":
		return printFields(p.out, Fields(p.columns))
	case p.format == "json" && p.n == 0, p.format == "yaml" && p.n == 0:
		return p.text("[]")
	case p.format == "json":
		return p.text("\n]")
	case p.Table():
		return p.Flush()
	}
	return nil
}

// end closes after run: what failed before its first row prints none.
func (p *Printer[R]) end(err error) error {
	if err != nil && !Silent(err) && p.n == 0 {
		return err
	}
	return errors.Join(err, p.Close())
}

// One prints the single thing that a command is about: an object in JSON and YAML, a row elsewhere.
func (p *Printer[R]) One(row R) error {
	if p.err != nil {
		return p.err
	}
	switch p.format {
	case "json", "yaml":
		p.shift(&row)
		p.n, p.whole = p.n+1, true
		if p.format == "yaml" {
			return printYAML(p.out, row)
		}
		return p.object(row, "", "  ")
	}
	return p.Add(row)
}

// Detail prints a single thing of many members: a line for each pair in a table, as One elsewhere.
func (p *Printer[R]) Detail(row R, pairs [][2]string) error {
	if !p.Table() {
		return p.One(row)
	}
	p.whole = true
	out := &Printer[[2]string]{printing: p.printing, columns: []Column[[2]string]{
		{Head: "what", Cell: func(r [2]string) string { return r[0] }},
		{Head: "value", Cell: func(r [2]string) string { return r[1] }},
	}}
	if err := out.AddAll(pairs); err != nil {
		return err
	}
	return out.Close()
}

// line prints a value as JSON of one line.
func (p *printing) line(v any) error { return p.object(v, "", "") }

func (p *printing) object(v any, prefix, indent string) error {
	b, err := marshal(v, prefix, indent)
	if err != nil {
		return err
	}
	_, err = p.out.Write(append(b, '\n'))
	return err
}

// element prints an element of the list that Close ends.
func (p *Printer[R]) element(row R) error {
	b, err := marshal(row, "  ", "  ")
	if err != nil {
		return err
	}
	before := ",\n  "
	if p.n == 1 {
		before = "[\n  "
	}
	_, err = fmt.Fprintf(p.out, "%s%s", before, b)
	return err
}

// marshal leaves <, > and & as they are.
func marshal(v any, prefix, indent string) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if indent != "" {
		e.SetIndent(prefix, indent)
	}
	err := e.Encode(v)
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), err
}

func (p *printing) text(line string) error {
	_, err := fmt.Fprintln(p.out, line)
	return err
}

// printYAML prints v by its JSON names.
func printYAML(out io.Writer, v any) error {
	b, err := yaml.Marshal(v)
	if err == nil {
		_, err = out.Write(b)
	}
	return err
}

// PrintYAML prints v by its JSON names.
func PrintYAML(out io.Writer, v any) error { return printYAML(out, v) }

var tones = map[Tone]text.Color{Good: text.FgGreen, Warn: text.FgYellow, Bad: text.FgRed}

func (p *Printer[R]) table(rows []R) error {
	w := table.NewWriter()
	style := table.StyleDefault
	style.Options = table.OptionsNoBordersAndSeparators
	style.Box.PaddingLeft, style.Box.PaddingRight = "", "  "
	style.Format.Header = text.FormatDefault
	w.SetStyle(style)
	shown, head := []Column[R]{}, table.Row{}
	for _, c := range p.columns {
		if c.Wide && p.format != "wide" {
			continue
		}
		shown, head = append(shown, c), append(head, p.paint(strings.ToUpper(c.Head), text.Bold))
	}
	if !p.headed {
		w.AppendHeader(head)
		p.headed = true
	}
	for _, r := range rows {
		row := make(table.Row, len(shown))
		for i, c := range shown {
			cell := printable(c.Cell(r))
			if c.Tone != nil {
				if color, ok := tones[c.Tone(r)]; ok {
					cell = p.paint(cell, color)
				}
			}
			row[i] = cell
		}
		w.AppendRow(row)
	}
	for line := range strings.SplitSeq(w.Render(), "\n") {
		if err := p.text(strings.TrimRight(line, " ")); err != nil {
			return err
		}
	}
	return nil
}

// paint colours a text where colours are on.
func (p *printing) paint(s string, c text.Color) string {
	if !p.color || s == "" {
		return s
	}
	return c.EscapeSeq() + s + text.Reset.EscapeSeq()
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
