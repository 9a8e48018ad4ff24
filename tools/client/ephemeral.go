package client

import (
	"bufio"
	"encoding/json"
	"errors"
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

// one makes one call and prints its answer as it came.
func (s *session) one(r request, columns ...string) error {
	var answer map[string]any
	if _, err := s.call(s.ctx, r, &answer); err != nil {
		return err
	}
	return printer(s, rawColumns(columns)).One(answer)
}

// rawColumns are members of an answer, by name.
func rawColumns(names []string) (columns []cli.Column[map[string]any]) {
	for _, name := range names {
		columns = append(columns, cli.Column[map[string]any]{Head: name, Cell: func(r map[string]any) string {
			if text, ok := r[name].(string); ok {
				return text
			}
			b, err := json.Marshal(r[name])
			if err != nil {
				return err.Error()
			}
			return string(b)
		}})
	}
	return columns
}

func ephemeralPush(s cli.Streams) *cobra.Command {
	var partition string
	cmd := &cobra.Command{Use: "push QUEUE [PAYLOAD...]", Short: "Push messages, all or none", Args: cobra.MinimumNArgs(1),
		Long: "Push the payloads, or one per line of standard input. What is no JSON is pushed as a string."}
	cmd.Flags().StringVarP(&partition, "partition", "p", "", "the partition; default: Default")
	return command(s, cmd, "json", func(s *session, args []string) error {
		type message struct {
			Payload json.RawMessage `json:"payload"`
		}
		messages := []message{}
		add := func(text []byte) error {
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
			if err := add([]byte(a)); err != nil {
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
		return s.one(request{method: http.MethodPost, path: ephemeralPath + "push", write: true, body: body}, "pushed")
	})
}

// lines reads standard input by lines; empty ones are left out.
func (s *session) lines(each func(line []byte) error) error {
	in := bufio.NewReaderSize(s.input(), 1<<20)
	for {
		line, end, err := readLine(in)
		if err != nil {
			return s.badInput(err)
		}
		if len(line) > 0 {
			if err := each(line); err != nil {
				return err
			}
		}
		if end {
			return nil
		}
	}
}

// ephemeralMessage is one message as pop prints it and ack reads it.
type ephemeralMessage struct {
	ID        string          `json:"id"`
	Partition string          `json:"partition"`
	Attempts  uint64          `json:"attempts"`
	Payload   json.RawMessage `json:"payload"`
}

var ephemeralColumns = []cli.Column[ephemeralMessage]{
	{Head: "id", Cell: func(m ephemeralMessage) string { return m.ID }},
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
	f.StringVarP(&group, "group", "g", "", "the consumer group; default: queue mode")
	f.IntVarP(&batch, "batch", "n", 10, "messages at most")
	f.DurationVar(&wait, "wait", 0, "wait so long for a message, at most 5m")
	f.BoolVar(&autoAck, "auto-ack", false, "settle at delivery: no lease, and a lost answer loses the messages")
	return command(s, cmd, "ndjson", func(s *session, args []string) error {
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
		var answer struct{ Messages []ephemeralMessage }
		r := request{method: http.MethodGet, path: ephemeralPath + "pop?" + q.Encode(), write: autoAck}
		if _, err := s.call(s.ctx, r, &answer); err != nil {
			return err
		}
		out := printer(s, ephemeralColumns)
		for _, m := range answer.Messages {
			if err := out.Add(m); err != nil {
				return err
			}
		}
		if err := out.Close(); err != nil || len(answer.Messages) > 0 {
			return err
		}
		return cli.Exit(cli.Nothing)
	})
}

func ephemeralAck(s cli.Streams) *cobra.Command {
	var group, status string
	cmd := &cobra.Command{Use: "ack QUEUE [ID...]", Short: "Settle messages", Args: cobra.MinimumNArgs(1),
		Long: "Settle the ids, or the messages on standard input as pop prints them. Exits 6 when any was stale or unknown."}
	cmd.Flags().StringVarP(&group, "group", "g", "", "the consumer group; default: queue mode")
	cmd.Flags().StringVar(&status, "status", "completed", "completed, failed or retry")
	return command(s, cmd, "ndjson", func(s *session, args []string) error {
		type ack struct {
			ID     string `json:"id"`
			Status string `json:"status"`
		}
		var acks []ack
		for _, id := range args[1:] {
			acks = append(acks, ack{id, status})
		}
		if len(args) == 1 {
			err := s.lines(func(line []byte) error {
				var m ephemeralMessage
				if err := json.Unmarshal(line, &m); err != nil || m.ID == "" {
					return cli.Errorf(cli.Usage, "message %d: %w", len(acks)+1, errors.Join(err, errors.New("no message with an id")))
				}
				acks = append(acks, ack{m.ID, status})
				return nil
			})
			if err != nil {
				return err
			}
		}
		if len(acks) == 0 {
			return cli.Exit(cli.Nothing)
		}
		var answer struct{ Results []map[string]any }
		body := map[string]any{"queue": args[0], "group": group, "acks": acks}
		if _, err := s.call(s.ctx, request{method: http.MethodPost, path: ephemeralPath + "ack", write: true, body: body}, &answer); err != nil {
			return err
		}
		out, code := printer(s, rawColumns([]string{"id", "outcome"})), cli.Done
		for _, r := range answer.Results {
			if r["outcome"] != "acked" && r["outcome"] != "redelivered" {
				code = cli.Partly
			}
			if err := out.Add(r); err != nil {
				return err
			}
		}
		if err := out.Close(); err != nil {
			return err
		}
		return cli.Exit(code)
	})
}

func ephemeralConfigure(s cli.Streams) *cobra.Command {
	cmd := &cobra.Command{Use: "configure QUEUE", Short: "Declare a queue; replaces its declaration", Args: cobra.ExactArgs(1)}
	f := cmd.Flags()
	numbers := map[string]string{"max-bytes": "maxBytes", "max-length": "maxLength", "ttl-seconds": "ttlSeconds",
		"lease-seconds": "leaseSeconds", "retry-limit": "retryLimit"}
	for name, option := range numbers {
		f.Int64(name, 0, option)
	}
	policy := f.String("policy", "", "what a push to a full queue does: reject (default) or dropOldest")
	ms := f.Int64("window-ms", 0, "hold waiting pops back for so many milliseconds, so that they get more")
	count := f.Int64("window-count", 0, "or until so many messages are ready")
	return command(s, cmd, "json", func(s *session, args []string) error {
		options := map[string]any{}
		for name, option := range numbers {
			if f.Changed(name) {
				n, err := f.GetInt64(name)
				if err != nil {
					return err
				}
				options[option] = n
			}
		}
		if *policy != "" {
			options["policy"] = *policy
		}
		if *ms != 0 || *count != 0 {
			options["windowBuffer"] = map[string]int64{"ms": *ms, "count": *count}
		}
		return s.one(request{method: http.MethodPost, path: ephemeralPath + "configure", write: true,
			body: map[string]any{"queue": args[0], "options": options}}, "queue", "options")
	})
}

func ephemeralReset(s cli.Streams) *cobra.Command {
	cmd := &cobra.Command{Use: "reset QUEUE", Short: "Drop the messages of a queue", Args: cobra.ExactArgs(1)}
	return command(s, cmd, "json", func(s *session, args []string) error {
		return s.one(request{method: http.MethodPost, path: ephemeralPath + "reset", write: true,
			body: map[string]any{"queue": args[0]}}, "queue", "dropped")
	})
}

func ephemeralDelete(s cli.Streams) *cobra.Command {
	cmd := &cobra.Command{Use: "delete QUEUE", Short: "Forget a queue and its declaration", Args: cobra.ExactArgs(1)}
	return command(s, cmd, "json", func(s *session, args []string) error {
		return s.one(request{method: http.MethodDelete, path: ephemeralPath + "queue/" + url.PathEscape(args[0]), write: true},
			"queue", "deleted", "declared")
	})
}

func ephemeralList(s cli.Streams) *cobra.Command {
	cmd := &cobra.Command{Use: "list", Short: "List queues", Args: cobra.NoArgs}
	return command(s, cmd, "json", func(s *session, _ []string) error {
		var answer struct{ Queues []map[string]any }
		if _, err := s.call(s.ctx, request{method: http.MethodGet, path: ephemeralPath + "queues"}, &answer); err != nil {
			return err
		}
		out := printer(s, rawColumns([]string{"queue", "tier", "depth", "bytes", "partitions", "groups", "drops"}))
		for _, q := range answer.Queues {
			if err := out.Add(q); err != nil {
				return err
			}
		}
		return out.Close()
	})
}

func ephemeralDepth(s cli.Streams) *cobra.Command {
	cmd := &cobra.Command{Use: "depth QUEUE", Short: "Count the messages of a queue", Args: cobra.ExactArgs(1)}
	group := cmd.Flags().StringP("group", "g", "", "count what this consumer group has not settled")
	return command(s, cmd, "json", func(s *session, args []string) error {
		path := ephemeralPath + "queues/" + url.PathEscape(args[0]) + "/depth"
		if *group != "" {
			path += "?" + url.Values{"group": {*group}}.Encode()
		}
		return s.one(request{method: http.MethodGet, path: path}, "queue", "pending", "partitionsPending", "bytes", "groups")
	})
}
