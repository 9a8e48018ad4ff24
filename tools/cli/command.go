package cli

import (
	"context"
	"fmt"
	"io"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
)

// Invocation is a command that runs.
type Invocation struct {
	Streams
	// Ctx ends with SIGINT or SIGTERM; a command that it ended exits with Interrupted.
	Ctx context.Context
	// Format is the value of -o once its default is known, as "table" or "jsonpath=$.name".
	Format string
	// Color tells whether standard output takes colours.
	Color bool
	// Zone is where times are printed: UTC, or the local one with --local.
	Zone *time.Location
}

// output are the flags of every command that prints rows.
type output struct {
	format, color string
	local         bool
}

func (o *output) flags(cmd *cobra.Command, usual string) {
	f := cmd.Flags()
	f.StringVarP(&o.format, "output", "o", "", strings.Join(Formats, ", ")+"; default: a table on a terminal, "+usual+" elsewhere")
	f.StringVar(&o.color, "color", "auto", "colours: auto (on a terminal, unless NO_COLOR is set), always or never")
	f.BoolVar(&o.local, "local", false, "print times in the local zone instead of UTC")
	_ = cmd.RegisterFlagCompletionFunc("output", cobra.FixedCompletions(Formats, cobra.ShellCompDirectiveNoFileComp))
	_ = cmd.RegisterFlagCompletionFunc("color", cobra.FixedCompletions(colors, cobra.ShellCompDirectiveNoFileComp))
}

var colors = []string{"auto", "always", "never"}

// resolve checks the flags.
func (o *output) resolve(s Streams, usual string) (*Invocation, error) {
	format, err := CheckFormat(o.format, usual, s.Out)
	if err != nil {
		return nil, err
	}
	if !slices.Contains(colors, o.color) {
		return nil, Errorf(Usage, "--color %s: there are %s", o.color, strings.Join(colors, ", "))
	}
	inv := &Invocation{Streams: s, Ctx: context.Background(), Format: format, Zone: time.UTC}
	inv.Color = o.color == "always" || o.color == "auto" && Terminal(s.Out) && s.Getenv("NO_COLOR") == "" && s.Getenv("TERM") != "dumb"
	if o.local {
		inv.Zone = time.Local
	}
	return inv, nil
}

// Command wires a command that prints rows: the flags -o, --color and --local, -o help, which tells the fields of columns
// and runs nothing, and an end by SIGINT or SIGTERM. usual is the format where standard output is no terminal.
//
// run prints to the Printer and leaves its end to Command: a command that failed before its first row prints none, an empty
// list that is no failure is one in JSON too.
func Command[R any](s Streams, cmd *cobra.Command, usual string, columns []Column[R],
	run func(*Invocation, *Printer[R], []string) error) *cobra.Command {
	var o output
	o.flags(cmd, usual)
	check := cmd.Args
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		if o.format == "help" { // before arguments and needed flags are missed
			if err := printFields(s.Out, Fields(columns)); err != nil {
				return err
			}
			return &Error{Code: Done} // ends it here, as done
		}
		if check == nil {
			return nil
		}
		return check(cmd, args)
	}
	cmd.RunE = func(_ *cobra.Command, args []string) error {
		inv, err := o.resolve(s, usual)
		if err != nil {
			return err
		}
		ctx, stop := signal.NotifyContext(inv.Ctx, syscall.SIGINT, syscall.SIGTERM)
		defer stop()
		inv.Ctx = ctx
		out := inv.printer()
		p := &Printer[R]{printing: out, columns: columns}
		return p.end(run(inv, p, args))
	}
	return cmd
}

// Input is standard input, which an interrupt ends. It is read from the first call on, not before: a command that needs
// none must leave it to whoever comes next.
func (inv *Invocation) Input() io.Reader {
	r, w := io.Pipe()
	go func() {
		_, err := io.Copy(w, inv.In)
		w.CloseWithError(err) // nil is the end of the input
	}()
	context.AfterFunc(inv.Ctx, func() { _ = r.CloseWithError(inv.Ctx.Err()) })
	return r
}

// BadInput is the error of an input that can not be read.
func (inv *Invocation) BadInput(err error) error {
	if inv.Ctx.Err() != nil {
		return Exit(Interrupted)
	}
	return Errorf(Usage, "standard input: %w", err)
}

// Say tells people something that is neither data nor an error, on standard error.
func (inv *Invocation) Say(format string, args ...any) {
	fmt.Fprintf(inv.Err, "queen: "+format+"\n", args...)
}
