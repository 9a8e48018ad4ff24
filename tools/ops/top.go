package ops

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"queen/tools/cli"
	"queen/tools/remote"
)

// queueLine is a queue of the table. Rates are of the last whole minute, and null where nobody counted them.
type queueLine struct {
	Queue              string   `json:"queue"`
	Partitions         uint64   `json:"partitions"`
	Messages           uint64   `json:"messages"`
	Pending            uint64   `json:"pending"`
	Processing         uint64   `json:"processing"`
	DeadLetters        uint64   `json:"deadLetters"`
	PushedPerSecond    *float64 `json:"pushedPerSecond"`
	DeliveredPerSecond *float64 `json:"deliveredPerSecond"`
	AckedPerSecond     *float64 `json:"ackedPerSecond"`
}

var queueColumns = []cli.Column[queueLine]{
	{Head: "queue", Cell: func(q queueLine) string { return q.Queue }, Key: true},
	{Head: "partitions", Cell: func(q queueLine) string { return count(q.Partitions) }},
	{Head: "messages", Cell: func(q queueLine) string { return count(q.Messages) }, Help: "retained ones, as of the last count"},
	{Head: "pending", Cell: func(q queueLine) string { return count(q.Pending) }, Help: "before the slowest consumer group"},
	{Head: "processing", Cell: func(q queueLine) string { return count(q.Processing) }},
	{Head: "dead letters", Cell: func(q queueLine) string { return count(q.DeadLetters) }},
	{Head: "pushed per second", Cell: func(q queueLine) string { return rateOf(q.PushedPerSecond) }, Help: "of the last whole minute"},
	{Head: "delivered per second", Cell: func(q queueLine) string { return rateOf(q.DeliveredPerSecond) }},
	{Head: "acked per second", Cell: func(q queueLine) string { return rateOf(q.AckedPerSecond) }, Wide: true},
}

// orders are the ways of sorting queues, each with the largest first but the name.
var orders = map[string]func(a, b *queueLine) int{
	"name":    func(a, b *queueLine) int { return 0 },
	"pending": func(a, b *queueLine) int { return cmp.Compare(b.Pending, a.Pending) },
	"depth":   func(a, b *queueLine) int { return cmp.Compare(b.Messages, a.Messages) },
	"dlq":     func(a, b *queueLine) int { return cmp.Compare(b.DeadLetters, a.DeadLetters) },
	"push":    func(a, b *queueLine) int { return cmp.Compare(zero(b.PushedPerSecond), zero(a.PushedPerSecond)) },
	"deliver": func(a, b *queueLine) int { return cmp.Compare(zero(b.DeliveredPerSecond), zero(a.DeliveredPerSecond)) },
}

var orderNames = []string{"pending", "depth", "dlq", "push", "deliver", "name"}

// zero sorts what is not known as nothing.
func zero(v *float64) float64 {
	if v == nil {
		return 0
	}
	return *v
}

func sortQueues(queues []queueLine, by string) {
	order := orders[by]
	slices.SortFunc(queues, func(a, b queueLine) int { return cmp.Or(order(&a, &b), cmp.Compare(a.Queue, b.Queue)) })
}

func topCommand(s cli.Streams) *cobra.Command {
	cmd := &cobra.Command{Use: "top", Short: "Show the busiest queues, again and again on a terminal", Args: cobra.NoArgs,
		Long: `Show the queues with the most pending messages, or another order by --sort. On a terminal the table is drawn again every
--interval until it is interrupted; elsewhere, and with --once, it is printed once.`}
	once := cmd.Flags().Bool("once", false, "print once")
	by := cmd.Flags().String("sort", "pending", strings.Join(orderNames, ", "))
	limit := cmd.Flags().IntP("limit", "n", 20, "queues at most")
	pause := cmd.Flags().Duration("interval", 2*time.Second, "time between two frames")
	_ = cmd.RegisterFlagCompletionFunc("sort", cobra.FixedCompletions(orderNames, cobra.ShellCompDirectiveNoFileComp))
	return remote.Command(s, cmd, "json", queueColumns, func(c *remote.Conn, out *cli.Printer[queueLine], _ []string) error {
		if err := interval("interval", *pause); err != nil {
			return err
		}
		if orders[*by] == nil || *limit < 1 {
			return cli.Errorf(cli.Usage, "--sort %s, --limit %d: want one of %s, and at least 1", *by, *limit, strings.Join(orderNames, ", "))
		}
		live := !*once && cli.Terminal(c.Out)
		return every(c.Ctx, *pause, func() (bool, error) {
			queues, err := queueLines(c)
			if err != nil {
				return false, err
			}
			sortQueues(queues, *by)
			shown := queues[:min(*limit, len(queues))]
			if !live {
				return false, out.AddAll(shown)
			}
			out.Skip()
			clearScreen(c.Streams, true)
			fmt.Fprintf(c.Out, "%s  %s  %d queues\n\n", c.URL, time.Now().In(c.Zone).Format(time.TimeOnly), len(queues))
			frame := cli.Print(c.Invocation, queueColumns)
			return true, errors.Join(frame.AddAll(shown), frame.Close())
		})
	})
}

