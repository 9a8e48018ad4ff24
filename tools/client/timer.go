package client

import (
	"encoding/base64"
	"encoding/json"
	"math"
	"net/http"
	"net/url"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"queen/tools/cli"
)

func timerCommand(s cli.Streams) *cobra.Command {
	cmd := &cobra.Command{Use: "timer", Short: "Messages that are pushed later"}
	cmd.AddCommand(timerScheduleCommand(s), timerGetCommand(s), timerListCommand(s), timerCancelCommand(s),
		timerCountCommand(s), timerHoldCommand(s, "pause", "Hold a timer back until it is resumed; exits 4 when there is none"),
		timerHoldCommand(s, "resume", "Let a paused timer go on, with what fell due meanwhile; exits 4 when there is none"))
	return cmd
}

const timersPath = "/api/v1/timers"

func timerPath(queue, key string) string {
	return timersPath + "/" + url.PathEscape(queue) + "/" + url.PathEscape(key)
}

// timerWhen are the flags of which a timer takes exactly one, and what goes with --cron.
type timerWhen struct {
	delay                 time.Duration
	at, cron, tz, catchUp string
	maxFires              uint64
	until                 string
}

func (w *timerWhen) flags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.DurationVar(&w.delay, "delay", 0, "push so long from now: 30m")
	f.StringVar(&w.at, "at", "", "push at this time: RFC 3339, or seconds since 1970")
	f.StringVar(&w.cron, "cron", "", "push again and again: minute, hour, day, month, weekday")
	f.StringVar(&w.tz, "tz", "", "with --cron: the time zone, as Europe/Berlin; default: UTC")
	f.StringVar(&w.catchUp, "catch-up", "", "with --cron: what to do about missed times: one (default), all, skip")
	f.Uint64Var(&w.maxFires, "max-fires", 0, "with --cron: end after so many pushes; 0: never")
	f.StringVar(&w.until, "until", "", "with --cron: end at the last time that is not later: RFC 3339, or seconds since 1970")
	cmd.MarkFlagsMutuallyExclusive("delay", "at", "cron")
	cmd.MarkFlagsOneRequired("delay", "at", "cron")
}

func (w *timerWhen) put(op map[string]any) (err error) {
	switch {
	case w.cron == "" && (w.tz != "" || w.catchUp != "" || w.maxFires != 0 || w.until != ""):
		return cli.Errorf(cli.Usage, "--tz, --catch-up, --max-fires and --until go with --cron")
	case w.cron != "":
		op["cron"] = w.cron
		if w.tz != "" {
			op["tz"] = w.tz
		}
		if w.catchUp != "" {
			op["catchUp"] = w.catchUp
		}
		if w.maxFires != 0 {
			op["maxFires"] = w.maxFires
		}
		if w.until != "" {
			op["until"], err = instant("until", w.until)
		}
	case w.at != "":
		op["at"], err = instant("at", w.at)
	case w.delay < 0:
		return cli.Errorf(cli.Usage, "--delay is at least 0")
	default:
		op["delayMs"] = int64(math.Ceil(float64(w.delay) / float64(time.Millisecond)))
	}
	return err
}

func timerScheduleCommand(s cli.Streams) *cobra.Command {
	var w cli.Write
	var when timerWhen
	var partition, transaction, file, payload string
	cmd := &cobra.Command{Use: "schedule QUEUE KEY [PAYLOAD]", Short: "Schedule a message, in place of the timer of that key",
		Long: "Schedule PAYLOAD, what is in --file, or standard input. What is no JSON is pushed as a string, or as bytes.",
		Args: cobra.RangeArgs(2, 3)}
	when.flags(cmd)
	w.KeyFlag(cmd)
	w.DryRunFlag(cmd)
	f := cmd.Flags()
	f.StringVarP(&partition, "partition", "p", "", "the partition; default: Default")
	f.StringVar(&transaction, "transaction-id", "", "the transactionId of the message; default: one is made")
	f.StringVar(&file, "file", "", "read the payload from a file; - is standard input")
	f.StringVar(&payload, "payload", "auto", "how the payload is written: auto, json, utf8, base64, hex, none")
	columns := []string{"queue", "=timerKey", "status", "deliverAt", "txn", "dryRun"}
	return rowCommand(s, cmd, "json", columns, func(s *session, out *cli.Printer[row], args []string) error {
		op := map[string]any{"op": "schedule", "queue": args[0], "timerKey": args[1]}
		if err := when.put(op); err != nil {
			return err
		}
		if err := checkPayload(payload); err != nil {
			return err
		}
		var text []byte
		var err error
		if payload != "none" {
			if text, err = s.document(optional(args, 2), file); err != nil {
				return err
			}
		}
		value, raw, err := readPayload(payload, text)
		if err != nil {
			return cli.Errorf(cli.Usage, "payload: %w", err)
		}
		if raw == nil {
			raw = value
		}
		op["payload"] = base64.StdEncoding.EncodeToString(raw)
		if partition != "" {
			op["partition"] = partition
		}
		if transaction != "" {
			op["txn"] = transaction
		}
		if w.DryRun {
			return planned(out, op)
		}
		answer, err := s.operate(timersPath, true, w.Key, "status", op)
		if err != nil {
			return err
		}
		return out.One(answer)
	})
}

