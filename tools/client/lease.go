package client

import (
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"queen/tools/cli"
)

// leaseMax is the largest listing of leases.
const leaseMax = 10000

func leaseCommand(s cli.Streams) *cobra.Command {
	cmd := &cobra.Command{Use: "lease", Short: "List, extend and hand back leases"}
	cmd.AddCommand(leaseListCommand(s), leaseExtendCommand(s), leaseReleaseCommand(s))
	return cmd
}

func leasePath(lease, what string) string { return "/api/v1/lease/" + url.PathEscape(lease) + what }

func leaseListCommand(s cli.Streams) *cobra.Command {
	var group, queue string
	cmd := &cobra.Command{Use: "list", Short: "List the partitions that are leased", Args: cobra.NoArgs}
	groupFlag(s, cmd, &group, "only to this consumer group")
	queueFlag(s, cmd, &queue, "only of this queue")
	columns := []string{"=leaseId", "group", "queue", "partition", "firstOffset", "endOffset", "attempt", "workerId", "expiresAt", "+partitionId"}
	return rowCommand(s, cmd, "json", columns, func(s *session, out *cli.Printer[row], _ []string) error {
		q := url.Values{"limit": {strconv.Itoa(leaseMax)}}
		for name, value := range map[string]string{"group": group, "queue": queue} {
			if value != "" {
				q.Set(name, value)
			}
		}
		list, answer, err := s.AskList(get("/api/v1/leases?"+q.Encode()), "leases")
		if err != nil {
			return err
		}
		if answer.Is("truncated") {
			s.Say("there are more leases than are shown")
		}
		return out.AddAll(list)
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
		answer, err := s.Ask(request{Method: http.MethodPost, Path: leasePath(args[0], "/extend"), Write: true,
			Body: map[string]any{"seconds": seconds}}, "success")
		if err != nil {
			return err
		}
		return oneOr(out, answer, "success", cli.Nothing)
	})
}

func leaseReleaseCommand(s cli.Streams) *cobra.Command {
	var w cli.Write
	cmd := &cobra.Command{Use: "release LEASE", Short: "Hand back what a lease holds; exits 4 when it is over, 6 when a part of it stays",
		Args: cobra.ExactArgs(1),
		Long: `Hand back what a lease holds, as that of a worker that is gone: its messages are handed out again at once, and that
counts as no attempt. Acks of a worker that still holds it are refused from then on.

A partition on which a message was settled under the lease stays leased, and the command exits 6. Settling its next
message hands that back: queen ack --status retry --lease LEASE.`}
	w.DryRunFlag(cmd)
	columns := []string{"=leaseId", "success", "released", "reason", "dryRun"}
	return rowCommand(s, cmd, "json", columns, func(s *session, out *cli.Printer[row], args []string) error {
		if w.DryRun {
			return planned(out, map[string]any{"op": "release", "leaseId": args[0]})
		}
		answer, err := s.Ask(request{Method: http.MethodPost, Path: leasePath(args[0], "/release"), Write: true}, "success")
		if err != nil {
			return err
		}
		otherwise := cli.Nothing
		if answer.Text("reason") == "acked" {
			otherwise = cli.Partly
		}
		return oneOr(out, answer, "success", otherwise)
	})
}
