package client

import (
	"net/http"
	"net/url"

	"github.com/spf13/cobra"

	"queen/tools/cli"
	"queen/tools/remote"
)

func messageGroup(s cli.Streams) *cobra.Command {
	cmd := &cobra.Command{Use: "message", Aliases: []string{"messages"}, Short: "Find messages and see what became of them"}
	cmd.AddCommand(messageGetCommand(s), messageSearchCommand(s), messageTraceCommand(s))
	return cmd
}

// messageAddress is the path of routes about one message.
func messageAddress(partition, transaction string) string {
	return url.PathEscape(partition) + "/" + url.PathEscape(transaction)
}

// foundColumns are those of a message in a listing.
var foundColumns = []string{"queue", "partition", "offset", "=transactionId", "status", "createdAt", "+partitionId", "+leaseExpiresAt",
	"+traceId", "data"}

func messageGetCommand(s cli.Streams) *cobra.Command {
	cmd := &cobra.Command{Use: "get PARTITION-ID TRANSACTION-ID", Short: "Show a message and what every group thinks of it; exits 4 when it is gone",
		Args: cobra.ExactArgs(2)}
	return rowCommand(s, cmd, "json", foundColumns, func(s *session, out *cli.Printer[row], args []string) error {
		answer, err := s.Ask(get("/api/v1/messages/"+messageAddress(args[0], args[1])), "transactionId")
		if remote.Status(err) == http.StatusNotFound {
			return cli.Exit(cli.Nothing)
		}
		if err != nil {
			return err
		}
		return out.One(answer)
	})
}

func messageSearchCommand(s cli.Streams) *cobra.Command {
	var l struct{ partition, namespace, task, status, from, to string }
	cmd := &cobra.Command{Use: "search [QUEUE]", Short: "Look for messages, the newest first", Args: cobra.MaximumNArgs(1),
		ValidArgsFunction: arguments(completeQueue(s)),
		Long:              "Look for messages of the last hour, or of --from to --to, the newest first. Exits 4 when there are none."}
	f := cmd.Flags()
	f.StringVarP(&l.partition, "partition", "p", "", "only those of this partition")
	f.StringVar(&l.namespace, "namespace", "", "only those of queues with this label")
	f.StringVar(&l.task, "task", "", "only those of queues with this label")
	f.StringVar(&l.status, "status", "", "only those that are pending, processing, completed or dead_letter")
	f.StringVar(&l.from, "from", "", "only those pushed at or after: RFC 3339, seconds since 1970, now, or as 15m ago")
	f.StringVar(&l.to, "to", "", "only those pushed before")
	limit, offset := pageFlags(cmd)
	return rowCommand(s, cmd, "ndjson", foundColumns, func(s *session, out *cli.Printer[row], args []string) error {
		q := pageQuery(*limit, *offset)
		for name, value := range map[string]string{"partition": l.partition, "namespace": l.namespace, "task": l.task, "status": l.status} {
			if value != "" {
				q.Set(name, value)
			}
		}
		if len(args) == 1 {
			q.Set("queue", args[0])
		}
		if err := timesQuery(q, l.from, l.to); err != nil {
			return err
		}
		list, _, err := s.AskList(get("/api/v1/messages?"+q.Encode()), "messages")
		if err != nil {
			return err
		}
		return listed(out, list, cli.Nothing)
	})
}

// timesQuery sets the times of a listing that were given.
func timesQuery(q url.Values, from, to string) error {
	for _, t := range [][2]string{{"from", from}, {"to", to}} {
		if t[1] == "" {
			continue
		}
		at, err := instant(t[0], t[1])
		if err != nil {
			return err
		}
		q.Set(t[0], at)
	}
	return nil
}

func messageTraceCommand(s cli.Streams) *cobra.Command {
	cmd := &cobra.Command{Use: "trace PARTITION-ID TRANSACTION-ID", Short: "Show the notes about a message; exits 4 when there are none",
		Args: cobra.ExactArgs(2)}
	return rowCommand(s, cmd, "json", traceColumns, func(s *session, out *cli.Printer[row], args []string) error {
		return s.traces(out, "/api/v1/traces/"+messageAddress(args[0], args[1]))
	})
}

// traces prints the notes of a route.
func (s *session) traces(out *cli.Printer[row], path string) error {
	list, _, err := s.AskList(get(path), "traces")
	if err != nil {
		return err
	}
	return listed(out, list, cli.Nothing)
}
