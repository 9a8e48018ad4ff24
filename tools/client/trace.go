package client

import (
	"net/http"
	"net/url"

	"github.com/spf13/cobra"

	"queen/tools/cli"
)

func traceCommand(s cli.Streams) *cobra.Command {
	cmd := &cobra.Command{Use: "trace", Short: "Notes about messages, kept for seven days"}
	cmd.AddCommand(traceAddCommand(s), traceGetCommand(s), traceNamesCommand(s))
	return cmd
}

// traceColumns are those of a note.
var traceColumns = []string{"created_at", "event_type", "consumer_group", "trace_names", "data"}

// address names a message.
type address struct{ partition, transaction string }

func (a *address) flags(cmd *cobra.Command) {
	cmd.Flags().StringVar(&a.partition, "partition-id", "", "partitionId of the message")
	cmd.Flags().StringVar(&a.transaction, "transaction-id", "", "transactionId of the message")
}

func traceAddCommand(s cli.Streams) *cobra.Command {
	var a address
	var names []string
	var kind, group, file string
	var w cli.Write
	cmd := &cobra.Command{Use: "add [DATA]", Short: "Note DATA, a file or standard input about a message",
		Args: cobra.MaximumNArgs(1)}
	a.flags(cmd)
	required(cmd, "partition-id", "transaction-id")
	w.DryRunFlag(cmd)
	f := cmd.Flags()
	f.StringArrayVar(&names, "name", nil, "a name to find it by; may be repeated")
	f.StringVar(&kind, "type", "info", "what kind of note it is")
	groupFlag(s, cmd, &group, "the consumer group")
	f.StringVar(&file, "file", "", "read the data from a file; - is standard input")
	return rowCommand(s, cmd, "json", []string{"=traceId", "success", "dryRun"}, func(s *session, out *cli.Printer[row], args []string) error {
		text, err := s.document(optional(args, 0), file)
		if err != nil {
			return err
		}
		data, raw, err := readPayload("auto", text)
		if err != nil || raw != nil {
			return cli.Errorf(cli.Usage, "the data of a trace is JSON or text: %.60q", text)
		}
		body := map[string]any{"partitionId": a.partition, "transactionId": a.transaction, "eventType": kind, "data": data}
		if group != "" {
			body["consumerGroup"] = group
		}
		if len(names) > 0 {
			body["traceNames"] = names
		}
		if w.DryRun {
			return planned(out, body)
		}
		return s.Told(out, request{Method: http.MethodPost, Path: "/api/v1/traces", Write: true, Body: body}, "traceId")
	})
}

func traceGetCommand(s cli.Streams) *cobra.Command {
	var a address
	var name string
	cmd := &cobra.Command{Use: "get", Short: "Show the notes about a message, or those of a name; exits 4 when there are none",
		Args: cobra.NoArgs}
	a.flags(cmd)
	limit, offset := pageFlags(cmd)
	cmd.Flags().StringVar(&name, "name", "", "those of this name, the newest first, by --limit and --offset")
	cmd.MarkFlagsMutuallyExclusive("name", "partition-id")
	cmd.MarkFlagsOneRequired("name", "partition-id")
	cmd.MarkFlagsRequiredTogether("partition-id", "transaction-id")
	return rowCommand(s, cmd, "json", traceColumns, func(s *session, out *cli.Printer[row], _ []string) error {
		path := "/api/v1/traces/" + messageAddress(a.partition, a.transaction)
		if name != "" {
			path = "/api/v1/traces/by-name/" + url.PathEscape(name) + "?" + pageQuery(*limit, *offset).Encode()
		} else if cmd.Flags().Changed("limit") || cmd.Flags().Changed("offset") {
			return cli.Errorf(cli.Usage, "--limit and --offset go with --name")
		}
		return s.traces(out, path)
	})
}

func traceNamesCommand(s cli.Streams) *cobra.Command {
	cmd := &cobra.Command{Use: "names", Short: "List the names, the most used first", Args: cobra.NoArgs}
	limit, offset := pageFlags(cmd)
	columns := []string{"=trace_name", "trace_count", "message_count", "last_seen"}
	return rowCommand(s, cmd, "json", columns, func(s *session, out *cli.Printer[row], _ []string) error {
		r := get("/api/v1/traces/names?" + pageQuery(*limit, *offset).Encode())
		names, _, err := s.AskList(r, "trace_names")
		if err != nil {
			return err
		}
		return out.AddAll(names)
	})
}
