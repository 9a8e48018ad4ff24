package client

import (
	"encoding/json"
	"io"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"queen/tools/cli"
)

// TestRedriveFollowsItsJob: one call starts the job with all that was asked for, the others look how far it is; people
// hear of each tenth, and where the job is when nobody tells any more.
func TestRedriveFollowsItsJob(t *testing.T) {
	running := `{"id":"j/1","state":"running","total":20,"remaining":`
	for _, c := range []struct {
		name   string
		looks  []string // answers, in order; "" is a 503
		code   int
		stderr string
	}{
		{"done", []string{running + `20}`, running + `11}`, running + `11}`, running + `3}`, `{"state":"done","moved":20}`}, cli.Done,
			"queen: 9 of 20 dead letters done\nqueen: 17 of 20 dead letters done\nqueen: 20 of 20 dead letters moved\n"},
		{"lost sight", []string{running + `11}`, ""}, cli.Server, "queen: 9 of 20 dead letters done\n" +
			"queen: the job goes on at the node: GET /api/v1/dlq/redrive/j%2F1 tells how far it is\n" +
			"queen: the node answered 503: Service Unavailable\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var started []map[string]any
			looks := c.looks
			code, _, stderr := execute(t, func(w http.ResponseWriter, r *http.Request) {
				if r.Method == http.MethodPost {
					body := map[string]any{}
					if err := json.NewDecoder(r.Body).Decode(&body); err != nil || r.URL.Path != redrivePath {
						t.Errorf("POST %s: %v", r.URL.Path, err)
					}
					started = append(started, body)
					w.WriteHeader(http.StatusAccepted)
					_, _ = io.WriteString(w, running+`20}`)
					return
				}
				if len(looks) == 0 || r.URL.EscapedPath() != redrivePath+"/j%2F1" {
					t.Errorf("%s after %d looks", r.URL, len(c.looks)-len(looks))
					return
				}
				if looks[0] == "" {
					w.WriteHeader(http.StatusServiceUnavailable)
				}
				_, _ = io.WriteString(w, looks[0])
				looks = looks[1:]
			}, "", "dlq", "redrive", "q", "--yes", "--group-only", "--rate", "5", "--group", "g", "--error", "boom", "--from", "2026-11-01T00:00:00Z",
				"--to", "2026-11-02T00:00:00Z")
			require.Equal(t, c.code, code, stderr)
			require.Equal(t, c.stderr, stderr)
			require.Empty(t, looks)
			require.Equal(t, []map[string]any{{"queue": "q", "consumerGroup": "g", "error": "boom", "ratePerSecond": 5.0,
				"target": "group-only", "from": "2026-11-01T00:00:00Z", "to": "2026-11-02T00:00:00Z"}}, started)
		})
	}
}

// TestRedriveAsksFirst: without --yes the job's dry run makes the plan, and where nobody can say yes nothing is started.
func TestRedriveAsksFirst(t *testing.T) {
	var asked []string
	code, _, stderr := execute(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		asked = append(asked, string(body))
		_, _ = io.WriteString(w, `{"dryRun":true,"total":7}`)
	}, "", "dlq", "redrive", "q")
	require.Equal(t, cli.Usage, code)
	require.Contains(t, stderr, "nothing was done")
	require.Equal(t, []string{`{"dryRun":true,"queue":"q"}` + "\n"}, asked)
}

// TestReplayForOneGroup: a replay says for whom it is, one by one too, and does not go to another queue with that.
func TestReplayForOneGroup(t *testing.T) {
	var asked []string
	node := func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			_, _ = io.WriteString(w, `{"messages":[{"id":"one"}]}`)
			return
		}
		body, _ := io.ReadAll(r.Body)
		asked = append(asked, string(body))
		_, _ = io.WriteString(w, `{"result":"moved"}`)
	}
	code, _, stderr := execute(t, node, "", "dlq", "replay", "one", "--group-only")
	require.Equal(t, cli.Done, code, stderr)
	code, _, stderr = execute(t, node, "", "dlq", "redrive", "q", "--group-only", "--to-partition", "p", "--yes")
	require.Equal(t, cli.Done, code, stderr)
	require.Equal(t, []string{`{"target":"group-only"}` + "\n", `{"partition":"p","target":"group-only"}` + "\n"}, asked)
	for _, command := range [][]string{{"replay", "one"}, {"redrive", "q", "--yes"}} {
		code, _, stderr = execute(t, node, "", append(append([]string{"dlq"}, command...), "--group-only", "--to-queue", "other")...)
		require.Equal(t, cli.Usage, code)
		require.Contains(t, stderr, "[group-only to-queue]")
	}
	require.Len(t, asked, 2)
}
