package client

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"queen/tools/cli"
)

// calls are the commands, one of each, with what an exit code may depend on: does it write, and what is its input.
var calls = []struct {
	args  []string
	in    string
	write bool
}{
	{args: []string{"push", "q", "x"}, write: true},
	{args: []string{"push", "q", "--payload", "hex", "ff"}, write: true},
	{args: []string{"pop", "q", "--group", "g"}},
	{args: []string{"pop", "q", "--group", "g", "--auto-ack"}, write: true},
	{args: []string{"ack"}, in: `{"partitionId":"1","transactionId":"t"}` + "\n", write: true},
	{args: []string{"fetch", "q"}},
	{args: []string{"tail", "q", "-p", "p", "-n", "1"}},
	{args: []string{"tail", "q", "-n", "1"}},
	{args: []string{"tail", "q", "-n", "1", "--group", "g"}, write: true},
	{args: []string{"queue", "list"}},
	{args: []string{"queue", "describe", "q"}},
	{args: []string{"queue", "delete", "q", "--yes"}},
	{args: []string{"tx"}, in: `{"kv":[]}`, write: true},
	{args: []string{"kv", "get", "k", "--ns", "n"}},
	{args: []string{"kv", "put", "k", "v", "--ns", "n", "--forever"}, write: true},
	{args: []string{"kv", "delete", "k", "--ns", "n"}, write: true},
	{args: []string{"kv", "incr", "k", "--ns", "n", "--ttl", "60s"}, write: true},
	{args: []string{"kv", "list", "--ns", "n"}},
	{args: []string{"kv", "namespaces"}},
	{args: []string{"kv", "watch", "--ns", "n"}},
	{args: []string{"timer", "schedule", "q", "k", "v", "--delay", "1s"}, write: true},
	{args: []string{"timer", "get", "q", "k"}},
	{args: []string{"timer", "list", "q"}},
	{args: []string{"timer", "count", "q", "k"}},
	{args: []string{"timer", "cancel", "q", "k"}, write: true},
	{args: []string{"lock", "acquire", "l"}, write: true},
	{args: []string{"lock", "renew", "l", "--token", "1"}, write: true},
	{args: []string{"lock", "release", "l", "--token", "1"}, write: true},
	{args: []string{"lock", "get", "l"}},
	{args: []string{"dlq", "list", "q"}},
	{args: []string{"dlq", "retry", "id"}, write: true},
	{args: []string{"dlq", "purge", "q", "--yes"}, write: true},
	{args: []string{"dlq", "redrive", "q", "--yes"}},
	{args: []string{"group", "list"}},
	{args: []string{"group", "describe", "g"}},
	{args: []string{"group", "seek", "g", "q", "--to", "end", "--yes"}, write: true},
	{args: []string{"group", "subscribe", "g", "--from", "now"}, write: true},
	{args: []string{"group", "delete", "g", "--yes"}},
	{args: []string{"trace", "add", "d", "--partition-id", "1", "--transaction-id", "t"}, write: true},
	{args: []string{"trace", "get", "--name", "n"}},
	{args: []string{"trace", "names"}},
}

// execute runs a client command against a server and returns exit code and output.
func execute(t *testing.T, h http.HandlerFunc, in string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	server := httptest.NewServer(h)
	defer server.Close()
	var out, errs strings.Builder
	s := cli.Streams{In: strings.NewReader(in), Out: &out, Err: &errs, Env: []string{"QUEEN_URL=" + server.URL}}
	root := &cobra.Command{Use: "queen", SilenceErrors: true, SilenceUsage: true}
	root.SetOut(&out)
	root.SetErr(&errs)
	root.AddCommand(Commands(s)...)
	root.SetArgs(args)
	err := root.Execute()
	s.Complain(err, false)
	return cli.Code(err), out.String(), errs.String()
}

// TestRefusals: every command times every class of refusal.
func TestRefusals(t *testing.T) {
	for _, c := range []struct {
		status      int
		body        string
		write, read int
		says        string
	}{
		{400, `{"error":"bad body: x","code":"bad_body"}`, cli.Usage, cli.Usage, "400: bad body: x (bad_body)"},
		{400, `{"success":false,"error":"no","messages":[]}`, cli.Usage, cli.Usage, "400: no"},
		{401, `{"error":"Authentication required"}`, cli.Auth, cli.Auth, "Authentication required"},
		{403, `{"error":"Insufficient permissions"}`, cli.Auth, cli.Auth, "Insufficient permissions"},
		{413, "Payload Too Large", cli.Usage, cli.Usage, "413: Payload Too Large"},
		{422, `{"error":"other body","code":"idempotency_mismatch"}`, cli.Usage, cli.Usage, "idempotency_mismatch"},
		{429, `{"error":"full","code":"overloaded"}`, cli.Server, cli.Server, "overloaded"},
		{500, `{"error":"Internal Server Error","code":"internal"}`, cli.Server, cli.Server, "500"},
		{501, `{"error":"this route is not built yet","code":"not_built"}`, cli.Server, cli.Server, "not_built"},
		{502, `<html>`, cli.Server, cli.Server, "<html>"},
		{503, `{"error":"late","code":"timeout"}`, cli.OutcomeUnknown, cli.Server, "timeout"},
		{503, `{"error":"leader","code":"outcome_unknown"}`, cli.OutcomeUnknown, cli.Server, "outcome_unknown"},
		{503, `{"error":"starting","code":"retry"}`, cli.OutcomeUnknown, cli.Server, "retry"},
		{503, `{"error":"none","code":"no_leader"}`, cli.Server, cli.Server, "no_leader"},
		{503, ``, cli.Server, cli.Server, "503: Service Unavailable"},
		{503, `{"error":"kv_unavailable","reason":"kv_timeout","detail":"late"}`, cli.OutcomeUnknown, cli.Server, "kv_timeout"},
		{503, `{"error":"timers_unavailable","reason":"timers_retry","detail":"x"}`, cli.OutcomeUnknown, cli.Server, "503: x"},
		{400, `{"error":"kv_bad_request","reason":"kv_bad_ttl","detail":"too long"}`, cli.Usage, cli.Usage, "too long (kv_bad_ttl)"},
		{400, `{"transactionId":"t","success":false,"reason":"bad_request","error":"no","results":[]}`, cli.Usage, cli.Usage,
			"400: no (bad_request)"},
		{403, `{"error":"timer_horizon_exceeded","reason":"timers_horizon","detail":"far"}`, cli.Usage, cli.Usage, "far"},
		{507, `{"error":"disk","code":"storage_full"}`, cli.Server, cli.Server, "storage_full"},
	} {
		for _, call := range calls {
			want := c.read
			if call.write {
				want = c.write
			}
			code, _, stderr := execute(t, func(w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(c.status)
				_, _ = w.Write([]byte(c.body))
			}, call.in, call.args...)
			if code != want || !strings.Contains(stderr, c.says) {
				t.Errorf("%v, answered %d %s: exit %d, want %d; said %q", call.args, c.status, c.body, code, want, stderr)
			}
		}
	}
}

