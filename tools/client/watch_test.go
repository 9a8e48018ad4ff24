package client

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"queen/tools/cli"
)

// TestWatch: changes are printed as they come, with the digits that they have, and an end of the stream is no success.
func TestWatch(t *testing.T) {
	stream := func(text string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			require.Equal(t, "/api/v1/kv/watch?fromVersion=7&ns=n&prefix=a", r.URL.String())
			w.Header().Set("Content-Type", "text/event-stream")
			_, _ = fmt.Fprint(w, text)
		}
	}
	const changes = ":\n\ndata: {}\n\nevent: change\nid: 8\ndata: {\"key\":\"a\",\"value\":12345678901234567890,\"version\":8,\"deleted\":false}\n\n" +
		"event: lost\ndata: {}\n\nevent: change\nid: 9\ndata: {\"key\":\"b\",\ndata: \"version\":9,\"deleted\":true}\n\n"
	args := []string{"kv", "watch", "a", "--ns", "n", "--from-version", "7"}

	code, out, errs := execute(t, stream(changes), "", append(args, "-n", "2")...)
	require.Equal(t, cli.Done, code, errs)
	require.Equal(t, `{"deleted":false,"key":"a","value":12345678901234567890,"version":8}
{"deleted":true,"key":"b","version":9}
`, out)
	require.Contains(t, errs, "deletions before the next change may be missing")

	code, out, _ = execute(t, stream(changes), "", append(args, "-n", "1", "-o", "table")...)
	require.Equal(t, cli.Done, code)
	require.Regexp(t, `(?m)^a +12345678901234567890 +8 +false$`, out)

	code, _, errs = execute(t, stream(changes), "", args...)
	require.Equal(t, cli.Server, code)
	require.Contains(t, errs, "the stream ended")
	code, out, errs = execute(t, stream("event: change\ndata: {\"key\":"), "", args...)
	require.Equal(t, cli.Server, code)
	require.Empty(t, out)
	require.Contains(t, errs, "the stream ended")
	code, _, errs = execute(t, stream("event: error\ndata: {\"code\":\"closed\"}\n\n"), "", args...)
	require.Equal(t, cli.Server, code)
	require.Contains(t, errs, `{"code":"closed"}`)
}
