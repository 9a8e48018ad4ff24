package cli

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
)

// thing is a row with every kind of member.
type thing struct {
	Name string `json:"name"`
	Size struct {
		Bytes uint64 `json:"bytes"`
	} `json:"size"`
	At   string          `json:"at"`
	Data json.RawMessage `json:"data,omitempty"`
	Tags []string        `json:"tags,omitempty"`
}

func (t *thing) ShiftTimes(zone *time.Location) { t.At = InZone(t.At, zone) }

var thingColumns = []Column[thing]{
	{Head: "at", Cell: func(t thing) string { return t.At }, Help: "when"},
	{Head: "name", Key: true, Cell: func(t thing) string { return t.Name }, Tone: func(t thing) Tone {
		if t.Size.Bytes > 1 {
			return Bad
		}
		return Plain
	}},
	{Head: "bytes", Wide: true, Cell: func(t thing) string { return string(t.Data) }, Field: "size.bytes"},
	{Head: "first tag", Cell: func(t thing) string { return strings.Join(t.Tags, ",") }},
}

func things() []thing {
	a := thing{Name: "a,\"b\"", At: "2026-11-30T10:00:00.120Z", Data: json.RawMessage(`12345678901234567890`), Tags: []string{"x", "y"}}
	b := thing{Name: "c", At: "2026-11-30T10:00:00Z", Data: json.RawMessage(`null`)}
	b.Size.Bytes = 2
	return []thing{a, b}
}

// invoke runs a command over things and returns its exit code and what it printed.
func invoke(t *testing.T, run func(*Invocation, *Printer[thing], []string) error, args ...string) (int, string, string) {
	t.Helper()
	var out, errs strings.Builder
	s := Streams{In: strings.NewReader(""), Out: &out, Err: &errs}
	if run == nil {
		run = func(_ *Invocation, p *Printer[thing], _ []string) error { return p.AddAll(things()) }
	}
	cmd := Command(s, &cobra.Command{Use: "show THING", Args: cobra.ExactArgs(1), SilenceErrors: true, SilenceUsage: true}, "ndjson",
		thingColumns, run)
	cmd.Flags().String("needed", "", "")
	if err := cmd.MarkFlagRequired("needed"); err != nil {
		t.Fatal(err)
	}
	cmd.SetArgs(args)
	cmd.SetOut(&errs)
	cmd.SetErr(&errs)
	err := cmd.Execute()
	s.Complain(err, false)
	return Code(err), out.String(), errs.String()
}

// TestCommandFormats prints two rows in every format.
func TestCommandFormats(t *testing.T) {
	for _, c := range []struct{ format, want string }{
		{"table", "AT                        NAME   FIRST TAG\n2026-11-30T10:00:00.120Z  a,\"b\"  x,y\n2026-11-30T10:00:00Z      c\n"},
		{"wide", "AT                        NAME   BYTES                 FIRST TAG\n" +
			"2026-11-30T10:00:00.120Z  a,\"b\"  12345678901234567890  x,y\n2026-11-30T10:00:00Z      c      null\n"},
		{"csv", "at,name,bytes,first tag\n2026-11-30T10:00:00.120Z,\"a,\"\"b\"\"\",12345678901234567890,\"x,y\"\n2026-11-30T10:00:00Z,c,null,\n"},
		{"name", "a,\"b\"\nc\n"},
		{"jsonpath=$.name", "a,\"b\"\nc\n"},
		{"jsonpath={.size.bytes}", "0\n2\n"},
		{"jsonpath=data", "12345678901234567890\nnull\n"},
		{"jsonpath=$.tags[*]", "x\ny\n"},
		{"jsonpath=$.size", "{\"bytes\":0}\n{\"bytes\":2}\n"},
		{"template={{.name}} {{.size.bytes}} {{.data}}", "a,\"b\" 0 12345678901234567890\nc 2 <no value>\n"},
	} {
		code, out, errs := invoke(t, nil, "x", "--needed", "1", "-o", c.format)
		if code != Done || out != c.want || errs != "" {
			t.Errorf("%s: exit %d, said %q, printed\n%s, want\n%s", c.format, code, errs, out, c.want)
		}
	}
}

// TestBadFormats: a format that can not be parsed is told before anything runs.
func TestBadFormats(t *testing.T) {
	for _, format := range []string{"xml", "jsonpath=$[", "jsonpath", "template={{", "json=x", "template={{.name | nothing}}"} {
		code, out, errs := invoke(t, func(*Invocation, *Printer[thing], []string) error {
			t.Errorf("%s ran", format)
			return nil
		}, "x", "--needed", "1", "-o", format)
		if code != Usage || out != "" || errs == "" {
			t.Errorf("%s: exit %d, %q, said %q", format, code, out, errs)
		}
	}
}

// TestHelpOfFields: -o help needs no argument and no flag, and runs nothing.
func TestHelpOfFields(t *testing.T) {
	code, out, errs := invoke(t, func(*Invocation, *Printer[thing], []string) error {
		t.Error("it ran")
		return nil
	}, "-o", "help")
	want := "FIELD       TYPE            COLUMN        WHAT\nname        string          name\nsize.bytes  number          bytes (wide)\n" +
		"at          string          at            when\ndata        json\ntags        list of string\nfirst tag   cell            first tag\n"
	if code != Done || out != want || errs != "" {
		t.Errorf("exit %d, said %q:\n%s", code, errs, out)
	}
}

