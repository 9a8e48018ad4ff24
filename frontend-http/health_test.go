package frontendhttp

import (
	"bufio"
	"context"
	"net/http"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	dto "github.com/prometheus/client_model/go"

	"queen/engine"
	"queen/engine/enginetest"
	"queen/engine/format"
)

// TestHealth of a serving node and of one that starts, drains or has stopped.
func TestHealth(t *testing.T) {
	n := start(t)
	n.get("/livez").is(200)
	n.get("/readyz").is(200).equal(`"ready"`, "status").equal(`true`, "ready").equal(`null`, "why")
	n.get("/health").is(200).equal(`"healthy"`, "status").equal(`"leader"`, "raft", "role").
		equal(`true`, "raft", "leader").equal(`0`, "raft", "lag").equal(`null`, "raft", "apply", "failure")
	n.get("/status").is(200).equal(`"ok"`, "status")
	if err := n.f.attached().Close(context.Background()); err != nil {
		t.Fatal(err)
	}
	n.get("/livez").is(200)
	if n.get("/readyz").is(503).equal(`false`, "ready").str("why") == "" {
		t.Error("not ready without a reason")
	}
	if a := n.get("/health").is(503).equal(`"settling"`, "status"); a.header.Get("Retry-After") != "1" {
		t.Error(a.header)
	}
	n.post("/api/v1/push", `{"items":[{"queue":"q","payload":1}]}`).is(503).equal(`"closed"`, "code")
}

func TestProbesByHEAD(t *testing.T) {
	n := start(t)
	for target, want := range map[string]int{"/livez": 200, "/readyz": 200, "/health": 200, "/metrics": 404} {
		c := n.dial()
		c.send(request("HEAD", target, ""))
		res, err := http.ReadResponse(c.r, &http.Request{Method: "HEAD"})
		if err != nil || res.StatusCode != want {
			t.Errorf("%s: %v, %v", target, res, err)
		}
	}
}

func TestHealthWhileStarting(t *testing.T) {
	n := startWith(t, Options{Starting: func() (string, float64) { return "replay", 0.25 }})
	n.get("/livez").is(200)
	n.get("/openapi.json").is(200)
	n.get("/metrics").is(200)
	n.get("/metrics/prometheus")
	n.get("/readyz").is(503).equal(`"replay"`, "phase").equal(`0.25`, "progress").equal(`"the node is starting"`, "why")
	n.get("/health").is(503).equal(`false`, "raft", "storageReady")
	for _, a := range []answer{n.post("/api/v1/push", `{"items":[]}`), n.get("/api/v1/pop/queue/q")} {
		a.is(503).equal(`"retry"`, "code")
		if a.header.Get("Retry-After") != "1" {
			t.Error(a.header)
		}
	}
	n.f.Attach(enginetest.NewModel(enginetest.ModelOptions{}))
	n.get("/readyz").is(200)
	n.push1("q", "p", "t", `1`)
}

func TestMetricsJSON(t *testing.T) {
	n := start(t)
	n.push1("q", "p", "t", `1`)
	n.get("/metrics").is(200).equal(`1`, "messages", "total").equal(`0`, "messages", "rate")
	n.get("/metrics", "Accept: application/json").is(200)
	if n.get("/metrics").at("memory", "rss").(interface{ String() string }).String() == "0" {
		t.Error("no resident memory")
	}
	for accept, kind := range map[string]string{"text/plain": "text/plain; version=0.0.4; charset=utf-8",
		"application/openmetrics-text;version=1.0.0,text/plain;q=0.5": "application/openmetrics-text"} {
		a := n.get("/metrics", "Accept: "+accept)
		if a.status != 200 || !strings.HasPrefix(a.header.Get("Content-Type"), kind) {
			t.Errorf("%s: %d %q", accept, a.status, a.header.Get("Content-Type"))
		}
	}
	a := n.get("/metrics/prometheus", "Accept: application/json")
	if a.status != 200 || a.header.Get("Content-Type") != "text/plain; version=0.0.4; charset=utf-8" ||
		a.header.Get("Cache-Control") != "no-cache" {
		t.Errorf("%d %v", a.status, a.header)
	}
}

// values reads the text format into a map from series to value.
func (n *node) values() map[string]string {
	n.t.Helper()
	vs := map[string]string{}
	sc := bufio.NewScanner(strings.NewReader(n.get("/metrics/prometheus").body))
	for sc.Scan() {
		if i := strings.LastIndexByte(sc.Text(), ' '); i > 0 && sc.Text()[0] != '#' {
			vs[sc.Text()[:i]] = sc.Text()[i+1:]
		}
	}
	return vs
}

