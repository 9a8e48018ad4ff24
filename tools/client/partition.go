package client

import (
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"queen/tools/cli"
)

func partitionCommand(s cli.Streams) *cobra.Command {
	cmd := &cobra.Command{Use: "partition", Short: "List, describe and purge partitions, and move groups on one"}
	cmd.AddCommand(partitionListCommand(s), partitionDescribeCommand(s), partitionSeekCommand(s), partitionPurgeCommand(s))
	return cmd
}

// changedPartition is a partition in the listing of a queue.
type changedPartition struct {
	ID          string `json:"id"`
	Name        string `json:"name"`
	LastOffset  int64  `json:"lastOffset"`
	LogStart    uint64 `json:"logStart"`
	LastWriteAt string `json:"lastWriteAt"`
}

// end is the offset that the next message gets.
func (p *changedPartition) end() uint64 { return uint64(p.LastOffset + 1) }

// partitions calls f for every partition of a queue, in the order of their pages.
func (s *session) partitions(queue string, f func(changedPartition) error) error {
	var after *string
	for {
		var answer struct {
			Entries []struct {
				Error      string
				Partitions []changedPartition
				Next       *string
			}
		}
		entry := map[string]any{"queue": queue}
		if after != nil {
			entry["after"] = *after
		}
		if _, err := s.call(request{Method: http.MethodPost, Path: "/api/v1/partitions/changed",
			Body: map[string]any{"entries": []any{entry}}}, &answer); err != nil {
			return err
		}
		if len(answer.Entries) != 1 {
			return cli.Errorf(cli.Server, "%d answers for 1 queue", len(answer.Entries))
		}
		e := &answer.Entries[0]
		switch {
		case strings.HasPrefix(e.Error, "UNKNOWN"):
			return cli.Errorf(cli.Usage, "there is no queue %s", queue)
		case e.Error != "":
			return cli.Errorf(cli.Server, "queue %s: %s", queue, e.Error)
		}
		for _, p := range e.Partitions {
			if err := f(p); err != nil {
				return err
			}
		}
		if e.Next == nil {
			return nil
		}
		after = e.Next
	}
}

// listedPartition is one row of the list.
type listedPartition struct {
	Queue       string `json:"queue"`
	Partition   string `json:"partition"`
	PartitionID string `json:"partitionId"`
	LogStart    uint64 `json:"logStartOffset"`
	End         uint64 `json:"nextOffset"`
	Messages    uint64 `json:"messages"`
	LastWriteAt string `json:"lastWriteAt"`
}

// ShiftTimes puts the row's time into a zone.
func (p *listedPartition) ShiftTimes(zone *time.Location) {
	p.LastWriteAt = cli.InZone(p.LastWriteAt, zone)
}

var partitionColumns = []cli.Column[listedPartition]{
	{Head: "queue", Wide: true, Cell: func(p listedPartition) string { return p.Queue }},
	{Head: "partition", Key: true, Cell: func(p listedPartition) string { return p.Partition }},
	{Head: "messages", Cell: func(p listedPartition) string { return strconv.FormatUint(p.Messages, 10) },
		Help: "offsets that it holds; those that compaction took out count"},
	{Head: "log start offset", Wide: true, Cell: func(p listedPartition) string { return strconv.FormatUint(p.LogStart, 10) },
		Help: "the first message that is kept"},
	{Head: "next offset", Cell: func(p listedPartition) string { return strconv.FormatUint(p.End, 10) }, Help: "what the next message gets"},
	{Head: "last write at", Cell: func(p listedPartition) string { return p.LastWriteAt }},
	{Head: "partition id", Wide: true, Cell: func(p listedPartition) string { return p.PartitionID }, Help: "as acks and traces name it"},
}

func partitionListCommand(s cli.Streams) *cobra.Command {
	var limit int
	cmd := &cobra.Command{Use: "list QUEUE", Short: "List the partitions of a queue", Args: cobra.ExactArgs(1),
		ValidArgsFunction: arguments(completeQueue(s))}
	cmd.Flags().IntVarP(&limit, "limit", "n", 0, "end after so many partitions; 0: all")
	return command(s, cmd, "ndjson", partitionColumns, func(s *session, out *cli.Printer[listedPartition], args []string) error {
		if limit < 0 {
			return cli.Errorf(cli.Usage, "--limit is at least 0")
		}
		err := s.partitions(args[0], func(p changedPartition) error {
			if limit > 0 && out.Rows() == limit {
				return errEnough
			}
			return out.Add(listedPartition{Queue: args[0], Partition: p.Name, PartitionID: p.ID, LogStart: p.LogStart, End: p.end(),
				Messages: p.end() - p.LogStart, LastWriteAt: p.LastWriteAt})
		})
		return unlessEnough(err)
	})
}

// partitionNamed finds a partition of a queue.
func (s *session) partitionNamed(queue, name string) (*changedPartition, error) {
	var found *changedPartition
	err := s.partitions(queue, func(p changedPartition) error {
		if p.Name == name {
			found = &p
			return errEnough
		}
		return nil
	})
	if err = unlessEnough(err); err == nil && found == nil {
		err = cli.Errorf(cli.Usage, "queue %s has no partition %s", queue, name)
	}
	return found, err
}

