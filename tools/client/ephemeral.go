package client

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"queen/tools/cli"
)

func ephemeralCommand(s cli.Streams) *cobra.Command {
	cmd := &cobra.Command{Use: "ephemeral", Short: "Queues in the node's memory: push, pop, ack, declare, list"}
	cmd.AddCommand(ephemeralPush(s), ephemeralPop(s), ephemeralAck(s), ephemeralConfigure(s), ephemeralReset(s),
		ephemeralDelete(s), ephemeralList(s), ephemeralDepth(s))
	return cmd
}

const ephemeralPath = "/api/v1/ephemeral/"

func ephemeralPush(s cli.Streams) *cobra.Command {
	var partition string
	var w cli.Write
	cmd := &cobra.Command{Use: "push QUEUE [PAYLOAD...]", Short: "Push messages, all or none", Args: cobra.MinimumNArgs(1),
		Long: "Push the payloads, or one per line of standard input. What is no JSON is pushed as a string."}
	cmd.Flags().StringVarP(&partition, "partition", "p", "", "the partition; default: Default")
	w.DryRunFlag(cmd)
	return rowCommand(s, cmd, "json", []string{"pushed", "queue", "partition", "dryRun"}, func(s *session, out *cli.Printer[row], args []string) error {
		type message struct {
			Payload json.RawMessage `json:"payload"`
		}
		messages := []message{}
		add := func(text []byte, _ bool) error {
			how := "utf8"
			if json.Valid(text) {
				how = "json"
			}
			payload, _, err := readPayload(how, text)
			if err != nil {
				return cli.Errorf(cli.Usage, "message %d: %w", len(messages)+1, err)
			}
			messages = append(messages, message{payload})
			return nil
		}
		for _, a := range args[1:] {
			if err := add([]byte(a), false); err != nil {
				return err
			}
		}
		if len(args) == 1 {
			if err := s.lines(add); err != nil {
				return err
			}
		}
		if len(messages) == 0 {
			return cli.Exit(cli.Nothing)
		}
		body := map[string]any{"queue": args[0], "partition": partition, "messages": messages}
		if w.DryRun {
			return planned(out, map[string]any{"queue": args[0], "partition": partition, "pushed": 0, "messages": messages})
		}
		return s.Told(out, request{Method: http.MethodPost, Path: ephemeralPath + "push", Write: true, Body: body}, "pushed")
	})
}

// ephemeralMessage is one message as pop prints it and ack reads it.
type ephemeralMessage struct {
	ID        string          `json:"id"`
	Partition string          `json:"partition"`
	Attempts  uint64          `json:"attempts"`
	Payload   json.RawMessage `json:"payload"`
}

var ephemeralColumns = []cli.Column[ephemeralMessage]{
	{Head: "id", Key: true, Cell: func(m ephemeralMessage) string { return m.ID }},
	{Head: "partition", Cell: func(m ephemeralMessage) string { return m.Partition }},
	{Head: "attempts", Cell: func(m ephemeralMessage) string { return strconv.FormatUint(m.Attempts, 10) }},
	{Head: "payload", Cell: func(m ephemeralMessage) string { return string(m.Payload) }},
}

func ephemeralPop(s cli.Streams) *cobra.Command {
	var partition, group string
	var batch int
	var wait time.Duration
	var autoAck bool
	cmd := &cobra.Command{Use: "pop QUEUE", Short: "Take messages under a lease", Args: cobra.ExactArgs(1),
		Long: "Take messages as a consumer group, or as one of those without a group. Exits 4 when there is nothing."}
	f := cmd.Flags()
	f.StringVarP(&partition, "partition", "p", "", "only this partition")
	groupFlag(s, cmd, &group, "the consumer group; default: queue mode")
	f.IntVarP(&batch, "batch", "n", 10, "messages at most")
	f.DurationVar(&wait, "wait", 0, "wait so long for a message, at most 5m")
	f.BoolVar(&autoAck, "auto-ack", false, "settle at delivery: no lease, and a lost answer loses the messages")
	return command(s, cmd, "ndjson", ephemeralColumns, func(s *session, out *cli.Printer[ephemeralMessage], args []string) error {
		if wait < 0 || wait > 5*time.Minute || batch < 1 {
			return cli.Errorf(cli.Usage, "--wait is 0 to 5m, --batch at least 1")
		}
		q := url.Values{"queue": {args[0]}, "batch": {strconv.Itoa(batch)}, "wait": {strconv.FormatBool(wait > 0)},
			"timeout": {strconv.FormatInt(wait.Milliseconds(), 10)}, "commitOnDelivery": {strconv.FormatBool(autoAck)}}
		if partition != "" {
			q.Set("partition", partition)
		}
		if group != "" {
			q.Set("group", group)
		}
		var answer struct{ Messages *[]ephemeralMessage }
		r := get(ephemeralPath + "pop?" + q.Encode())
		r.Write = autoAck
		switch found, err := s.call(r, &answer); {
		case err != nil:
			return err
		case found && answer.Messages == nil:
			return s.Stranger("there are no messages")
		case !found || len(*answer.Messages) == 0:
			return cli.Exit(cli.Nothing)
		}
		return out.AddAll(*answer.Messages)
	})
}

