package client

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"

	"github.com/spf13/cobra"

	"queen/tools/cli"
)

const groupsPath = "/api/v1/consumer-groups"

func groupCommand(s cli.Streams) *cobra.Command {
	cmd := &cobra.Command{Use: "group", Short: "List, describe, move and forget consumer groups"}
	cmd.AddCommand(groupListCommand(s), groupDescribeCommand(s), groupSeekCommand(s), groupDeleteCommand(s),
		groupSubscribeCommand(s))
	return cmd
}

func groupPath(group string) string { return groupsPath + "/" + url.PathEscape(group) }

func groupListCommand(s cli.Streams) *cobra.Command {
	var queue string
	cmd := &cobra.Command{Use: "list", Short: "List consumer groups, one row per queue", Args: cobra.NoArgs}
	cmd.Flags().StringVarP(&queue, "queue", "q", "", "only those of this queue")
	return command(s, cmd, "json", func(s *session, _ []string) error {
		var answer []row
		if _, err := s.call(s.ctx, request{method: http.MethodGet, path: groupsPath}, &answer); err != nil {
			return err
		}
		if queue != "" {
			answer = slices.DeleteFunc(answer, func(r row) bool { return unquoted(r["queueName"]) != queue })
		}
		return s.rows(answer, "name", "queueName", "members", "partitionsWithLag", "totalLag", "maxTimeLag", "state")
	})
}

// groupOf is what the node knows of a group, by queue; an unknown group has none.
func (s *session) groupOf(name string) (map[string]row, error) {
	var queues map[string]row
	_, err := s.call(s.ctx, request{method: http.MethodGet, path: groupPath(name)}, &queues)
	return queues, err
}

func groupDescribeCommand(s cli.Streams) *cobra.Command {
	cmd := &cobra.Command{Use: "describe GROUP", Short: "Show where a group is, by queue and partition; exits 4 when it is unknown",
		Args: cobra.ExactArgs(1)}
	return command(s, cmd, "json", func(s *session, args []string) error {
		queues, err := s.groupOf(args[0])
		if err != nil {
			return err
		}
		rows := []row{}
		for _, queue := range slices.Sorted(maps.Keys(queues)) {
			var partitions []row
			if err := json.Unmarshal(queues[queue]["partitions"], &partitions); err != nil {
				return cli.Errorf(cli.Server, "queue %s of the group: %w", queue, err)
			}
			for _, p := range partitions {
				p.set("queue", queue)
			}
			rows = append(rows, partitions...)
			if queues[queue].is("truncated") {
				fmt.Fprintf(s.Err, "queen: queue %s has more partitions than are shown\n", queue)
			}
		}
		err = s.rows(rows, "queue", "partition", "totalConsumed", "offsetLag", "timeLagSeconds", "leaseActive", "workerId")
		if err != nil || len(queues) > 0 {
			return err
		}
		return cli.Exit(cli.Nothing)
	})
}

func groupSeekCommand(s cli.Streams) *cobra.Command {
	var w writeOptions
	var partition, to string
	cmd := &cobra.Command{Use: "seek GROUP QUEUE", Short: "Move a group on a queue", Args: cobra.ExactArgs(2),
		Long: `Move the cursors of a group to the end, the beginning, or before the first message at or after a time. Leases
of the group end, and what lies behind the cursors is delivered again.`}
	f := cmd.Flags()
	f.StringVarP(&partition, "partition", "p", "", "only this partition")
	f.StringVar(&to, "to", "", "end, beginning, a time in RFC 3339, now, or as 15m ago")
	required(cmd, "to")
	w.yesFlag(cmd)
	w.dryRunFlag(cmd)
	return command(s, cmd, "json", func(s *session, args []string) error {
		body := map[string]any{}
		switch to {
		case "end":
			body["toEnd"] = true
		case "beginning":
			body["timestamp"] = "1970-01-01T00:00:00Z"
		default:
			at, err := instant("to", to)
			if err != nil {
				return err
			}
			body["timestamp"] = at
		}
		path, what := groupPath(args[0])+"/queues/"+url.PathEscape(args[1]), "queue "+args[1]
		if partition != "" {
			path, what = path+"/partitions/"+url.PathEscape(partition), "partition "+partition+" of "+what
		}
		if w.dryRun {
			body["op"], body["group"], body["queue"], body["partition"] = "seek", args[0], args[1], partition
			return s.planned(body)
		}
		plan := fmt.Sprintf("This moves group %s on %s to %s and ends its leases there.", args[0], what, to)
		if err := s.confirm(plan, args[0], w.yes); err != nil {
			return err
		}
		return s.told(request{method: http.MethodPost, path: path + "/seek", write: true, body: body}, "consumerGroup",
			"queueName", "partitionName", "seekToEnd", "targetTimestamp", "partitionsUpdated")
	})
}

