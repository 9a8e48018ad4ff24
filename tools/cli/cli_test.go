package cli

import (
	"errors"
	"fmt"
	"strings"
	"testing"
)

type row struct {
	Name string `json:"name"`
	N    int    `json:"n"`
}

var rowColumns = []Column[row]{
	{Head: "name", Cell: func(r row) string { return r.Name }},
	{Head: "n", Cell: func(r row) string { return fmt.Sprint(r.N) }},
}

// TestFormats prints none, one and two rows in every format.
func TestFormats(t *testing.T) {
	rows := []row{{"<a>", 1}, {"b\x1b[31m", 2}}
	for _, c := range []struct {
		format string
		n      int
		want   string
	}{
		{"table", 0, ""},
		{"table", 1, "NAME  N\n<a>   1\n"},
		{"table", 2, "NAME    N\n<a>     1\nb?[31m  2\n"},
		{"json", 0, "[]\n"},
		{"json", 1, "[\n  {\n    \"name\": \"<a>\",\n    \"n\": 1\n  }\n]\n"},
		{"ndjson", 0, ""},
		{"ndjson", 2, "{\"name\":\"<a>\",\"n\":1}\n{\"name\":\"b\\u001b[31m\",\"n\":2}\n"},
		{"yaml", 1, "- \"n\": 1\n  name: <a>\n"},
		{"yaml", 0, "[]\n"},
		{"name", 2, "<a>\nb\x1b[31m\n"},
		{"help", 2, "FIELD  TYPE    COLUMN  WHAT\nname   string  name\nn      number  n\n"},
	} {
		var out strings.Builder
		p := NewPrinter(&out, c.format, rowColumns)
		for _, r := range rows[:c.n] {
			if err := p.Add(r); err != nil {
				t.Fatal(err)
			}
		}
		if err := p.Close(); err != nil {
			t.Fatal(err)
		}
		if out.String() != c.want {
			t.Errorf("%s of %d rows:\n%q, want\n%q", c.format, c.n, out.String(), c.want)
		}
	}
}

func TestCode(t *testing.T) {
	for _, c := range []struct {
		err  error
		want int
	}{
		{nil, Done}, {errors.New("x"), Usage}, {Exit(Done), Done}, {Exit(Nothing), Nothing},
		{Errorf(Server, "x"), Server}, {fmt.Errorf("more: %w", Errorf(Auth, "x")), Auth},
		{errors.Join(nil, Errorf(Partly, "x")), Partly},
	} {
		if got := Code(c.err); got != c.want {
			t.Errorf("%v: code %d, want %d", c.err, got, c.want)
		}
	}
}

func TestComplain(t *testing.T) {
	for _, c := range []struct {
		err    error
		asJSON bool
		want   string
	}{
		{nil, false, ""}, {Exit(Nothing), false, ""}, {errors.New("a\nb"), false, "queen: a\nqueen: b\n"},
		{Errorf(Server, "a\nb"), true, `{"error":"a\nb","exit":2}` + "\n"},
	} {
		var out strings.Builder
		Streams{Err: &out}.Complain(c.err, c.asJSON)
		if out.String() != c.want {
			t.Errorf("%v: said %q, want %q", c.err, out.String(), c.want)
		}
	}
}

func TestCheckFormat(t *testing.T) {
	var out strings.Builder
	if f, err := CheckFormat("", "ndjson", &out); err != nil || f != "ndjson" {
		t.Errorf("no format on a pipe: %s, %v", f, err)
	}
	if _, err := CheckFormat("xml", "json", &out); Code(err) != Usage {
		t.Errorf("xml: %v", err)
	}
}
