package enginetest

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Coverage counts what a random run saw.
type Coverage struct {
	// Ops counts operations carried out, Skipped those that had nothing to act on.
	Ops, Skipped int
	// Reopens and Crashes count stops; CrashedUnknown the calls that ended without an answer, of which
	// Applied turned out to have been carried out.
	Reopens, Crashes, CrashedUnknown, Applied int
	// Verdicts counts answers by "operation verdict".
	Verdicts map[string]int
}

// expectedVerdicts are those a run on any engine can reach; the table shows them also at zero.
var expectedVerdicts = []string{
	"push queued", "push duplicate", "push encryption_unavailable",
	"pop empty", "pop delivered", "pop redelivered", "pop committed", "pop abandoned", "pop several partitions",
	"ack completed", "ack noop", "ack released", "ack failed", "ack retry", "ack dlq filed", "ack failed filed",
	"ack already_committed", "ack unresolvable", "ack lease_invalid", "ack not_leased", "ack bad_status",
	"ack unknown_partition", "ack repeated",
	"extend renewed", "extend nothing", "release handed back", "release nothing", "release lease_invalid",
	"seek moved", "seek unknown_queue", "seek unknown_partition", "seek unknown_group",
	"redrive queued", "redrive duplicate", "redrive gone", "redrive encryption_unavailable",
	"configure ok", "delete-queue existed", "delete-queue absent", "delete-group ok", "subscribe ok", "subscribe nothing",
	"purge some", "purge nothing",
	"read records", "read nothing", "read unknown_queue", "read offset_out_of_range", "offsets found", "offsets not found",
	"list ok",
}

func newCoverage() *Coverage {
	c := &Coverage{Verdicts: map[string]int{}}
	for _, v := range expectedVerdicts {
		c.Verdicts[v] = 0
	}
	return c
}

func (c *Coverage) count(verdict string) { c.Verdicts[verdict]++ }

// String is the table, one verdict a line.
func (c *Coverage) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d operations (%d had nothing to act on), %d stops, %d crashes, "+
		"%d calls without an answer of which %d were carried out\n",
		c.Ops, c.Skipped, c.Reopens, c.Crashes, c.CrashedUnknown, c.Applied)
	for _, v := range slices.Sorted(maps.Keys(c.Verdicts)) {
		fmt.Fprintf(&b, "%9d  %s\n", c.Verdicts[v], v)
	}
	return b.String()
}
