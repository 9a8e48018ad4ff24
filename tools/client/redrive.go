package client

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"queen/tools/cli"
)

const redrivePath = dlqPath + "/redrive"

// How often a job of the node is asked how far it is: soon at first, then every second.
const (
	firstLook  = 20 * time.Millisecond
	laterLooks = time.Second
)

// redriveColumns are those of what became of all letters that match.
var redriveColumns = []string{"=queue", "state", "total", "moved", "duplicates", "failed", "gone", "dryRun", "lastError", "+id",
	"+consumerGroup", "+error", "+ratePerSecond", "+target", "+totalIsMinimum", "+remaining", "+createdAt", "+endedAt"}

// redrive moves back the dead letters that match: by a job of the node, or one by one where that has no such job.
type redrive struct {
	retrier
	letters letterFilter
	w       cli.Write
	rate    float64
	out     *cli.Printer[row]
}

func dlqRedriveCommand(s cli.Streams) *cobra.Command {
	var r redrive
	cmd := &cobra.Command{Use: "redrive QUEUE", Aliases: []string{"drain"}, Short: "Move the dead letters of a queue back that match",
		Args: cobra.ExactArgs(1), ValidArgsFunction: arguments(completeQueue(s)),
		Long: `Move all dead letters that match when the command begins, the oldest failure first, at --rate. What fails again
meanwhile is left for another time. With --group-only each is handed to the consumer group that gave it up and to no other.

The node does it, and the command tells how far it is; when the command is interrupted the node goes on. With --partition,
--to-queue, --to-partition or a broken --rate the command itself moves one after the other, and an interrupt ends that.

Exits 6 when some were not moved: their ids are in their partitions already, they were refused, or they are gone.`}
	r.flags(cmd)
	r.letters.flags(s, cmd)
	r.w.DryRunFlag(cmd)
	r.w.YesFlag(cmd)
	cmd.Flags().Float64Var(&r.rate, "rate", 0, "at most so many a second; 0: as fast as it goes")
	return rowCommand(s, cmd, "json", redriveColumns, func(s *session, out *cli.Printer[row], args []string) error {
		if r.rate < 0 || r.rate > 0 && r.rate < 0.001 {
			return cli.Errorf(cli.Usage, "--rate is 0, or at least 0.001")
		}
		r.session, r.out, r.dryRun, r.letters.queue = s, out, r.w.DryRun, args[0]
		if r.queue != "" || r.partition != "" || r.letters.partition != "" || r.rate != float64(int(r.rate)) {
			return r.oneByOne()
		}
		return r.byJob()
	})
}

// plan asks for the queue's name before anything moves.
func (r *redrive) plan(count string) error {
	return r.Confirm(fmt.Sprintf("This moves %s dead letters of queue %s.", count, r.letters.queue), r.letters.queue, r.w)
}

// byJob has the node move the letters, and waits for that.
func (r *redrive) byJob() error {
	body, err := r.body()
	if err != nil {
		return err
	}
	if r.dryRun || !r.w.Yes {
		body["dryRun"] = true
		would, err := r.Ask(request{Method: http.MethodPost, Path: redrivePath, Body: body}, "total")
		if err != nil {
			return err
		}
		none := would.Text("total") == "0" && !would.Is("totalIsMinimum")
		if r.dryRun || none {
			return r.toldAs(would, none)
		}
		count := would.Text("total")
		if would.Is("totalIsMinimum") {
			count = "at least " + count
		}
		if err := r.plan(count); err != nil {
			return err
		}
		delete(body, "dryRun")
	}
	job, err := r.Ask(request{Method: http.MethodPost, Path: redrivePath, Write: true, Body: body}, "state")
	if err != nil {
		return err
	}
	if job, err = r.follow(job); err != nil {
		return err
	}
	return r.told(job)
}

func (r *redrive) body() (map[string]any, error) {
	times := url.Values{}
	if err := timesQuery(times, r.letters.from, r.letters.to); err != nil {
		return nil, err
	}
	body := map[string]any{"queue": r.letters.queue}
	for name, value := range map[string]string{"consumerGroup": r.letters.group, "error": r.letters.text, "from": times.Get("from"),
		"to": times.Get("to")} {
		if value != "" {
			body[name] = value
		}
	}
	if r.rate > 0 {
		body["ratePerSecond"] = int(r.rate)
	}
	if r.groupOnly {
		body["target"] = targetGroupOnly
	}
	return body, nil
}

// follow waits until a job is over, and tells people each time that it came a tenth further.
func (r *redrive) follow(job row) (row, error) {
	path := redrivePath + "/" + url.PathEscape(job.Text("id"))
	tenth := uint64(0)
	for wait := firstLook; job.Text("state") == "running"; wait = min(2*wait, laterLooks) {
		select {
		case <-r.Ctx.Done():
		case <-time.After(wait):
		}
		next, err := r.Ask(get(path), "state")
		if err != nil {
			r.Say("the job goes on at the node: GET %s tells how far it is", path)
			return nil, err
		}
		job = next
		total, left := number(job["total"]), number(job["remaining"])
		if at := 10 * (total - min(left, total)) / max(total, 1); at > tenth && job.Text("state") == "running" {
			tenth = at
			r.Say("%d of %d dead letters done", total-left, total)
		}
	}
	return job, nil
}

// told prints a job that is over, and exits by what became of its letters.
func (r *redrive) told(job row) error {
	moved, others := number(job["moved"]), number(job["duplicates"])+number(job["failed"])+number(job["gone"])
	if moved+others > 0 {
		r.Say("%d of %d dead letters moved", moved, moved+others)
	}
	if err := r.toldAs(job, moved+others == 0 && job.Text("state") == "done"); err != nil {
		return err
	}
	switch {
	case job.Text("state") == "failed":
		return cli.Errorf(cli.Server, "the job ended early: %s", job.Text("lastError"))
	case others > 0:
		return cli.Exit(cli.Partly)
	}
	return nil
}

// toldAs prints what a command comes to, and exits 4 when that is nothing.
func (r *redrive) toldAs(told row, nothing bool) error {
	if err := r.out.One(told); err != nil || !nothing {
		return err
	}
	return cli.Exit(cli.Nothing)
}

// oneByOne moves the letters itself, and prints what a job of the node would tell.
func (r *redrive) oneByOne() error {
	if r.rate > 0 {
		r.pause = time.Duration(float64(time.Second) / r.rate)
	}
	r.tell = func(retried) error { return nil } // they are counted
	ids, err := r.matching(&r.letters)
	if err != nil {
		return err
	}
	if len(ids) > 0 && !r.dryRun {
		if err := r.plan(fmt.Sprint(len(ids))); err != nil {
			return err
		}
	}
	for _, id := range slices.Backward(ids) {
		if err := r.retry(id); err != nil {
			return r.end(err)
		}
	}
	told := map[string]any{"queue": r.letters.queue, "dryRun": r.dryRun, "total": len(ids)}
	if !r.dryRun {
		told["state"], told["moved"], told["duplicates"] = "done", r.fates[resultMoved], r.fates["duplicate"]
		told["gone"], told["failed"] = r.fates["gone"], 0
	}
	if err := r.toldAs(cli.RowOf(told), len(ids) == 0); err != nil {
		return err
	}
	return r.end(nil)
}