func timerGetCommand(s cli.Streams) *cobra.Command {
	cmd := &cobra.Command{Use: "get QUEUE KEY", Short: "Show a timer; exits 4 when there is none", Args: cobra.ExactArgs(2)}
	columns := []string{"=timerKey", "partition", "deliverAt", "cron", "txn", "attempts", "payload"}
	return rowCommand(s, cmd, "json", columns, func(s *session, out *cli.Printer[row], args []string) error {
		answer, err := s.Ask(get(timerPath(args[0], args[1])), "found")
		if err != nil {
			return err
		}
		openPayload(answer)
		return oneOr(out, answer, "found", cli.Nothing)
	})
}

// openPayload shows a payload that is JSON as it is. Other bytes stay base64, and an encoding says so.
func openPayload(r row) {
	if r["payload"] == nil {
		return
	}
	b, err := base64.StdEncoding.DecodeString(r.Text("payload"))
	if err == nil && json.Valid(b) && utf8.Valid(b) {
		r["payload"] = b
		return
	}
	r.Set("encoding", "base64")
}

func timerListCommand(s cli.Streams) *cobra.Command {
	var after string
	var limit int
	cmd := &cobra.Command{Use: "list QUEUE", Short: "List the timers of a queue, in the order of their keys",
		Args: cobra.ExactArgs(1)}
	cmd.Flags().StringVar(&after, "after", "", "begin behind this key")
	cmd.Flags().IntVarP(&limit, "limit", "n", 0, "end after so many timers; 0: all")
	columns := []string{"=timerKey", "partition", "deliverAt", "cron", "txn", "attempts", "lastError"}
	return rowCommand(s, cmd, "ndjson", columns, func(s *session, out *cli.Printer[row], args []string) error {
		return s.pages(out, limit, after, func(limit int, after string) request {
			q := url.Values{"limit": {strconv.Itoa(limit)}}
			if after != "" {
				q.Set("after", after)
			}
			return get(timersPath + "/" + url.PathEscape(args[0]) + "?" + q.Encode())
		})
	})
}

func timerCancelCommand(s cli.Streams) *cobra.Command {
	var w cli.Write
	cmd := &cobra.Command{Use: "cancel QUEUE KEY", Short: "Cancel a timer; exits 4 when there is none", Args: cobra.ExactArgs(2)}
	w.DryRunFlag(cmd)
	return rowCommand(s, cmd, "json", []string{"queue", "=timerKey", "status", "dryRun"}, func(s *session, out *cli.Printer[row], args []string) error {
		if w.DryRun {
			return planned(out, map[string]any{"op": "cancel", "queue": args[0], "timerKey": args[1]})
		}
		answer, err := s.Ask(request{Method: http.MethodDelete, Path: timerPath(args[0], args[1]), Write: true}, "ok")
		if err != nil {
			return err
		}
		return oneOr(out, answer, "ok", cli.Nothing)
	})
}

// timerHoldCommand pauses a timer or resumes it, as verb says.
func timerHoldCommand(s cli.Streams, verb, short string) *cobra.Command {
	var w cli.Write
	cmd := &cobra.Command{Use: verb + " QUEUE KEY", Short: short, Args: cobra.ExactArgs(2)}
	w.KeyFlag(cmd)
	w.DryRunFlag(cmd)
	return rowCommand(s, cmd, "json", []string{"queue", "=timerKey", "status", "deliverAt", "dryRun"},
		func(s *session, out *cli.Printer[row], args []string) error {
			op := map[string]any{"op": verb, "queue": args[0], "timerKey": args[1]}
			if w.DryRun {
				return planned(out, op)
			}
			answer, err := s.operate(timersPath, true, w.Key, "status", op)
			if err != nil {
				return err
			}
			return oneOr(out, answer, "ok", cli.Nothing)
		})
}

func timerCountCommand(s cli.Streams) *cobra.Command {
	cmd := &cobra.Command{Use: "count QUEUE PREFIX", Short: "Count the timers whose keys begin with PREFIX",
		Args: cobra.ExactArgs(2)}
	return rowCommand(s, cmd, "json", []string{"count"}, func(s *session, out *cli.Printer[row], args []string) error {
		q := url.Values{"mode": {"count"}, "prefix": {args[1]}}
		r := get(timersPath + "/" + url.PathEscape(args[0]) + "?" + q.Encode())
		return s.Told(out, r, "count")
	})
}
