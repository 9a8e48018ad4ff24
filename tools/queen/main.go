package main

import (
	"os"

	"github.com/spf13/cobra"

	"queen/tools/cli"
	"queen/tools/client"
	"queen/tools/ops"
)

func main() { os.Exit(run(os.Args[1:], cli.Process())) }

// run is the command as a function: it returns the exit code.
func run(args []string, s cli.Streams) int {
	root := rootCommand(s)
	root.SetArgs(args)
	err := root.Execute()
	s.Complain(err, askedForJSON(root, args))
	return cli.Code(err)
}

func rootCommand(s cli.Streams) *cobra.Command {
	root := &cobra.Command{
		Use:           "queen",
		Short:         "A durable event broker: one ordered partition per entity",
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_ = cmd.Help()
			return cli.Exit(cli.Usage)
		},
	}
	root.SetIn(s.In)
	root.SetOut(s.Out)
	root.SetErr(s.Err)
	root.CompletionOptions.HiddenDefaultCmd = true
	root.AddCommand(serveCommand(s), devCommand(s), clusterCommand(s), versionCommand(s), configCommand(s), authCommand(s), mcpCommand(s))
	root.AddCommand(client.Commands(s)...)
	root.AddCommand(ops.Commands(s, version)...)
	return root
}

// askedForJSON finds -o json of the command that ran, so that its error is JSON too.
func askedForJSON(root *cobra.Command, args []string) bool {
	cmd, _, err := root.Find(args)
	if err != nil || cmd == nil {
		return false
	}
	f := cmd.Flags().Lookup("output")
	return f != nil && (f.Value.String() == "json" || f.Value.String() == "ndjson")
}
