package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"queen/engine/auth"
	"queen/engine/clock"
	"queen/tools/cli"
	"queen/tools/ops"
)

// ran is a command that ended.
type ran struct {
	code        int
	out, errors string
}

// command runs queen as a process of its own, with an environment, to its end.
func command(t testing.TB, env []string, args ...string) ran {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, "queen", args...)
	cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir()}, env...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	if cmd.ProcessState == nil {
		t.Fatal(err)
	}
	return ran{cmd.ProcessState.ExitCode(), out.String(), errs.String()}
}

// TestManifestsHaveEveryOption holds the options of manifests against the API's own document.
func TestManifestsHaveEveryOption(t *testing.T) {
	n := runNode(t, t.TempDir(), nil)
	var doc struct {
		Components struct {
			Schemas map[string]struct{ Properties map[string]any }
		}
	}
	n.must(200, "GET", "/openapi.json", nil, &doc)
	var known []string
	for name := range doc.Components.Schemas["Options"].Properties {
		if name != "namespace" && name != "task" {
			known = append(known, name)
		}
	}
	require.ElementsMatch(t, known, ops.OptionNames())
}

// optionValues are values that are no default and that the node keeps as they are, but for those that default to false.
var optionValues = map[string]any{"retentionSeconds": 90, "retentionMs": 89_500, "dlqScope": "batch", "retentionSinkHold": "sink",
	"deadLetterQueue": true, "dlqAfterMaxRetries": false, "retentionEnabled": true, "encryptionEnabled": true, "leaseTime": 77,
	"retentionSinkHoldMaxSeconds": 7200, "compactKeys": true, "minCompactionLagMs": 60_000, "maxCompactionLagMs": 3_600_000}

// TestExportGoesRound: a queue with every option set, one with each option alone, and one with none are exported, deleted
// and made again by apply; the node then tells the same of each.
func TestExportGoesRound(t *testing.T) {
	n := runNode(t, t.TempDir(), nil)
	all := map[string]any{}
	configure := func(queue string, options map[string]any) {
		n.must(200, "POST", "/api/v1/configure", map[string]any{"queue": queue, "namespace": "n", "task": "t/" + queue, "options": options}, nil)
	}
	queues := []string{"none", "all"}
	configure("none", nil)
	for i, name := range ops.OptionNames() {
		value, ok := optionValues[name]
		if !ok {
			value = 3 + i
		}
		all[name] = value
		queues = append(queues, "only "+name)
		configure("only "+name, map[string]any{name: value})
	}
	configure("all", all)
	describe := func(queue string) map[string]any {
		var d map[string]any
		n.must(200, "GET", "/api/v1/resources/queues/"+strings.ReplaceAll(queue, " ", "%20"), nil, &d)
		for _, life := range []string{"id", "createdAt", "sweptAt"} {
			delete(d, life)
		}
		return d
	}
	before := map[string]map[string]any{}
	for _, q := range queues {
		before[q] = describe(q)
	}
	require.Len(t, before["all"]["optionsSet"], len(ops.OptionNames())+2)

	url := []string{"QUEEN_URL=" + n.url}
	file := filepath.Join(t.TempDir(), "queues.yaml")
	exported := command(t, url, "export")
	require.Equal(t, cli.Done, exported.code, exported.errors)
	require.NoError(t, os.WriteFile(file, []byte(exported.out), 0o600))
	for _, q := range queues {
		n.must(200, "DELETE", "/api/v1/resources/queues/"+strings.ReplaceAll(q, " ", "%20"), nil, nil)
	}
	require.Equal(t, cli.Findings, command(t, url, "diff", "-f", file).code)
	made := command(t, url, "apply", "-f", file)
	require.Equal(t, cli.Done, made.code, made.errors)
	require.NotContains(t, made.out, "bounded")
	for _, q := range queues {
		require.Equal(t, before[q], describe(q), q)
	}
	same := command(t, url, "diff", "-f", file)
	require.Equal(t, cli.Done, same.code, same.out)
	require.Equal(t, exported.out, command(t, url, "export").out)
}

