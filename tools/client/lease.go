package client

import (
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"queen/tools/cli"
)

func leaseCommand(s cli.Streams) *cobra.Command {
	cmd := &cobra.Command{Use: "lease", Short: "List and extend leases",
		Long: "List and extend leases. A lease is given back by settling its messages: queen ack --status retry."}
	cmd.AddCommand(leaseListCommand(s), leaseExtendCommand(s))
	return cmd
}

func leaseListCommand(s cli.Streams) *cobra.Command {
	var group, queue string
	cmd := &cobra.Command{Use: "list", Short: "List the partitions that are leased", Args: cobra.NoArgs}
	groupFlag(s, cmd, &group, "only to this consumer group")
	queueFlag(s, cmd, &queue, "only of this queue")
	columns := []string{"group", "queue", "=partition", "workerId", "offsetLag", "lastConsumedAt"}
	return rowCommand(s, cmd, "json", columns, func(s *session, out *cli.Printer[row], _ []string) error {
		names := []string{group}
		if group == "" {
			var err error
			if names, err = s.groupNames(queue); err != nil {
				return err
			}
		}
		for _, name := range names {
			rows, _, err := s.groupPartitions(name, queue)
			if err != nil {
				return err
			}
			rows = slices.DeleteFunc(rows, func(r row) bool { return !r.Is("leaseActive") })
			if err := out.AddAll(rows); err != nil {
				return err
			}
		}
		return nil
	})
}

func leaseExtendCommand(s cli.Streams) *cobra.Command {
	var w cli.Write
	var length time.Duration
	cmd := &cobra.Command{Use: "extend LEASE", Short: "Let a lease end later; exits 4 when it is over", Args: cobra.ExactArgs(1)}
	cmd.Flags().DurationVar(&length, "for", time.Minute, "so long from now, in whole seconds")
	w.DryRunFlag(cmd)
	columns := []string{"=leaseId", "success", "renewed", "expiresAt", "dryRun"}
	return rowCommand(s, cmd, "json", columns, func(s *session, out *cli.Printer[row], args []string) error {
		seconds, err := wholeSeconds("for", length)
		if err != nil {
			return err
		}
		if w.DryRun {
			return planned(out, map[string]any{"leaseId": args[0], "seconds": seconds})
		}
		answer, err := s.Ask(request{Method: http.MethodPost, Path: "/api/v1/lease/" + url.PathEscape(args[0]) + "/extend", Write: true,
			Body: map[string]any{"seconds": seconds}}, "success")
		if err != nil {
			return err
		}
		return oneOr(out, answer, "success", cli.Nothing)
	})
}