// ephemeralSettled is what settles one message.
type ephemeralSettled struct {
	ID     string `json:"id"`
	Status string `json:"status"`
}

func ephemeralAck(s cli.Streams) *cobra.Command {
	var group, status string
	var w cli.Write
	cmd := &cobra.Command{Use: "ack QUEUE [ID...]", Short: "Settle messages", Args: cobra.MinimumNArgs(1),
		Long: "Settle the ids, or the messages on standard input as pop prints them. Exits 6 when any was stale or unknown."}
	groupFlag(s, cmd, &group, "the consumer group; default: queue mode")
	cmd.Flags().StringVar(&status, "status", "completed", "completed, failed or retry")
	w.DryRunFlag(cmd)
	return rowCommand(s, cmd, "ndjson", []string{"=id", "outcome", "dryRun"}, func(s *session, out *cli.Printer[row], args []string) error {
		var acks []ephemeralSettled
		for _, id := range args[1:] {
			acks = append(acks, ephemeralSettled{id, status})
		}
		if len(args) == 1 {
			err := s.objects(func(value json.RawMessage, _ bool) error {
				var m ephemeralMessage
				if value == nil || json.Unmarshal(value, &m) != nil || m.ID == "" {
					return cli.Errorf(cli.Usage, "message %d: want a line as pop prints it, with id", len(acks)+1)
				}
				acks = append(acks, ephemeralSettled{m.ID, status})
				return nil
			})
			if err != nil {
				return err
			}
		}
		if len(acks) == 0 {
			return cli.Exit(cli.Nothing)
		}
		if w.DryRun {
			return planned(out, map[string]any{"queue": args[0], "group": group, "acks": acks})
		}
		body := map[string]any{"queue": args[0], "group": group, "acks": acks}
		r := request{Method: http.MethodPost, Path: ephemeralPath + "ack", Write: true, Body: body}
		results, _, err := s.AskList(r, "results")
		if err != nil {
			return err
		}
		code := cli.Done
		for _, r := range results {
			if outcome := r.Text("outcome"); outcome != "acked" && outcome != "redelivered" {
				code = cli.Partly
			}
		}
		if err := out.AddAll(results); err != nil {
			return err
		}
		return cli.Exit(code)
	})
}

// ephemeralOptions are the numbers of a declaration, by their flags.
var ephemeralOptions = []struct{ flag, key, usage string }{
	{"max-bytes", "maxBytes", "bytes that the queue holds at most"},
	{"max-length", "maxLength", "messages that it holds at most"},
	{"ttl-seconds", "ttlSeconds", "age after which a message is gone"},
	{"lease-seconds", "leaseSeconds", "how long a delivered message is leased"},
	{"retry-limit", "retryLimit", "failures after which a message is gone"},
}

