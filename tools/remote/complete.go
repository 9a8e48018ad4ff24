package remote

import (
	"context"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"queen/tools/cli"
)

// completionBudget bounds what a shell waits for names.
const completionBudget = 300 * time.Millisecond

// Completion is a function of cobra that offers words.
type Completion = func(cmd *cobra.Command, args []string, word string) ([]string, cobra.ShellCompDirective)

// Complete offers what names tells of the node that the line so far is about: within 300 ms, and nothing when it does not
// answer. A shell must never see an error.
func Complete(s cli.Streams, names func(ctx context.Context, a *API) ([]string, error)) Completion {
	return func(cmd *cobra.Command, _ []string, word string) ([]string, cobra.ShellCompDirective) {
		const nothing = cobra.ShellCompDirectiveNoFileComp
		var c Connection
		for flag, to := range map[string]*string{"url": &c.url, "context": &c.context, "token-from": &c.token, "ca": &c.ca} {
			if f := cmd.Flags().Lookup(flag); f != nil {
				*to = f.Value.String()
			}
		}
		ctx, cancel := context.WithTimeout(context.Background(), completionBudget)
		defer cancel()
		silent := s
		silent.Err = io.Discard
		found := make(chan []string, 1)
		go func() { // a helper for tokens may have children that outlive the budget
			api, err := c.Connect(&cli.Invocation{Streams: silent, Ctx: ctx})
			if err != nil {
				found <- nil
				return
			}
			list, _ := names(ctx, api)
			found <- list
		}()
		select {
		case list := <-found:
			var offered []string
			for _, name := range list {
				if strings.HasPrefix(name, word) && !strings.ContainsAny(name, "\n\t") {
					offered = append(offered, name)
				}
			}
			return offered, nothing
		case <-ctx.Done():
			return nil, nothing
		}
	}
}
