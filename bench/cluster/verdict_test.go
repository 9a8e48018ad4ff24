package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"queen/bench/internal/nodes"
	"queen/bench/internal/report"
)

// fakes are servers that answer as a test wants.
type fakes []string

func (f fakes) Len() int         { return len(f) }
func (f fakes) Up(int) bool      { return true }
func (f fakes) URL(i int) string { return f[i] }
func (f fakes) Kafka(int) string { return "" }

func fake(t *testing.T, answer http.HandlerFunc) string {
	t.Helper()
	srv := httptest.NewServer(answer)
	t.Cleanup(srv.Close)
	return srv.URL
}

// holding answers reads of all partitions as a node with so many messages would that shows none of them.
func holding(messages int) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		fmt.Fprintf(w, `{"entries":[{"records":[],"highWatermark":%d}]}`, messages)
	}
}

// TestJudgesDoNotWaitForever: of a node that does not answer, and of one that lacks what another one has, judges ask a few things instead of
// everything there is to ask, and say so.
func TestJudgesDoNotWaitForever(t *testing.T) {
	var asked atomic.Int64
	silent := func(_ http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		_, _ = io.Copy(io.Discard, r.Body) // or the server does not notice that the client is gone
		<-r.Context().Done()
	}
	behind := func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		holding(0)(w, r)
	}
	for name, answer := range map[string]http.HandlerFunc{"silent": silent, "behind": behind} {
		h := newHistory(options{loadOptions: loadOptions{partitions: 20}, tenants: 2, groups: 1})
		h.patience.most = 300 * time.Millisecond
		asked.Store(0)
		c := fakes{fake(t, holding(5)), fake(t, answer)}
		k := newClient(c, h, 1, 1)
		k.http.Timeout = 20 * time.Millisecond
		if name == "behind" {
			k.http.Timeout = time.Minute
		}
		k.judgeNode()
		require.True(t, h.patience.over(1), name)
		require.False(t, h.patience.over(0), name)
		require.Less(t, asked.Load(), int64(20), "%s: there are more partitions than that", name)
		require.NotEmpty(t, h.mu.broken, name)

		asked.Store(0)
		h.mu.broken = nil
		judge(c, h, &report.Report{})
		require.Contains(t, strings.Join(h.mu.broken, "\n"), "node 2 did not answer the judges", name)
		require.Zero(t, asked.Load(), "%s: it was asked again", name)
	}
}

// TestSilenceIsNoLoss: where nobody says what a partition holds, nothing is known to be lost.
func TestSilenceIsNoLoss(t *testing.T) {
	h := newHistory(options{loadOptions: loadOptions{partitions: 1}})
	h.patience.most = 100 * time.Millisecond
	l := h.lanes[place{0, plainQueue, "p0"}]
	l.send(0, 1)
	require.NoError(t, l.tell(0, 0, 0, 0))
	refuses := httptest.NewServer(nil)
	refuses.Close()
	newClient(fakes{refuses.URL, refuses.URL}, h, 1, 0).judgeLane(l)
	require.Len(t, h.mu.broken, 1)
	require.Contains(t, h.mu.broken[0], "the node does not answer")
}

// TestWhatWasNotWaitedForIsNotLost: where consumers were cut short, what they would have made of the rest is not missed.
func TestWhatWasNotWaitedForIsNotLost(t *testing.T) {
	source := func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		switch {
		case strings.Contains(string(body), `"queue":"src"`) && strings.Contains(string(body), `"offset":0`):
			fmt.Fprintf(w, `{"entries":[{"records":[{"offset":0,"transactionId":"0-0","payload":%s}],"highWatermark":1}]}`, payload(0, 0))
		default:
			fmt.Fprint(w, `{"entries":[{"records":[]}]}`)
		}
	}
	for _, short := range []bool{false, true} {
		h := newHistory(options{loadOptions: loadOptions{partitions: 1}, groups: 2})
		h.patience.most, h.short = 100*time.Millisecond, short
		l := h.lanes[place{0, sourceQueue, "s0"}]
		l.send(0, 1)
		require.NoError(t, l.tell(0, 0, 0, 0))
		judge(fakes{fake(t, source)}, h, &report.Report{})
		found := strings.Join(h.mu.broken, "\n")
		for _, missed := range []string{"src/s0: message at offset 0 was never acked", "the counter of s0 is 0"} {
			require.Equal(t, !short, strings.Contains(found, missed), "%s: %s", missed, found)
		}
		require.Equal(t, !short, strings.Contains(found, "index/s0: message 0 of writer 0 was acknowledged and is not there"), found)
	}
}

