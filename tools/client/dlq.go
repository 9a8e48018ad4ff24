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

const (
	dlqPath = "/api/v1/dlq"
	// dlqPage is the largest page of dead letters.
	dlqPage = 1000
	// redriveMax bounds the ids that one redrive keeps.
	redriveMax = 1_000_000
)

func dlqCommand(s cli.Streams) *cobra.Command {
	cmd := &cobra.Command{Use: "dlq", Short: "List, retry and remove dead letters"}
	cmd.AddCommand(dlqListCommand(s), dlqRetryCommand(s), dlqPurgeCommand(s), dlqRedriveCommand(s))
	return cmd
}

func pageFlags(cmd *cobra.Command) (limit, offset *int) {
	return cmd.Flags().IntP("limit", "n", 100, "how many, 1 to 1000"), cmd.Flags().Int("offset", 0, "leave out so many first")
}

func pageQuery(limit, offset int) url.Values {
	return url.Values{"limit": {strconv.Itoa(limit)}, "offset": {strconv.Itoa(offset)}}
}

// letterFilter says which dead letters.
type letterFilter struct{ queue, group, partition, text, from, to string }

func (l *letterFilter) flags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVarP(&l.group, "group", "g", "", "only those of this consumer group")
	f.StringVarP(&l.partition, "partition", "p", "", "only those of this partition")
	f.StringVar(&l.text, "error", "", "only those whose error contains this")
	f.StringVar(&l.from, "from", "", "only those that failed at or after: RFC 3339, now, or as 15m ago")
	f.StringVar(&l.to, "to", "", "only those that failed before")
}

func (l *letterFilter) query(limit, offset int) (url.Values, error) {
	q := pageQuery(limit, offset)
	for name, value := range map[string]string{"queue": l.queue, "consumerGroup": l.group, "partition": l.partition,
		"error": l.text} {
		if value != "" {
			q.Set(name, value)
		}
	}
	for name, value := range map[string]string{"from": l.from, "to": l.to} {
		if value == "" {
			continue
		}
		at, err := instant(name, value)
		if err != nil {
			return nil, err
		}
		q.Set(name, at)
	}
	return q, nil
}

func (s *session) deadLetters(q url.Values) ([]row, error) {
	list, _, err := s.askList(request{method: http.MethodGet, path: dlqPath + "?" + q.Encode()}, "messages")
	return list, err
}

func dlqListCommand(s cli.Streams) *cobra.Command {
	var l letterFilter
	cmd := &cobra.Command{Use: "list [QUEUE]", Short: "List dead letters, the newest failure first", Args: cobra.MaximumNArgs(1)}
	l.flags(cmd)
	limit, offset := pageFlags(cmd)
	return command(s, cmd, "ndjson", func(s *session, args []string) error {
		if len(args) == 1 {
			l.queue = args[0]
		}
		q, err := l.query(*limit, *offset)
		if err != nil {
			return err
		}
		letters, err := s.deadLetters(q)
		if err != nil {
			return err
		}
		return s.rows(letters, "id", "queue", "partition", "consumerGroup", "failedAt", "errorMessage")
	})
}

// retried is the fate of one dead letter: moved, duplicate (its id is in the target already, and it stays) or gone.
type retried struct {
	ID        string          `json:"id"`
	Result    string          `json:"result"`
	Queue     string          `json:"queue,omitempty"`
	Partition string          `json:"partition,omitempty"`
	As        json.RawMessage `json:"replayedAs,omitempty"`
}

var retriedColumns = []cli.Column[retried]{
	{Head: "id", Cell: func(r retried) string { return r.ID }},
	{Head: "result", Cell: func(r retried) string { return r.Result }},
	{Head: "queue", Cell: func(r retried) string { return r.Queue }},
	{Head: "partition", Cell: func(r retried) string { return r.Partition }},
}

// retrier moves dead letters back, one by one.
type retrier struct {
	*session
	queue, partition string
	dryRun           bool
	// pause is the least time between two moves.
	pause time.Duration

	out           *cli.Printer[retried]
	all, notMoved int
	lastStart     time.Time
}

func (r *retrier) flags(cmd *cobra.Command) {
	cmd.Flags().StringVar(&r.queue, "to-queue", "", "into this queue; default: where they came from")
	cmd.Flags().StringVar(&r.partition, "to-partition", "", "into this partition; default: where they came from")
}

// retry moves one dead letter.
func (r *retrier) retry(id string) error {
	r.all++
	if r.dryRun {
		return r.out.Add(retried{ID: id, Result: "planned"})
	}
	if r.pause > 0 && r.all > 1 {
		select {
		case <-r.ctx.Done():
			return cli.Exit(cli.Interrupted)
		case <-time.After(time.Until(r.lastStart.Add(r.pause))):
		}
	}
	r.lastStart = time.Now()
	body := map[string]string{}
	if r.queue != "" {
		body["queue"] = r.queue
	}
	if r.partition != "" {
		body["partition"] = r.partition
	}
	var answer retried
	_, err := r.call(r.ctx, request{method: http.MethodPost, path: dlqPath + "/" + url.PathEscape(id) + "/replay",
		write: true, body: body}, &answer)
	switch {
	case status(err) == http.StatusNotFound:
		answer = retried{Result: "gone"}
	case err != nil:
		return err
	case answer.Result == "":
		return cli.Errorf(cli.Server, "%s answered something else than this API: there is no result", r.url)
	}
	answer.ID = id
	if answer.Result != "moved" {
		r.notMoved++
	}
	return r.out.Add(answer)
}

