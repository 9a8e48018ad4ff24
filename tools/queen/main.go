package main

import (
	"os"
	"slices"
	"strings"

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
	s.Complain(err, askedForJSON(args))
	return cli.Code(err)
}

func rootCommand(s cli.Streams) *cobra.Command {
	root := &cobra.Command{
		Use:           "queen",
		Short:         "A durable event broker: one ordered partition per entity",
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	root.SetIn(s.In)
	root.SetOut(s.Out)
	root.SetErr(s.Err)
	root.AddCommand(serveCommand(s), devCommand(s), clusterCommand(s), versionCommand(s), configCommand(s), authCommand(s), mcpCommand(s))
	calls := client.Commands(s)
	calls[slices.IndexFunc(calls, func(c *cobra.Command) bool { return c.Name() == "queue" })].AddCommand(ops.ExportConfigCommand(s))
	root.AddCommand(calls...)
	root.AddCommand(ops.Commands(s, version)...)
	root.AddCommand(docsCommand(s), manCommand(s))
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	cli.Groups(root)
	return root
}

// askedForJSON finds -o json on a line, also on one that could not be parsed, so that its error is JSON too.
func askedForJSON(args []string) (asked bool) {
	for i, arg := range args {
		format := ""
		switch {
		case arg == "--":
			return asked
		case (arg == "-o" || arg == "--output") && i+1 < len(args):
			format = args[i+1]
		case strings.HasPrefix(arg, "--output="):
			format = strings.TrimPrefix(arg, "--output=")
		case strings.HasPrefix(arg, "-o"):
			format = strings.TrimPrefix(strings.TrimPrefix(arg, "-o"), "=")
		default:
			continue
		}
		asked = format == "json" || format == "ndjson"
	}
	return asked
}
