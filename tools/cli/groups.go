package cli

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
)

// Groups makes commands that only have subcommands refuse to be run: without a subcommand, and with one that is none, they
// print their help or the nearest names on standard error and are wrong usage, where cobra would print help and be done.
func Groups(root *cobra.Command) {
	for _, cmd := range root.Commands() {
		Groups(cmd)
	}
	if root.Runnable() || !root.HasSubCommands() {
		return
	}
	root.Args = cobra.ArbitraryArgs
	root.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) > 0 {
			return unknownCommand(cmd, args[0])
		}
		fmt.Fprint(cmd.ErrOrStderr(), cmd.UsageString())
		return Exit(Usage)
	}
}

// unknownCommand names what is near.
func unknownCommand(cmd *cobra.Command, word string) error {
	text := fmt.Sprintf("unknown command %q for %q", word, cmd.CommandPath())
	cmd.SuggestionsMinimumDistance = 2
	if near := cmd.SuggestionsFor(word); len(near) > 0 {
		text += ": did you mean " + strings.Join(near, " or ") + "?"
	}
	return Errorf(Usage, "%s", text)
}