// completeQueue offers the queues of the node.
func completeQueue(s cli.Streams) remote.Completion {
	return remote.Complete(s, func(ctx context.Context, a *remote.API) (names []string, err error) {
		var answer struct{ Queues []struct{ Name string } }
		_, err = a.Call(ctx, remote.Request{Method: http.MethodGet, Path: "/api/v1/resources/queues"}, &answer)
		for _, q := range answer.Queues {
			names = append(names, q.Name)
		}
		return names, err
	})
}

// clearScreen begins a frame on a terminal.
func clearScreen(s cli.Streams, frames bool) {
	if frames && cli.Terminal(s.Out) {
		fmt.Fprint(s.Out, "\x1b[H\x1b[2J")
	}
}

// queuesMax bounds the queues that are looked at, queuesPage those of one answer.
const (
	queuesMax  = 10_000
	queuesPage = 1000
)

// queueLines reads what is on the node, with the rates of the last whole minute.
func queueLines(c *remote.Conn) ([]queueLine, error) {
	lines := []queueLine{}
	for len(lines) < queuesMax {
		var a struct {
			Queues []struct {
				Name       string
				Partitions uint64
				Messages   struct{ Total, Pending, Processing, DeadLetter uint64 }
			}
		}
		page := url.Values{"limit": {strconv.Itoa(queuesPage)}, "offset": {strconv.Itoa(len(lines))}}
		if err := get(c, "/api/v1/status/queues", page, &a); err != nil {
			return nil, err
		}
		if err := expect(c, a.Queues, "queues"); err != nil {
			return nil, err
		}
		for _, q := range a.Queues {
			m := q.Messages
			lines = append(lines, queueLine{Queue: q.Name, Partitions: q.Partitions, Messages: m.Total, Pending: m.Pending,
				Processing: m.Processing, DeadLetters: m.DeadLetter})
		}
		if len(a.Queues) < queuesPage {
			break
		}
	}
	return lines, addRates(c, lines)
}

// addRates fills in rates of the last whole minute. Queues that the node does not count stay without.
func addRates(c *remote.Conn, lines []queueLine) error {
	end := time.Now().UTC().Truncate(time.Minute)
	var a struct {
		Series []struct {
			Bucket, QueueName                         string
			PushPerSecond, PopPerSecond, AckPerSecond float64
		}
	}
	window := url.Values{"from": {end.Add(-time.Minute).Format(time.RFC3339)}, "to": {end.Format(time.RFC3339)}}
	if err := get(c, "/api/v1/analytics/queue-ops", window, &a); err != nil {
		if remote.Status(err) == 501 { // a node that keeps no series
			return nil
		}
		return err
	}
	at := map[string]int{}
	for i := range lines {
		at[lines[i].Queue] = i
	}
	for _, p := range a.Series {
		bucket, err := time.Parse(time.RFC3339Nano, p.Bucket)
		if i, ok := at[p.QueueName]; ok && err == nil && bucket.Equal(end.Add(-time.Minute)) {
			lines[i].PushedPerSecond, lines[i].DeliveredPerSecond, lines[i].AckedPerSecond = &p.PushPerSecond, &p.PopPerSecond, &p.AckPerSecond
		}
	}
	return nil
}
