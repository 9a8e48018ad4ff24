package main

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/stretchr/testify/require"

	frontendhttp "queen/frontend-http"
	frontendmcp "queen/frontend-mcp"
	"queen/tools/cli"
)

// scrape reads every series of a node: counters and gauges by their value, of histograms and summaries the count and the sum.
func (p *process) scrape() map[string]float64 {
	p.t.Helper()
	res, err := http.Get(p.url + "/metrics/prometheus")
	require.NoError(p.t, err)
	defer res.Body.Close()
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(res.Body)
	require.NoError(p.t, err)
	out := map[string]float64{}
	for name, f := range families {
		for _, m := range f.GetMetric() {
			labels := []string{name}
			for _, l := range m.GetLabel() {
				labels = append(labels, l.GetValue())
			}
			key := strings.Join(labels, " ")
			out[key] = m.GetCounter().GetValue() + m.GetGauge().GetValue() + m.GetUntyped().GetValue()
			if h := m.GetHistogram(); h != nil {
				out[key], out[key+" sum"] = float64(h.GetSampleCount()), h.GetSampleSum()
			}
			if s := m.GetSummary(); s != nil {
				out[key], out[key+" sum"] = float64(s.GetSampleCount()), s.GetSampleSum()
			}
		}
	}
	return out
}

// driven are series that the test drives, each above 0 at some moment while it runs. Series end in the values of their labels.
var driven = []string{
	"queen_build_info", "queen_start_time_seconds", "queen_uptime_seconds", "queen_process_resident_memory_bytes",
	"queen_messages_total push", "queen_messages_total duplicate", "queen_messages_total deliver", "queen_messages_total ack",
	"queen_messages_total nack", "queen_messages_total dlq", "queen_messages_total replay",
	"queen_message_bytes_total in", "queen_message_bytes_total out", "queen_longpoll_parked http", "queen_admission_inflight_bytes",
	"queen_quota_refused_total", "queen_raft_index applied", "queen_raft_index durable", "queen_raft_term", "queen_raft_is_leader",
	"queen_raft_group_leader 1", "queen_raft_group_term 1", "queen_raft_group_index 1 applied", "queen_raft_group_index 1 committed",
	"queen_raft_group_writable 1",
	"queen_raft_commit_duration_seconds", "queen_raft_commit_duration_seconds sum", "queen_fsync_duration_seconds log",
	"queen_fsync_duration_seconds log sum", "queen_segments all", "queen_storage_bytes log", "queen_storage_bytes store", "queen_disk_free_ratio",
	"queen_queue_messages q", "queen_dlq_messages q", "queen_dlq_depth_by_queue q", "queen_group_lag_messages g q", "queen_group_leases g q",
	"queen_group_oldest_unacked_age_seconds g q", "queen_queue_pop_lag_milliseconds avg", "queen_queue_pop_lag_milliseconds max",
	"queen_ephemeral_bytes", "queen_ephemeral_queues", "queen_ephemeral_parked",
	"queen_ephemeral_messages_total pushed", "queen_ephemeral_messages_total delivered", "queen_ephemeral_messages_total acked",
	"queen_ephemeral_messages_total redelivered", "queen_ephemeral_dropped_total bounds",
	"queen_locks_ops_total granted", "queen_locks_ops_total refused", "queen_timer_lateness_seconds",
	"queen_timer_oldest_overdue_seconds", "queen_cluster_members answers",
	"http_server_request_duration_seconds", "http_server_request_duration_seconds POST /api/v1/push 2xx sum", "queen_operation_duration_seconds http push ok",
	"mcp_server_operation_duration_seconds", "queen_mcp_refused_total host_refused",
	// of a node whose disk is full
	"queen_storage_full", "queen_raft_storage_full", "queen_admission_refused_total storage_full",
}

// moved notes which series of a scrape are above 0.
type moved map[string]bool

func (m moved) look(p *process) {
	for series, v := range p.scrape() {
		if v <= 0 {
			continue
		}
		m[series] = true
		m[strings.Fields(series)[0]] = true
	}
}

func (m moved) until(p *process, series string) {
	p.t.Helper()
	for end := time.Now().Add(patience / 4); !m[series]; runtime.Gosched() {
		require.True(p.t, time.Now().Before(end), "%s stays 0", series)
		m.look(p)
	}
}

