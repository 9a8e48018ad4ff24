package main

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"time"
)

// slowest is how many of the rounds are listed.
const slowest = 3

// tally is what the rounds of a kind took.
type tally struct {
	within time.Duration
	rounds []outcome
}

// outcome is one round; one with an error saw no record.
type outcome struct {
	number int
	took   time.Duration
	err    error
}

func (t *tally) add(number int, took time.Duration, err error) {
	t.rounds = append(t.rounds, outcome{number, took, err})
}

// late is how many rounds saw their record too late or not at all.
func (t *tally) late() (n int) {
	for _, r := range t.rounds {
		if r.err != nil || r.took > t.within {
			n++
		}
	}
	return n
}

// print writes the rounds as a summary, and the slowest of them and those that failed one by one.
func (t *tally) print(w io.Writer, kind string) {
	ms := func(d time.Duration) time.Duration { return d.Round(100 * time.Microsecond) }
	bySpeed := slices.SortedFunc(slices.Values(t.rounds), func(a, b outcome) int { return cmp.Compare(a.took, b.took) })
	n := len(bySpeed)
	fmt.Fprintf(w, "%s: %d rounds, p50 %v, p99 %v, worst %v; %d later than %v or never\n", kind, n, ms(bySpeed[n/2].took),
		ms(bySpeed[n*99/100].took), ms(bySpeed[n-1].took), t.late(), t.within)
	for i, r := range slices.Backward(bySpeed) {
		switch {
		case r.err != nil:
			fmt.Fprintf(w, "  round %d, %v: %v\n", r.number, ms(r.took), r.err)
		case i >= n-slowest:
			fmt.Fprintf(w, "  round %d, %v\n", r.number, ms(r.took))
		}
	}
}
