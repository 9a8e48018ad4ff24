package client

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"queen/tools/cli"
	"queen/tools/remote"
)

func queueCommand(s cli.Streams) *cobra.Command {
	cmd := &cobra.Command{Use: "queue", Short: "List, describe, configure and delete queues"}
	cmd.AddCommand(queueListCommand(s), queueDescribeCommand(s), queueConfigureCommand(s, true), queueConfigureCommand(s, false),
		queueDeleteCommand(s), queueDepthCommand(s), queueStatsCommand(s))
	return cmd
}

func queuePath(queue string) string { return "/api/v1/resources/queues/" + url.PathEscape(queue) }

// listedQueue is one row of the list.
type listedQueue struct {
	Name       string `json:"name"`
	Namespace  string `json:"namespace"`
	Task       string `json:"task"`
	Partitions uint64 `json:"partitions"`
	Messages   struct {
		Total      uint64 `json:"total"`
		Pending    uint64 `json:"pending"`
		Processing uint64 `json:"processing"`
	} `json:"messages"`
	CreatedAt string `json:"createdAt"`
}

// ShiftTimes puts the row's time into a zone.
func (q *listedQueue) ShiftTimes(zone *time.Location) { q.CreatedAt = cli.InZone(q.CreatedAt, zone) }

var listedColumns = []cli.Column[listedQueue]{
	{Head: "name", Key: true, Cell: func(q listedQueue) string { return q.Name }},
	{Head: "namespace", Cell: func(q listedQueue) string { return q.Namespace }},
	{Head: "task", Cell: func(q listedQueue) string { return q.Task }},
	{Head: "partitions", Cell: func(q listedQueue) string { return strconv.FormatUint(q.Partitions, 10) }},
	{Head: "messages", Field: "messages.total", Cell: func(q listedQueue) string { return strconv.FormatUint(q.Messages.Total, 10) }},
	{Head: "pending", Cell: func(q listedQueue) string { return strconv.FormatUint(q.Messages.Pending, 10) }},
	{Head: "processing", Wide: true, Cell: func(q listedQueue) string { return strconv.FormatUint(q.Messages.Processing, 10) }},
	{Head: "created at", Cell: func(q listedQueue) string { return q.CreatedAt }},
}

func queueListCommand(s cli.Streams) *cobra.Command {
	cmd := &cobra.Command{Use: "list", Short: "List queues", Args: cobra.NoArgs}
	return command(s, cmd, "json", listedColumns, func(s *session, out *cli.Printer[listedQueue], _ []string) error {
		return s.queues(out.AddAll)
	})
}

// queues calls f for every page of queues.
func (s *session) queues(f func([]listedQueue) error) error {
	for after := ""; ; {
		var answer struct {
			Queues *[]listedQueue
			Next   string
		}
		path := "/api/v1/resources/queues"
		if after != "" {
			path += "?" + url.Values{"after": {after}}.Encode()
		}
		if _, err := s.call(get(path), &answer); err != nil {
			return err
		}
		if answer.Queues == nil {
			return s.Stranger("there are no queues")
		}
		if err := f(*answer.Queues); err != nil || answer.Next == "" {
			return err
		}
		after = answer.Next
	}
}

func queueDescribeCommand(s cli.Streams) *cobra.Command {
	cmd := &cobra.Command{Use: "describe QUEUE", Short: "Show a queue's options and depth", Args: cobra.ExactArgs(1),
		ValidArgsFunction: arguments(completeQueue(s))}
	var group string
	groupFlag(s, cmd, &group, "show the depth as this consumer group sees it")
	columns := []string{"=name", "namespace", "task", "createdAt", "depth", "options", "totals", "partitions"}
	return rowCommand(s, cmd, "json", columns, func(s *session, out *cli.Printer[row], args []string) error {
		described, err := s.Ask(get(queuePath(args[0])), "name")
		if err != nil {
			return err
		}
		var depth json.RawMessage
		if _, err := s.call(get(depthPath(args[0], group)), &depth); err != nil {
			return err
		}
		described["depth"] = depth
		pairs, err := describedPairs(described)
		if err != nil {
			return err
		}
		return out.Detail(described, pairs)
	})
}

func depthPath(queue, group string) string {
	path := queuePath(queue) + "/depth"
	if group != "" {
		path += "?" + url.Values{"group": {group}}.Encode()
	}
	return path
}

// describedPairs are options and depth for people.
func describedPairs(queue row) ([][2]string, error) {
	var d struct{ Pending, Processing, Ready uint64 }
	var options map[string]json.RawMessage
	if err := json.Unmarshal(queue["depth"], &d); err != nil {
		return nil, cli.Errorf(cli.Server, "depth: %w", err)
	}
	if err := json.Unmarshal(queue["options"], &options); err != nil {
		return nil, cli.Errorf(cli.Server, "options: %w", err)
	}
	pairs := [][2]string{{"name", queue.Text("name")}, {"created at", queue.Text("createdAt")},
		{"pending", strconv.FormatUint(d.Pending, 10)}, {"processing", strconv.FormatUint(d.Processing, 10)},
		{"ready", strconv.FormatUint(d.Ready, 10)}}
	for _, key := range slices.Sorted(maps.Keys(options)) {
		pairs = append(pairs, [2]string{"option " + key, cli.Unquoted(options[key])})
	}
	return pairs, nil
}

