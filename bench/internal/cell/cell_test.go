package cell

import (
	"context"
	"errors"
	"math"
	"testing"
	"time"

	"queen/bench/internal/load"
	"queen/bench/internal/procfs"
	"queen/bench/internal/report"
)

// TestFill: two loads of one broker are added up, and what it spent is divided by what both of them pushed.
func TestFill(t *testing.T) {
	results := []*load.Result{
		{Elapsed: 2 * time.Second, Pushed: 1000, Popped: 900, Acked: 800, Violations: []string{"a"}},
		{Elapsed: 4 * time.Second, Pushed: 3000, Popped: 3000, Acked: 3000, Violations: []string{"b"}, Left: 7},
	}
	results[0].Loader = procfs.Reading{Elapsed: 2 * time.Second, Usage: procfs.Usage{CPU: 4 * time.Millisecond}}
	results[0].Push.Add(time.Millisecond)
	results[1].Push.Add(3 * time.Millisecond)
	o := Options{Loads: []load.Options{{Size: 100}, {Size: 100}}, Replicas: 2, Reserved: func() (int64, error) { return 0, nil }}
	start := time.Now()
	from := moment{Reading: procfs.Reading{At: start, HasDisk: true, Usage: procfs.Usage{CPU: time.Second, Written: 5000}}, reserved: 100}
	to := moment{Reading: procfs.Reading{At: start.Add(2 * time.Second), HasDisk: true, Disk: procfs.Counters{Flushes: 400, WriteBytes: 1_000_000},
		Usage: procfs.Usage{CPU: 1020 * time.Millisecond, Written: 1_205_000}}, reserved: 400_100}
	var r report.Report
	o.fill(&r, results, from, to)
	for name, want := range map[string]float64{
		In: 1250, Out: 1200, "ack rate": 1150, Rate: 1150, Flushes: 0.1, Written: 3, Useful: 1, WrittenEach: 1.5,
		DiskWritten: 2.5, CPU: 5, LoaderCPU: 1, "loader cpu": 0.002, "left": 7, "reserved": 0.2,
	} {
		if got, ok := r.Get(name); !ok || math.Abs(got-want) > want*1e-9 {
			t.Errorf("%s: %v, want %v", name, got, want)
		}
	}
	if p99, _ := r.Get(PushP99); p99 < 3000 || p99 > 3100 {
		t.Errorf("push p99 %v us", p99)
	}
	if len(r.Violations) != 2 {
		t.Errorf("violations %q", r.Violations)
	}
}

// TestFirst: the error is told that made the other loads end.
func TestFirst(t *testing.T) {
	bad := errors.New("bad")
	for _, errs := range [][]error{{nil, bad}, {context.Canceled, bad}, {bad, context.Canceled, nil}} {
		if err := first(errs); err != bad {
			t.Errorf("%v: %v", errs, err)
		}
	}
	if err := first([]error{nil, nil}); err != nil {
		t.Error(err)
	}
}

// TestMeasureRefuses: without a warm-up nobody would know what the broker had spent before.
func TestMeasureRefuses(t *testing.T) {
	o := Options{Dir: t.TempDir(), Processes: []procfs.Process{procfs.Self()}, Loads: []load.Options{{Duration: time.Second}}}
	if _, err := Measure(context.Background(), o); err == nil {
		t.Error("a load without a warm-up was measured")
	}
}
