package client

import (
	"encoding/json"
	"fmt"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"queen/tools/cli"
)

// TestListOfASnapshot: the pages of kv list --snapshot name the one of the first page, and one that is over, or that the
// node does not tell, is an error.
func TestListOfASnapshot(t *testing.T) {
	var asked []string
	pages := func(second string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			var body struct{ After, Snapshot string }
			require.NoError(t, json.NewDecoder(r.Body).Decode(&body))
			asked = append(asked, body.After+" "+body.Snapshot)
			if body.After == "" {
				_, _ = fmt.Fprint(w, `{"rows":[{"key":"a"}],"nextAfter":"a","snapshot":"7-x"}`)
				return
			}
			if second == "" {
				w.WriteHeader(http.StatusGone)
				second = `{"error":"snapshot_expired","reason":"snapshot_expired","detail":"the snapshot is over"}`
			}
			_, _ = fmt.Fprint(w, second)
		}
	}
	args := []string{"kv", "list", "--ns", "n", "--snapshot", "-o", "name"}
	code, out, errs := execute(t, pages(`{"rows":[{"key":"b"}],"nextAfter":null,"snapshot":null}`), "", args...)
	require.Equal(t, cli.Done, code, errs)
	require.Equal(t, "a\nb\n", out)
	require.Equal(t, []string{" new", "a 7-x"}, asked)

	code, _, errs = execute(t, pages(""), "", args...)
	require.NotEqual(t, cli.Done, code)
	require.Contains(t, errs, "snapshot_expired")

	code, _, errs = execute(t, pages(`{"rows":[{"key":"b"}],"nextAfter":"b"}`), "", args...)
	require.NotEqual(t, cli.Done, code)
	require.Contains(t, errs, "snapshot")

	asked = nil
	code, _, errs = execute(t, pages(`{"rows":[],"nextAfter":null}`), "", args[:4]...)
	require.Equal(t, cli.Done, code, errs)
	require.Equal(t, []string{" ", "a "}, asked, "no snapshot without the flag")
}
