package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"runtime/pprof"
	"slices"
	"strings"
	"sync"
	"time"
)

// stallDir is the directory, below that of the run, for what tells why it does not come to an end.
const stallDir = "stall"

// explain writes down what tells why a run does not come to an end, while everybody is still at it: what the clients do, what each node
// says of itself and of every tenant, what Kafka's groups are at. It returns a line about each partition of which something is left. What
// the nodes' goroutines do is in their logs once they are ended (nodes.Cluster.Dump), which is not here: they are read first.
func (w *crew) explain(why error) []string {
	if err := os.MkdirAll(filepath.Join(w.dir, stallDir), 0o755); err != nil {
		return []string{err.Error()}
	}
	w.keep("why.txt", fmt.Appendf(nil, "%v\n%s\n", why, pressure()))
	var clients strings.Builder
	_ = pprof.Lookup("goroutine").WriteTo(&clients, 1) // into memory
	w.keep("clients.txt", []byte(clients.String()))
	left := w.unsettled()
	all := make([]*told, w.c.Len())
	var asking sync.WaitGroup
	for node := range all {
		all[node] = &told{ends: map[*lane]string{}}
		asking.Go(func() { w.ask(all[node], node, left) })
	}
	asking.Wait()
	lines := []string{busy() + ", all that was found is in " + filepath.Join(w.dir, stallDir)}
	for _, l := range left {
		lines = append(lines, w.about(l, all))
	}
	for node, t := range all {
		if slices.Max(append(t.timers, 0)) > 0 {
			lines = append(lines, fmt.Sprintf("node %d: timers that are pending, by tenant: %v", node+1, t.timers))
		}
	}
	if w.h.kafka != nil {
		lines = append(lines, w.h.kafka.unread(w.h)...)
		w.keep("kafka.txt", []byte(w.askKafka()))
	}
	w.keep("left.txt", []byte(strings.Join(lines, "\n")+"\n"))
	return lines
}

// keep writes a file; what can not be written is told where all else is.
func (w *crew) keep(name string, text []byte) {
	if err := os.WriteFile(filepath.Join(w.dir, stallDir, name), text, 0o644); err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
}

// unsettled are the lanes of which native consumers have not settled everything.
func (w *crew) unsettled() (left []*lane) {
	for _, l := range w.h.order {
		if l.left() > 0 && consumed(l.queue) {
			left = append(left, l)
		}
	}
	return left
}

// told is what one node said.
type told struct {
	silent error            // it answers no more
	lags   []lagRow         // of all tenants
	leases []leaseRow       // likewise
	ends   map[*lane]string // what a read from where the consumers are gives
	timers []int            // pending ones, by tenant
}

// lagRow is a partition that a consumer group is behind on, as a node lists it.
type lagRow struct {
	tenant                          int
	Queue, Partition, Group, Reason string
	Lag, Leased, Attempts, Retries  int64
}

// leaseRow is a lease that lives, as a node lists it.
type leaseRow struct {
	tenant                           int
	LeaseID, Queue, Partition, Group string
	FirstOffset, EndOffset, Attempt  int64
	ExpiresAt                        time.Time
}

// questions are what a node is asked, once or about each tenant; each has a file of its own.
var questions = []struct {
	name, path string
	tenants    bool
}{
	{"health", "/health", false},
	{"ready", "/readyz", false},
	{"members", "/api/v1/raft/members", false},
	{"metrics", "/metrics/prometheus", false},
	{"lag", "/api/v1/lag?limit=1000", true},
	{"leases", "/api/v1/leases?limit=10000", true},
	{"groups", "/api/v1/consumer-groups", true},
	{"group", "/api/v1/consumer-groups/g", true},
	{"timers", "/api/v1/timers/" + timerQueue + "?limit=100", true},
	{"diagnosis", "/api/v1/diagnose", true},
}

