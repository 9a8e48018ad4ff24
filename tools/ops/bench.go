package ops

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"queen/tools/cli"
	"queen/tools/remote"
)

// benchRow is what one kind of call did.
type benchRow struct {
	Op string `json:"op"`
	// Messages and Calls were answered within the measured time.
	Messages          uint64  `json:"messages"`
	Calls             uint64  `json:"calls"`
	MessagesPerSecond float64 `json:"messagesPerSecond"`
	P50Millis         float64 `json:"p50Millis"`
	P99Millis         float64 `json:"p99Millis"`
	MaxMillis         float64 `json:"maxMillis"`
	// Errors are calls that were refused or lost; Late are pushes that began after their time, with --rate.
	Errors uint64 `json:"errors"`
	Late   uint64 `json:"late"`
}

var benchColumns = []cli.Column[benchRow]{
	{Head: "op", Cell: func(r benchRow) string { return r.Op }, Key: true, Help: "push, pop, ack, or end_to_end: from push to ack"},
	{Head: "messages", Cell: func(r benchRow) string { return count(r.Messages) }},
	{Head: "calls", Cell: func(r benchRow) string { return count(r.Calls) }},
	{Head: "messages per second", Cell: func(r benchRow) string { return rate(r.MessagesPerSecond) }},
	{Head: "p50 millis", Cell: func(r benchRow) string { return millis(r.P50Millis) }, Help: "of a call; with --rate from when it was due"},
	{Head: "p99 millis", Cell: func(r benchRow) string { return millis(r.P99Millis) }},
	{Head: "max millis", Cell: func(r benchRow) string { return millis(r.MaxMillis) }},
	{Head: "errors", Cell: func(r benchRow) string { return count(r.Errors) }, Tone: func(r benchRow) cli.Tone {
		if r.Errors > 0 {
			return cli.Bad
		}
		return cli.Plain
	}},
	{Head: "late", Cell: func(r benchRow) string { return count(r.Late) }, Wide: true, Help: "pushes that began after their time, with --rate"},
}

func millis(v float64) string { return strconv.FormatFloat(v, 'f', 2, 64) }

// bench is what is asked for.
type bench struct {
	duration                                              time.Duration
	producers, consumers, batch, pop, partitions, payload int
	rate                                                  float64
	queue                                                 string
}

func benchCommand(s cli.Streams) *cobra.Command {
	cmd := &cobra.Command{Use: "bench", Short: "Push, pop and ack for a while and print rates and latencies", Args: cobra.NoArgs,
		Long: `Push, pop and ack on a queue of its own for --duration and print, for each, messages a second and how long calls took. The
queue is deleted at the end, also when the command is interrupted.

Without --rate every producer pushes again as soon as its push was answered. With --rate pushes are due at fixed times,
whether the node keeps up or not, and their latency counts from when they were due.

It is a small load from one process, for a first look: it shares the machine with the node if both run on one. Exits 6 when
calls failed.`}
	var b bench
	f := cmd.Flags()
	f.DurationVar(&b.duration, "duration", 10*time.Second, "how long to push, at most 10m")
	f.IntVar(&b.producers, "producers", 4, "connections that push, at most 256")
	f.IntVar(&b.consumers, "consumers", 4, "connections that pop and ack, at most 256; 0 is none")
	f.IntVar(&b.batch, "batch", 100, "messages of a push, at most 10000")
	f.IntVar(&b.pop, "pop-batch", 1000, "messages of a pop, at most 10000")
	f.IntVar(&b.partitions, "partitions", 1000, "partitions, at most 1000000")
	f.IntVar(&b.payload, "bytes", 256, "bytes of a payload, at most 1 MiB")
	f.Float64Var(&b.rate, "rate", 0, "messages a second that are due, of all producers together; 0 is as many as are answered")
	f.StringVar(&b.queue, "queue", "", "name of the queue, which must not exist; default one of its own")
	return remote.Command(s, cmd, "json", benchColumns, func(c *remote.Conn, out *cli.Printer[benchRow], _ []string) error {
		if err := b.check(); err != nil {
			return err
		}
		if b.queue == "" {
			b.queue = "queen-bench-" + strconv.FormatInt(time.Now().UnixNano(), 36)
		}
		return b.run(c, out)
	})
}

