package client

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"

	"queen/tools/cli"
)

// execute runs a client command against a server and returns exit code and output.
func execute(t *testing.T, h http.HandlerFunc, in string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	server := httptest.NewServer(h)
	defer server.Close()
	return executeAt(t, server.URL, in, args...)
}

// executeAt runs a client command against an address, which NODE in args stands for.
func executeAt(t *testing.T, node, in string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	args = slices.Clone(args)
	for i := range args {
		args[i] = strings.ReplaceAll(args[i], "NODE", node)
	}
	var out, errs strings.Builder
	s := cli.Streams{In: strings.NewReader(in), Out: &out, Err: &errs, Env: []string{"QUEEN_URL=" + node, "HOME=" + t.TempDir()}}
	root := tree(s)
	root.SetArgs(args)
	err := root.Execute()
	s.Complain(err, false)
	return cli.Code(err), out.String(), errs.String()
}

// after answers the reads that a call makes first, and leaves the rest to h.
func (c *call) after(h http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		for end, body := range c.reads {
			if r.Method == http.MethodGet && strings.HasSuffix(r.URL.Path, end) {
				_, _ = w.Write([]byte(body))
				return
			}
		}
		if c.args[0] == "queue" && c.args[1] == "create" && r.Method == http.MethodGet && len(c.reads) == 0 {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		h(w, r)
	}
}

// TestUsage: a line that is wrong is never anything else, and reaches no node.
func TestUsage(t *testing.T) {
	for _, call := range append(slices.Clone(calls), offline...) {
		for _, wrong := range [][]string{{"--no-such-flag"}, {"-o", "xml"}, {"--color", "blue"}, {"--url", "nowhere"}} {
			if call.args[0] == "auth" && call.args[1] == "logout" && wrong[0] == "--url" {
				wrong = []string{"one", "too", "many"}
			}
			code, stdout, stderr := execute(t, func(_ http.ResponseWriter, r *http.Request) {
				t.Errorf("%v %v called %s", call.args, wrong, r.URL)
			}, call.in, append(slices.Clone(call.args), wrong...)...)
			if code != cli.Usage || stdout != "" || stderr == "" {
				t.Errorf("%v %v: exit %d, %q, said %q", call.args, wrong, code, stdout, stderr)
			}
		}
	}
}

// TestFieldsOfRows: every command tells its fields without arguments and without a node.
func TestFieldsOfRows(t *testing.T) {
	for _, call := range append(slices.Clone(calls), offline...) {
		root := tree(cli.Streams{})
		cmd, _, err := root.Find(call.args)
		if err != nil {
			t.Fatal(err)
		}
		line := append(strings.Fields(cmd.CommandPath())[1:], "-o", "help")
		code, stdout, stderr := executeAt(t, "http://127.0.0.1:1", "", line...)
		if code != cli.Done || !strings.HasPrefix(stdout, "FIELD") || strings.Count(stdout, "\n") < 2 || stderr != "" {
			t.Errorf("%v: exit %d, %q, said %q", line, code, stdout, stderr)
		}
	}
}

// TestUnreachable: nobody listens, so nothing was done.
func TestUnreachable(t *testing.T) {
	for _, call := range calls {
		code, stdout, stderr := executeAt(t, "http://127.0.0.1:1", call.in, call.args...)
		if code != cli.Server || strings.Contains(stdout, "unknown") || !strings.Contains(stderr, "no node answers") {
			t.Errorf("%v: exit %d, %q, said %q", call.args, code, stdout, stderr)
		}
	}
}

// TestInterrupted: a signal while the node is silent ends every command; a write may have been carried out.
func TestInterrupted(t *testing.T) {
	for _, call := range calls {
		want := cli.Interrupted
		if call.write {
			want = cli.OutcomeUnknown
		}
		if slices.Contains(call.args, "tail") {
			want = cli.Interrupted // which is how it ends
		}
		code, _, stderr := execute(t, call.after(func(_ http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body) // else the server does not see the connection end
			if err := syscall.Kill(os.Getpid(), syscall.SIGINT); err != nil {
				t.Error(err)
			}
			<-r.Context().Done()
		}), call.in, call.args...)
		if code != want {
			t.Errorf("%v: exit %d, want %d; said %q", call.args, code, want, stderr)
		}
	}
}

// TestAnswers: what a node may answer to each.
func TestAnswers(t *testing.T) {
	for _, call := range append(slices.Clone(calls), offline...) {
		for _, a := range call.answers {
			h := func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(a.body)) }
			if call.args[0] != "queue" || call.args[1] != "create" {
				h = call.after(h)
			}
			if code, stdout, stderr := execute(t, h, call.in, call.args...); code != a.code {
				t.Errorf("%v, answered %s: exit %d, want %d; %q, said %q", call.args, a.body, code, a.code, stdout, stderr)
			}
		}
	}
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
			code, _, stderr := execute(t, call.after(func(w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(c.status)
				_, _ = w.Write([]byte(c.body))
			}), call.in, call.args...)
			if call.args[0] == "auth" && c.status == http.StatusForbidden {
				want = cli.Done // who may not read is known all the same
			}
			if want != cli.Done && !strings.Contains(stderr, c.says) || code != want {
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
		code, _, stderr := execute(t, call.after(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }),
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
			if body == "[]" && call.list {
				continue
			}
			code, _, _ := execute(t, call.after(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(body)) }),
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
