package client

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"

	"github.com/spf13/cobra"

	"queen/tools/cli"
)

const groupsPath = "/api/v1/consumer-groups"

// errEnough ends a walk that has what it looks for.
var errEnough = errors.New("enough")

func unlessEnough(err error) error {
	if errors.Is(err, errEnough) {
		return nil
	}
	return err
}

func groupCommand(s cli.Streams) *cobra.Command {
	cmd := &cobra.Command{Use: "group", Aliases: []string{"cg"}, Short: "List, describe, move and forget consumer groups"}
	cmd.AddCommand(groupListCommand(s), groupDescribeCommand(s), groupLagCommand(s), groupSeekCommand(s), groupDeleteCommand(s),
		groupSubscribeCommand(s))
	return cmd
}

func groupPath(group string) string { return groupsPath + "/" + url.PathEscape(group) }

// groupFlag is --group, -g, which upstream calls --cg.
func groupFlag(s cli.Streams, cmd *cobra.Command, to *string, usage string) {
	cmd.Flags().StringVarP(to, "group", "g", "", usage)
	_ = cmd.RegisterFlagCompletionFunc("group", completeGroup(s))
}

// queueFlag is --queue, -q.
func queueFlag(s cli.Streams, cmd *cobra.Command, to *string, usage string) {
	cmd.Flags().StringVarP(to, "queue", "q", "", usage)
	_ = cmd.RegisterFlagCompletionFunc("queue", completeQueue(s))
}

func groupListCommand(s cli.Streams) *cobra.Command {
	var queue string
	cmd := &cobra.Command{Use: "list", Short: "List consumer groups, one row per queue", Args: cobra.NoArgs}
	queueFlag(s, cmd, &queue, "only those of this queue")
	columns := []string{"=name", "queueName", "members", "partitionsWithLag", "totalLag", "maxTimeLag", "state", "+subscriptionMode",
		"+subscriptionCreatedAt", "+partitionCursors"}
	return rowCommand(s, cmd, "json", columns, func(s *session, out *cli.Printer[row], _ []string) error {
		var answer []row
		if _, err := s.call(get(groupsPath), &answer); err != nil {
			return err
		}
		if queue != "" {
			answer = slices.DeleteFunc(answer, func(r row) bool { return r.Text("queueName") != queue })
		}
		return out.AddAll(answer)
	})
}

// groupQueue is what the node knows of a group on a queue.
type groupQueue struct {
	Partitions []row
	Truncated  bool
}

// groupOf is what the node knows of a group, by queue; an unknown group has none.
func (s *session) groupOf(name string) (map[string]groupQueue, error) {
	var queues map[string]groupQueue
	_, err := s.call(get(groupPath(name)), &queues)
	return queues, err
}

// groupPartitions are the partitions that a group has touched, in the order of its queues; queue "" is all of them.
func (s *session) groupPartitions(group, queue string) (rows []row, known bool, err error) {
	queues, err := s.groupOf(group)
	for _, name := range slices.Sorted(maps.Keys(queues)) {
		if queue != "" && name != queue {
			continue
		}
		known = true
		for _, p := range queues[name].Partitions {
			p.Set("queue", name)
			p.Set("group", group)
			rows = append(rows, p)
		}
		if queues[name].Truncated {
			s.Say("queue %s has more partitions than are shown", name)
		}
	}
	return rows, known, err
}

func groupDescribeCommand(s cli.Streams) *cobra.Command {
	cmd := &cobra.Command{Use: "describe GROUP", Short: "Show where a group is, by queue and partition; exits 4 when it is unknown",
		Args: cobra.ExactArgs(1), ValidArgsFunction: arguments(completeGroup(s))}
	columns := []string{"queue", "=partition", "totalConsumed", "offsetLag", "timeLagSeconds", "leaseActive", "workerId", "+lastConsumedAt"}
	return rowCommand(s, cmd, "json", columns, func(s *session, out *cli.Printer[row], args []string) error {
		rows, known, err := s.groupPartitions(args[0], "")
		if err != nil {
			return err
		}
		if err := out.AddAll(rows); err != nil || known {
			return err
		}
		return cli.Exit(cli.Nothing)
	})
}