// TestOpsWithoutCredential: every command of an operator says that the node does not know the caller, and does nothing.
func TestOpsWithoutCredential(t *testing.T) {
	key, hash := auth.NewKey(clock.RealRand().Fill)
	keys := filepath.Join(t.TempDir(), "keys.yaml")
	require.NoError(t, os.WriteFile(keys, fmt.Appendf(nil, "keys:\n  - {name: app, hash: %q, roles: [admin]}\n", hash), 0o600))
	n := runNode(t, t.TempDir(), nil, "--auth-keys", keys)
	file := filepath.Join(t.TempDir(), "q.yaml")
	require.NoError(t, os.WriteFile(file, []byte("queue: q\n"), 0o600))
	url, known := []string{"QUEEN_URL=" + n.url}, []string{"QUEEN_URL=" + n.url, "QUEEN_TOKEN=" + key}
	for _, args := range [][]string{{"status"}, {"top"}, {"lag"}, {"apply", "-f", file}, {"diff", "-f", file}, {"export"}, {"audit", "list"}, {"bench"}} {
		got := command(t, url, args...)
		require.Equal(t, cli.Auth, got.code, "%v: %s", args, got.errors)
		require.Empty(t, strings.Trim(got.out, "[]\n"), "%v", args)
	}
	got := command(t, url, "doctor", "--findings")
	require.Equal(t, cli.Findings, got.code)
	require.Contains(t, got.out, "The node does not take the credential")
	require.Equal(t, cli.Done, command(t, url, "ping", "--ready").code)
	require.Equal(t, cli.Done, command(t, known, "status").code)
	require.Equal(t, cli.Done, command(t, known, "apply", "-f", file).code)
	require.Equal(t, cli.Done, command(t, known, "export", "q").code)
}

// TestOpsOfAnUnreadyNode: a node that can not commit is told as that: by status and ping as a finding, with its reason.
func TestOpsOfAnUnreadyNode(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answer := map[string]string{"/livez": `{"status":"ok"}`, "/health": `{"status":"settling","version":"0.0.9"}`,
			"/readyz": `{"status":"not_ready","ready":false,"why":"replaying","role":"stopped","phase":"replay","progress":0.5}`}[r.URL.Path]
		if r.URL.Path != "/livez" {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
		_, _ = w.Write([]byte(answer))
	}))
	defer s.Close()
	url := []string{"QUEEN_URL=" + s.URL}
	for _, c := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"ping"}, cli.Done, `"n":1`},
		{[]string{"ping", "--ready"}, cli.Findings, `"ready":false,"why":"replaying"`},
		{[]string{"status"}, cli.Findings, `"why": "replaying"`},
		{[]string{"status", "-o", "table"}, cli.Findings, "replay 50.0 %"},
		{[]string{"doctor"}, cli.Findings, "The node can not commit"},
		{[]string{"doctor"}, cli.Findings, "of different versions"},
		{[]string{"status", "--exit-when-healthy", "--interval", "10ms", "--timeout", "50ms"}, cli.Findings, ""},
	} {
		got := command(t, url, c.args...)
		require.Equal(t, c.code, got.code, "%v: %s", c.args, got.errors)
		require.Contains(t, got.out, c.want, "%v", c.args)
	}
}

// TestOpsOfSomethingElse: what is no node is not taken for one that is well.
func TestOpsOfSomethingElse(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(`{}`)) }))
	defer s.Close()
	file := filepath.Join(t.TempDir(), "q.yaml")
	require.NoError(t, os.WriteFile(file, []byte("queue: q\n"), 0o600))
	for _, args := range [][]string{{"ping"}, {"ping", "--ready"}, {"status"}, {"diff", "-f", file}, {"apply", "-f", file}} {
		got := command(t, []string{"QUEEN_URL=" + s.URL}, args...)
		require.Equal(t, cli.Server, got.code, "%v: %s%s", args, got.out, got.errors)
	}
	require.Equal(t, cli.Findings, command(t, []string{"QUEEN_URL=" + s.URL}, "doctor").code)
}

// TestApplyLosesAnswers: a manifest whose answer was lost may have been applied, and the next one is applied all the same.
func TestApplyLosesAnswers(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		var body struct{ Queue string }
		_ = json.NewDecoder(r.Body).Decode(&body)
		switch body.Queue {
		case "lost":
			panic(http.ErrAbortHandler)
		case "refused":
			w.WriteHeader(http.StatusBadRequest)
		}
		_, _ = w.Write([]byte(`{"configured":true,"options":{}}`))
	}))
	defer s.Close()
	for _, c := range []struct {
		manifests string
		code      int
		verdicts  []string
	}{
		{"queue: lost\n---\nqueue: good", cli.OutcomeUnknown, []string{"unknown", "created"}},
		{"queue: refused\n---\nqueue: lost\n---\nqueue: good", cli.Partly, []string{"failed", "unknown", "created"}},
		{"queue: lost\n---\nqueue: refused", cli.Partly, []string{"unknown", "failed"}},
	} {
		file := filepath.Join(t.TempDir(), "q.yaml")
		require.NoError(t, os.WriteFile(file, []byte(c.manifests), 0o600))
		got := command(t, []string{"QUEEN_URL=" + s.URL}, "apply", "-f", file, "-o", "jsonpath=$.verdict")
		require.Equal(t, c.code, got.code, got.errors)
		require.Equal(t, c.verdicts, strings.Fields(got.out))
	}
}

