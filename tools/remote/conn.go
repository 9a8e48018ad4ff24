package remote

import (
	"encoding/json"

	"github.com/spf13/cobra"

	"queen/tools/cli"
)

// Conn is a command that runs and the node that it talks to.
type Conn struct {
	*cli.Invocation
	*API
}

// Command is cli.Command with a node: it adds --url, --context, --token-from and --ca, and connects nobody by itself.
func Command[R any](s cli.Streams, cmd *cobra.Command, usual string, columns []cli.Column[R],
	run func(*Conn, *cli.Printer[R], []string) error) *cobra.Command {
	var conn Connection
	conn.Flags(s, cmd)
	return cli.Command(s, cmd, usual, columns, func(inv *cli.Invocation, out *cli.Printer[R], args []string) error {
		api, err := conn.Connect(inv)
		if err != nil {
			return err
		}
		return run(&Conn{Invocation: inv, API: api}, out, args)
	})
}

// Ask makes one call. An answer without the member that carries the verdict is that of something else than this API.
func (c *Conn) Ask(r Request, verdict string) (cli.Row, error) {
	var answer cli.Row
	if _, err := c.Call(c.Ctx, r, &answer); err != nil {
		return nil, err
	}
	return answer, c.Expect(answer, verdict)
}

// Expect refuses an answer without a member.
func (c *Conn) Expect(answer cli.Row, member string) error {
	if answer[member] == nil {
		return c.Stranger("there is no " + member)
	}
	return nil
}

// AskList makes one call whose answer lists rows in a member.
func (c *Conn) AskList(r Request, member string) (list []cli.Row, answer cli.Row, err error) {
	if answer, err = c.Ask(r, member); err != nil {
		return nil, nil, err
	}
	if err := json.Unmarshal(answer[member], &list); err != nil {
		return nil, nil, c.Stranger(member + ": " + err.Error())
	}
	return list, answer, nil
}

// Told makes one call and prints its answer, which has the member verdict.
func (c *Conn) Told(out *cli.Printer[cli.Row], r Request, verdict string) error {
	answer, err := c.Ask(r, verdict)
	if err != nil {
		return err
	}
	return out.One(answer)
}

// Planned prints what --dry-run keeps from being done: op is a map or a struct.
func Planned(out *cli.Printer[cli.Row], op any) error {
	plan := cli.RowOf(op)
	plan.Set("dryRun", true)
	return out.One(plan)
}
