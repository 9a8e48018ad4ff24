package main

import (
	"strings"
	"testing"
	"time"

	"queen/bench/internal/load"
)

// TestJudge: a steady run passes, and each thing that may not vary is caught.
func TestJudge(t *testing.T) {
	steady := func(rss int64, fds int, disk int64, slow time.Duration) *load.Result {
		res := &load.Result{Elapsed: time.Minute, Pushed: 600, Acked: 600}
		for i := range 6 {
			w := load.Window{From: time.Duration(i) * 10 * time.Second}
			w.Usage.RSS, w.Usage.FDs, w.DiskBytes = 100<<20, 40, 1<<30
			if i == 3 {
				w.Usage.RSS, w.Usage.FDs, w.DiskBytes = w.Usage.RSS+rss, w.Usage.FDs+fds, w.DiskBytes+disk
			}
			for range 100 {
				w.Push.Add(time.Millisecond)
			}
			if i == 3 {
				w.Push.Add(slow)
				w.Push.Add(slow)
			}
			res.Push.Merge(&w.Push)
			res.Windows = append(res.Windows, w)
		}
		return res
	}
	o := &options{load: load.Defaults(), vary: 0.1, worst: 250 * time.Millisecond, p99: 50 * time.Millisecond}
	for want, res := range map[string]*load.Result{
		"":                   steady(9<<20, 3, 100<<20, 200*time.Millisecond),
		"rss varied":         steady(11<<20, 0, 0, 0),
		"descriptors varied": steady(0, 5, 0, 0),
		"disk varied":        steady(0, 0, 110<<20, 0),
		"the window at 30s":  steady(0, 0, 0, 300*time.Millisecond),
	} {
		got := strings.Join(judge(o, res).Violations, "; ")
		if (want == "") != (got == "") || !strings.Contains(got, want) {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
