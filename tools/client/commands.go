package client

import (
	"encoding/json"
	"net/http"

	"github.com/spf13/cobra"

	"queen/tools/cli"
	"queen/tools/remote"
)

// Commands are the client commands.
func Commands(s cli.Streams) []*cobra.Command {
	return []*cobra.Command{pushCommand(s), popCommand(s), ackCommand(s), fetchCommand(s), peekCommand(s), tailCommand(s),
		txCommand(s), replayCommand(s), queueCommand(s), partitionCommand(s), groupCommand(s), dlqCommand(s), messageGroup(s),
		kvCommand(s), timerCommand(s), lockCommand(s), leaseCommand(s), traceCommand(s), ephemeralCommand(s), maintenanceCommand(s),
		openapiCommand(s)}
}

// session is what a client command has once its flags are parsed.
type session struct{ *remote.Conn }

// request is one call.
type request = remote.Request

// row is an object of an answer.
type row = cli.Row

// command wires a client command.
func command[R any](s cli.Streams, cmd *cobra.Command, usual string, columns []cli.Column[R],
	run func(*session, *cli.Printer[R], []string) error) *cobra.Command {
	return remote.Command(s, cmd, usual, columns, func(c *remote.Conn, out *cli.Printer[R], args []string) error {
		return run(&session{c}, out, args)
	})
}

// rowCommand wires a client command whose rows are objects of answers; columns are as of cli.RowColumns.
func rowCommand(s cli.Streams, cmd *cobra.Command, usual string, columns []string,
	run func(*session, *cli.Printer[row], []string) error) *cobra.Command {
	return command(s, cmd, usual, cli.RowColumns(columns...), run)
}

// get is a read.
func get(path string) request { return request{Method: http.MethodGet, Path: path} }

// call makes one call, which the command's end interrupts.
func (s *session) call(r request, out any) (found bool, err error) { return s.Call(s.Ctx, r, out) }

// operate sends one operation to a route that takes many, and gives its result, which has the verdict.
func (s *session) operate(path string, write bool, key, verdict string, op map[string]any) (row, error) {
	r := request{Method: http.MethodPost, Path: path, Write: write, Key: key, Body: map[string]any{"operations": []any{op}}}
	results, _, err := s.AskList(r, "results")
	if err != nil {
		return nil, err
	}
	if len(results) != 1 {
		return nil, cli.Errorf(cli.Server, "%d results for 1 operation", len(results))
	}
	delete(results[0], "index")
	return results[0], s.Expect(results[0], verdict)
}

// oneOr prints the answer of a command and exits with otherwise when the member verdict is not true.
func oneOr(out *cli.Printer[row], answer row, verdict string, otherwise int) error {
	if err := out.One(answer); err != nil || answer.Is(verdict) {
		return err
	}
	return cli.Exit(otherwise)
}

// listed prints a list; none is nothing to do where a command looks for something.
func listed(out *cli.Printer[row], list []row, empty int) error {
	if err := out.AddAll(list); err != nil || len(list) > 0 {
		return err
	}
	return cli.Exit(empty)
}

// optional is the argument at an index, if it is there.
func optional(args []string, at int) *string {
	if len(args) <= at {
		return nil
	}
	return &args[at]
}

// required marks flags that a command can not do without.
func required(cmd *cobra.Command, names ...string) {
	for _, name := range names {
		if err := cmd.MarkFlagRequired(name); err != nil {
			panic(err) // the flag does not exist: a mistake of this package, and every run of the command shows it
		}
	}
}

// planned prints what --dry-run keeps from being done.
func planned(out *cli.Printer[row], op any) error { return remote.Planned(out, op) }

// unlessNone prints an answer and exits 4 when the number that it counts is 0.
func unlessNone(out *cli.Printer[row], answer row, count string) error {
	if err := out.One(answer); err != nil || answer.Text(count) != "0" {
		return err
	}
	return cli.Exit(cli.Nothing)
}

// instantHelp are the times that a flag takes.
const instantHelp = "beginning, end, RFC 3339, seconds since 1970, now, or as 15m ago"

// number is a member that counts something; what is none counts as 0.
func number(raw json.RawMessage) uint64 {
	var n uint64
	if json.Unmarshal(raw, &n) != nil {
		return 0
	}
	return n
}
