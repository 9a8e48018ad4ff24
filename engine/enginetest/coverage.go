package enginetest

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"queen/engine"
)

// Coverage counts what a random run saw.
type Coverage struct {
	// Ops counts operations carried out, Skipped those that had nothing to act on.
	Ops, Skipped int
	// Reopens and Crashes count stops; CrashedUnknown the calls that ended without an answer, of which
	// Applied turned out to have been carried out.
	Reopens, Crashes, CrashedUnknown, Applied int
	// Armed counts operations that the power was to leave in their middle, whether or not they got so far.
	Armed int
	// Partitions and Groups are how many one target had at most at a time.
	Partitions, Groups int
	// Verdicts counts answers by "operation verdict".
	Verdicts map[string]int
}

// Add adds what another run saw.
func (c *Coverage) Add(o *Coverage) {
	c.Ops += o.Ops
	c.Skipped += o.Skipped
	c.Reopens += o.Reopens
	c.Crashes += o.Crashes
	c.CrashedUnknown += o.CrashedUnknown
	c.Applied += o.Applied
	c.Armed += o.Armed
	c.Partitions, c.Groups = max(c.Partitions, o.Partitions), max(c.Groups, o.Groups)
	for v, n := range o.Verdicts {
		c.Verdicts[v] += n
	}
}

// sized takes note of how large a target is.
func (c *Coverage) sized(s *state) {
	partitions, groups := 0, map[string]bool{}
	for _, q := range s.queues {
		partitions += len(q.parts)
		for _, g := range q.groups {
			groups[g.name] = true
		}
	}
	c.Partitions, c.Groups = max(c.Partitions, partitions), max(c.Groups, len(groups))
}

// expectedVerdicts are those a run on any engine can reach; the table shows them also at zero.
var expectedVerdicts = []string{
	"pop conflated",
	"push queued", "push duplicate", "push encryption_unavailable", "push too_large",
	"pop empty", "pop delivered", "pop redelivered", "pop committed", "pop abandoned", "pop several partitions",
	"ack completed", "ack noop", "ack released", "ack failed", "ack retry", "ack dlq filed", "ack failed filed",
	"ack already_committed", "ack unresolvable", "ack lease_invalid", "ack not_leased", "ack bad_status",
	"ack unknown_partition", "ack repeated", "ack filed by a stronger item",
	"extend renewed", "extend nothing", "release handed back", "release nothing", "release lease_invalid",
	"seek moved", "seek unknown_queue", "seek unknown_partition", "seek unknown_group", "seek nothing",
	"redrive queued", "redrive duplicate", "redrive gone", "redrive encryption_unavailable", "redrive too_large",
	"configure ok", "delete-queue existed", "delete-queue absent", "delete-group ok", "subscribe ok", "subscribe nothing",
	"purge some", "purge nothing",
	"read records", "read nothing", "read unknown_queue", "read offset_out_of_range", "offsets found", "offsets not found",
	"list ok", "retention removed", "message found", "message not_found", "malformed bad_request", "malformed name_too_long",
}

// Elsewhere names the error codes that no list of operations leads to, each with the reason.
var Elsewhere = map[engine.ErrorCode]string{
	engine.CodeNotBuilt:         "the lists ask for nothing that is not built",
	engine.CodeIdempotencyClash: "lists without transactions",
	engine.CodeRejectedAck:      "lists without transactions",
	engine.CodeKVPrecondition:   "lists without transactions",
	engine.CodeRolledBack:       "see rejected_ack",
	engine.CodeQueueFull:        "the lists have no ephemeral queues; their suite does",
	engine.CodeQuotaExceeded:    "see queue_full",
	engine.CodeGroupHeld:        "the lists have no members by the Kafka protocol; that frontend's tests do",
	engine.CodeRateLimited:      "quotas are off",
	engine.CodeSnapshotExpired:  "the lists read pages as they are now; the rule of snapshots has it",
	engine.CodePaused:           "an operator's switch; the node's tests throw it",
	engine.CodeOverloaded:       "one call at a time never fills the write budget",
	engine.CodeStorageFull:      "the memory disk does not fill; the node's and the log's tests fill one",
	engine.CodeTimeout:          "no call of a list has a deadline that passes",
	engine.CodeOutcomeUnknown:   "what a call that died returns is not looked at: the state after the crash is",
	engine.CodeNoLeader:         "a single node always leads",
	engine.CodeRetry:            "see no_leader",
	engine.CodeClosed:           "nothing is called on a node that was stopped",
	engine.CodeCorrupt:          "no stored byte is damaged; the node's damage tests do that",
	engine.CodeInternal:         "a defect of ours",

	engine.CodeOutOfSequence:     "the lists have no record batches; their own tests do",
	engine.CodeDuplicateSequence: "see out_of_sequence",
	engine.CodeProducerEpoch:     "see out_of_sequence",
	engine.CodeProducerFenced:    "see out_of_sequence",
	engine.CodeProducerMapping:   "see out_of_sequence",
	engine.CodeTxnState:          "see out_of_sequence",
	engine.CodeTxnBusy:           "see out_of_sequence",
}

// Codes splits the error codes of the interface into those that answers of the run told, with how often, and the
// rest.
func (c *Coverage) Codes() (seen map[engine.ErrorCode]int, unseen []engine.ErrorCode) {
	seen = map[engine.ErrorCode]int{}
	for _, code := range engine.Codes {
		for verdict, n := range c.Verdicts {
			if n > 0 && strings.HasSuffix(verdict, " "+string(code)) && verdict != "ack retry" { // that is a status
				seen[code] += n
			}
		}
		if seen[code] == 0 {
			unseen = append(unseen, code)
		}
	}
	return seen, unseen
}

// NewCoverage has seen nothing: it lists the verdicts that every run leads to, and with keyed those of transactions, keys,
// locks and timers.
func NewCoverage(keyed bool) *Coverage {
	c := &Coverage{Verdicts: map[string]int{}}
	for _, v := range expectedVerdicts {
		c.Verdicts[v] = 0
	}
	if keyed {
		for _, v := range keyedVerdicts {
			c.Verdicts[v] = 0
		}
	}
	return c
}

func (c *Coverage) count(verdict string) { c.Verdicts[verdict]++ }

// String is the table, one verdict a line.
func (c *Coverage) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d operations (%d had nothing to act on), %d stops, %d crashes, of them %d in the middle of an operation: "+
		"%d calls without an answer of which %d were carried out\nat most %d partitions and %d groups at a time\n",
		c.Ops, c.Skipped, c.Reopens, c.Crashes, c.Armed, c.CrashedUnknown, c.Applied, c.Partitions, c.Groups)
	for _, v := range slices.Sorted(maps.Keys(c.Verdicts)) {
		fmt.Fprintf(&b, "%9d  %s\n", c.Verdicts[v], v)
	}
	return b.String()
}
