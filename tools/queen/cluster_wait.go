package main

import (
	"context"
	"fmt"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"queen/engine/format"
	"queen/tools/cli"
)

// waitEvery is how often nodes are asked while something is waited for.
const waitEvery = 100 * time.Millisecond

func (f *clusterFlags) waitCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "wait", Short: "Wait until a cluster is as it should be", Args: cobra.NoArgs,
		Long: `Wait until the cluster is as --for says, and exit 5 when it is not after --timeout:

  ready           every node that --peers names is up to date, and one leads
  leader          one leads that a majority answers
  caught-up=NODE  that node has applied all that any node had when it was first asked, and is up to date`}
	what := cmd.Flags().String("for", "ready", "ready, leader or caught-up=NODE")
	_ = cmd.RegisterFlagCompletionFunc("for", cobra.FixedCompletions([]string{"ready", "leader", "caught-up="},
		cobra.ShellCompDirectiveNoFileComp|cobra.ShellCompDirectiveNoSpace))
	cmd.RunE = func(*cobra.Command, []string) error {
		until, node, err := condition(*what)
		if err != nil {
			return err
		}
		c, err := f.client()
		if err != nil {
			return err
		}
		if _, named := c.Peers[node]; node != 0 && !named {
			return cli.Errorf(cli.Usage, "--for %s: node %d is not among --peers", *what, node)
		}
		ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
		defer stop()
		return f.wait(ctx, *what, until)
	}
	return cmd
}

// wanted judges what all nodes said; fine is what status makes of it.
type wanted func(rows []nodeRow, fine bool) bool

// condition reads --for; node is the one that it is about, 0 for all.
func condition(what string) (until wanted, node format.Replica, err error) {
	name, number, numbered := strings.Cut(what, "=")
	switch {
	case what == "ready":
		return func(_ []nodeRow, fine bool) bool { return fine }, 0, nil
	case what == "leader":
		return led, 0, nil
	case name == "caught-up" && numbered:
		n, err := strconv.ParseUint(number, 10, 32)
		if err != nil || n == 0 {
			return nil, 0, cli.Errorf(cli.Usage, "--for caught-up=%s: want a number above 0", number)
		}
		return caughtUp(n), format.Replica(n), nil
	}
	return nil, 0, cli.Errorf(cli.Usage, "--for %s: there are ready, leader and caught-up=NODE", what)
}

// led tells whether one leads that was up to date, which takes a majority.
func led(rows []nodeRow, _ bool) bool {
	for _, r := range rows {
		if r.Role == "leader" && r.UpToDate {
			return true
		}
	}
	return false
}

// caughtUp holds a node against the furthest that any node was when it was first asked with somebody leading.
func caughtUp(node uint64) wanted {
	var goal uint64
	return func(rows []nodeRow, _ bool) bool {
		if goal == 0 && led(rows, false) {
			for _, r := range rows {
				goal = max(goal, r.Applied)
			}
		}
		for _, r := range rows {
			if r.Node == node {
				return goal > 0 && r.UpToDate && r.Applied >= goal
			}
		}
		return false
	}
}

func (f *clusterFlags) wait(ctx context.Context, what string, until wanted) error {
	limit, cancel := context.WithTimeout(ctx, f.timeout)
	defer cancel()
	tick := time.NewTicker(waitEvery)
	defer tick.Stop()
	for {
		rows, fine, err := f.nodes(limit)
		if err != nil {
			return err
		}
		if until(rows, fine) {
			return nil
		}
		select {
		case <-ctx.Done():
			return cli.Exit(cli.Interrupted)
		case <-limit.Done():
			return cli.Errorf(cli.Findings, "the cluster is not %s after %v%s", what, f.timeout, silent(rows))
		case <-tick.C:
		}
	}
}

// silent names the nodes that did not answer.
func silent(rows []nodeRow) string {
	var all []string
	for _, r := range rows {
		if r.Error != "" {
			all = append(all, fmt.Sprintf("node %d: %s", r.Node, r.Error))
		}
	}
	if len(all) == 0 {
		return ""
	}
	return ": " + strings.Join(all, "; ")
}