// TestEveryMetricMoves drives a node until every family of the metrics table has moved: none is there that nothing writes.
func TestEveryMetricMoves(t *testing.T) {
	for name := range families() {
		found := false
		for _, series := range driven {
			found = found || series == name || strings.HasPrefix(series, name+" ")
		}
		require.True(t, found, "nothing here drives %s", name)
	}
	seen := moved{}
	fillDisk(t, seen)
	peer := freeTwo(t)
	seen.until(runNode(t, t.TempDir(), nil, "--node-id", "1", "--peer-addr", peer, "--peers", "1="+peer), "queen_cluster_members answers")
	plans := filepath.Join(t.TempDir(), "plans.yaml")
	require.NoError(t, os.WriteFile(plans, []byte("plans:\n  p: {batch_items: 150}\n"), 0o600))
	ready := filepath.Join(t.TempDir(), "ready.json")
	n := runNode(t, t.TempDir(), nil, "--frontends", "http,mcp", "--mcp", "127.0.0.1:0", "--ready-file", ready, "--quota-file", plans, "--quota-plan", "p",
		"--mark-bytes", "64KiB", "--checkpoint-bytes", "1MiB", "--checkpoint-every", "50ms", "--mark-every", "50ms")
	n.readyFile = ready
	driveQueues(t, n, seen)
	driveRest(t, n, seen)
	driveTimers(n, seen)
	driveMCP(t, mcpAddr(t, ready))
	for _, series := range driven {
		seen.until(n, series)
	}
}

// families are the names of the metrics table, and of the MCP server.
func families() map[string]bool {
	out := map[string]bool{"mcp_server_operation_duration_seconds": true, "queen_mcp_refused_total": true}
	for _, m := range frontendhttp.Metrics() {
		out[m.Name] = true
	}
	return out
}

// fillDisk looks at a node for which the disk under its directory, which is in use, is full.
func fillDisk(t *testing.T, seen moved) {
	n := runNode(t, t.TempDir(), nil, "--disk-high", "1", "--disk-low", "1")
	seen.until(n, "queen_storage_full")
	if status, body := n.call("POST", "/api/v1/push", items(0, 1)); status != 507 {
		t.Fatalf("a push to a full disk: %d %s", status, body)
	}
	seen.until(n, "queen_admission_refused_total storage_full")
}

// driveQueues pushes, repeats, takes, settles, gives up and replays, leaves a backlog and a lease, and waits for nothing.
func driveQueues(t *testing.T, n *process, seen moved) {
	n.must(200, "POST", "/api/v1/configure", map[string]any{"queue": "q", "options": map[string]any{"retryLimit": 0, "leaseTime": 600}}, nil)
	n.must(201, "POST", "/api/v1/push", items(0, 5), nil)
	n.must(201, "POST", "/api/v1/push", items(0, 1), nil)
	if status, _ := n.call("POST", "/api/v1/push", items(0, 151)); status != 403 && status != 400 && status != 413 {
		t.Fatalf("a push over its plan: %d", status)
	}
	pop := func() (got popped) {
		n.must(200, "GET", "/api/v1/pop/queue/q?consumerGroup=g&subscriptionMode=all&batch=1", nil, &got)
		return got
	}
	ack := func(m popped, status string) {
		x := m.Messages[0]
		n.must(200, "POST", "/api/v1/ack", map[string]any{"consumerGroup": "g", "transactionId": x.TransactionID, "partitionId": x.PartitionID,
			"leaseId": x.LeaseID, "status": status}, nil)
	}
	ack(pop(), "completed")
	ack(pop(), "failed")
	ack(pop(), "failed")
	pop()
	seen.until(n, "queen_dlq_messages q")
	seen.until(n, "queen_group_lag_messages g q")
	seen.until(n, "queen_group_oldest_unacked_age_seconds g q")
	var dead struct{ Messages []struct{ ID string } }
	n.must(200, "GET", "/api/v1/dlq?queue=q", nil, &dead)
	n.must(200, "POST", "/api/v1/dlq/"+dead.Messages[0].ID+"/replay", nil, nil)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var waiting sync.WaitGroup
	for _, path := range []string{"/api/v1/pop/queue/empty?wait=true&timeout=60000", "/api/v1/ephemeral/pop?queue=empty&wait=true&timeout=60000"} {
		waiting.Add(1)
		go func() {
			defer waiting.Done()
			req, _ := http.NewRequestWithContext(ctx, "GET", n.url+path, nil)
			if res, err := http.DefaultClient.Do(req); err == nil {
				res.Body.Close()
			}
		}()
	}
	seen.until(n, "queen_longpoll_parked http")
	seen.until(n, "queen_ephemeral_parked")
	cancel()
	waiting.Wait()
}

