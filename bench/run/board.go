package main

import (
	"fmt"
	"io"
	"os"
	"slices"

	"queen/bench/internal/report"
)

// board collects what was measured.
type board struct {
	o          *options
	measured   map[string][]float64 // by key of the goal, one per run
	reports    []*report.Report
	violations int
}

// take keeps a report and says on standard error that it is there.
func (b *board) take(r *report.Report) {
	b.reports = append(b.reports, r)
	b.violations += len(r.Violations)
	r.Print(os.Stderr, false)
}

// measure takes a value of a report as one run of a goal.
func (b *board) measure(key string, r *report.Report, value string) {
	if n, ok := r.Get(value); ok {
		b.measured[key] = append(b.measured[key], n)
	}
}

// floor measures the disk of this minute.
func (b *board) floor() error {
	r, err := call(b.o.program("floor"), "--dir", b.o.data, "--duration", "300ms", "--sizes", "4096,102400")
	if err != nil {
		return err
	}
	b.take(r)
	return nil
}

// print writes the table and, below it, every report.
func (b *board) print(w io.Writer) {
	if b.o.smoke {
		fmt.Fprintln(w, "A smoke run: the figures mean nothing.")
	}
	fmt.Fprintf(w, "| what | measured | range | hold | reach for | |\n|---|---|---|---|---|---|\n")
	for _, g := range goals {
		all := slices.Sorted(slices.Values(b.measured[g.key]))
		if len(all) == 0 {
			fmt.Fprintf(w, "| %s | not measured | | %s %s | %s | |\n", g.what, report.Number(g.hold), g.unit, report.Number(g.reach))
			continue
		}
		median := all[len(all)/2]
		fmt.Fprintf(w, "| %s | %s %s | %s to %s | %s | %s | %s |\n", g.what, report.Number(median), g.unit,
			report.Number(all[0]), report.Number(all[len(all)-1]), report.Number(g.hold), report.Number(g.reach), g.verdict(median))
	}
	fmt.Fprintln(w)
	for _, r := range b.reports {
		r.Print(w, false)
	}
}

func (g *goal) verdict(n float64) string {
	better := func(than float64) bool { return n >= than && !g.atMost || n <= than && g.atMost }
	switch {
	case better(g.reach):
		return "reached"
	case better(g.hold):
		return "held"
	}
	return "SHORT"
}
