package ops

import (
	"errors"
	"net/url"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"queen/tools/cli"
	"queen/tools/remote"
)

// lagRow is one partition that a consumer group is behind on.
type lagRow struct {
	Queue          string  `json:"queue"`
	Group          string  `json:"group"`
	Partition      string  `json:"partition"`
	PartitionID    string  `json:"partitionId"`
	Lag            uint64  `json:"lag"`
	Leased         uint64  `json:"leased"`
	OldestAt       *string `json:"oldestAt"`
	AgeSeconds     int64   `json:"ageSeconds"`
	Worker         *string `json:"worker"`
	LeasedAt       *string `json:"leasedAt"`
	LeaseExpiresAt *string `json:"leaseExpiresAt"`
	Attempts       uint64  `json:"attempts"`
	Retries        uint64  `json:"retries"`
	Reason         string  `json:"reason"`
}

var lagColumns = []cli.Column[lagRow]{
	{Head: "queue", Cell: func(r lagRow) string { return r.Queue }, Key: true},
	{Head: "group", Cell: func(r lagRow) string { return r.Group }},
	{Head: "partition", Cell: func(r lagRow) string { return r.Partition }},
	{Head: "lag", Cell: func(r lagRow) string { return count(r.Lag) }, Help: "messages before the group, taken ones too"},
	{Head: "leased", Cell: func(r lagRow) string { return count(r.Leased) }, Help: "messages that a worker holds"},
	{Head: "age", Cell: func(r lagRow) string { return seconds(r.AgeSeconds) }, Help: "of the oldest one"},
	{Head: "reason", Cell: func(r lagRow) string { return r.Reason }, Help: "lease_held, poison, never_started, no_consumer, delayed, " +
		"retry_wait, in_progress, waiting_turn or behind_lease"},
	{Head: "worker", Cell: func(r lagRow) string { return text(r.Worker) }},
	{Head: "attempts", Cell: func(r lagRow) string { return count(r.Attempts) }, Wide: true, Help: "deliveries of the message at the cursor"},
	{Head: "lease expires at", Cell: func(r lagRow) string { return text(r.LeaseExpiresAt) }, Wide: true},
}

// ShiftTimes puts the times into a zone.
func (r *lagRow) ShiftTimes(zone *time.Location) {
	for _, at := range []*string{r.OldestAt, r.LeasedAt, r.LeaseExpiresAt} {
		if at != nil {
			*at = cli.InZone(*at, zone)
		}
	}
}

// groupLag sums up a consumer group on a queue.
type groupLag struct {
	Queue      string `json:"queue"`
	Group      string `json:"group"`
	Lag        uint64 `json:"lag"`
	Partitions uint64 `json:"partitions"`
	AgeSeconds int64  `json:"ageSeconds"`
}

var groupColumns = []cli.Column[groupLag]{
	{Head: "queue", Cell: func(g groupLag) string { return g.Queue }},
	{Head: "group", Cell: func(g groupLag) string { return g.Group }, Key: true},
	{Head: "lag", Cell: func(g groupLag) string { return count(g.Lag) }},
	{Head: "partitions", Cell: func(g groupLag) string { return count(g.Partitions) }, Help: "partitions with lag"},
	{Head: "age", Cell: func(g groupLag) string { return seconds(g.AgeSeconds) }, Help: "of the oldest message"},
}

// lagAnswer is what GET /api/v1/lag says.
type lagAnswer struct {
	Rows      []lagRow
	Groups    []groupLag
	Truncated bool
}

func lagOf(c *remote.Conn, query url.Values) (*lagAnswer, error) {
	var a lagAnswer
	if err := get(c, "/api/v1/lag", query, &a); err != nil {
		return nil, err
	}
	return &a, errors.Join(expect(c, a.Rows, "rows"), expect(c, a.Groups, "groups"))
}

// lagFlags choose what is looked at.
type lagFlags struct {
	queue, group string
	limit        int
	failAbove    int64
}

func lagCommand(s cli.Streams) *cobra.Command {
	cmd := &cobra.Command{Use: "lag", Short: "Show who is behind, on which partitions, and why", Args: cobra.NoArgs,
		Long: `Show the partitions that consumer groups are behind on, each with the reason, the worst first. Ends and cursors
are read at one time. With --fail-above N exits 5 when a consumer group is behind by more than N messages on one queue, all
its partitions together.`}
	var f lagFlags
	byGroup := cmd.Flags().Bool("by-group", false, "print the sum of each consumer group on each queue instead of partitions")
	cmd.Flags().StringVarP(&f.queue, "queue", "q", "", "only this queue")
	cmd.Flags().StringVarP(&f.group, "group", "g", "", "only this consumer group; __QUEUE_MODE__ is the readers without one")
	cmd.Flags().IntVarP(&f.limit, "limit", "n", 100, "partitions at most, 1 to 1000")
	cmd.Flags().Int64Var(&f.failAbove, "fail-above", -1, "exit 5 when a group is behind by more messages; -1 is never")
	_ = cmd.RegisterFlagCompletionFunc("queue", completeQueue(s))
	return remote.Command(s, cmd, "json", lagColumns, func(c *remote.Conn, out *cli.Printer[lagRow], _ []string) error {
		a, err := f.ask(c)
		if err != nil {
			return err
		}
		if *byGroup {
			out.Skip()
			sums := cli.Print(c.Invocation, groupColumns)
			if err := errors.Join(sums.AddAll(a.Groups), sums.Close()); err != nil {
				return err
			}
			return f.judge(a)
		}
		if err := out.AddAll(a.Rows); err != nil {
			return err
		}
		if a.Truncated {
			c.Say("more partitions are behind than the %d shown", len(a.Rows))
		}
		return f.judge(a)
	})
}

func (f *lagFlags) ask(c *remote.Conn) (*lagAnswer, error) {
	if f.limit < 1 || f.limit > 1000 {
		return nil, cli.Errorf(cli.Usage, "--limit %d: want 1 to 1000", f.limit)
	}
	q := url.Values{"limit": {strconv.Itoa(f.limit)}}
	if f.queue != "" {
		q.Set("queue", f.queue)
	}
	if f.group != "" {
		q.Set("group", f.group)
	}
	return lagOf(c, q)
}

// judge is what --fail-above makes of it.
func (f *lagFlags) judge(a *lagAnswer) error {
	if f.failAbove < 0 {
		return nil
	}
	for _, g := range a.Groups {
		if g.Lag > uint64(f.failAbove) {
			return cli.Exit(cli.Findings)
		}
	}
	return nil
}