func partitionDescribeCommand(s cli.Streams) *cobra.Command {
	cmd := &cobra.Command{Use: "describe QUEUE PARTITION", Short: "Show a partition and where every group is on it",
		Args: cobra.ExactArgs(2), ValidArgsFunction: arguments(completeQueue(s))}
	columns := []string{"queue", "=partition", "partitionId", "logStartOffset", "nextOffset", "lastWriteAt", "groups"}
	return rowCommand(s, cmd, "json", columns, func(s *session, out *cli.Printer[row], args []string) error {
		p, err := s.partitionNamed(args[0], args[1])
		if err != nil {
			return err
		}
		groups, err := s.groupsOn(args[0], args[1])
		if err != nil {
			return err
		}
		described := cli.RowOf(map[string]any{"queue": args[0], "partition": p.Name, "partitionId": p.ID, "logStartOffset": p.LogStart,
			"nextOffset": p.end(), "lastWriteAt": p.LastWriteAt, "groups": groups})
		described.ShiftTimes(s.Zone)
		var pairs [][2]string
		for _, name := range columns[:len(columns)-1] {
			name = strings.TrimPrefix(name, "=")
			pairs = append(pairs, [2]string{name, described.Text(name)})
		}
		for _, g := range groups {
			pairs = append(pairs, [2]string{"group " + g.Text("name"), g.Text("offsetLag") + " behind, leased: " + g.Text("leaseActive")})
		}
		return out.Detail(described, pairs)
	})
}

// groupsOn are the groups that have touched a partition, as their own descriptions show it.
func (s *session) groupsOn(queue, partition string) (groups []row, err error) {
	groups = []row{}
	all, err := s.groupNames(queue)
	for _, name := range all {
		var queues map[string]groupQueue
		if queues, err = s.groupOf(name); err != nil {
			return nil, err
		}
		for _, p := range queues[queue].Partitions {
			if p.Text("partition") == partition {
				p.Set("name", name)
				groups = append(groups, p)
			}
		}
	}
	return groups, err
}

// groupNames are the names of the groups of a queue, or of all with "".
func (s *session) groupNames(queue string) ([]string, error) {
	var answer []row
	if _, err := s.call(get(groupsPath), &answer); err != nil {
		return nil, err
	}
	names := map[string]bool{}
	for _, r := range answer {
		if queue == "" || r.Text("queueName") == queue {
			names[r.Text("name")] = true
		}
	}
	return slices.Sorted(maps.Keys(names)), nil
}

func partitionSeekCommand(s cli.Streams) *cobra.Command {
	var k seeker
	cmd := &cobra.Command{Use: "seek QUEUE PARTITION", Short: "Move a group on a partition", Args: cobra.ExactArgs(2),
		ValidArgsFunction: arguments(completeQueue(s))}
	groupFlag(s, cmd, &k.group, "the consumer group")
	required(cmd, "group")
	return k.command(s, cmd, func(args []string) { k.queue, k.partition = args[0], args[1] })
}

func partitionPurgeCommand(s cli.Streams) *cobra.Command {
	var w cli.Write
	cmd := &cobra.Command{Use: "purge QUEUE PARTITION", Short: "Remove the messages of a partition for good; exits 4 when there are none",
		Args: cobra.ExactArgs(2), ValidArgsFunction: arguments(completeQueue(s)),
		Long: `Remove the messages that a partition holds, whether they were consumed or not. The partition stays, with its offsets, its
dead letters and where groups are on it. What is pushed after the plan was shown stays, too.`}
	w.YesFlag(cmd)
	w.DryRunFlag(cmd)
	columns := []string{"queue", "=partition", "deleted", "matching", "logStartOffset", "dryRun"}
	return rowCommand(s, cmd, "json", columns, func(s *session, out *cli.Printer[row], args []string) error {
		body := map[string]any{"queue": args[0], "partition": args[1]}
		if w.DryRun || !w.Yes {
			p, err := s.partitionNamed(args[0], args[1])
			if err != nil {
				return err
			}
			matching := p.end() - p.LogStart
			if w.DryRun {
				body["deleted"], body["matching"] = 0, matching
				return planned(out, body)
			}
			plan := fmt.Sprintf("This removes %d messages of partition %s of queue %s.", matching, args[1], args[0])
			if err := s.Confirm(plan, args[1], w); err != nil {
				return err
			}
			body["before"] = p.end()
		}
		answer, err := s.Ask(request{Method: http.MethodPost, Path: "/api/v1/partitions/purge", Write: true, Body: body}, "deleted")
		if err != nil {
			return err
		}
		return unlessNone(out, answer, "deleted")
	})
}

// partitionPath is the path of a route about a partition as a group sees it.
func partitionPath(group, queue, partition string) string {
	path := groupPath(group) + "/queues/" + url.PathEscape(queue)
	if partition != "" {
		path += "/partitions/" + url.PathEscape(partition)
	}
	return path
}
