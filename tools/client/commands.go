package client

import (
	"context"
	"io"
	"net/http"
	"net/url"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"queen/tools/cli"
)

// defaultURL is where a node listens unless it is told otherwise.
const defaultURL = "http://127.0.0.1:6632"

// Commands are the client commands.
func Commands(s cli.Streams) []*cobra.Command {
	return []*cobra.Command{pushCommand(s), popCommand(s), ackCommand(s), fetchCommand(s), tailCommand(s), txCommand(s),
		queueCommand(s), groupCommand(s), dlqCommand(s), kvCommand(s), timerCommand(s), lockCommand(s), traceCommand(s),
		ephemeralCommand(s)}
}

// session is what a client command has once its flags are parsed.
type session struct {
	cli.Streams
	*api
	ctx    context.Context
	format string
}

// input is standard input, which an interrupt ends. It is read from the first call on, not before: a command that needs
// none must leave it to whoever comes next.
func (s *session) input() io.Reader {
	r, w := io.Pipe()
	go func() {
		_, err := io.Copy(w, s.In)
		w.CloseWithError(err) // nil is the end of the input
	}()
	context.AfterFunc(s.ctx, func() { _ = r.CloseWithError(s.ctx.Err()) })
	return r
}

// badInput is the error of an input that can not be read.
func (s *session) badInput(err error) error {
	if s.ctx.Err() != nil {
		return cli.Exit(cli.Interrupted)
	}
	return cli.Errorf(cli.Usage, "standard input: %w", err)
}

// options are the flags of every client command.
type options struct {
	url, output string
	// usual is the format on a pipe.
	usual string
}

// command wires a client command: flags, output format, and an end by SIGINT.
func command(s cli.Streams, cmd *cobra.Command, usual string, run func(*session, []string) error) *cobra.Command {
	o := options{usual: usual}
	node := s.Getenv("QUEEN_URL")
	if node == "" {
		node = defaultURL
	}
	cmd.Flags().StringVar(&o.url, "url", node, "the node's address; also QUEEN_URL")
	cmd.Flags().StringVarP(&o.output, "output", "o", "", "table, json, ndjson or yaml; default: a table on a terminal, "+
		usual+" elsewhere")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		format, err := cli.CheckFormat(o.output, o.usual, s.Out)
		if err != nil {
			return err
		}
		if u, err := url.Parse(o.url); err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
			return cli.Errorf(cli.Usage, "--url %s: want http://HOST:PORT", o.url)
		}
		ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
		defer stop()
		return run(&session{Streams: s, ctx: ctx, format: format,
			api: &api{url: o.url, token: s.Getenv("QUEEN_TOKEN"), http: &http.Client{}}}, args)
	}
	return cmd
}

// printer prints rows in the session's format.
func printer[R any](s *session, columns []cli.Column[R]) *cli.Printer[R] {
	return cli.NewPrinter(s.Out, s.format, columns)
}