func queueDepthCommand(s cli.Streams) *cobra.Command {
	cmd := &cobra.Command{Use: "depth QUEUE", Short: "Count what a group, or the slowest one, has before it", Args: cobra.ExactArgs(1),
		ValidArgsFunction: arguments(completeQueue(s))}
	var group string
	groupFlag(s, cmd, &group, "count for this consumer group")
	columns := []string{"=queue", "group", "pending", "processing", "ready", "partitionsPending", "partitionsReady"}
	return rowCommand(s, cmd, "json", columns, func(s *session, out *cli.Printer[row], args []string) error {
		return s.Told(out, get(depthPath(args[0], group)), "pending")
	})
}

// queueTotals is what stats prints.
type queueTotals struct {
	Queue  string `json:"queue"`
	Totals struct {
		Total      uint64 `json:"total"`
		Pending    uint64 `json:"pending"`
		Processing uint64 `json:"processing"`
		Completed  uint64 `json:"completed"`
		DeadLetter uint64 `json:"deadLetter"`
	} `json:"totals"`
	RetainedBytes uint64 `json:"retainedBytes"`
	SweptAt       string `json:"sweptAt,omitempty"`
}

// ShiftTimes puts the row's time into a zone.
func (q *queueTotals) ShiftTimes(zone *time.Location) { q.SweptAt = cli.InZone(q.SweptAt, zone) }

var totalsColumns = []cli.Column[queueTotals]{
	{Head: "queue", Key: true, Cell: func(q queueTotals) string { return q.Queue }},
	{Head: "total", Cell: func(q queueTotals) string { return strconv.FormatUint(q.Totals.Total, 10) }},
	{Head: "pending", Cell: func(q queueTotals) string { return strconv.FormatUint(q.Totals.Pending, 10) },
		Help: "not settled by the slowest group"},
	{Head: "processing", Cell: func(q queueTotals) string { return strconv.FormatUint(q.Totals.Processing, 10) }, Help: "under a lease"},
	{Head: "completed", Cell: func(q queueTotals) string { return strconv.FormatUint(q.Totals.Completed, 10) }},
	{Head: "dead letter", Cell: func(q queueTotals) string { return strconv.FormatUint(q.Totals.DeadLetter, 10) }},
	{Head: "retained bytes", Cell: func(q queueTotals) string { return strconv.FormatUint(q.RetainedBytes, 10) }, Help: "as they are stored"},
	{Head: "swept at", Wide: true, Cell: func(q queueTotals) string { return q.SweptAt }, Help: "when bytes were counted"},
}

func queueStatsCommand(s cli.Streams) *cobra.Command {
	cmd := &cobra.Command{Use: "stats [QUEUE...]", Short: "Count the messages of queues by what became of them",
		Long: "Count the messages of the queues named, or of all of them, by what became of them.", ValidArgsFunction: completeQueue(s)}
	return command(s, cmd, "json", totalsColumns, func(s *session, out *cli.Printer[queueTotals], args []string) error {
		if len(args) == 0 {
			err := s.queues(func(page []listedQueue) error {
				for _, q := range page {
					args = append(args, q.Name)
				}
				return nil
			})
			if err != nil {
				return err
			}
		}
		for _, name := range args {
			described, err := s.Ask(get(queuePath(name)), "totals")
			if err != nil {
				return err
			}
			totals := queueTotals{Queue: name, RetainedBytes: number(described["retainedBytes"]), SweptAt: described.Text("sweptAt")}
			if err := json.Unmarshal(described["totals"], &totals.Totals); err != nil {
				return cli.Errorf(cli.Server, "totals of queue %s: %w", name, err)
			}
			if err := out.Add(totals); err != nil {
				return err
			}
		}
		return nil
	})
}

// deletedQueue is the outcome of a delete.
type deletedQueue struct {
	Queue   string `json:"queue"`
	Deleted bool   `json:"deleted"`
	DryRun  bool   `json:"dryRun,omitempty"`
	Pending uint64 `json:"pending"`
}

var deletedColumns = []cli.Column[deletedQueue]{
	{Head: "queue", Key: true, Cell: func(r deletedQueue) string { return r.Queue }},
	{Head: "deleted", Cell: func(r deletedQueue) string { return strconv.FormatBool(r.Deleted) }},
	{Head: "pending", Cell: func(r deletedQueue) string { return strconv.FormatUint(r.Pending, 10) }},
}

func queueDeleteCommand(s cli.Streams) *cobra.Command {
	var w cli.Write
	cmd := &cobra.Command{Use: "delete QUEUE", Short: "Delete a queue with its messages, cursors and dead letters",
		Args: cobra.ExactArgs(1), ValidArgsFunction: arguments(completeQueue(s))}
	w.YesFlag(cmd)
	w.DryRunFlag(cmd)
	return command(s, cmd, "json", deletedColumns, func(s *session, out *cli.Printer[deletedQueue], args []string) error {
		return s.deleteQueue(args[0], w, out)
	})
}

func (s *session) deleteQueue(name string, w cli.Write, out *cli.Printer[deletedQueue]) error {
	depth, err := s.Ask(get(depthPath(name, "")), "pending")
	exists := remote.Status(err) != http.StatusNotFound
	if err != nil && exists {
		return err
	}
	row := deletedQueue{Queue: name, Pending: number(depth["pending"]), DryRun: w.DryRun}
	if exists && !w.DryRun {
		plan := fmt.Sprintf("This deletes queue %s with its messages (%d pending), cursors and dead letters.", name, row.Pending)
		if err := s.Confirm(plan, name, w); err != nil {
			return err
		}
		answer, err := s.Ask(request{Method: http.MethodDelete, Path: queuePath(name), Write: true}, "deleted")
		if err != nil {
			return err
		}
		row.Deleted = answer.Is("deleted")
	}
	if err := out.One(row); err != nil || row.Deleted || exists && w.DryRun {
		return err
	}
	return cli.Exit(cli.Nothing) // or it went between the two calls
}