func ephemeralConfigure(s cli.Streams) *cobra.Command {
	var w cli.Write
	cmd := &cobra.Command{Use: "configure QUEUE", Short: "Declare a queue; replaces its declaration", Args: cobra.ExactArgs(1)}
	f := cmd.Flags()
	for _, o := range ephemeralOptions {
		f.Int64(o.flag, 0, o.usage)
	}
	policy := f.String("policy", "", "what a push to a full queue does: reject (default) or dropOldest")
	ms := f.Int64("window-ms", 0, "hold waiting pops back for so many milliseconds, so that they get more")
	count := f.Int64("window-count", 0, "or until so many messages are ready")
	w.DryRunFlag(cmd)
	return rowCommand(s, cmd, "json", []string{"=queue", "options", "dryRun"}, func(s *session, out *cli.Printer[row], args []string) error {
		options := map[string]any{}
		for _, o := range ephemeralOptions {
			if f.Changed(o.flag) {
				n, err := f.GetInt64(o.flag)
				if err != nil {
					return err
				}
				options[o.key] = n
			}
		}
		if *policy != "" {
			options["policy"] = *policy
		}
		if *ms != 0 || *count != 0 {
			options["windowBuffer"] = map[string]int64{"ms": *ms, "count": *count}
		}
		body := map[string]any{"queue": args[0], "options": options}
		if w.DryRun {
			return planned(out, body)
		}
		return s.Told(out, request{Method: http.MethodPost, Path: ephemeralPath + "configure", Write: true, Body: body}, "queue")
	})
}

// ephemeralDestroys wires a command that asks for the name of the queue; plan says what is lost.
func ephemeralDestroys(s cli.Streams, cmd *cobra.Command, plan string, columns []string, call func(queue string) request) *cobra.Command {
	var w cli.Write
	cmd.Args = cobra.ExactArgs(1)
	w.YesFlag(cmd)
	w.DryRunFlag(cmd)
	return rowCommand(s, cmd, "json", columns, func(s *session, out *cli.Printer[row], args []string) error {
		if w.DryRun {
			return planned(out, map[string]any{"queue": args[0], "op": cmd.Name()})
		}
		if err := s.Confirm(fmt.Sprintf(plan, args[0]), args[0], w); err != nil {
			return err
		}
		return s.Told(out, call(args[0]), "queue")
	})
}

func ephemeralReset(s cli.Streams) *cobra.Command {
	cmd := &cobra.Command{Use: "reset QUEUE", Short: "Drop the messages of a queue"}
	return ephemeralDestroys(s, cmd, "This drops the messages of queue %s.", []string{"=queue", "dropped", "dryRun"}, func(queue string) request {
		return request{Method: http.MethodPost, Path: ephemeralPath + "reset", Write: true, Body: map[string]any{"queue": queue}}
	})
}

func ephemeralDelete(s cli.Streams) *cobra.Command {
	cmd := &cobra.Command{Use: "delete QUEUE", Short: "Forget a queue and its declaration"}
	columns := []string{"=queue", "deleted", "declared", "dryRun"}
	return ephemeralDestroys(s, cmd, "This drops queue %s with its messages and its declaration.", columns, func(queue string) request {
		return request{Method: http.MethodDelete, Path: ephemeralPath + "queue/" + url.PathEscape(queue), Write: true}
	})
}

func ephemeralList(s cli.Streams) *cobra.Command {
	cmd := &cobra.Command{Use: "list", Short: "List queues", Args: cobra.NoArgs}
	columns := []string{"=queue", "tier", "depth", "bytes", "partitions", "groups", "drops"}
	return rowCommand(s, cmd, "json", columns, func(s *session, out *cli.Printer[row], _ []string) error {
		queues, _, err := s.AskList(get(ephemeralPath+"queues"), "queues")
		if err != nil {
			return err
		}
		return out.AddAll(queues)
	})
}

func ephemeralDepth(s cli.Streams) *cobra.Command {
	var group string
	cmd := &cobra.Command{Use: "depth QUEUE", Short: "Count the messages of a queue", Args: cobra.ExactArgs(1)}
	groupFlag(s, cmd, &group, "count what this consumer group has not settled")
	columns := []string{"=queue", "pending", "partitionsPending", "bytes", "groups"}
	return rowCommand(s, cmd, "json", columns, func(s *session, out *cli.Printer[row], args []string) error {
		path := ephemeralPath + "queues/" + url.PathEscape(args[0]) + "/depth"
		if group != "" {
			path += "?" + url.Values{"group": {group}}.Encode()
		}
		return s.Told(out, get(path), "pending")
	})
}