// TestDoctorOfAClock: a node whose clock is not this machine's is told, with both times.
func TestDoctorOfAClock(t *testing.T) {
	var ahead time.Duration
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answer := map[string]string{"/health": `{"status":"healthy","version":"` + version + `"}`, "/readyz": `{"ready":true}`,
			"/api/v1/resources/overview": `{"timestamp":"` + time.Now().Add(ahead).UTC().Format(time.RFC3339Nano) + `"}`,
			"/api/v1/diagnose":           `{"findings":[],"checks":[{"name":"node","outcome":"ok"}]}`, "/api/v1/dlq": `{"total":0}`}[r.URL.Path]
		_, _ = w.Write([]byte(answer))
	}))
	defer s.Close()
	for _, ahead = range []time.Duration{0, time.Hour, -time.Hour} {
		got := command(t, []string{"QUEEN_URL=" + s.URL}, "doctor", "--findings")
		if ahead == 0 {
			require.Equal(t, cli.Done, got.code, got.out)
			continue
		}
		require.Equal(t, cli.Findings, got.code, got.out)
		require.Contains(t, got.out, "The node's clock is not this machine's")
	}
}

// TestWatchIsInterrupted: a command that goes on ends by SIGINT with its own code, a bench after it took its queue away.
func TestWatchIsInterrupted(t *testing.T) {
	n := runNode(t, t.TempDir(), nil)
	for _, args := range [][]string{{"status", "--watch", "-o", "ndjson"}, {"ping", "-n", "1000000"}, {"bench", "--duration", "5m", "--queue", "b"}} {
		cmd := exec.Command("queen", args...)
		cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "QUEEN_URL=" + n.url}
		out, err := cmd.StdoutPipe()
		require.NoError(t, err)
		require.NoError(t, cmd.Start())
		if args[0] == "bench" {
			require.Eventually(t, func() bool {
				status, _ := n.call("GET", "/api/v1/resources/queues/b", nil)
				return status == 200
			}, patience, tick)
		} else {
			_, err = out.Read(make([]byte, 1)) // it prints as it goes
			require.NoError(t, err)
		}
		require.NoError(t, cmd.Process.Signal(syscall.SIGINT))
		_, _ = out.Read(make([]byte, 1<<16))
		_ = cmd.Wait()
		require.Equal(t, cli.Interrupted, cmd.ProcessState.ExitCode(), "%v", args)
	}
	status, body := n.call("GET", "/api/v1/resources/queues/b", nil)
	require.Equal(t, 404, status, "%.200s", body)
}

// TestAuditList: what a client of the MCP server did is listed, by what was asked for, and reading it moves nothing.
func TestAuditList(t *testing.T) {
	n := runNode(t, t.TempDir(), nil, "--frontends", "http,mcp", "--mcp", "127.0.0.1:0", "--mcp-mode", "write")
	url := []string{"QUEEN_URL=" + n.url}
	none := command(t, url, "audit", "list")
	require.Equal(t, cli.Nothing, none.code, none.errors)
	begun := time.Now().UTC()
	mcpURL := "http://" + mcpAddr(t, n.readyFile) + "/mcp"
	for i := range 3 {
		args := fmt.Sprintf(`{"queue":"q","partition":"p","messages":[{"transaction_id":"t%d","payload":%d}]}`, i, i)
		got := command(t, nil, "mcp", "call", "message_push", "--url", mcpURL, "--args", args)
		require.Equal(t, cli.Done, got.code, got.errors)
	}
	rows := func(args ...string) (tools []string) {
		got := command(t, url, append([]string{"audit", "list"}, args...)...)
		if got.code == cli.Nothing {
			return nil
		}
		require.Equal(t, cli.Done, got.code, got.errors)
		for line := range strings.Lines(got.out) {
			var r struct{ At, Tool, Verdict string }
			require.NoError(t, json.Unmarshal([]byte(line), &r))
			tools = append(tools, r.Tool+" "+r.Verdict)
		}
		return tools
	}
	done := slices.Repeat([]string{"message_push done"}, 3)
	require.Equal(t, done, rows())
	require.Equal(t, done, rows("--tool", "message_push", "--verdict", "done", "--from", begun.Add(-time.Hour).Format(time.RFC3339)))
	require.Equal(t, done[:2], rows("-n", "2"))
	require.Empty(t, rows("--tool", "queue_delete"))
	require.Empty(t, rows("--subject", "nobody"))
	require.Empty(t, rows("--to", begun.Add(-time.Hour).Format(time.RFC3339)))
	require.Empty(t, rows("--from", begun.Add(time.Hour).Format(time.RFC3339)))
	require.Equal(t, cli.Usage, command(t, url, "audit", "list", "-n", "0").code)
	require.Equal(t, cli.Usage, command(t, url, "audit", "list", "--from", "soon").code)
	require.Equal(t, cli.Server, command(t, []string{"QUEEN_URL=http://127.0.0.1:1"}, "audit", "list").code)
	var groups []any
	n.must(200, "GET", "/api/v1/consumer-groups", nil, &groups)
	require.Empty(t, groups)
}