// TestLostAnswers: a connection that breaks after the request leaves a write's outcome open, and a read's not.
func TestLostAnswers(t *testing.T) {
	for _, call := range calls {
		want := cli.Server
		if call.write {
			want = cli.OutcomeUnknown
		}
		code, _, stderr := execute(t, func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
			call.in, call.args...)
		if code != want || stderr == "" {
			t.Errorf("%v: exit %d, want %d; said %q", call.args, code, want, stderr)
		}
	}
}

// TestLostPush: the ids to send again with are printed, also for messages that came without one.
func TestLostPush(t *testing.T) {
	code, stdout, _ := execute(t, func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, "", "push", "q", "x", "y")
	if code != cli.OutcomeUnknown || strings.Count(stdout, `"status":"unknown"`) != 2 ||
		strings.Count(stdout, `"transactionId":"`) != 2 {
		t.Errorf("exit %d: %s", code, stdout)
	}
}

// TestStrangeAnswers: an answer of something else than this API is never taken for success.
func TestStrangeAnswers(t *testing.T) {
	for _, body := range []string{`<html>hello</html>`, `{"entries":[]}`, `{`, `[]`} {
		for _, call := range calls {
			if call.args[0] == "pop" || call.args[0] == "queue" || slices.Contains(call.args, "--group") {
				continue // an object without messages is an empty answer there
			}
			if body == "[]" && strings.Join(call.args, " ") == "group list" {
				continue // no groups
			}
			code, _, _ := execute(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(body)) },
				call.in, call.args...)
			if code != cli.Server {
				t.Errorf("%v, answered %s: exit %d, want %d", call.args, body, code, cli.Server)
			}
		}
	}
}

// TestItems: items that fail are counted, whatever the others did.
func TestItems(t *testing.T) {
	for _, c := range []struct {
		answer string
		want   int
	}{
		{`[{"status":"queued","offset":0},{"status":"duplicate","offset":0}]`, cli.Done},
		{`[{"status":"queued","offset":0},{"status":"error","error":"no"}]`, cli.Partly},
		{`[{"status":"error","error":"no"},{"status":"error","error":"no"}]`, cli.Partly},
		{`[{"status":"queued","offset":0},{"status":"from the future"}]`, cli.Partly},
		{`[{"status":"queued","offset":0}]`, cli.Server},
	} {
		code, stdout, _ := execute(t, func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(201)
			_, _ = w.Write([]byte(c.answer))
		}, "", "push", "q", "x", "y")
		if code != c.want {
			t.Errorf("%s: exit %d, want %d: %s", c.answer, code, c.want, stdout)
		}
	}
}

// TestAckGroups: messages of several groups go in calls of their own, in order.
func TestAckGroups(t *testing.T) {
	var groups []string
	in := `{"partitionId":"1","transactionId":"a","consumerGroup":"g1"}
{"partitionId":"1","transactionId":"b","consumerGroup":"g1"}

{"partitionId":"1","transactionId":"c","consumerGroup":"g2"}
{"partitionId":"1","transactionId":"d"}
`
	code, _, stderr := execute(t, func(w http.ResponseWriter, r *http.Request) {
		body := read(t, r)
		groups = append(groups, body)
		n := strings.Count(body, "transactionId")
		_, _ = w.Write([]byte("[" + strings.TrimSuffix(strings.Repeat(`{"success":true},`, n), ",") + "]"))
	}, in, "ack")
	if code != 0 || len(groups) != 3 || !strings.Contains(groups[0], `"consumerGroup":"g1"`) ||
		!strings.Contains(groups[1], `"consumerGroup":"g2"`) || strings.Contains(groups[2], "consumerGroup") {
		t.Errorf("exit %d, %s: %v", code, stderr, groups)
	}
}

func read(t *testing.T, r *http.Request) string {
	t.Helper()
	var b strings.Builder
	buf := make([]byte, 4096)
	for {
		n, err := r.Body.Read(buf)
		b.Write(buf[:n])
		if err != nil {
			return b.String()
		}
	}
}
