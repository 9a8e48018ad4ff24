package main

import (
	"context"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"queen/bench/internal/changes"
	"queen/bench/internal/client"
	"queen/bench/internal/node"
	"queen/bench/internal/place"
	"queen/bench/internal/report"
)

// TestExtract replays 500 lines through the real binary with two kills. The same program with --input replays all.
func TestExtract(t *testing.T) {
	if testing.Short() {
		t.Skip("builds and kills the real binary")
	}
	o := defaults()
	o.input, o.dir, o.out, o.limit = filepath.Join("testdata", "extract.ndjson"), t.TempDir(), t.Output(), 5*time.Minute
	o.kills, o.leaseSeconds = 2, 1
	var err error
	if o.binary, err = node.Build(filepath.Join(o.dir, "queen")); err != nil {
		t.Fatal(err)
	}
	t.Logf("seed %d", o.seed)
	r, err := run(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range r.Violations {
		t.Error(v)
	}
	if n, _ := r.Get("lines"); n != 500 {
		t.Errorf("the extract has %v lines", n)
	}
}

// TestFaults replays the extract in rounds on three nodes that have faults done to them. The same program with --nodes and --input
// takes all lines and twenty minutes.
func TestFaults(t *testing.T) {
	if testing.Short() {
		t.Skip("builds the real binary and kills nodes")
	}
	o := defaults()
	o.input, o.dir, o.out, o.limit = filepath.Join("testdata", "extract.ndjson"), t.TempDir(), t.Output(), 5*time.Minute
	o.leaseSeconds = 2
	o.trial = place.Trial{Nodes: 3, Groups: 1, For: 9 * time.Second, Every: 3 * time.Second, Lasts: 1200 * time.Millisecond,
		Faults: "kill,pause,partition"}
	var err error
	if o.binary, err = node.Build(filepath.Join(o.dir, "queen")); err != nil {
		t.Fatal(err)
	}
	t.Logf("seed %d", o.seed)
	r, err := run(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range r.Violations {
		t.Error(v)
	}
	r.Print(t.Output(), false)
	rounds, _ := r.Get("rounds")
	faults, _ := r.Get("faults")
	lines, _ := r.Get("lines")
	duplicates, _ := r.Get("second replay, duplicates")
	if rounds < 2 || faults < 1 || lines != 500*rounds || duplicates != lines {
		t.Errorf("%v faults, %v rounds of 500 lines make %v with %v duplicates", faults, rounds, lines, duplicates)
	}
}

// TestLate has a message come when its lease may be over, after another worker had it and acknowledged it: nothing is wrong with that,
// and nothing but its bytes can be judged.
func TestLate(t *testing.T) {
	in, err := changes.Read(filepath.Join("testdata", "extract.ndjson"))
	if err != nil {
		t.Fatal(err)
	}
	var v report.Violations
	l := newLedger(in, "g", &v)
	first := in.Files["go.mod"].Lines[0]
	m := &client.Message{ID: first.ID, Partition: []byte("go.mod"), Data: first.Raw, Attempt: 1}
	leased, over := time.Now().Add(time.Hour), time.Now().Add(-time.Second)
	if l.received(m, over) != nil {
		t.Error("it is used although its lease is over")
	}
	l.received(m, leased)
	l.acked(first, true)
	if l.received(m, over) != nil || len(v.List()) != 0 {
		t.Errorf("an answer that took too long counts: %v", v.List())
	}
	if l.received(m, leased); len(v.List()) != 1 {
		t.Errorf("it came again within its lease, and the violations are %v", v.List())
	}
	if c := l.mu.counts; c.late != 2 || c.delivered != 4 || c.redelivered != 1 {
		t.Errorf("%+v", c)
	}
}

// TestLedger shows every kind of broken promise to the judge of deliveries.
func TestLedger(t *testing.T) {
	in, err := changes.Read(filepath.Join("testdata", "extract.ndjson"))
	if err != nil {
		t.Fatal(err)
	}
	f := in.Files["go.mod"]
	msg := func(at int, attempt uint64) *client.Message {
		l := f.Lines[at]
		return &client.Message{ID: l.ID, Partition: []byte(f.Name), PartitionID: []byte("1"), Data: l.Raw,
			Offset: uint64(at), Attempt: attempt}
	}
	changed, moved := msg(2, 1), msg(2, 1)
	changed.Data = []byte(strings.Replace(string(changed.Data), `"n":`, `"n": `, 1))
	moved.Offset = 3
	foreign := &client.Message{Partition: []byte("go.mod"), Data: []byte(`{"version":100000}`)}
	misplaced := &client.Message{Partition: []byte("no such file"), Data: f.Lines[2].Raw}
	for name, c := range map[string]struct {
		before func(l *ledger)
		then   *client.Message
		want   string
	}{
		"in order":             {nil, msg(2, 1), ""},
		"again, second time":   {nil, msg(1, 2), ""},
		"again, as the first":  {nil, msg(1, 1), "came again as its first"},
		"again, its ack lost":  {func(l *ledger) { l.lost(f.Lines[1:2], false) }, msg(1, 1), ""},
		"again, ack refused":   {func(l *ledger) { l.acked(f.Lines[1], false) }, msg(1, 1), "came again as its first"},
		"again, acknowledged":  {func(l *ledger) { l.acked(f.Lines[1], true) }, msg(1, 2), "was acknowledged and came again"},
		"a gap":                {nil, msg(3, 1), "a gap"},
		"another payload":      {nil, changed, "came as offset"},
		"another offset":       {nil, moved, "came as offset"},
		"nobody's message":     {nil, foreign, "no line of the input"},
		"somebody else's file": {nil, misplaced, "no line of the input"},
	} {
		var v report.Violations
		l := newLedger(in, "g", &v)
		leased := time.Now().Add(time.Hour)
		l.received(msg(0, 1), leased)
		l.received(msg(1, 1), leased)
		if c.before != nil {
			c.before(l)
		}
		l.received(c.then, leased)
		got := strings.Join(v.List(), "; ")
		if (c.want == "") != (got == "") || !strings.Contains(got, c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// TestAnswers shows the judges of pushes what they have to refuse.
func TestAnswers(t *testing.T) {
	in, err := changes.Read(filepath.Join("testdata", "extract.ndjson"))
	if err != nil {
		t.Fatal(err)
	}
	l := in.Files["go.mod"].Lines[1]
	answer := func(status, id string, offset uint64) client.Pushed {
		return client.Pushed{Status: []byte(status), ID: []byte(id), Offset: offset}
	}
	queued, duplicate, other := answer("queued", "a", 1), answer("duplicate", "a", 1), answer("duplicate", "b", 1)
	elsewhere, elsewhereAgain := answer("queued", "a", 2), answer("duplicate", "a", 2)
	for name, c := range map[string]struct {
		first, second client.Pushed
		sure          bool
		want          string
	}{
		"stored, then a duplicate":      {queued, duplicate, true, ""},
		"sent again after no answer":    {duplicate, duplicate, false, ""},
		"a duplicate of nothing":        {duplicate, duplicate, true, "was sent once"},
		"another offset":                {elsewhere, elsewhereAgain, true, "was stored at offset 2"},
		"refused":                       {answer("error", "", 0), duplicate, true, "was answered error"},
		"stored twice":                  {queued, queued, true, "want duplicate"},
		"a duplicate of something else": {queued, other, true, "as b"},
	} {
		r := newReplay(options{producers: 1}, in, "q", &report.Violations{}, nil)
		r.first(l, &c.first, c.sure)
		r.second(l, &c.second, true)
		got := strings.Join(r.v.List(), "; ")
		if (c.want == "") != (got == "") || !strings.Contains(got, c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}
