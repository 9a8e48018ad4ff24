package main

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"queen/bench/internal/node"
	"queen/bench/internal/report"
)

// TestSmoke runs the program small, through the real binary.
func TestSmoke(t *testing.T) {
	if testing.Short() {
		t.Skip("builds and starts the real binary")
	}
	o := defaults()
	o.dir, o.pending, o.due, o.connections, o.partitions = t.TempDir(), 2000, 1000, 2, 4
	o.lead, o.settle, o.patience = 3*time.Second, 0, time.Minute
	var err error
	if o.binary, err = node.Build(filepath.Join(o.dir, "queen")); err != nil {
		t.Fatal(err)
	}
	r, err := run(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range r.Violations {
		t.Error(v)
	}
	for _, name := range []string{"scheduled, pending", "scheduled, due", "memory per pending timer", "lateness of the fire p99", "fired"} {
		if _, ok := r.Get(name); !ok {
			t.Errorf("%q was not measured", name)
		}
	}
}

// TestJudge: what fires once, at its time or later, passes; every broken promise is named.
func TestJudge(t *testing.T) {
	at := time.Date(2026, 11, 29, 10, 0, 0, 0, time.UTC)
	message := func(id string, late time.Duration) string {
		return fmt.Sprintf(`{"messages":[{"transactionId":%q,"createdAt":%q}]}`, id, at.Add(late).Format("2006-01-02T15:04:05.000000Z"))
	}
	for want, bodies := range map[string][]string{
		"":               {message("a", 0), message("b", time.Second)},
		"1 of 2 due":     {message("a", 0)},
		"more than once": {message("a", 0), message("b", 0), message("b", time.Second)},
		"before their":   {message("a", -time.Microsecond), message("b", 0)},
	} {
		f := fired{at: at, seen: map[string]int{}}
		for _, b := range bodies {
			if err := f.take([]byte(b), at.Add(2*time.Second)); err != nil {
				t.Fatal(err)
			}
		}
		r := &report.Report{}
		f.judge(r, 2)
		got := strings.Join(r.Violations, "; ")
		if (want == "") != (got == "") || !strings.Contains(got, want) {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
