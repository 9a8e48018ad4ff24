package client

import (
	"bufio"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"queen/tools/cli"
)

func queueCommand(s cli.Streams) *cobra.Command {
	cmd := &cobra.Command{Use: "queue", Short: "List, describe and delete queues"}
	cmd.AddCommand(queueListCommand(s), queueDescribeCommand(s), queueDeleteCommand(s))
	return cmd
}

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

var listedColumns = []cli.Column[listedQueue]{
	{Head: "name", Cell: func(q listedQueue) string { return q.Name }},
	{Head: "namespace", Cell: func(q listedQueue) string { return q.Namespace }},
	{Head: "task", Cell: func(q listedQueue) string { return q.Task }},
	{Head: "partitions", Cell: func(q listedQueue) string { return strconv.FormatUint(q.Partitions, 10) }},
	{Head: "messages", Cell: func(q listedQueue) string { return strconv.FormatUint(q.Messages.Total, 10) }},
	{Head: "pending", Cell: func(q listedQueue) string { return strconv.FormatUint(q.Messages.Pending, 10) }},
	{Head: "created at", Cell: func(q listedQueue) string { return q.CreatedAt }},
}

func queueListCommand(s cli.Streams) *cobra.Command {
	cmd := &cobra.Command{Use: "list", Short: "List queues", Args: cobra.NoArgs}
	return command(s, cmd, "json", func(s *session, _ []string) error {
		var answer struct{ Queues []listedQueue }
		if _, err := s.call(s.ctx, request{method: http.MethodGet, path: "/api/v1/resources/queues"}, &answer); err != nil {
			return err
		}
		out := printer(s, listedColumns)
		for _, q := range answer.Queues {
			if err := out.Add(q); err != nil {
				return err
			}
		}
		return out.Close()
	})
}

func queueDescribeCommand(s cli.Streams) *cobra.Command {
	cmd := &cobra.Command{Use: "describe QUEUE", Short: "Show a queue's options and depth", Args: cobra.ExactArgs(1)}
	group := cmd.Flags().StringP("group", "g", "", "show the depth as this consumer group sees it")
	return command(s, cmd, "json", func(s *session, args []string) error {
		at := "/api/v1/resources/queues/" + url.PathEscape(args[0])
		var described map[string]json.RawMessage
		if _, err := s.call(s.ctx, request{method: http.MethodGet, path: at}, &described); err != nil {
			return err
		}
		var depth json.RawMessage
		path := at + "/depth"
		if *group != "" {
			path += "?" + url.Values{"group": {*group}}.Encode()
		}
		if _, err := s.call(s.ctx, request{method: http.MethodGet, path: path}, &depth); err != nil {
			return err
		}
		described["depth"] = depth
		if s.format != "table" {
			return printer[map[string]json.RawMessage](s, nil).One(described)
		}
		return s.describe(described, depth)
	})
}

// describe prints options and depth for people, one per line.
func (s *session) describe(queue map[string]json.RawMessage, depth json.RawMessage) error {
	var d struct{ Pending, Processing, Ready uint64 }
	var options map[string]json.RawMessage
	if err := json.Unmarshal(depth, &d); err != nil {
		return cli.Errorf(cli.Server, "depth: %w", err)
	}
	if err := json.Unmarshal(queue["options"], &options); err != nil {
		return cli.Errorf(cli.Server, "options: %w", err)
	}
	out := printer(s, []cli.Column[[2]string]{
		{Head: "what", Cell: func(r [2]string) string { return r[0] }},
		{Head: "value", Cell: func(r [2]string) string { return r[1] }},
	})
	rows := [][2]string{{"name", unquoted(queue["name"])}, {"created at", unquoted(queue["createdAt"])},
		{"pending", strconv.FormatUint(d.Pending, 10)}, {"processing", strconv.FormatUint(d.Processing, 10)},
		{"ready", strconv.FormatUint(d.Ready, 10)}}
	for _, key := range slices.Sorted(maps.Keys(options)) {
		rows = append(rows, [2]string{"option " + key, unquoted(options[key])})
	}
	for _, r := range rows {
		if err := out.Add(r); err != nil {
			return err
		}
	}
	return out.Close()
}

// deletedQueue is the outcome of a delete.
type deletedQueue struct {
	Queue   string `json:"queue"`
	Deleted bool   `json:"deleted"`
	DryRun  bool   `json:"dryRun,omitempty"`
	Pending uint64 `json:"pending"`
}

var deletedColumns = []cli.Column[deletedQueue]{
	{Head: "queue", Cell: func(r deletedQueue) string { return r.Queue }},
	{Head: "deleted", Cell: func(r deletedQueue) string { return strconv.FormatBool(r.Deleted) }},
	{Head: "pending", Cell: func(r deletedQueue) string { return strconv.FormatUint(r.Pending, 10) }},
}

func queueDeleteCommand(s cli.Streams) *cobra.Command {
	cmd := &cobra.Command{Use: "delete QUEUE", Short: "Delete a queue with its messages, cursors and dead letters",
		Args: cobra.ExactArgs(1)}
	yes := cmd.Flags().Bool("yes", false, "do not ask")
	dryRun := cmd.Flags().Bool("dry-run", false, "print what would be deleted")
	return command(s, cmd, "json", func(s *session, args []string) error {
		return s.deleteQueue(args[0], *yes, *dryRun)
	})
}

func (s *session) deleteQueue(name string, yes, dryRun bool) error {
	at := "/api/v1/resources/queues/" + url.PathEscape(name)
	var depth struct{ Pending uint64 }
	_, err := s.call(s.ctx, request{method: http.MethodGet, path: at + "/depth"}, &depth)
	exists := status(err) != http.StatusNotFound
	if err != nil && exists {
		return err
	}
	row := deletedQueue{Queue: name, Pending: depth.Pending, DryRun: dryRun}
	if exists && !dryRun {
		plan := fmt.Sprintf("This deletes queue %s with its messages (%d pending), cursors and dead letters.", name, depth.Pending)
		if err := s.confirm(plan, name, yes); err != nil {
			return err
		}
		if _, err := s.call(s.ctx, request{method: http.MethodDelete, path: at, write: true}, &row); err != nil {
			return err
		}
		row.Queue = name
	}
	if err := printer(s, deletedColumns).One(row); err != nil || exists {
		return err
	}
	return cli.Exit(cli.Nothing)
}

// confirm tells the plan and asks for the name of what it is about, on a terminal. Without one, only --yes will do.
func (s *session) confirm(plan, name string, yes bool) error {
	if yes {
		return nil
	}
	if !cli.Terminal(s.In) {
		return cli.Errorf(cli.Usage, "nothing was done: standard input is no terminal, and --yes is missing")
	}
	fmt.Fprintf(s.Err, "%s\nType its name (%s): ", plan, name)
	answer, err := bufio.NewReader(s.input()).ReadString('\n')
	if s.ctx.Err() != nil {
		return cli.Exit(cli.Interrupted)
	}
	if err != nil || strings.TrimRight(answer, "\r\n") != name {
		return cli.Errorf(cli.Usage, "nothing was done: that is not the name")
	}
	return nil
}
