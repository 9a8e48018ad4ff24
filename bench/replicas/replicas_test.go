package main

import (
	"errors"
	"strings"
	"testing"
	"time"

	"queen/bench/internal/cell"
	"queen/bench/internal/report"
)

// TestLongest: a gap counts from the answer before it, whenever that came, and up to the end where none came after it.
func TestLongest(t *testing.T) {
	zero := time.Now()
	at := func(ms int) time.Time { return zero.Add(time.Duration(ms) * time.Millisecond) }
	for name, c := range map[string]struct {
		answers     []int
		from, until int
		gap, end    int
	}{
		"in the middle":         {[]int{0, 1, 50, 51, 60}, 2, 60, 49, 50},
		"began before":          {[]int{0, 1, 50, 51}, 40, 52, 49, 50},
		"goes on":               {[]int{0, 1, 2}, 1, 30, 28, 30},
		"no answer before":      {[]int{12}, 10, 13, 2, 12},
		"no answer at all":      {nil, 10, 13, 3, 13},
		"what is later is none": {[]int{0, 1, 2, 3, 90}, 0, 4, 1, 1},
	} {
		p := &pusher{}
		for _, ms := range c.answers {
			p.answers = append(p.answers, at(ms))
		}
		gap, end := p.longest(at(c.from), at(c.until))
		if gap != time.Duration(c.gap)*time.Millisecond || !end.Equal(at(c.end)) {
			t.Errorf("%s: %v, which ended at %v", name, gap, end.Sub(zero))
		}
	}
}

// TestCells: each size of batch is measured against each target, and two raft groups only on three nodes.
func TestCells(t *testing.T) {
	var o options
	if err := o.settle("one,three,nats", "1,2", "100,1"); err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, c := range o.cells() {
		names = append(names, c.name)
	}
	want := "one node|three nodes|three nodes, 2 raft groups|NATS R3, async|NATS R3, atomic|one node|three nodes|three nodes, 2 raft groups|NATS R3, async"
	if got := strings.Join(names, "|"); got != want {
		t.Errorf("%s", got)
	}
	for _, bad := range [][3]string{{"two", "1", "1"}, {"one", "3", "1"}, {"one", "1", "0"}, {"one", "1", "1001"}, {"one", "x", "1"}} {
		if err := new(options).settle(bad[0], bad[1], bad[2]); err == nil {
			t.Errorf("%q were taken", bad)
		}
	}
}

// TestRatios: three nodes stand beside what has the same batches, and a cell with an error beside nothing.
func TestRatios(t *testing.T) {
	of := func(target string, batch int, rate float64) *measured {
		r := &report.Report{}
		r.Add(cell.Rate, rate, "msg/s")
		return &measured{target: target, name: target, batch: batch, report: r}
	}
	broken := &measured{target: "nats", name: "nats", batch: 1, err: errors.New("it | failed\nand more")}
	tab := &table{cells: []*measured{of("one", 100, 200), of("three", 100, 100), of("nats", 100, 25), of("three", 1, 10), broken}}
	var b strings.Builder
	tab.ratios(&b)
	if got, want := b.String(), "100 a push: rate of three against one 0.50\n100 a push: rate of three against nats 4.00\n"; got != want {
		t.Errorf("%q", got)
	}
	if row := broken.row(); !strings.Contains(row, "error: it / failed |") || strings.Contains(row, "more") {
		t.Errorf("%q", row)
	}
}

// TestVerdict: the worst counts, and a failed transfer is none that held.
func TestVerdict(t *testing.T) {
	ms := time.Millisecond
	for want, m := range map[string]*moves{
		"held":        {gaps: []time.Duration{10 * ms, 200 * ms}, quiet: []time.Duration{ms, ms}},
		"SHORT":       {gaps: []time.Duration{10 * ms, 201 * ms}, quiet: []time.Duration{ms, ms}},
		"SHORT; in":   {gaps: []time.Duration{10 * ms}, quiet: []time.Duration{ms}, failed: 1},
		"none worked": {failed: 1},
	} {
		if got := m.String(); !strings.Contains(got, want) {
			t.Errorf("%q is not %q", got, want)
		}
	}
}
