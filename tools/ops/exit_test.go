package ops

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"

	"queen/tools/cli"
)

// execute runs a command against an address and returns its exit code and what it printed.
func execute(t *testing.T, url string, args ...string) (code int, out string) {
	t.Helper()
	var stdout, stderr strings.Builder
	s := cli.Streams{In: strings.NewReader(""), Out: &stdout, Err: &stderr, Env: []string{"QUEEN_URL=" + url, "HOME=" + t.TempDir()}}
	root := &cobra.Command{Use: "queen", SilenceErrors: true, SilenceUsage: true}
	root.AddCommand(Commands(s, "test")...)
	root.AddCommand(MembersCommand(s), ExportConfigCommand(s))
	root.SetArgs(args)
	code = cli.Code(root.Execute())
	return code, stdout.String()
}

// TestExitCodes: every command times every class of what can go wrong. A doctor tells all but a wrong line as a finding.
func TestExitCodes(t *testing.T) {
	file := filepath.Join(t.TempDir(), "q.yaml")
	require.NoError(t, os.WriteFile(file, []byte("queue: q\n"), 0o600))
	calls := [][]string{{"ping"}, {"status"}, {"top"}, {"lag"}, {"doctor"}, {"apply", "-f", file}, {"diff", "-f", file}, {"export"}, {"export", "q"},
		{"export-config", "q"}, {"metrics"}, {"audit", "list"}, {"bench", "--duration", "100ms"}, {"members"}}
	answer := func(status int, body string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(status)
			_, _ = w.Write([]byte(body))
		}
	}
	for _, class := range []struct {
		name string
		h    http.HandlerFunc
		want int
	}{
		{"401", answer(401, `{"error":"who?"}`), cli.Auth},
		{"403", answer(403, `{"error":"no"}`), cli.Auth},
		{"429", answer(429, `{"error":"later"}`), cli.Server},
		{"500", answer(500, `{"error":"oh"}`), cli.Server},
		{"503", answer(503, `<html>`), cli.Server},
		{"an empty object", answer(200, `{}`), cli.Server},
		{"a page", answer(200, `<html>`), cli.Server},
		{"nothing", answer(200, ``), cli.Server},
		{"a cut connection", func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, cli.Server},
	} {
		s := httptest.NewServer(class.h)
		for _, args := range calls {
			want := class.want
			switch {
			case args[0] == "doctor":
				want = cli.Findings
			case args[0] == "status" && want == cli.Auth:
				want = cli.Server // who refuses what everybody may ask is no node
			}
			code, out := execute(t, s.URL, args...)
			require.Equal(t, want, code, "%s: %v: %s", class.name, args, out)
		}
		s.Close()
	}
	for _, args := range calls {
		for _, wrong := range [][]string{{"--no-such-flag"}, {"-o", "xml"}, {"--color", "blue"}, {"--url", "nowhere"}, {"--context", "none"}} {
			code, out := execute(t, "http://127.0.0.1:1", append(slices.Clone(args), wrong...)...)
			require.Equal(t, cli.Usage, code, "%v %v", args, wrong)
			require.Empty(t, out)
		}
		code, out := execute(t, "http://127.0.0.1:1", append(slices.Clone(args), "-o", "help")...)
		require.Equal(t, cli.Done, code, "%v", args)
		require.Contains(t, out, "FIELD", "%v", args)
	}
}