func groupDeleteCommand(s cli.Streams) *cobra.Command {
	var w writeOptions
	var queue string
	var keep bool
	cmd := &cobra.Command{Use: "delete GROUP", Short: "Forget a group: its cursors, leases and where it starts",
		Args: cobra.ExactArgs(1)}
	cmd.Flags().StringVarP(&queue, "queue", "q", "", "only on this queue")
	cmd.Flags().BoolVar(&keep, "keep-subscription", false, "keep where the group starts")
	w.yesFlag(cmd)
	w.dryRunFlag(cmd)
	return command(s, cmd, "json", func(s *session, args []string) error {
		queues, err := s.groupOf(args[0])
		if err != nil {
			return err
		}
		known, on := len(queues) > 0, "every queue"
		if queue != "" {
			_, known = queues[queue]
			on = "queue " + queue
		}
		plan := row{}
		plan.set("consumerGroup", args[0])
		plan.set("deleted", false)
		plan.set("dryRun", w.dryRun)
		if !known || w.dryRun {
			err := printer(s, rowColumns("consumerGroup", "deleted", "dryRun")).One(plan)
			if err != nil || known {
				return err
			}
			return cli.Exit(cli.Nothing)
		}
		if err := s.confirm(fmt.Sprintf("This forgets group %s on %s.", args[0], on), args[0], w.yes); err != nil {
			return err
		}
		return s.forget(args[0], queue, keep)
	})
}

func (s *session) forget(group, queue string, keep bool) error {
	path := groupPath(group)
	if queue != "" {
		path += "/queues/" + url.PathEscape(queue)
	}
	if keep {
		path += "?deleteMetadata=false"
	}
	return s.told(request{method: http.MethodDelete, path: path, write: true}, "consumerGroup", "queueName",
		"deletedPartitions", "metadataDeleted")
}

func groupSubscribeCommand(s cli.Streams) *cobra.Command {
	var w writeOptions
	var from string
	cmd := &cobra.Command{Use: "subscribe GROUP", Short: "Change where a group starts on partitions it never touched",
		Args: cobra.ExactArgs(1), Long: "No cursor moves. Exits 4 when there is no such group."}
	cmd.Flags().StringVar(&from, "from", "", "the first message at or after: RFC 3339, now, or as 15m ago")
	required(cmd, "from")
	w.dryRunFlag(cmd)
	return command(s, cmd, "json", func(s *session, args []string) error {
		at, err := instant("from", from)
		if err != nil {
			return err
		}
		if w.dryRun {
			return s.planned(map[string]any{"op": "subscribe", "group": args[0], "subscriptionTimestamp": at})
		}
		r := request{method: http.MethodPost, path: groupPath(args[0]) + "/subscription", write: true,
			body: map[string]any{"subscriptionTimestamp": at}}
		answer, err := s.ask(r, "rowsUpdated")
		if err != nil {
			return err
		}
		err = printer(s, rowColumns("consumerGroup", "newTimestamp", "rowsUpdated")).One(answer)
		if err != nil || string(answer["rowsUpdated"]) != "0" {
			return err
		}
		return cli.Exit(cli.Nothing)
	})
}
