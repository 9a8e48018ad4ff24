package cli

import (
	"bufio"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
)

// Write are the flags of commands that change something. A command has those whose methods it calls.
type Write struct {
	// DryRun: tell what would be done, and do nothing.
	DryRun bool
	// Yes: do not ask.
	Yes bool
	// Key is the Idempotency-Key; "" is none.
	Key string
}

// DryRunFlag adds --dry-run, which every write has.
func (w *Write) DryRunFlag(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&w.DryRun, "dry-run", false, "print what would be done")
}

// YesFlag adds --yes to what Confirm asks about.
func (w *Write) YesFlag(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&w.Yes, "yes", false, "do not ask")
}

// KeyFlag adds --idempotency-key.
func (w *Write) KeyFlag(cmd *cobra.Command) {
	cmd.Flags().StringVar(&w.Key, "idempotency-key", "",
		"1 to 255 bytes; the same call with the same key is carried out once and answered alike, for an hour")
}

// Confirm prints the plan on standard error and asks for the name of what it is about. nil: go on. Without --yes and
// without a terminal nothing may be done, which is Usage; a name typed wrong is Refused.
func (inv *Invocation) Confirm(plan, name string, w Write) error {
	if w.Yes {
		return nil
	}
	if !Terminal(inv.In) {
		return Errorf(Usage, "nothing was done: standard input is no terminal, and --yes is missing")
	}
	fmt.Fprintf(inv.Err, "%s\nType its name (%s): ", plan, name)
	answer, err := bufio.NewReader(inv.Input()).ReadString('\n')
	if inv.Ctx.Err() != nil {
		return Exit(Interrupted)
	}
	if err != nil || strings.TrimRight(answer, "\r\n") != name {
		return Errorf(Refused, "nothing was done: that is not the name")
	}
	return nil
}
