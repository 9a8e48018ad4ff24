package client

import (
	"context"

	"github.com/spf13/cobra"

	"queen/tools/cli"
	"queen/tools/remote"
)

// completeQueue offers the queues of the node.
func completeQueue(s cli.Streams) remote.Completion {
	return remote.Complete(s, func(ctx context.Context, a *remote.API) ([]string, error) {
		var answer struct{ Queues []struct{ Name string } }
		_, err := a.Call(ctx, get("/api/v1/resources/queues"), &answer)
		var names []string
		for _, q := range answer.Queues {
			names = append(names, q.Name)
		}
		return names, err
	})
}

// completeGroup offers the consumer groups of the node.
func completeGroup(s cli.Streams) remote.Completion {
	return remote.Complete(s, func(ctx context.Context, a *remote.API) ([]string, error) {
		var answer []struct{ Name string }
		_, err := a.Call(ctx, get(groupsPath), &answer)
		var names []string
		seen := map[string]bool{queueMode: true}
		for _, g := range answer {
			if !seen[g.Name] {
				seen[g.Name] = true
				names = append(names, g.Name)
			}
		}
		return names, err
	})
}

// arguments offers words of a kind for each argument in order, and none for those behind.
func arguments(kinds ...remote.Completion) remote.Completion {
	return func(cmd *cobra.Command, args []string, word string) ([]string, cobra.ShellCompDirective) {
		if len(args) < len(kinds) {
			return kinds[len(args)](cmd, args, word)
		}
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
}

// completePayload offers the values of --payload.
func completePayload(cmd *cobra.Command) {
	_ = cmd.RegisterFlagCompletionFunc("payload", cobra.FixedCompletions(payloads, cobra.ShellCompDirectiveNoFileComp))
}