// driveRest writes until a write is seen on its way, and drives queues in memory and locks.
func driveRest(t *testing.T, n *process, seen moved) {
	stop := make(chan struct{})
	var writing sync.WaitGroup
	for w := range 4 {
		writing.Add(1)
		go func() {
			defer writing.Done()
			body := fmt.Sprintf(`{"items":[{"queue":"load","partition":"p%d","payload":"%s"}]}`, w, strings.Repeat("x", 100_000))
			for {
				select {
				case <-stop:
					return
				default:
				}
				res, err := http.Post(n.url+"/api/v1/push", "application/json", strings.NewReader(body))
				if err != nil {
					return
				}
				res.Body.Close()
			}
		}()
	}
	seen.until(n, "queen_admission_inflight_bytes")
	close(stop)
	writing.Wait()
	last := ""
	queen := func(code int, stdin string, args ...string) {
		var out, complaint bytes.Buffer
		got := run(args, cli.Streams{In: strings.NewReader(stdin), Out: &out, Err: &complaint, Env: []string{"QUEEN_URL=" + n.url, "HOME=" + t.TempDir()}})
		require.Equal(t, code, got, "%v: %s%s", args, out.String(), complaint.String())
		last = out.String()
	}
	queen(cli.Done, "", "ephemeral", "configure", "room", "--max-length", "2", "--policy", "dropOldest")
	queen(cli.Done, "", "ephemeral", "push", "room", "-p", "a", "1", "2", "3")
	queen(cli.Done, "", "ephemeral", "pop", "room", "-g", "g", "-n", "1")
	queen(cli.Done, last, "ephemeral", "ack", "room", "-g", "g", "--status", "retry")
	queen(cli.Done, "", "ephemeral", "pop", "room", "-g", "g", "-n", "1")
	queen(cli.Done, last, "ephemeral", "ack", "room", "-g", "g")
	queen(cli.Done, "", "lock", "acquire", "l", "--ttl", "60s", "--owner", "a")
	queen(cli.Partly, "", "lock", "acquire", "l", "--ttl", "60s", "--owner", "b")
}

// driveTimers lets a timer come due while none fires, and then fire.
func driveTimers(n *process, seen moved) {
	fire := func(on bool) {
		n.must(200, "POST", "/api/v1/system/kv-timers", map[string]any{"timersFire": on}, nil)
	}
	fire(false)
	n.must(200, "POST", "/api/v1/timers", map[string]any{"operations": []map[string]any{
		{"op": "schedule", "queue": "later", "timerKey": "k", "delayMs": 0, "payload": "MQ=="}}}, nil)
	seen.until(n, "queen_timer_oldest_overdue_seconds")
	fire(true)
	seen.until(n, "queen_timer_lateness_seconds")
}

// driveMCP calls a tool and is refused.
func driveMCP(t *testing.T, addr string) {
	s, err := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, nil).Connect(context.Background(),
		&mcp.StreamableClientTransport{Endpoint: "http://" + addr + "/mcp", DisableStandaloneSSE: true}, nil)
	require.NoError(t, err)
	_, err = s.CallTool(context.Background(), &mcp.CallToolParams{Name: "queue_list"})
	require.NoError(t, err)
	require.NoError(t, s.Close())
	req, err := http.NewRequest("POST", "http://"+addr+"/mcp", strings.NewReader("{}"))
	require.NoError(t, err)
	req.Host = "evil.example"
	res, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	require.NoError(t, res.Body.Close())
	require.Equal(t, 403, res.StatusCode)
	require.Len(t, frontendmcp.NewMetrics().Collectors(), 2, "more than this test drives")
}