// TestProgress: who gets on is waited for, who does not is not, and which of the two it was is told.
func TestProgress(t *testing.T) {
	type look struct {
		settled int64
		after   time.Duration
		broken  bool
	}
	for _, c := range []struct {
		name, want string
		looks      []look
	}{
		{"it goes on", "", []look{{7, 20 * second, false}, {8, 75 * second, false}, {9, 130 * second, false}, {9, 180 * second, false}}},
		{"nothing is left", "", []look{{5, 30 * second, false}}},
		{"it stands still", "for 1m5s nothing was settled; that is 1m15s after the load, and 3 messages", []look{{8, 10 * second, false}, {8, 75 * second, false}}},
		{"it stands still from the start", "stands still", []look{{5, 61 * second, false}}},
		{"it is slow", "is slow: it goes on", []look{{6, 50 * second, false}, {7, 100 * second, false}, {8, 150 * second, false}, {9, 200 * second, false},
			{10, 250 * second, false}, {11, 300 * second, false}, {12, 350 * second, false}, {13, 361 * second, false}}},
		{"a promise is broken", "found broken", []look{{6, 10 * second, true}, {7, 21 * second, true}}},
	} {
		const begin = 90 * second
		p := newProgress(5, begin)
		var errs []error
		for i, l := range c.looks {
			err := p.judge(l.settled, begin+l.after, l.broken)
			if i < len(c.looks)-1 {
				require.NoError(t, err, "%s: look %d", c.name, i)
			}
			errs = append(errs, err)
		}
		judged(t, c.name, c.want, errs...)
	}
}

// TestExplain: of a run that does not come to an end there is what the nodes say, and a line about each partition of which something is left.
func TestExplain(t *testing.T) {
	says := func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		tenant := r.Header.Get("x-queen-tenant")
		switch {
		case r.URL.Path == "/api/v1/fetch":
			var q struct{ Entries []struct{ Offset int } }
			require.NoError(t, json.Unmarshal(body, &q))
			fmt.Fprintf(w, `{"entries":[{"records":[{"offset":%d,"payload":1}],"highWatermark":3}]}`, q.Entries[0].Offset)
		case r.URL.Path == "/api/v1/lag" && tenant == "other":
			fmt.Fprint(w, `{"rows":[{"queue":"q","partition":"p1","group":"g","lag":2,"leased":1,"attempts":4,"retries":0,"reason":"leased","leaseExpiresAt":null}]}`)
		case r.URL.Path == "/api/v1/leases" && tenant == "other":
			fmt.Fprint(w, `{"leases":[{"leaseId":"abc","queue":"q","partition":"p1","group":"g","firstOffset":1,"endOffset":3,"attempt":4,
				"expiresAt":"2026-01-02T03:04:05.000Z"},{"leaseId":"xyz","queue":"q","partition":"p0","group":"g","firstOffset":1,"endOffset":3}]}`)
		case r.URL.Path == "/api/v1/timers/"+timerQueue:
			fmt.Fprint(w, `{"rows":[{}]}`)
		default:
			fmt.Fprint(w, `{}`)
		}
	}
	h := newHistory(options{loadOptions: loadOptions{partitions: 2}, tenants: 2})
	h.tenants[1] = "other"
	l := h.lanes[place{1, plainQueue, "p1"}]
	l.send(0, 3)
	for n := range 3 {
		require.NoError(t, l.tell(0, n, int64(n), 0))
	}
	l.taking.done(0, second)
	refuses := httptest.NewServer(nil)
	refuses.Close()
	w := newCrew(fakes{fake(t, says), refuses.URL}, h, &options{}, t.TempDir())
	lines := w.explain(fmt.Errorf("it stands still"))
	text := strings.Join(lines, "\n")
	require.Contains(t, text, "tenant 1 q/p1: consumer group g has settled 1 of 3 messages; raft group 0; node 1: ends at 3, a read from 1 gives 1 messages, "+
		"behind by 2, 1 of them leased, attempts 4, retries 0, leased, lease abc has offsets 1 to 2 until 03:04:05; node 2: /health: ")
	require.Contains(t, text, "node 1: timers that are pending, by tenant: [1 1]")
	require.Contains(t, text, "processors, a rest of 10 ms took")
	require.Len(t, lines, 3, "of other partitions nothing is left")
	entries, err := os.ReadDir(filepath.Join(w.dir, stallDir))
	require.NoError(t, err)
	var files []string
	for _, e := range entries {
		files = append(files, e.Name())
	}
	for _, want := range []string{"why.txt", "clients.txt", "left.txt", "node1-members", "node1-lag-tenant0", "node1-lag-tenant1", "node2-health"} {
		require.True(t, slices.Contains(files, want), "%s is not among %v", want, files)
	}
	clients, err := os.ReadFile(filepath.Join(w.dir, stallDir, "clients.txt"))
	require.NoError(t, err)
	require.Contains(t, string(clients), "TestExplain")
}

