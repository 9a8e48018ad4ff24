package main

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"queen/bench/internal/cell"
	"queen/bench/internal/floor"
	"queen/bench/internal/procfs"
	"queen/bench/internal/report"
)

// table is everything that was measured.
type table struct {
	o     *options
	floor []*floor.Result
	cells []*measured
	moves []*moves
}

// holdMove is how long a graceful transfer may keep a client of any node waiting.
const holdMove = 200 * time.Millisecond

func (t *table) head(w io.Writer, commit string) {
	fmt.Fprintf(w, "%s, load %.1f, commit %s\n\n", time.Now().UTC().Format(time.RFC3339), procfs.Load(), commit)
}

func (t *table) print(w io.Writer) {
	if t.o.asJSON {
		for _, c := range t.cells {
			if c.report != nil {
				c.report.Print(w, true)
			}
		}
		for _, m := range t.moves {
			m.report().Print(w, true)
		}
		return
	}
	for _, f := range t.floor {
		fmt.Fprintf(w, "floor: %d KiB durable write: p50 %d us, p99 %d us, %.0f a second\n", f.Bytes>>10, f.Latency.Percentile(50).Microseconds(),
			f.Latency.Percentile(99).Microseconds(), f.PerSecond())
	}
	if len(t.cells) > 0 {
		fmt.Fprintln(w, "\n| messages a push | target | in, out msg/s | push p50 / p99 ms | arrival p50 / p99 ms | flushes per message | "+
			"written per payload byte: all, a replica, without zeroes | disk bytes per payload byte | servers, loader CPU s per 1M messages |")
		fmt.Fprintln(w, "|---|---|---|---|---|---|---|---|---|")
		for _, c := range t.cells {
			fmt.Fprintln(w, c.row())
		}
		fmt.Fprintln(w)
		t.ratios(w)
	}
	for _, m := range t.moves {
		fmt.Fprintf(w, "\n%s\n", m)
	}
	for _, c := range t.cells {
		if c.report != nil {
			fmt.Fprintln(w)
			c.report.Print(w, false)
		}
	}
}

func (c *measured) row() string {
	if c.err != nil {
		first, _, _ := strings.Cut(c.err.Error(), "\n")
		return fmt.Sprintf("| %d | %s | error: %s | | | | | | |", c.batch, c.name, strings.ReplaceAll(first, "|", "/"))
	}
	ms := func(name string) string {
		us, _ := c.report.Get(name)
		return fmt.Sprintf("%.1f", us/1e3)
	}
	get := func(name string) string {
		n, ok := c.report.Get(name)
		if !ok {
			return "-"
		}
		return report.Number(n)
	}
	return fmt.Sprintf("| %d | %s | %s, %s | %s / %s | %s / %s | %s | %s, %s, %s | %s | %s, %s |", c.batch, c.name, get(cell.In), get(cell.Out),
		ms(cell.PushP50), ms(cell.PushP99), ms(cell.ArrivalP50), ms(cell.ArrivalP99), get(cell.Flushes), get(cell.Written), get(cell.WrittenEach),
		get(cell.Useful), get(cell.DiskWritten), get(cell.CPU), get(cell.LoaderCPU))
}

// rate is what came in, was popped and acked; false for a cell that was not measured.
func (c *measured) rate() (float64, bool) {
	if c.err != nil {
		return 0, false
	}
	n, ok := c.report.Get(cell.Rate)
	return n, ok && n > 0
}

// ratios sets three nodes beside one, and beside the best of each way of NATS.
func (t *table) ratios(w io.Writer) {
	for _, c := range t.cells {
		ours, ok := c.rate()
		if c.target != "three" || !ok {
			continue
		}
		for _, other := range t.cells {
			theirs, ok := other.rate()
			if other.batch == c.batch && other.target != "three" && ok {
				fmt.Fprintf(w, "%d a push: rate of %s against %s %.2f\n", c.batch, c.name, other.name, ours/theirs)
			}
		}
	}
}

// moves are transfers of the lead of one kind.
type moves struct {
	how string
	// gaps are, for each, the longest time that any node's client was without an answer, and quiet the same of half a second
	// before it with nothing done. first is from the request to the first answer that the new leader's client got behind its longest gap.
	gaps, quiet, first []time.Duration
	// asking is how long the command takes that asks, when it only finds out whom to ask.
	asking []time.Duration
	failed int
}

// middle and worst of what is not empty.
func middle(ds []time.Duration) time.Duration { return slices.Sorted(slices.Values(ds))[len(ds)/2] }
func worst(ds []time.Duration) time.Duration  { return slices.Max(ds) }

func (m *moves) report() *report.Report {
	r := &report.Report{Program: "replicas " + m.how, Conditions: fmt.Sprintf("a client of each node pushes one message at a time, load %.1f", procfs.Load())}
	r.Add("times", float64(len(m.gaps)), "")
	for _, v := range []struct {
		name string
		of   []time.Duration
	}{{"longest gap", m.gaps}, {"longest gap, nothing done", m.quiet}, {"first answer of the new leader", m.first}, {"command without a transfer", m.asking}} {
		if len(v.of) > 0 {
			r.Add(v.name+", median", middle(v.of).Seconds()*1e3, "ms")
			r.Add(v.name+", worst", worst(v.of).Seconds()*1e3, "ms")
		}
	}
	r.Add("failed", float64(m.failed), "")
	return r
}

// String is the same in some lines.
func (m *moves) String() string {
	if len(m.gaps) == 0 {
		return fmt.Sprintf("%s: none worked, %d failed", m.how, m.failed)
	}
	ms := func(ds []time.Duration) string {
		return fmt.Sprintf("median %.0f ms, worst %.0f ms", middle(ds).Seconds()*1e3, worst(ds).Seconds()*1e3)
	}
	said := "held"
	if worst(m.gaps) > holdMove || m.failed > 0 {
		said = "SHORT"
	}
	s := fmt.Sprintf("%s, %d times, %d failed: longest gap of any node's client %s (hold %v): %s; in the half second before, nothing done, %s", m.how,
		len(m.gaps), m.failed, ms(m.gaps), holdMove, said, ms(m.quiet))
	if len(m.first) > 0 {
		s += fmt.Sprintf("\n%s: from the request to the first answer of the new leader %s", m.how, ms(m.first))
	}
	if len(m.asking) > 0 {
		s += fmt.Sprintf(", of which the command takes %s to find whom to ask", ms(m.asking))
	}
	return s
}
