package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"queen/bench/internal/changes"
	"queen/bench/internal/node"
	"queen/bench/internal/place"
	"queen/bench/internal/report"
)

// short are the conditions of runs in tests: a few hundred lines, and short leases.
func short(t *testing.T) options {
	t.Helper()
	if testing.Short() {
		t.Skip("builds and kills the real binary")
	}
	o := defaults()
	o.input, o.dir, o.out, o.limit = filepath.Join("..", "real", "testdata", "extract.ndjson"), t.TempDir(), t.Output(), 5*time.Minute
	o.leaseSeconds, o.timerEvery = 2, 10
	t.Logf("seed %d", o.seed)
	var err error
	if o.binary, err = node.Build(filepath.Join(o.dir, "queen")); err != nil {
		t.Fatal(err)
	}
	return o
}

func carryOut(t *testing.T, o options) *report.Report {
	t.Helper()
	r, err := run(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	r.Print(t.Output(), false)
	for _, v := range r.Violations {
		t.Error(v)
	}
	return r
}

// TestKills takes the steps of 500 lines on one node that is killed twice.
func TestKills(t *testing.T) {
	o := short(t)
	o.kills = 2
	if n, _ := carryOut(t, o).Get("steps"); n != 500 {
		t.Errorf("%v steps, want 500", n)
	}
}

// TestFaults takes them in rounds on three nodes that have faults done to them.
func TestFaults(t *testing.T) {
	o := short(t)
	o.trial = place.Trial{Nodes: 3, Groups: 1, For: 9 * time.Second, Every: 3 * time.Second, Lasts: 1200 * time.Millisecond,
		Faults: "kill,pause,partition"}
	r := carryOut(t, o)
	rounds, _ := r.Get("rounds")
	steps, _ := r.Get("steps")
	faults, _ := r.Get("faults")
	if rounds < 2 || steps != 500*rounds || faults < 1 {
		t.Errorf("%v faults, %v rounds of 500 steps make %v", faults, rounds, steps)
	}
}

// passOver is a pass over a small stream on a place that is not needed, or on a server.
func passOver(t *testing.T, addrs ...string) (*steps, *report.Violations) {
	t.Helper()
	in, err := changes.Read(filepath.Join("..", "real", "testdata", "extract.ndjson"))
	if err != nil {
		t.Fatal(err)
	}
	o := defaults()
	o.timerEvery = 10
	v := &report.Violations{}
	return newSteps(o, in, 3, at(addrs), v, &tally{}), v
}

// at is a place without nodes of its own.
type at []string

func (a at) Addrs() []string       { return a }
func (at) Tenant() string          { return "" }
func (at) Patience() time.Duration { return 10 * time.Second }
func (at) Stop() error             { return nil }
func (at) LogTail() string         { return "" }

// held is everything that the nodes hold when every step took place once.
func held(s *steps) (counters map[string]int64, index map[string][]json.RawMessage, timers []json.RawMessage) {
	counters, index = map[string]int64{}, map[string][]json.RawMessage{}
	for _, l := range s.in.Lines {
		counters[l.File.Name] += l.Added
		index[l.File.Name] = append(index[l.File.Name], json.RawMessage(fmt.Sprintf(`{"version":%d}`, l.Version())))
		if s.timed(l) {
			timers = append(timers, quote(string(l.ID)))
		}
	}
	return counters, index, timers
}

// TestJudges shows every kind of broken promise to the judges.
func TestJudges(t *testing.T) {
	const file = "go.mod"
	for want, breaks := range map[string]func(counters map[string]int64, index map[string][]json.RawMessage, timers []json.RawMessage) []json.RawMessage{
		"": nil,
		"the counter of go.mod is": func(c map[string]int64, _ map[string][]json.RawMessage, t []json.RawMessage) []json.RawMessage {
			c[file]++
			return t
		},
		"(there: false)": func(c map[string]int64, _ map[string][]json.RawMessage, t []json.RawMessage) []json.RawMessage {
			delete(c, file)
			return t
		},
		"entries, want": func(_ map[string]int64, i map[string][]json.RawMessage, t []json.RawMessage) []json.RawMessage {
			i[file] = i[file][:len(i[file])-1]
			return t
		},
		"where version 2 belongs": func(_ map[string]int64, i map[string][]json.RawMessage, t []json.RawMessage) []json.RawMessage {
			i[file] = slices.Insert(i[file], 1, i[file][0])
			return t
		},
		"fired 0 times": func(_ map[string]int64, _ map[string][]json.RawMessage, t []json.RawMessage) []json.RawMessage {
			return t[1:]
		},
		"fired 2 times": func(_ map[string]int64, _ map[string][]json.RawMessage, t []json.RawMessage) []json.RawMessage {
			return append(t, t[0])
		},
		"is no timer of ours": func(_ map[string]int64, _ map[string][]json.RawMessage, t []json.RawMessage) []json.RawMessage {
			return append(t, json.RawMessage(`{}`))
		},
	} {
		s, v := passOver(t)
		if f := s.in.Files[file]; f.First != 1 || len(f.Lines) < 3 || s.timed(f.Lines[1]) {
			t.Fatal("the extract is another one")
		}
		counters, index, timers := held(s)
		if breaks != nil {
			timers = breaks(counters, index, timers)
		}
		s.judgeCounters(counters)
		for name, f := range s.in.Files {
			s.judgeIndex(f, index[name])
		}
		s.judgeTimers(timers)
		got := strings.Join(v.List(), "; ")
		if (want == "") != (got == "") || !strings.Contains(got, want) {
			t.Errorf("%q, want %q", got, want)
		}
	}
	s, v := passOver(t)
	_, _, timers := held(s)
	if s.judgeTimers(append(timers, quote(string(s.in.Files[file].Lines[1].ID)))); !strings.Contains(strings.Join(v.List(), ""), "which has none") {
		t.Errorf("a timer that nobody scheduled: %v", v.List())
	}
}

// TestMay: a step that was answered must not be delivered again, but for a delivery whose lease may be over.
func TestMay(t *testing.T) {
	s, v := passOver(t)
	l := s.in.Lines[0]
	leased, over := time.Now().Add(time.Hour), time.Now().Add(-time.Second)
	s.settle(l, false)
	if !s.may(l, leased) || s.may(l, over) || len(v.List()) != 0 {
		t.Errorf("one without an answer: %v", v.List())
	}
	s.settle(l, true)
	if s.may(l, over) || len(v.List()) != 0 {
		t.Errorf("one that comes too late: %v", v.List())
	}
	if s.may(l, leased); len(v.List()) != 1 {
		t.Errorf("one that was answered came again, and the violations are %v", v.List())
	}
}

// TestOpen looks two steps without an answer up, of which one took place. The first node that is asked is another process when it comes to
// the index, as after a restart, and the second has no leader at first: what they say does not count.
func TestOpen(t *testing.T) {
	var asked []string
	caughtUp := false
	serve := func(name string, kv func(http.ResponseWriter)) string {
		srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			if strings.HasPrefix(r.URL.Path, "/api/v1/kv/added-3/") {
				asked = append(asked, name+" keys")
				kv(w)
				return
			}
			asked = append(asked, name+" index")
			records := ""
			if caughtUp {
				records = `{"offset":0,"payload":{"version":1}},{"offset":1,"payload":{"version":2}}`
				caughtUp = false // the rest is asked for, and is empty
			}
			body := `{"entries":[{"records":[` + records + `]}]}`
			w.Header().Set("Content-Length", fmt.Sprint(len(body)))
			_, _ = io.WriteString(w, body)
		}))
		t.Cleanup(srv.Close)
		return strings.TrimPrefix(srv.URL, "http://")
	}
	first := serve("1", func(w http.ResponseWriter) { w.Header().Set("Connection", "close") })
	tries := 0
	second := serve("2", func(w http.ResponseWriter) {
		if tries++; tries == 1 {
			w.WriteHeader(503)
			return
		}
		caughtUp = true
	})
	s, _ := passOver(t, first, second)
	f := s.in.Files["go.mod"]
	s.settle(f.Lines[1], false)
	s.settle(f.Lines[2], false)
	r := &reader{s, place.Conn(s.place, 0)}
	defer r.conn.Close()
	left, err := s.open(context.Background(), r)
	if err != nil || len(left) != 1 || left[0] != f.Lines[2] || !s.mu.settled[f.Lines[1]] || s.mu.settled[f.Lines[2]] {
		t.Errorf("%v: %d are open, want only version 3", err, len(left))
	}
	want := "1 keys,1 index,2 keys,1 keys,1 index,2 keys,2 index,2 index"
	if got := strings.Join(asked, ","); got != want {
		t.Errorf("asked %s, want %s", got, want)
	}
}
