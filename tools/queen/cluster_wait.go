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

  ready           every node that --peers names is up to date in every raft group, and each group has one leader
  leader          each raft group has a leader that a majority answers
  caught-up=NODE  that node has applied, in every raft group, all that any node had when it was first asked, and is up to date`}
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

// led tells whether in each raft group one leads that was up to date, which takes a majority.
func led(rows []nodeRow, _ bool) bool {
	leads := map[uint64]bool{}
	for _, r := range rows {
		leads[r.Group] = leads[r.Group] || r.Role == "leader" && r.UpToDate
	}
	for _, one := range leads {
		if !one {
			return false
		}
	}
	return len(leads) > 0
}

// caughtUp holds a node against the furthest that any node was, in each raft group, when it was first asked with somebody leading.
func caughtUp(node uint64) wanted {
	goals := map[uint64]uint64{}
	return func(rows []nodeRow, _ bool) bool {
		if len(goals) == 0 && led(rows, false) {
			for _, r := range rows {
				goals[r.Group] = max(goals[r.Group], r.Applied)
			}
		}
		reached := 0
		for _, r := range rows {
			if goal, ok := goals[r.Group]; ok && r.Node == node && r.UpToDate && r.Applied >= goal {
				reached++
			}
		}
		return reached > 0 && reached == len(goals)
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
	for _, r := range byNode(rows) {
		if r.Error != "" {
			all = append(all, fmt.Sprintf("node %d: %s", r.Node, r.Error))
		}
	}
	if len(all) == 0 {
		return ""
	}
	return ": " + strings.Join(all, "; ")
}
