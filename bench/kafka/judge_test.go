package main

import (
	"errors"
	"strings"
	"testing"
	"time"

	"queen/bench/internal/histo"
	"queen/bench/internal/kafkaload"
	"queen/bench/internal/report"
)

// pressed is a run of windows, each 10 s, given as accepted and consumed.
func pressed(arrival time.Duration, windows ...[2]uint64) *kafkaload.Result {
	r := &kafkaload.Result{}
	for _, w := range windows {
		r.Windows = append(r.Windows, kafkaload.Window{Elapsed: 10 * time.Second, Produced: w[0], Consumed: w[1]})
		r.Produced += w[0]
		r.Consumed += w[1]
		r.Elapsed += 10 * time.Second
	}
	times := histo.Recorder{}
	times.Add(arrival)
	times.Take(&r.Arrival)
	return r
}

// TestPressure: each promise about consumers under pressure is broken by a run that keeps the others.
func TestPressure(t *testing.T) {
	const capacity, offered = 1000, 2000
	even := [2]uint64{10_000, 10_000}
	for _, c := range []struct {
		name   string
		result *kafkaload.Result
		want   []string // in the violations, one each
		none   bool
	}{
		{"held", pressed(time.Second, even, even), nil, false},
		{"at the limit", pressed(2*time.Second, [2]uint64{10_000, 9000}, [2]uint64{10_000, 9000}), nil, false},
		{"worst window", pressed(time.Second, even, [2]uint64{10_000, 8900}, even, even), []string{"0.890 of what was accepted in the worst window"}, false},
		{"share", pressed(time.Second, [2]uint64{15_000, 12_000}, [2]uint64{15_000, 12_000}),
			[]string{"0.800 of what was accepted, at", "0.800 of what was accepted in the worst window"}, false},
		{"of the capacity", pressed(time.Second, [2]uint64{8000, 8000}, [2]uint64{8000, 8000}), []string{"0.800 of what they get at the capacity"}, false},
		{"old", pressed(3*time.Second, even, even), []string{"after 3"}, false},
		{"nothing", pressed(time.Second, [2]uint64{}), []string{"0.000 of what was accepted, at", "in the worst window", "at the capacity"}, false},
		{"took all", pressed(time.Second, [2]uint64{19_500, 19_500}), nil, true},
	} {
		p := newPressure(capacity, offered, c.result)
		r := &report.Report{}
		p.judge(r)
		if p.none() != c.none || len(r.Violations) != len(c.want) {
			t.Errorf("%s: none %v, %q", c.name, p.none(), r.Violations)
			continue
		}
		for i, want := range c.want {
			if !strings.Contains(r.Violations[i], want) {
				t.Errorf("%s: %q, want %q", c.name, r.Violations[i], want)
			}
		}
	}
}

// TestWorstShare: the rest of the time that is left for the last window is no window.
func TestWorstShare(t *testing.T) {
	w := pressed(0, [2]uint64{100, 95}, [2]uint64{10, 5}).Windows
	if got := worstShare(w); got != 0.5 {
		t.Error(got)
	}
	w[1].Elapsed = time.Second
	if got := worstShare(w); got != 0.95 {
		t.Error(got)
	}
}

func TestJudgeSoak(t *testing.T) {
	slow := histo.Histogram{}
	times := histo.Recorder{}
	times.Add(600 * time.Millisecond)
	times.Take(&slow)
	for _, c := range []struct {
		name string
		res  kafkaload.Result
		want string // in the only violation
	}{
		{"flat", kafkaload.Result{Before: 1000, Slope: 9, Elapsed: time.Hour}, ""},
		{"shrinks", kafkaload.Result{Before: 1000, Slope: -90}, ""},
		{"grows", kafkaload.Result{Before: 1000, Slope: 10, Elapsed: 2 * time.Minute}, "grew by 1.00 % a minute"},
		{"unknown", kafkaload.Result{}, "not known"},
		{"slow", kafkaload.Result{Before: 1000, Windows: []kafkaload.Window{{Produce: slow}}}, "produce p99 of"},
	} {
		r := &report.Report{}
		judgeSoak(r, &c.res, 500*time.Millisecond, 0.01)
		got := strings.Join(r.Violations, "; ")
		if (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
			t.Errorf("%s: %q", c.name, got)
		}
	}
}

// TestCode: what was found out decides how the process ends.
func TestCode(t *testing.T) {
	bad := &report.Report{}
	bad.Violate("gap")
	for _, c := range []struct {
		name  string
		cells []*cell
		short bool
		want  int
	}{
		{"all well", []*cell{{target: "queen", report: &report.Report{}}}, false, 0},
		{"violation", []*cell{{target: "queen", report: bad}, {target: "queen", report: &report.Report{}}}, false, 1},
		{"another loses", []*cell{{target: "kafka", report: bad}}, false, 1},
		{"another is not there", []*cell{{target: "kafka", err: errors.New("x")}}, false, 0},
		{"ours is not there", []*cell{{target: "queen", err: errors.New("x")}, {target: "kafka", report: bad}}, false, 2},
		{"one that runs is not there", []*cell{{target: "running", err: errors.New("x")}}, false, 2},
		{"no overload", []*cell{{target: "queen", report: &report.Report{}, unmeasured: true}}, false, 2},
		{"short", []*cell{{target: "queen", report: &report.Report{}}}, true, 1},
	} {
		table := &table{cells: c.cells, short: c.short}
		if got := table.code(); got != c.want {
			t.Errorf("%s: %d, want %d", c.name, got, c.want)
		}
	}
}

// TestShort: a number that is held to and not reached is remembered, also when nobody reads the text.
func TestShort(t *testing.T) {
	at := func(target string, partitions int, n uint64, cpu float64) *cell {
		c := &cell{target: target, partitions: partitions, report: &report.Report{},
			result: &kafkaload.Result{Elapsed: time.Second, Produced: n, Consumed: n}}
		c.report.Add("cpu per message", cpu, "us")
		return c
	}
	for _, c := range []struct {
		name  string
		rate  uint64
		cpu   float64
		short bool
	}{{"held", 600, 1.15, false}, {"rate", 590, 1, true}, {"processor", 600, 1.2, true}} {
		table := &table{o: &options{asJSON: true, partitions: []int{fewPartitions, allPartitions}}, cells: []*cell{
			at("queen", fewPartitions, c.rate, 1), at("ceiling", fewPartitions, 1000, 0), at("kafka-flush", fewPartitions, 1000, 0),
			at("queen", allPartitions, 500, c.cpu)}}
		table.print(&strings.Builder{})
		if table.short != c.short {
			t.Errorf("%s: short %v", c.name, table.short)
		}
	}
}