// TestHangs: a run that does not even start ends with a verdict as well.
func TestHangs(t *testing.T) {
	r := (&options{seconds: time.Second, dir: "here", faults: "kill"}).hangs(nil)
	require.Len(t, r.Violations, 2)
	require.Contains(t, r.Violations[0], "did not end within")
}

// TestTurn: a run of broken nodes went well when the judges found something about nodes that did something.
func TestTurn(t *testing.T) {
	found := []string{"tenant 0 q/p1: offset 7 is lost", "tenant 1 q/p0: offset 9 is lost", "counters differ"}
	for _, c := range []struct {
		name  string
		found []string
		acked int64
		want  string
		notes int
	}{
		{"found", found, 5, "", 2},
		{"nothing found", nil, 5, "the judges found nothing", 0},
		{"nothing done", found, 0, "nothing was asked of them", 2},
	} {
		r := &report.Report{Violations: []string{"a node ended by itself"}}
		o := &options{broken: "early", found: c.found}
		o.turn(r, c.acked)
		require.Len(t, r.Notes, c.notes, c.name)
		if c.want == "" {
			require.Empty(t, r.Violations, c.name)
			continue
		}
		require.Len(t, r.Violations, 1, c.name)
		require.Contains(t, r.Violations[0], c.want, c.name)
	}
}

// TestProve: each kind that was done has to have bitten once, also of those that were done together.
func TestProve(t *testing.T) {
	both := nodes.Done{Kind: "kill+clock", What: "x", Bit: "y", Bitten: []string{"kill"}}
	clock := nodes.Done{Kind: "clock", What: "x", Bit: "z", Bitten: []string{"clock"}}
	missed := nodes.Done{Kind: "mute", What: "nobody was struck"}
	for _, c := range []struct {
		name, faults, broken string
		did                  []nodes.Done
		want                 []string
		bit                  float64
	}{
		{"all bit", "kill+clock,clock", "", []nodes.Done{both, clock}, nil, 2},
		{"one of two never bit", "kill+clock", "", []nodes.Done{both, both}, []string{"nothing shows that clock bit"}, 2},
		{"one missed", "clock,mute", "", []nodes.Done{clock, missed}, []string{"nothing shows that mute bit"}, 1},
		{"nothing was to be done", "none", "", []nodes.Done{{Kind: "none"}}, nil, 0},
		{"nothing was done", "kill", "", nil, []string{"no fault was done"}, 0},
		{"broken on purpose", "kill", "early", nil, nil, 0},
	} {
		var r report.Report
		(&options{faults: c.faults, broken: c.broken}).prove(c.did, &r)
		require.Equal(t, c.want, r.Violations, c.name)
		bit, _ := r.Get("faults that bit")
		require.Equal(t, c.bit, bit, c.name)
		require.Len(t, r.Notes, max(len(c.did), 1), "%s: there is a line for what was done, and for what was not", c.name)
	}
	require.False(t, proved(&both))
	require.True(t, proved(&clock))
	require.True(t, proved(&nodes.Done{Kind: "none"}))
}

// TestWhatIsFoundOften leaves room for what is found once.
func TestWhatIsFoundOften(t *testing.T) {
	var h history
	for n := range 1000 {
		h.violate("lane q/p%d: offset %d is lost", n%4, n)
	}
	h.violate("a counter is wrong")
	require.Len(t, h.mu.broken, alikeMost+1)
	require.Equal(t, "a counter is wrong", h.mu.broken[alikeMost])
	require.Equal(t, 1000-alikeMost, h.mu.more)
	var r report.Report
	h.tell(&r)
	require.Equal(t, fmt.Sprintf("and %d more", 1000-alikeMost), r.Violations[len(r.Violations)-1])
}
