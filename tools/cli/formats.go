package cli

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/template"

	"github.com/theory/jsonpath"
)

// Formats are the values of -o. A jsonpath is one of RFC 9535, where $ may be left out and braces may stand around; a
// template is one of text/template over the JSON form. Both are about one row and print a line for each.
var Formats = []string{"table", "wide", "json", "ndjson", "yaml", "csv", "name", "jsonpath=", "template=", "help"}

// CheckFormat refuses an unknown format; "" becomes usual on a pipe and a table on a terminal.
func CheckFormat(format, usual string, out io.Writer) (string, error) {
	if format == "" {
		if Terminal(out) {
			return "table", nil
		}
		return usual, nil
	}
	kind, _, parameter := strings.Cut(format, "=")
	if parameter {
		kind += "="
	}
	if !slices.Contains(Formats, kind) {
		return "", Errorf(Usage, "-o %s: there are %s", format, strings.Join(Formats, ", "))
	}
	_, err := parseShape(format)
	return format, err
}

// shape prints a row by a parameter of -o.
type shape interface {
	print(out io.Writer, row any) error
}

// parseShape is nil for the formats without a parameter.
func parseShape(format string) (shape, error) {
	kind, parameter, ok := strings.Cut(format, "=")
	switch {
	case !ok:
		return nil, nil
	case kind == "jsonpath":
		return parsePath(parameter)
	}
	t, err := template.New("-o").Parse(parameter)
	if err != nil {
		return nil, Errorf(Usage, "-o %s: %w", format, err)
	}
	return templateShape{t}, nil
}

type pathShape struct{ path *jsonpath.Path }

func parsePath(query string) (shape, error) {
	text := query
	if inner, ok := strings.CutPrefix(text, "{"); ok && strings.HasSuffix(inner, "}") {
		text = strings.TrimSuffix(inner, "}")
	}
	if !strings.HasPrefix(text, "$") {
		if !strings.HasPrefix(text, ".") && !strings.HasPrefix(text, "[") {
			text = "." + text
		}
		text = "$" + text
	}
	path, err := jsonpath.Parse(text)
	if err != nil {
		return nil, Errorf(Usage, "-o jsonpath=%s: %w", query, err)
	}
	return pathShape{path}, nil
}

// print prints what the path selects, each on a line: strings as they are, the rest as JSON.
func (s pathShape) print(out io.Writer, row any) error {
	v, err := plain(row)
	if err != nil {
		return err
	}
	for _, node := range s.path.Select(v) {
		line, ok := node.(string)
		if !ok {
			b, err := marshal(node, "", "")
			if err != nil {
				return err
			}
			line = string(b)
		}
		if err := printText(out, line); err != nil {
			return err
		}
	}
	return nil
}

type templateShape struct{ t *template.Template }

func (s templateShape) print(out io.Writer, row any) error {
	v, err := plain(row)
	if err != nil {
		return err
	}
	var b bytes.Buffer
	if err := s.t.Execute(&b, v); err != nil {
		return Errorf(Usage, "-o template: %w", err)
	}
	return printText(out, b.String())
}

// printText prints a line of what messages hold, which a terminal must not obey.
func printText(out io.Writer, line string) error {
	if Terminal(out) {
		lines := strings.Split(line, "\n")
		for i := range lines {
			lines[i] = printable(lines[i])
		}
		line = strings.Join(lines, "\n")
	}
	_, err := fmt.Fprintln(out, line)
	return err
}

// plain is the JSON form of a row, with numbers as they came.
func plain(row any) (v any, err error) {
	b, err := json.Marshal(row)
	if err != nil {
		return nil, err
	}
	d := json.NewDecoder(bytes.NewReader(b))
	d.UseNumber()
	err = d.Decode(&v)
	return v, err
}

// csvLines writes lines of RFC 4180.
type csvLines struct{ w *csv.Writer }

// record prints a row as a line of CSV, the names of the columns before the first.
func (p *Printer[R]) record(row R) error {
	if p.csv.w == nil {
		p.csv.w = csv.NewWriter(p.out)
		var head []string
		for _, c := range p.columns {
			head = append(head, c.Head)
		}
		if err := p.csv.w.Write(head); err != nil {
			return err
		}
	}
	cells := make([]string, len(p.columns))
	for i, c := range p.columns {
		cells[i] = c.Cell(row)
	}
	if err := p.csv.w.Write(cells); err != nil {
		return err
	}
	p.csv.w.Flush()
	return p.csv.w.Error()
}

// name is what names a row.
func (p *Printer[R]) name(row R) string {
	for _, c := range p.columns {
		if c.Key {
			return c.Cell(row)
		}
	}
	if len(p.columns) == 0 {
		return ""
	}
	return p.columns[0].Cell(row)
}
