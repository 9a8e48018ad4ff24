package client

import (
	"io"

	"github.com/spf13/cobra"

	"queen/tools/cli"
)

// messages prints messages as of -o and --payload, or as of --format.
type messages struct {
	payload, format string
	verbs           []verb
	rows            *cli.Printer[Message]
	out             io.Writer
	s               *session
	n               int
}

// messageCommand wires a command that prints messages.
func messageCommand(s cli.Streams, cmd *cobra.Command, columns []cli.Column[Message],
	run func(*session, *messages, []string) error) *cobra.Command {
	m := &messages{}
	f := cmd.Flags()
	f.StringVar(&m.payload, "payload", "auto", "how payloads are printed: auto, json, utf8, base64, hex, none")
	f.StringVar(&m.format, "format", "", verbHelp)
	command(s, cmd, "ndjson", columns, func(s *session, rows *cli.Printer[Message], args []string) error {
		m.s, m.rows, m.out = s, rows, s.Out
		if err := checkPayload(m.payload); err != nil {
			return err
		}
		if m.format != "" {
			var err error
			if m.verbs, err = parseVerbs(m.format); err != nil {
				return err
			}
			rows.Silence()
		}
		return run(s, m, args)
	})
	cmd.MarkFlagsMutuallyExclusive("format", "output")
	cmd.MarkFlagsMutuallyExclusive("format", "payload")
	completePayload(cmd)
	return cmd
}

// add prints a message.
func (m *messages) add(msg Message) error {
	m.n++
	if m.format != "" {
		msg.ShiftTimes(m.s.Zone)
		return printVerbs(m.out, m.verbs, &msg)
	}
	msg.show(m.payload)
	return m.rows.Add(msg)
}

// flush prints what a table holds back, for a command that goes on.
func (m *messages) flush() error { return m.rows.Flush() }

// end is the exit of a command that reads: no message is nothing to do.
func (m *messages) end(err error) error {
	if err == nil && m.n == 0 {
		return cli.Exit(cli.Nothing)
	}
	return err
}