func groupLagCommand(s cli.Streams) *cobra.Command {
	var queue string
	var above int64
	cmd := &cobra.Command{Use: "lag [GROUP]", Short: "Show the partitions that a group is behind on, the furthest behind first",
		Args: cobra.MaximumNArgs(1), ValidArgsFunction: arguments(completeGroup(s)),
		Long: `Show the partitions that GROUP, or every group, is behind on, the furthest behind first. With --fail-above it exits 5
when one is more messages behind than that.`}
	queueFlag(s, cmd, &queue, "only on this queue")
	cmd.Flags().Int64Var(&above, "fail-above", -1, "exit 5 when any partition is more messages behind")
	columns := []string{"group", "queue", "=partition", "offsetLag", "timeLagSeconds", "leaseActive", "+workerId", "+lastConsumedAt"}
	return rowCommand(s, cmd, "json", columns, func(s *session, out *cli.Printer[row], args []string) error {
		names := args
		if len(args) == 0 {
			var err error
			if names, err = s.groupNames(queue); err != nil {
				return err
			}
		}
		var all []row
		for _, name := range names {
			rows, known, err := s.groupPartitions(name, queue)
			if err != nil {
				return err
			}
			if !known && len(args) > 0 {
				return cli.Exit(cli.Nothing)
			}
			all = append(all, rows...)
		}
		lag := func(r row) int64 {
			n, _ := strconv.ParseInt(r.Text("offsetLag"), 10, 64) // what is no number is no lag
			return n
		}
		all = slices.DeleteFunc(all, func(r row) bool { return lag(r) == 0 })
		slices.SortStableFunc(all, func(a, b row) int { return int(max(min(lag(b)-lag(a), 1), -1)) })
		if err := out.AddAll(all); err != nil {
			return err
		}
		if above >= 0 && len(all) > 0 && lag(all[0]) > above {
			return cli.Exit(cli.Findings)
		}
		return nil
	})
}

// seeker moves a group on a queue or on one partition.
type seeker struct {
	w                           cli.Write
	group, queue, partition, to string
}

// seekColumns are what an answer of either route may have.
var seekColumns = []string{"=consumerGroup", "queueName", "partitionName", "seekToEnd", "targetTimestamp", "partitionsUpdated", "dryRun"}

// command wires a command that seeks; names takes its arguments.
func (k *seeker) command(s cli.Streams, cmd *cobra.Command, names func(args []string)) *cobra.Command {
	if cmd.Long == "" {
		cmd.Long = `Move the cursors of a group to the end, the beginning, or before the first message at or after a time. Leases
of the group end, and what lies behind the cursors is delivered again.`
	}
	cmd.Flags().StringVar(&k.to, "to", "", "where to: "+instantHelp)
	required(cmd, "to")
	k.w.YesFlag(cmd)
	k.w.DryRunFlag(cmd)
	return rowCommand(s, cmd, "json", seekColumns, func(s *session, out *cli.Printer[row], args []string) error {
		names(args)
		return k.run(s, out)
	})
}

func (k *seeker) run(s *session, out *cli.Printer[row]) error {
	at, err := cli.ParseInstant("to", k.to)
	if err != nil {
		return err
	}
	body := map[string]any{}
	switch {
	case at.End:
		body["toEnd"] = true
	case at.Beginning:
		body["timestamp"] = "1970-01-01T00:00:00Z"
	default:
		body["timestamp"] = at.String()
	}
	if k.w.DryRun {
		body["op"], body["consumerGroup"], body["queueName"] = "seek", k.group, k.queue
		if k.partition != "" {
			body["partitionName"] = k.partition
		}
		return planned(out, body)
	}
	what := "queue " + k.queue
	if k.partition != "" {
		what = "partition " + k.partition + " of " + what
	}
	plan := fmt.Sprintf("This moves group %s on %s to %s and ends its leases there.", k.group, what, k.to)
	if err := s.Confirm(plan, k.group, k.w); err != nil {
		return err
	}
	r := request{Method: http.MethodPost, Path: partitionPath(k.group, k.queue, k.partition) + "/seek", Write: true, Body: body}
	return s.Told(out, r, "consumerGroup")
}

func groupSeekCommand(s cli.Streams) *cobra.Command {
	var k seeker
	cmd := &cobra.Command{Use: "seek GROUP QUEUE", Short: "Move a group on a queue", Args: cobra.ExactArgs(2),
		ValidArgsFunction: arguments(completeGroup(s), completeQueue(s))}
	cmd.Flags().StringVarP(&k.partition, "partition", "p", "", "only this partition")
	return k.command(s, cmd, func(args []string) { k.group, k.queue = args[0], args[1] })
}