// check holds every number to its bounds.
func (b *bench) check() error {
	for _, v := range []struct {
		flag           string
		value, low, up int
	}{{"producers", b.producers, 1, 256}, {"consumers", b.consumers, 0, 256}, {"batch", b.batch, 1, 10_000}, {"pop-batch", b.pop, 1, 10_000},
		{"partitions", b.partitions, 1, 1_000_000}, {"bytes", b.payload, 16, 1 << 20}} {
		if v.value < v.low || v.value > v.up {
			return cli.Errorf(cli.Usage, "--%s %d: want %d to %d", v.flag, v.value, v.low, v.up)
		}
	}
	if b.batch*b.payload > 32<<20 {
		return cli.Errorf(cli.Usage, "--batch %d of --bytes %d: want at most 32 MiB a push", b.batch, b.payload)
	}
	if b.duration < 100*time.Millisecond || b.duration > 10*time.Minute {
		return cli.Errorf(cli.Usage, "--duration %v: want 100ms to 10m", b.duration)
	}
	if b.rate < 0 || b.rate > 1e7 {
		return cli.Errorf(cli.Usage, "--rate %v: want 0 to 10000000", b.rate)
	}
	return nil
}

// run makes the queue, loads it, and takes it away again whatever happened.
func (b *bench) run(c *remote.Conn, out *cli.Printer[benchRow]) (err error) {
	at := "/api/v1/resources/queues/" + url.PathEscape(b.queue)
	if err := b.unused(c, at); err != nil {
		return err
	}
	defer func() {
		if gone := b.clean(c, at); gone != nil {
			err = errors.Join(err, gone)
		}
	}()
	if err := b.create(c); err != nil {
		return err
	}
	l := newLoad(b, c)
	l.run()
	if c.Ctx.Err() != nil {
		return cli.Exit(cli.Interrupted)
	}
	rows := l.rows()
	if err := out.AddAll(rows); err != nil {
		return err
	}
	if first := l.firstError(); first != nil {
		if rows[0].Calls == 0 { // nothing worked: it is the node, not some calls
			return first
		}
		c.Say("the first of the calls that failed: %v", first)
		return cli.Exit(cli.Partly)
	}
	return nil
}

// unused refuses a queue that is there: it is somebody's, and would be deleted at the end.
func (b *bench) unused(c *remote.Conn, at string) error {
	var depth struct{ Queue *string }
	_, err := c.Call(c.Ctx, remote.Request{Method: http.MethodGet, Path: at + "/depth"}, &depth)
	switch {
	case remote.Status(err) == http.StatusNotFound:
		return nil
	case err != nil:
		return err
	case depth.Queue == nil:
		return stranger(c, "queue")
	}
	return cli.Errorf(cli.Usage, "--queue %s: there is one of that name, and it would be deleted", b.queue)
}

// cleanTime bounds the making and the deletion of the queue, which an interrupt does not cut: what is cut off may happen
// after the deletion.
const cleanTime = 30 * time.Second

func (b *bench) create(c *remote.Conn) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(c.Ctx), cleanTime)
	defer cancel()
	_, err := c.Call(ctx, remote.Request{Method: http.MethodPost, Path: "/api/v1/configure", Write: true,
		Body: map[string]any{"queue": b.queue, "options": map[string]any{"leaseTime": 60}}}, new(any))
	return err
}

func (b *bench) clean(c *remote.Conn, at string) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(c.Ctx), cleanTime)
	defer cancel()
	if _, err := c.Call(ctx, remote.Request{Method: http.MethodDelete, Path: at, Write: true}, new(any)); err != nil {
		return cli.Errorf(cli.Code(err), "queue %s was not deleted: %w", b.queue, err)
	}
	return nil
}

// partition names one of the partitions.
func partition(n int) string { return fmt.Sprintf("p%07d", n) }
