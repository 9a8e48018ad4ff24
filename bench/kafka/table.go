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
}

// Numbers that ratios are held to.
const (
	holdOfFlush   = 5.0
	holdOfCeiling = 0.6
	holdCPU       = 1.15
	holdOverload  = 0.9
	tookAll       = 0.95 // of what was offered
	fewPartitions = 200
	allPartitions = 10_000
)

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
	if t.o.overload {
		t.overloads(w)
	} else {
		t.ratios(w)
	}
	fmt.Fprintln(w)
	for _, c := range t.cells {
		if c.report != nil {
			c.report.Print(w, false)
		}
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
			verdict(z/a <= holdCPU))
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
	fmt.Fprintf(w, ": %s\n", verdict(rate >= hold))
}

func (t *table) overloads(w io.Writer) {
	for _, c := range t.cells {
		if c.err != nil {
			continue
		}
		n, _ := c.report.Get("consumed of accepted")
		worst, _ := c.report.Get("consumed of accepted, worst window")
		kept, _ := c.report.Get("consumed of the capacity")
		offered, _ := c.report.Get("offered")
		accepted, _ := c.report.Get("accepted")
		said := verdict(n >= holdOverload && kept >= holdOverload)
		if accepted > tookAll*offered {
			said = "no overload, it took all that was offered: the capacity was measured too low"
		}
		fmt.Fprintf(w, "%d partitions, %s: consumed %.3f of accepted, %.3f in the worst window, and %.3f of the capacity (hold %.1f): %s\n",
			c.partitions, c.target, n, worst, kept, holdOverload, said)
	}
}

func verdict(held bool) string {
	if held {
		return "held"
	}
	return "SHORT"
}