// TestColor: only what is asked for colours a pipe, and tones show.
func TestColor(t *testing.T) {
	_, out, _ := invoke(t, nil, "x", "--needed", "1", "-o", "table", "--color", "always")
	if !strings.Contains(out, "\x1b[1mNAME\x1b[0m") || !strings.Contains(out, "\x1b[31mc\x1b[0m") {
		t.Errorf("%q", out)
	}
	for _, color := range []string{"auto", "never"} {
		if _, out, _ := invoke(t, nil, "x", "--needed", "1", "-o", "table", "--color", color); strings.Contains(out, "\x1b") {
			t.Errorf("%s: %q", color, out)
		}
	}
}

// TestZones: times are UTC whatever they came as, with the digits that they had.
func TestZones(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{"2026-11-30T12:00:00.5+02:00", "2026-11-30T10:00:00.5Z"}, {"2026-11-30T10:00:00.120000Z", "2026-11-30T10:00:00.120000Z"},
		{"yesterday", "yesterday"}, {"", ""},
	} {
		if got := InZone(c.in, time.UTC); got != c.want {
			t.Errorf("%s: %s, want %s", c.in, got, c.want)
		}
	}
	zone := time.FixedZone("", 3600)
	if got := InZone("2026-11-30T10:00:00.120Z", zone); got != "2026-11-30T11:00:00.120+01:00" {
		t.Error(got)
	}
	r := Row{"createdAt": json.RawMessage(`"2026-11-30T10:00:00Z"`), "at": json.RawMessage(`1`), "data": json.RawMessage(`"2026-11-30T10:00:00Z"`)}
	r.ShiftTimes(zone)
	if r.Text("createdAt") != "2026-11-30T11:00:00+01:00" || r.Text("data") != "2026-11-30T10:00:00Z" {
		t.Errorf("%s", r)
	}
}

// TestEndOfOutput: what failed before its first row prints none; an empty list is one; a list that broke off is closed.
func TestEndOfOutput(t *testing.T) {
	for _, c := range []struct {
		err  error
		rows int
		want string
	}{
		{Errorf(Server, "no"), 0, ""}, {nil, 0, "[]\n"}, {Exit(Nothing), 0, "[]\n"}, {Errorf(Server, "no"), 1, "]\n"}, {Exit(Partly), 2, "]\n"},
	} {
		code, out, _ := invoke(t, func(_ *Invocation, p *Printer[thing], _ []string) error {
			if err := p.AddAll(things()[:c.rows]); err != nil {
				return err
			}
			return c.err
		}, "x", "--needed", "1", "-o", "json")
		var list []thing
		if code != Code(c.err) || !strings.HasSuffix(out, c.want) || c.want == "" && out != "" ||
			c.want != "" && (json.Unmarshal([]byte(out), &list) != nil || len(list) != c.rows) {
			t.Errorf("%v after %d rows: exit %d, %q", c.err, c.rows, code, out)
		}
	}
}

// TestInstants reads every form of a time.
func TestInstants(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{"beginning", "beginning"}, {"end", "end"}, {"2026-11-30T12:00:00+02:00", "2026-11-30T10:00:00Z"},
		{"1764496800", "2025-11-30T10:00:00Z"}, {"1764496800123", "2025-11-30T10:00:00.123Z"}, {"0", "1970-01-01T00:00:00Z"},
		{"yesterday", ""}, {"-1", ""}, {"15m", ""}, {"x ago", ""}, {"-5m ago", ""}, {"2026-11-30", ""}, {"", ""}, {"99999999999999999", ""},
	} {
		got, err := ParseInstant("from", c.in)
		if (err == nil) != (c.want != "") || err == nil && got.String() != c.want || err != nil && Code(err) != Usage {
			t.Errorf("%s: %s, %v", c.in, got, err)
		}
	}
	before := time.Now()
	for _, c := range []struct {
		in  string
		ago time.Duration
	}{{"now", 0}, {"15m ago", 15 * time.Minute}, {"2d ago", 48 * time.Hour}, {"1.5h ago", 90 * time.Minute}} {
		got, err := ParseInstant("from", c.in)
		if err != nil || got.Time.Before(before.Add(-c.ago)) || got.Time.After(time.Now().Add(-c.ago)) {
			t.Errorf("%s: %s, %v", c.in, got, err)
		}
	}
	if _, err := ParseTime("from", "end"); Code(err) != Usage {
		t.Error(err)
	}
}

// TestGroups: a group of commands does nothing by itself, and names what is near.
func TestGroups(t *testing.T) {
	for _, c := range []struct {
		args []string
		says string
	}{
		{nil, "Usage:"}, {[]string{"queue"}, "Available Commands:"}, {[]string{"queue", "lst"}, "did you mean list?"}, {[]string{"que"}, `unknown command "que"`},
	} {
		var out, errs strings.Builder
		root := &cobra.Command{Use: "queen", SilenceErrors: true, SilenceUsage: true}
		queue := &cobra.Command{Use: "queue"}
		queue.AddCommand(&cobra.Command{Use: "list", Run: func(*cobra.Command, []string) {}})
		root.AddCommand(queue)
		Groups(root)
		root.SetOut(&out)
		root.SetErr(&errs)
		root.SetArgs(append([]string{}, c.args...))
		err := root.Execute()
		if err != nil {
			errs.WriteString(err.Error())
		}
		if Code(err) != Usage || out.String() != "" || !strings.Contains(errs.String(), c.says) {
			t.Errorf("%v: %v, %q, %q", c.args, err, out.String(), errs.String())
		}
	}
}