// TestMetricsMove drives what feeds each family and looks at it.
func TestMetricsMove(t *testing.T) {
	w := consume(t, 3, `,"retryLimit":0`)
	w.push1("q", "p", "m1", `1`)
	w.ack("m1 completed", "m2 failed")
	w.park("/api/v1/pop/queue/empty?wait=true&consumerGroup=z")
	w.get("/api/v1/transaction")
	got := w.values()
	for series, want := range map[string]string{
		`queen_messages_total{op="push"}`: "3", `queen_messages_total{op="duplicate"}`: "1",
		`queen_messages_total{op="deliver"}`: "3", `queen_messages_total{op="dlq"}`: "1",
		`queen_message_bytes_total{direction="in"}`: "3", `queen_message_bytes_total{direction="out"}`: "3",
		`queen_longpoll_parked{frontend="http"}`: "1", `queen_queue_messages{queue="q"}`: "3",
		`queen_dlq_messages{queue="q"}`: "1", `queen_dlq_depth_by_queue{queue="q"}`: "1",
		`queen_group_lag_messages{group="g",queue="q"}`: "1", `queen_raft_is_leader`: "1", `queen_storage_full`: "0",
		`queen_raft_storage_full`: "0", `queen_ephemeral_bytes`: "0", `queen_locks_ops_total{outcome="granted"}`: "0",
		`queen_queue_pop_lag_milliseconds{stat="max"}`:                                                      "0",
		`queen_operation_duration_seconds_count{frontend="http",op="push",outcome="ok"}`:                    "4",
		`queen_operation_duration_seconds_count{frontend="http",op="ack",outcome="ok"}`:                     "1",
		`http_server_request_duration_seconds_count{method="POST",route="/api/v1/push",status_class="2xx"}`: "4",
	} {
		if got[series] != want {
			t.Errorf("%s is %q want %q", series, got[series], want)
		}
	}
	for _, name := range []string{"queen_uptime_seconds", "queen_process_resident_memory_bytes",
		"queen_start_time_seconds", "process_open_fds", "go_goroutines"} {
		if _, ok := got[name]; !ok {
			t.Errorf("%s is missing", name)
		}
	}
}

// TestLabelsAreCapped: queues and groups above the cap are one series, and nothing is lost from the sums.
func TestLabelsAreCapped(t *testing.T) {
	n := startWith(t, Options{LabeledQueues: 2})
	for _, q := range []string{"a", "b", "c", "d"} {
		n.push1(q, "p", "t", `1`)
		for _, g := range []string{"g1", "g2", "g3"} {
			n.get("/api/v1/pop/queue/" + q + "?subscriptionMode=all&consumerGroup=" + g).is(200)
		}
	}
	families, err := n.f.metrics.gather(format.DefaultTenant, true)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		switch f.GetName() {
		case "queen_queue_messages":
			checkSeries(t, f, 3, 4)
		case "queen_group_lag_messages":
			checkSeries(t, f, 9, 12)
		}
		for _, m := range f.GetMetric() {
			for _, l := range m.GetLabel() {
				if l.GetName() == "partition" {
					t.Errorf("%s has a label per partition", f.GetName())
				}
			}
		}
	}
}

func checkSeries(t *testing.T, f *dto.MetricFamily, series int, sum float64) {
	t.Helper()
	total := 0.0
	for _, m := range f.GetMetric() {
		total += m.GetGauge().GetValue()
	}
	if len(f.GetMetric()) != series || total != sum {
		t.Errorf("%s: %d series, sum %v; want %d, %v", f.GetName(), len(f.GetMetric()), total, series, sum)
	}
}

func TestMetricNames(t *testing.T) {
	n := start(t)
	n.push1("q", "p", "t", `1`)
	families, err := n.f.metrics.gather(format.DefaultTenant, true)
	if err != nil {
		t.Fatal(err)
	}
	problems, err := promlint.NewWithMetricFamilies(families).Lint()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		// Upstream's names are what they are.
		if p.Metric != "queen_queue_pop_lag_milliseconds" {
			t.Errorf("%s: %s", p.Metric, p.Text)
		}
	}
}

// TestEngineHistograms: what the engine counts comes out in the units of the names.
func TestEngineHistograms(t *testing.T) {
	e := &counting{sink: newSink()}
	n := startWith(t, Options{Engine: e})
	got := n.values()
	for series, want := range map[string]string{
		`queen_raft_commit_duration_seconds_bucket{le="0.000128"}`: "2",
		`queen_raft_commit_duration_seconds_count`:                 "3",
		`queen_timer_lateness_seconds_bucket{le="0.001024"}`:       "0",
		`queen_timer_lateness_seconds_bucket{le="1.048576"}`:       "4",
		`queen_timer_lateness_seconds_bucket{le="1073.741824"}`:    "4",
		`queen_timer_lateness_seconds_count`:                       "5",
		`queen_timer_lateness_seconds_sum`:                         "4003.5",
		`queen_timer_oldest_overdue_seconds`:                       "2.5",
		`queen_fsync_duration_seconds_count{file="log"}`:           "9",
		`queen_fsync_duration_seconds_sum{file="log"}`:             "0.009",
		`queen_disk_free_ratio`:                                    "0.25",
		`queen_storage_bytes{kind="log"}`:                          "5",
		`queen_admission_refused_total{reason="overloaded"}`:       "6",
	} {
		if got[series] != want {
			t.Errorf("%s is %q want %q", series, got[series], want)
		}
	}
}

// counting is an engine with known counters.
type counting struct{ *sink }

func (c *counting) Inspect() engine.Inspect { return countingInspect{c.sink.Inspect()} }

type countingInspect struct{ engine.Inspect }

func (countingInspect) Stats() engine.Stats {
	st := engine.Stats{Flushes: 9, FlushMicros: 9000, DiskTotal: 8, DiskFree: 2, LogBytes: 5, Overloaded: 6}
	st.CommitMicros.Counts[7], st.CommitMicros.Counts[20] = 2, 1
	st.CommitMicros.Sum = 1_000_100
	st.TimerLateMicros.Counts[20], st.TimerLateMicros.Counts[31] = 4, 1
	st.TimerLateMicros.Sum, st.TimerOldestLateMicros = 4_003_500_000, 2_500_000
	return st
}