// replayCommand is a seek with the words that upstream's line has for it.
func replayCommand(s cli.Streams) *cobra.Command {
	var k seeker
	cmd := &cobra.Command{Use: "replay QUEUE", Short: "Deliver messages of a queue to a group again", Args: cobra.ExactArgs(1),
		ValidArgsFunction: arguments(completeQueue(s)),
		Long:              `Move a group back on a queue, so that it gets what lies behind --to again: "group seek" in other words.`}
	groupFlag(s, cmd, &k.group, "the consumer group")
	cmd.Flags().StringVar(&k.group, "cg", "", "the consumer group")
	cmd.MarkFlagsOneRequired("group", "cg")
	cmd.MarkFlagsMutuallyExclusive("group", "cg")
	cmd.Flags().StringVarP(&k.partition, "partition", "p", "", "only this partition")
	return k.command(s, cmd, func(args []string) { k.queue = args[0] })
}

func groupDeleteCommand(s cli.Streams) *cobra.Command {
	var w cli.Write
	var queue string
	var keep bool
	cmd := &cobra.Command{Use: "delete GROUP", Short: "Forget a group: its cursors, leases and where it starts",
		Args: cobra.ExactArgs(1), ValidArgsFunction: arguments(completeGroup(s))}
	queueFlag(s, cmd, &queue, "only on this queue")
	cmd.Flags().BoolVar(&keep, "keep-subscription", false, "keep where the group starts")
	w.YesFlag(cmd)
	w.DryRunFlag(cmd)
	columns := []string{"=consumerGroup", "queueName", "deletedPartitions", "metadataDeleted", "deleted", "dryRun"}
	return rowCommand(s, cmd, "json", columns, func(s *session, out *cli.Printer[row], args []string) error {
		queues, err := s.groupOf(args[0])
		if err != nil {
			return err
		}
		known, on := len(queues) > 0, "every queue"
		if queue != "" {
			_, known = queues[queue]
			on = "queue " + queue
		}
		if !known || w.DryRun {
			plan := cli.RowOf(map[string]any{"consumerGroup": args[0], "deleted": false, "dryRun": w.DryRun})
			if err := out.One(plan); err != nil || known {
				return err
			}
			return cli.Exit(cli.Nothing)
		}
		if err := s.Confirm(fmt.Sprintf("This forgets group %s on %s.", args[0], on), args[0], w); err != nil {
			return err
		}
		path := groupPath(args[0])
		if queue != "" {
			path = partitionPath(args[0], queue, "")
		}
		if keep {
			path += "?deleteMetadata=false"
		}
		return s.Told(out, request{Method: http.MethodDelete, Path: path, Write: true}, "consumerGroup")
	})
}

func groupSubscribeCommand(s cli.Streams) *cobra.Command {
	var w cli.Write
	var from string
	cmd := &cobra.Command{Use: "subscribe GROUP", Short: "Change where a group starts on partitions it never touched",
		Args: cobra.ExactArgs(1), Long: "No cursor moves. Exits 4 when there is no such group.", ValidArgsFunction: arguments(completeGroup(s))}
	cmd.Flags().StringVar(&from, "from", "", "the first message at or after: RFC 3339, seconds since 1970, now, or as 15m ago")
	required(cmd, "from")
	w.DryRunFlag(cmd)
	columns := []string{"=consumerGroup", "newTimestamp", "rowsUpdated", "dryRun"}
	return rowCommand(s, cmd, "json", columns, func(s *session, out *cli.Printer[row], args []string) error {
		at, err := instant("from", from)
		if err != nil {
			return err
		}
		body := map[string]any{"subscriptionTimestamp": at}
		if w.DryRun {
			return planned(out, map[string]any{"op": "subscribe", "consumerGroup": args[0], "newTimestamp": at})
		}
		answer, err := s.Ask(request{Method: http.MethodPost, Path: groupPath(args[0]) + "/subscription", Write: true, Body: body}, "rowsUpdated")
		if err != nil {
			return err
		}
		return unlessNone(out, answer, "rowsUpdated")
	})
}