// ask asks one node until it does not answer.
func (w *crew) ask(t *told, node int, left []*lane) {
	k := newClient(w.c, w.h, 2, node)
	for tenant, name := range w.h.tenants {
		for _, q := range questions {
			if tenant > 0 && !q.tenants {
				continue
			}
			text, err := k.text(name, q.path)
			file := fmt.Sprintf("node%d-%s", node+1, q.name)
			if q.tenants {
				file += fmt.Sprintf("-tenant%d", tenant)
			}
			if err != nil {
				t.silent = fmt.Errorf("%s: %w", q.path, err)
				w.keep(file, []byte(err.Error()))
				return
			}
			w.keep(file, text)
			t.parse(tenant, q.name, text)
		}
	}
	for _, l := range left {
		k.tenant = l.tenant
		at := l.taking.settled()
		f, _ := k.fetchFrom(node, l.queue, l.partition, at, 1, 0)
		t.ends[l] = fmt.Sprintf("ends at %d, a read from %d gives %d messages", f.HighWatermark, at, len(f.Records))
		if f.Error != "" {
			t.ends[l] = fmt.Sprintf("a read from %d fails: %s", at, f.Error)
		}
	}
}

// parse takes from an answer what lines are made of.
func (t *told) parse(tenant int, question string, text []byte) {
	switch question {
	case "lag":
		var a struct{ Rows []lagRow }
		_ = json.Unmarshal(text, &a) // what it is then can be read
		for _, r := range a.Rows {
			r.tenant = tenant
			t.lags = append(t.lags, r)
		}
	case "timers":
		var a struct{ Rows []json.RawMessage }
		_ = json.Unmarshal(text, &a)
		t.timers = append(t.timers, len(a.Rows))
	case "leases":
		var a struct{ Leases []leaseRow }
		_ = json.Unmarshal(text, &a)
		for _, r := range a.Leases {
			r.tenant = tenant
			t.leases = append(t.leases, r)
		}
	}
}

// text asks the client's node as a tenant.
func (k *client) text(tenant, path string) ([]byte, error) {
	req, err := http.NewRequest("GET", k.c.URL(k.at)+path, nil)
	if err != nil {
		return nil, err
	}
	if tenant != "" {
		req.Header.Set("x-queen-tenant", tenant)
	}
	res, err := k.http.Do(req)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	return io.ReadAll(res.Body)
}

// about is the line about a lane: what the clients know of it, and what each node says.
func (w *crew) about(l *lane, all []*told) string {
	l.mu.Lock()
	group := l.group
	l.mu.Unlock()
	var b strings.Builder
	fmt.Fprintf(&b, "%v: consumer group g has settled %d of %d messages; raft group %d", l, l.taking.settled(), l.top(), group)
	for node, t := range all {
		fmt.Fprintf(&b, "; node %d: %s", node+1, t.about(l))
	}
	return b.String()
}

func (t *told) about(l *lane) string {
	if t.silent != nil {
		return t.silent.Error()
	}
	said := []string{cmp.Or(t.ends[l], "not asked")}
	for _, r := range t.lags {
		if r.tenant == l.tenant && r.Queue == l.queue && r.Partition == l.partition && r.Group == "g" {
			said = append(said, fmt.Sprintf("behind by %d, %d of them leased, attempts %d, retries %d, %s", r.Lag, r.Leased, r.Attempts, r.Retries, r.Reason))
		}
	}
	for _, r := range t.leases {
		if r.tenant == l.tenant && r.Queue == l.queue && r.Partition == l.partition && r.Group == "g" {
			said = append(said, fmt.Sprintf("lease %s has offsets %d to %d until %s", r.LeaseID, r.FirstOffset, r.EndOffset-1, r.ExpiresAt.Format(time.TimeOnly)))
		}
	}
	return strings.Join(said, ", ")
}

// busy says how busy the machine is: what is slow may be so for that.
func busy() string {
	longest := time.Duration(0)
	for range 20 {
		began := time.Now()
		time.Sleep(10 * time.Millisecond)
		longest = max(longest, time.Since(began))
	}
	load, _ := os.ReadFile("/proc/loadavg")
	return fmt.Sprintf("load %s on %d processors, a rest of 10 ms took %v at most", strings.TrimSpace(string(load)), runtime.NumCPU(),
		longest.Round(time.Millisecond))
}

// pressure is for what the machine's programs wait, where the kernel tells.
func pressure() string {
	var b strings.Builder
	for _, of := range []string{"cpu", "io", "memory"} {
		text, _ := os.ReadFile("/proc/pressure/" + of)
		fmt.Fprintf(&b, "%s: %s\n", of, text)
	}
	return b.String()
}
