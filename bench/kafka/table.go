package main

import (
	"fmt"
	"io"
	"strings"
	"time"

	"queen/bench/internal/report"
)

// table is everything that was measured.
type table struct {
	o     *options
	cells []*cell
	// short says that a number which our node is held to was not reached; print finds out.
	short bool
}

func (t *table) find(target string, partitions int) *cell {
	for _, c := range t.cells {
		if c.target == target && c.partitions == partitions && c.err == nil {
			return c
		}
	}
	return nil
}

// print writes the table, the ratios and everything behind them.
func (t *table) print(w io.Writer) {
	if t.o.asJSON {
		t.verdicts(io.Discard)
		for _, c := range t.cells {
			if c.report != nil {
				c.report.Print(w, true)
			}
		}
		return
	}
	fmt.Fprintln(w, "| partitions | target | in, out msg/s | produce p50 / p99 ms, worst window | e2e p50 / p99 ms | broker, loader CPU s per 1M messages |"+
		" RSS MiB before, after, per min | fetch request B: each, per message | flushes per message |")
	fmt.Fprintln(w, "|---|---|---|---|---|---|---|---|---|")
	for _, c := range t.cells {
		fmt.Fprintln(w, c.row())
	}
	fmt.Fprintln(w)
	t.verdicts(w)
	fmt.Fprintln(w)
	for _, c := range t.cells {
		if c.report != nil {
			c.report.Print(w, false)
		}
	}
}

// verdicts compares with what was promised.
func (t *table) verdicts(w io.Writer) {
	if t.o.overload {
		t.overloads(w)
	} else {
		t.ratios(w)
	}
}

func (c *cell) row() string {
	if c.err != nil {
		first, _, _ := strings.Cut(c.err.Error(), "\n")
		return fmt.Sprintf("| %d | %s | error: %s | | | | | | |", c.partitions, c.target, strings.ReplaceAll(first, "|", "/"))
	}
	r := c.result
	ms := func(d time.Duration) string { return fmt.Sprintf("%.1f", float64(d)/1e6) }
	get := func(name string) string {
		n, ok := c.report.Get(name)
		if !ok {
			return "-"
		}
		return report.Number(n)
	}
	return fmt.Sprintf("| %d | %s | %s, %s | %s / %s, %s | %s / %s | %s, %s | %s, %s, %s | %s, %s | %s |", c.partitions, c.target,
		get("rate in"), get("rate out"), ms(r.Produce.Percentile(50)), ms(r.Produce.Percentile(99)), ms(worstWindow(r)),
		ms(r.Arrival.Percentile(50)), ms(r.Arrival.Percentile(99)), get("cpu per message"), get("loader cpu per message"),
		get("rss before"), get("rss after"), get("rss slope"), get("bytes of a fetch request"), get("fetch request bytes per message"),
		get("flushes per message"))
}

// ratios sets our node beside the others.
func (t *table) ratios(w io.Writer) {
	for _, n := range t.o.partitions {
		ours := t.find("queen", n)
		if ours == nil {
			continue
		}
		rate := ratePerSecond(ours.result)
		for _, other := range []string{"kafka-flush", "ceiling", "kafka"} {
			if c := t.find(other, n); c != nil {
				fmt.Fprintf(w, "%d partitions: rate of queen against %s %.2f\n", n, other, rate/ratePerSecond(c.result))
			}
		}
	}
	t.goal(w)
	few, many := t.find("queen", fewPartitions), t.find("queen", allPartitions)
	if few != nil && many != nil {
		a, _ := few.report.Get("cpu per message")
		z, _ := many.report.Get("cpu per message")
		fmt.Fprintf(w, "CPU per message at %d partitions against %d: %.2f (hold %.2f): %s\n", allPartitions, fewPartitions, z/a, holdCPU,
			t.verdict(z/a <= holdCPU))
	}
}

// goal is the one number that the rate is held to.
func (t *table) goal(w io.Writer) {
	ours, flush, top := t.find("queen", fewPartitions), t.find("kafka-flush", fewPartitions), t.find("ceiling", fewPartitions)
	if ours == nil || flush == nil || top == nil {
		return
	}
	rate := ratePerSecond(ours.result)
	byFlush, byCeiling := holdOfFlush*ratePerSecond(flush.result), holdOfCeiling*ratePerSecond(top.result)
	hold := min(byFlush, byCeiling)
	fmt.Fprintf(w, "%d partitions: %s msg/s; hold %s (the smaller of %.0f x kafka-flush, %s, and %.1f x ceiling, %s)", fewPartitions,
		report.Number(rate), report.Number(hold), holdOfFlush, report.Number(byFlush), holdOfCeiling, report.Number(byCeiling))
	if plain := t.find("kafka", fewPartitions); plain != nil {
		fmt.Fprintf(w, "; reach for %s (kafka)", report.Number(ratePerSecond(plain.result)))
	}
	fmt.Fprintf(w, ": %s\n", t.verdict(rate >= hold))
}

func (t *table) overloads(w io.Writer) {
	for _, c := range t.cells {
		p := c.pressure
		if c.err != nil || p == nil {
			continue
		}
		said := "held"
		switch {
		case p.none():
			said = "no overload, it took all that was offered: the capacity was measured too low"
		case len(c.report.Violations) > 0:
			said = word(false)
		case !c.ours():
			said = "not ours to hold"
		}
		fmt.Fprintf(w, "%d partitions, %s: consumed %.3f of accepted, %.3f in the worst window, and %.3f of the capacity (hold %.1f), "+
			"p99 from sent to delivered %v (hold %v): %s\n", c.partitions, c.target, p.share(), p.worst, p.kept(), holdOverload,
			p.arrival.Round(time.Millisecond), holdArrival, said)
	}
}

// verdict says whether our node holds a number; one that it does not hold is remembered.
func (t *table) verdict(held bool) string {
	t.short = t.short || !held
	return word(held)
}

func word(held bool) string {
	if held {
		return "held"
	}
	return "SHORT"
}
