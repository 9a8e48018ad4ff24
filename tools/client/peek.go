package client

import (
	"strconv"

	"github.com/spf13/cobra"

	"queen/tools/cli"
)

func peekCommand(s cli.Streams) *cobra.Command {
	var partition, group, from string
	var limit int
	cmd := &cobra.Command{Use: "peek QUEUE", Short: "Look at messages without taking them", Args: cobra.ExactArgs(1),
		ValidArgsFunction: arguments(completeQueue(s)),
		Long: `Print the first messages of every partition, or with --group what it has not settled yet. No lease is taken and no
cursor moves. Exits 4 when there is none. What is printed can be pushed again:

  queen peek orders -o json | queen push copy --wrapped`}
	f := cmd.Flags()
	f.StringVarP(&partition, "partition", "p", "", "only this partition")
	groupFlag(s, cmd, &group, "begin where this consumer group is")
	f.StringVar(&from, "from", "beginning", "where to begin: "+instantHelp)
	f.IntVarP(&limit, "limit", "n", 10, "messages at most")
	cmd.MarkFlagsMutuallyExclusive("group", "from")
	return messageCommand(s, cmd, messageColumns, func(s *session, out *messages, args []string) error {
		at, err := cli.ParseInstant("from", from)
		if err != nil {
			return err
		}
		if limit < 1 {
			return cli.Errorf(cli.Usage, "--limit is at least 1")
		}
		behind, err := s.behind(group, args[0])
		if err != nil {
			return err
		}
		err = s.partitions(args[0], func(p changedPartition) error {
			if partition != "" && p.Name != partition || p.LogStart >= p.end() {
				return nil
			}
			if out.n >= limit {
				return errEnough
			}
			start, err := s.peekStart(args[0], &p, at, behind)
			if err == nil && start < p.end() {
				_, err = s.fetchUpTo(fetchEntry{Queue: args[0], Partition: p.Name, Offset: start}, limit-out.n, 0, out)
			}
			return err
		})
		return out.end(unlessEnough(err))
	})
}

// behind is how many messages a group is behind on the partitions that it has touched.
func (s *session) behind(group, queue string) (map[string]uint64, error) {
	if group == "" {
		return nil, nil
	}
	rows, _, err := s.groupPartitions(group, queue)
	behind := map[string]uint64{}
	for _, r := range rows {
		n, err := strconv.ParseUint(r.Text("offsetLag"), 10, 64)
		if err != nil {
			return nil, cli.Errorf(cli.Server, "the lag of group %s: %w", group, err)
		}
		behind[r.Text("partition")] = n
	}
	return behind, err
}

// peekStart is the first message to look at.
func (s *session) peekStart(queue string, p *changedPartition, at cli.Instant, behind map[string]uint64) (uint64, error) {
	n, touched := behind[p.Name]
	switch {
	case touched:
		return max(p.end()-min(n, p.end()), p.LogStart), nil
	case behind != nil || at.Beginning:
		return p.LogStart, nil
	case at.End:
		return p.end(), nil
	}
	offsets, err := s.offsetsAt(queue, []string{p.Name}, at)
	if err != nil {
		return 0, err
	}
	return max(offsets[0], p.LogStart), nil
}
