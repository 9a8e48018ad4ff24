package client

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"queen/tools/cli"
)

// inputMax bounds a document that is read whole, from a file or standard input: the largest body a node takes by default.
const inputMax = 64 << 20

// row is an answer's object, whose members stay as they came: a version or a number in a value is not rounded.
type row map[string]json.RawMessage

// rowColumns shows members of a row by name.
func rowColumns(names ...string) (columns []cli.Column[row]) {
	for _, name := range names {
		columns = append(columns, cli.Column[row]{Head: name, Cell: func(r row) string { return unquoted(r[name]) }})
	}
	return columns
}

// is tells whether a member is true.
func (r row) is(name string) bool { return string(r[name]) == "true" }

// set puts a member that encoding/json can always write.
func (r row) set(name string, value any) {
	b, err := json.Marshal(value)
	if err != nil {
		b = []byte("null")
	}
	r[name] = b
}

// rows prints a list.
func (s *session) rows(list []row, columns ...string) error {
	out := printer(s, rowColumns(columns...))
	for _, r := range list {
		if err := out.Add(r); err != nil {
			return err
		}
	}
	return out.Close()
}

// writeOptions are the flags of commands that change something.
type writeOptions struct {
	dryRun, yes bool
	key         string
}

func (w *writeOptions) dryRunFlag(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&w.dryRun, "dry-run", false, "print what would be done")
}

func (w *writeOptions) yesFlag(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&w.yes, "yes", false, "do not ask")
}

func (w *writeOptions) keyFlag(cmd *cobra.Command) {
	cmd.Flags().StringVar(&w.key, "idempotency-key", "",
		"1 to 255 bytes; the same call with the same key is carried out once and answered alike, for an hour")
}

// ask makes one call. An answer without the member that carries the verdict is that of something else than this API.
func (s *session) ask(r request, verdict string) (row, error) {
	var answer row
	if _, err := s.call(s.ctx, r, &answer); err != nil {
		return nil, err
	}
	return answer, s.expect(answer, verdict)
}

func (s *session) expect(answer row, verdict string) error {
	if answer[verdict] == nil {
		return cli.Errorf(cli.Server, "%s answered something else than this API: there is no %s", s.url, verdict)
	}
	return nil
}

// askList makes one call whose answer lists rows in a member.
func (s *session) askList(r request, member string) (list []row, answer row, err error) {
	if answer, err = s.ask(r, member); err != nil {
		return nil, nil, err
	}
	if err := json.Unmarshal(answer[member], &list); err != nil {
		return nil, nil, cli.Errorf(cli.Server, "%s answered something else than this API: %s: %w", s.url, member, err)
	}
	return list, answer, nil
}

// told makes one call and prints its answer; the first column carries the verdict.
func (s *session) told(r request, columns ...string) error {
	answer, err := s.ask(r, columns[0])
	if err != nil {
		return err
	}
	return printer(s, rowColumns(columns...)).One(answer)
}

// operate sends one operation to a route that takes many, and gives its result, which has the verdict.
func (s *session) operate(path string, write bool, key, verdict string, op map[string]any) (row, error) {
	r := request{method: http.MethodPost, path: path, write: write, key: key, body: map[string]any{"operations": []any{op}}}
	results, _, err := s.askList(r, "results")
	if err != nil {
		return nil, err
	}
	if len(results) != 1 {
		return nil, cli.Errorf(cli.Server, "%d results for 1 operation", len(results))
	}
	delete(results[0], "index")
	return results[0], s.expect(results[0], verdict)
}

// planned prints an operation that --dry-run keeps from being sent.
func (s *session) planned(op map[string]any) error {
	op["dryRun"] = true
	return printer(s, rawColumns([]string{"op", "dryRun"})).One(op)
}

// document reads an argument's value: the text itself, a file, or standard input to its end.
func (s *session) document(text *string, file string) ([]byte, error) {
	switch {
	case text != nil && file != "":
		return nil, cli.Errorf(cli.Usage, "give the value or --file, not both")
	case text != nil:
		return []byte(*text), nil
	case file == "" || file == "-":
		b, err := readBounded(s.input())
		if err != nil {
			return nil, s.badInput(err)
		}
		return []byte(strings.TrimRight(string(b), "\r\n")), nil
	}
	f, err := os.Open(file)
	if err != nil {
		return nil, cli.Errorf(cli.Usage, "%w", err)
	}
	defer f.Close()
	b, err := readBounded(f)
	if err != nil {
		return nil, cli.Errorf(cli.Usage, "%s: %w", file, err)
	}
	return b, nil
}

func readBounded(in io.Reader) ([]byte, error) {
	b, err := io.ReadAll(io.LimitReader(in, inputMax+1))
	if err == nil && len(b) > inputMax {
		err = errors.New("longer than 64 MiB")
	}
	return b, err
}

// optional is the argument at an index, if it is there.
func optional(args []string, at int) *string {
	if len(args) <= at {
		return nil
	}
	return &args[at]
}

// instant reads a time of the command line: RFC 3339, "now", or a duration with "ago". The node checks the first.
func instant(flag, text string) (string, error) {
	if text == "now" {
		return time.Now().UTC().Format(time.RFC3339Nano), nil
	}
	if before, ok := strings.CutSuffix(text, "ago"); ok {
		d, err := time.ParseDuration(strings.TrimSpace(before))
		if err != nil || d < 0 {
			return "", cli.Errorf(cli.Usage, "--%s %s: want a duration before ago, as in 15m ago", flag, text)
		}
		return time.Now().Add(-d).UTC().Format(time.RFC3339Nano), nil
	}
	if _, err := time.Parse(time.RFC3339, text); err != nil {
		return "", cli.Errorf(cli.Usage, "--%s %s: want RFC 3339 as in 2026-11-30T10:00:00Z, now, or 15m ago", flag, text)
	}
	return text, nil
}

// wholeSeconds checks a lifetime.
func wholeSeconds(flag string, d time.Duration) (int64, error) {
	if d < time.Second || d%time.Second != 0 {
		return 0, cli.Errorf(cli.Usage, "--%s %s: want whole seconds, at least 1s", flag, d)
	}
	return int64(d / time.Second), nil
}

// required marks flags that a command can not do without.
func required(cmd *cobra.Command, names ...string) {
	for _, name := range names {
		if err := cmd.MarkFlagRequired(name); err != nil {
			panic(err) // the flag does not exist: a mistake of this package, and every run of the command shows it
		}
	}
}
