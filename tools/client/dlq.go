package client

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"queen/tools/cli"
	"queen/tools/remote"
)

const (
	dlqPath = "/api/v1/dlq"
	// dlqPage is the largest page of dead letters.
	dlqPage = 1000
	// lettersMax bounds the ids that one command keeps.
	lettersMax = 1_000_000
)

func dlqCommand(s cli.Streams) *cobra.Command {
	cmd := &cobra.Command{Use: "dlq", Short: "List, replay and remove dead letters"}
	cmd.AddCommand(dlqListCommand(s), dlqShowCommand(s), dlqReplayCommand(s), dlqPurgeCommand(s), dlqRedriveCommand(s))
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

func (l *letterFilter) flags(s cli.Streams, cmd *cobra.Command) {
	f := cmd.Flags()
	groupFlag(s, cmd, &l.group, "only those of this consumer group")
	f.StringVarP(&l.partition, "partition", "p", "", "only those of this partition")
	f.StringVar(&l.text, "error", "", "only those whose error contains this")
	f.StringVar(&l.from, "from", "", "only those that failed at or after: RFC 3339, seconds since 1970, now, or as 15m ago")
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
	return q, timesQuery(q, l.from, l.to)
}

func (s *session) deadLetters(q url.Values) ([]row, error) {
	list, _, err := s.AskList(get(dlqPath+"?"+q.Encode()), "messages")
	return list, err
}

// letterColumns are those of a dead letter.
var letterColumns = []string{"=id", "queue", "partition", "consumerGroup", "failedAt", "errorMessage", "+transactionId", "+retryCount",
	"+createdAt"}

func dlqListCommand(s cli.Streams) *cobra.Command {
	var l letterFilter
	cmd := &cobra.Command{Use: "list [QUEUE]", Short: "List dead letters, the newest failure first", Args: cobra.MaximumNArgs(1),
		ValidArgsFunction: arguments(completeQueue(s))}
	l.flags(s, cmd)
	limit, offset := pageFlags(cmd)
	return rowCommand(s, cmd, "ndjson", letterColumns, func(s *session, out *cli.Printer[row], args []string) error {
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
		return out.AddAll(letters)
	})
}

func dlqShowCommand(s cli.Streams) *cobra.Command {
	var l letterFilter
	cmd := &cobra.Command{Use: "show ID", Short: "Show a dead letter; exits 4 when it is gone", Args: cobra.ExactArgs(1),
		Long: "Show a dead letter. It is looked for from the newest failure on; --queue shortens that."}
	queueFlag(s, cmd, &l.queue, "its queue")
	columns := append(slices.Clone(letterColumns), "data")
	return rowCommand(s, cmd, "json", columns, func(s *session, out *cli.Printer[row], args []string) error {
		err := s.eachLetter(&l, func(letter row) error {
			if letter.Text("id") != args[0] {
				return nil
			}
			if err := out.One(letter); err != nil {
				return err
			}
			return errEnough
		})
		if err = unlessEnough(err); err == nil && out.Rows() == 0 {
			err = cli.Exit(cli.Nothing)
		}
		return err
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
	{Head: "id", Key: true, Cell: func(r retried) string { return r.ID }},
	{Head: "result", Cell: func(r retried) string { return r.Result }},
	{Head: "queue", Cell: func(r retried) string { return r.Queue }},
	{Head: "partition", Cell: func(r retried) string { return r.Partition }},
}

// resultMoved is the fate of a dead letter that was moved.
const resultMoved = "moved"

// retrier moves dead letters back, one by one.
type retrier struct {
	*session
	queue, partition string
	groupOnly        bool
	dryRun           bool
	// pause is the least time between two moves.
	pause time.Duration

	// tell is called with the fate of each.
	tell      func(retried) error
	all       int
	fates     map[string]int
	lastStart time.Time
}

func (r *retrier) flags(cmd *cobra.Command) {
	cmd.Flags().StringVar(&r.queue, "to-queue", "", "into this queue; default: where they came from")
	cmd.Flags().StringVar(&r.partition, "to-partition", "", "into this partition; default: where they came from")
	cmd.Flags().BoolVar(&r.groupOnly, "group-only", false, "only for the consumer groups that gave them up; default: for all")
	cmd.MarkFlagsMutuallyExclusive("group-only", "to-queue")
}

// targetGroupOnly is the target of a move whose copies are for nobody but the group that gave the message up.
const targetGroupOnly = "group-only"

// retry moves one dead letter.
func (r *retrier) retry(id string) error {
	r.all++
	if r.dryRun {
		return r.tell(retried{ID: id, Result: "planned"})
	}
	if r.pause > 0 && r.all > 1 {
		select {
		case <-r.Ctx.Done():
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
	if r.groupOnly {
		body["target"] = targetGroupOnly
	}
	var answer retried
	_, err := r.call(request{Method: http.MethodPost, Path: dlqPath + "/" + url.PathEscape(id) + "/replay",
		Write: true, Body: body}, &answer)
	switch {
	case remote.Status(err) == http.StatusNotFound:
		answer = retried{Result: "gone"}
	case err != nil:
		return err
	case answer.Result == "":
		return r.Stranger("there is no result")
	}
	answer.ID = id
	if r.fates == nil {
		r.fates = map[string]int{}
	}
	r.fates[answer.Result]++
	return r.tell(answer)
}

// end tells people how many it were, and the exit code.
func (r *retrier) end(err error) error {
	if r.all > 0 && !r.dryRun {
		r.Say("%d of %d dead letters moved", r.fates[resultMoved], r.all)
	}
	switch {
	case err != nil:
		return err
	case r.all == 0:
		return cli.Exit(cli.Nothing)
	case r.fates[resultMoved] < r.all && !r.dryRun:
		return cli.Exit(cli.Partly)
	}
	return nil
}

func dlqReplayCommand(s cli.Streams) *cobra.Command {
	var r retrier
	var w cli.Write
	cmd := &cobra.Command{Use: "replay [ID...]", Aliases: []string{"retry"}, Short: "Move dead letters back to the end of their partitions",
		Long: `Move the dead letters of these ids, or those on standard input as dlq list prints them:

  queen dlq list orders --group billing | queen dlq replay

Exits 6 when any was gone, or is in its partition already. Repeating a move is safe.`}
	r.flags(cmd)
	w.DryRunFlag(cmd)
	return command(s, cmd, "ndjson", retriedColumns, func(s *session, out *cli.Printer[retried], args []string) error {
		r.session, r.tell, r.dryRun = s, out.Add, w.DryRun
		for _, id := range args {
			if err := r.retry(id); err != nil {
				return r.end(err)
			}
		}
		if len(args) > 0 {
			return r.end(nil)
		}
		return r.end(s.objects(func(value json.RawMessage, _ bool) error {
			var letter struct{ ID string }
			if value == nil || json.Unmarshal(value, &letter) != nil || letter.ID == "" {
				r.all++
				return cli.Errorf(cli.Usage, "dead letter %d: want a line as dlq list prints it, with id", r.all)
			}
			return r.retry(letter.ID)
		}))
	})
}

// matching are the ids of the dead letters that match, the newest failure first.
func (s *session) matching(l *letterFilter) (ids []string, err error) {
	return ids, s.eachLetter(l, func(letter row) error {
		if len(ids) == lettersMax {
			return cli.Errorf(cli.Usage, "more than %d dead letters match: narrow them with --from and --to", lettersMax)
		}
		ids = append(ids, letter.Text("id"))
		return nil
	})
}

// eachLetter calls f for the dead letters that match, the newest failure first, each once.
func (s *session) eachLetter(l *letterFilter, f func(row) error) error {
	seen := map[string]bool{} // a letter that is filed between two pages moves the others on
	for offset := 0; ; offset += dlqPage {
		q, err := l.query(dlqPage, offset)
		if err != nil {
			return err
		}
		letters, err := s.deadLetters(q)
		if err != nil {
			return err
		}
		for _, letter := range letters {
			if id := letter.Text("id"); !seen[id] {
				seen[id] = true
				if err := f(letter); err != nil {
					return err
				}
			}
		}
		if len(letters) < dlqPage {
			return nil
		}
	}
}

func dlqPurgeCommand(s cli.Streams) *cobra.Command {
	var group string
	var w cli.Write
	cmd := &cobra.Command{Use: "purge QUEUE", Short: "Remove the dead letters of a queue for good", Args: cobra.ExactArgs(1),
		ValidArgsFunction: arguments(completeQueue(s))}
	groupFlag(s, cmd, &group, "only those of this consumer group")
	w.YesFlag(cmd)
	w.DryRunFlag(cmd)
	w.KeyFlag(cmd)
	columns := []string{"=queue", "consumerGroup", "deleted", "matching", "dryRun"}
	return rowCommand(s, cmd, "json", columns, func(s *session, out *cli.Printer[row], args []string) error {
		q := url.Values{"queue": {args[0]}}
		whose := "of every consumer group"
		if group != "" {
			q.Set("consumerGroup", group)
			whose = "of consumer group " + group
		}
		if w.DryRun {
			ids, err := s.matching(&letterFilter{queue: args[0], group: group})
			if err != nil {
				return err
			}
			return planned(out, map[string]any{"queue": args[0], "deleted": 0, "matching": len(ids)})
		}
		plan := fmt.Sprintf("This removes the dead letters %s from queue %s.", whose, args[0])
		if err := s.Confirm(plan, args[0], w); err != nil {
			return err
		}
		r := request{Method: http.MethodDelete, Path: dlqPath + "?" + q.Encode(), Write: true, Key: w.Key}
		answer, err := s.Ask(r, "deleted")
		if err != nil {
			return err
		}
		return unlessNone(out, answer, "deleted")
	})
}