// end prints what is left and tells the exit code.
func (r *retrier) end(err error) error {
	if closed := r.out.Close(); err == nil {
		err = closed
	}
	switch {
	case err != nil:
		return err
	case r.all == 0:
		return cli.Exit(cli.Nothing)
	case r.notMoved > 0:
		return cli.Exit(cli.Partly)
	}
	return nil
}

func dlqRetryCommand(s cli.Streams) *cobra.Command {
	var r retrier
	var w writeOptions
	cmd := &cobra.Command{Use: "retry [ID...]", Short: "Move dead letters back to the end of their partitions",
		Long: `Move the dead letters of these ids, or those on standard input as dlq list prints them:

  queen dlq list orders --group billing | queen dlq retry

Exits 6 when any was gone, or is in its partition already. Repeating a move is safe.`}
	r.flags(cmd)
	w.dryRunFlag(cmd)
	return command(s, cmd, "ndjson", func(s *session, args []string) error {
		r.session, r.out, r.dryRun = s, printer(s, retriedColumns), w.dryRun
		for _, id := range args {
			if err := r.retry(id); err != nil {
				return r.end(err)
			}
		}
		if len(args) > 0 {
			return r.end(nil)
		}
		return r.end(s.lines(func(line []byte) error {
			var letter struct{ ID string }
			if err := json.Unmarshal(line, &letter); err != nil || letter.ID == "" {
				return cli.Errorf(cli.Usage, "dead letter %d: want a line as dlq list prints it, with id", r.all+1)
			}
			return r.retry(letter.ID)
		}))
	})
}

func dlqRedriveCommand(s cli.Streams) *cobra.Command {
	var r retrier
	var l letterFilter
	var w writeOptions
	var rate float64
	cmd := &cobra.Command{Use: "redrive QUEUE", Short: "Move the dead letters of a queue back that match",
		Args: cobra.ExactArgs(1), Long: `Move all dead letters that match when the command begins, the oldest failure first, at --rate. What fails again
meanwhile is left for another time.`}
	r.flags(cmd)
	l.flags(cmd)
	w.dryRunFlag(cmd)
	w.yesFlag(cmd)
	cmd.Flags().Float64Var(&rate, "rate", 0, "at most so many a second; 0: as fast as it goes")
	return command(s, cmd, "ndjson", func(s *session, args []string) error {
		if rate < 0 || rate > 0 && rate < 0.001 {
			return cli.Errorf(cli.Usage, "--rate is 0, or at least 0.001")
		}
		if rate > 0 {
			r.pause = time.Duration(float64(time.Second) / rate)
		}
		r.session, r.out, r.dryRun, l.queue = s, printer(s, retriedColumns), w.dryRun, args[0]
		ids, err := s.matching(&l)
		if err != nil {
			return err
		}
		if len(ids) > 0 && !w.dryRun {
			plan := fmt.Sprintf("This moves %d dead letters of queue %s.", len(ids), l.queue)
			if err := s.confirm(plan, l.queue, w.yes); err != nil {
				return err
			}
		}
		for i := len(ids) - 1; i >= 0; i-- {
			if err := r.retry(ids[i]); err != nil {
				return r.end(err)
			}
		}
		return r.end(nil)
	})
}

// matching are the ids of the dead letters that match, the newest failure first.
func (s *session) matching(l *letterFilter) (ids []string, err error) {
	seen := map[string]bool{} // a letter that is filed between two pages moves the others on
	for offset := 0; ; offset += dlqPage {
		q, err := l.query(dlqPage, offset)
		if err != nil {
			return nil, err
		}
		letters, err := s.deadLetters(q)
		if err != nil {
			return nil, err
		}
		for _, letter := range letters {
			if id := unquoted(letter["id"]); !seen[id] {
				seen[id] = true
				ids = append(ids, id)
			}
		}
		if len(letters) < dlqPage {
			return ids, nil
		}
		if len(ids) >= redriveMax {
			return nil, cli.Errorf(cli.Usage, "more than %d dead letters match: narrow them with --from and --to", redriveMax)
		}
	}
}

func dlqPurgeCommand(s cli.Streams) *cobra.Command {
	var group string
	var w writeOptions
	cmd := &cobra.Command{Use: "purge QUEUE", Short: "Remove the dead letters of a queue for good", Args: cobra.ExactArgs(1)}
	cmd.Flags().StringVarP(&group, "group", "g", "", "only those of this consumer group")
	w.yesFlag(cmd)
	w.dryRunFlag(cmd)
	w.keyFlag(cmd)
	return command(s, cmd, "json", func(s *session, args []string) error {
		q := url.Values{"queue": {args[0]}}
		whose := "of every consumer group"
		if group != "" {
			q.Set("consumerGroup", group)
			whose = "of consumer group " + group
		}
		if w.dryRun {
			ids, err := s.matching(&letterFilter{queue: args[0], group: group})
			if err != nil {
				return err
			}
			plan := row{}
			plan.set("queue", args[0])
			plan.set("deleted", 0)
			plan.set("matching", len(ids))
			plan.set("dryRun", true)
			return printer(s, rowColumns("queue", "matching", "dryRun")).One(plan)
		}
		plan := fmt.Sprintf("This removes the dead letters %s from queue %s.", whose, args[0])
		if err := s.confirm(plan, args[0], w.yes); err != nil {
			return err
		}
		r := request{method: http.MethodDelete, path: dlqPath + "?" + q.Encode(), write: true, key: w.key}
		answer, err := s.ask(r, "deleted")
		if err != nil {
			return err
		}
		err = printer(s, rowColumns("queue", "consumerGroup", "deleted")).One(answer)
		if err != nil || string(answer["deleted"]) != "0" {
			return err
		}
		return cli.Exit(cli.Nothing)
	})
}
