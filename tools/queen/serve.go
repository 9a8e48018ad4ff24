package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"queen/engine"
	"queen/tools/cli"
	"queen/tools/config"
)

func serveCommand(s cli.Streams) *cobra.Command {
	cmd := &cobra.Command{
		Use: "serve", Short: "Run a node", Args: cobra.NoArgs,
		Long: `Run a node until SIGTERM or SIGINT, which drains it.

SIGHUP reads the files of keys and certificates again; they are also looked at by themselves.

Every flag is also an environment name (--ready-file is QUEEN_READY_FILE) and a key of the YAML file (ready.file). Flags
win over the environment, the environment over the file. "queen config print --sources" takes the same flags and shows
the outcome.`,
	}
	config.AddFlags(cmd.Flags())
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		resolved, err := config.Load(config.Input{Flags: cmd.Flags(), Environ: s.Env})
		if err != nil {
			return err
		}
		return serve(s, resolved, nil)
	}
	return cmd
}

// serve runs a node until a signal or a frontend's end. greet, when set, is called once it is ready.
func serve(s cli.Streams, r *config.Resolved, greet func(*node)) error {
	c := &r.Config
	log := newLogger(s, c, c.LogLevel)
	for _, w := range r.Warnings {
		log.Warn(w)
	}
	limit := limitMemory(s, c.MemoryLimit)
	log.Info("starting", "version", version, "data", c.Data, "memory_limit", limit)

	// The signals are taken before the node starts: a SIGTERM during a long replay must not kill it half-way through a
	// checkpoint for no reason.
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT)
	defer signal.Stop(signals)
	reloads := make(chan os.Signal, 1)
	signal.Notify(reloads, syscall.SIGHUP)
	defer signal.Stop(reloads)

	n, err := startUnless(c, log, signals)
	if n == nil {
		return err
	}
	// Whoever waits for this line waits at every log level.
	for _, f := range n.frontends {
		newLogger(s, c, slog.LevelInfo).Info("ready", "frontend", f.name, "addr", f.addr)
	}
	if greet != nil {
		greet(n)
	}
	return drain(n, c, signals, n.await(signals, reloads))
}

// startUnless starts the node; a signal that comes meanwhile ends a wait for other nodes, and (nil, nil) is returned. One that
// comes while the log is replayed counts afterwards.
func startUnless(c *config.Config, log *slog.Logger, signals chan os.Signal) (*node, error) {
	quit, started, watched := make(chan struct{}), make(chan struct{}), make(chan os.Signal, 1)
	go func() {
		defer close(watched)
		select {
		case sig := <-signals:
			close(quit)
			watched <- sig
		case <-started:
		}
	}()
	n, err := startNode(c, log, quit)
	close(started)
	sig, early := <-watched
	switch {
	case early && err != nil && errors.Is(err, &engine.Error{Code: engine.CodeClosed}):
		log.Info("stopped while starting", "signal", sig.String())
		return nil, nil
	case early && err == nil:
		signals <- sig
	}
	return n, err
}

// await returns when the node shall stop; the error is that of a frontend that ended by itself.
func (n *node) await(signals, reloads <-chan os.Signal) error {
	for {
		select {
		case <-reloads:
			n.reload()
		case sig := <-signals:
			n.log.Info("stopping", "signal", sig.String())
			return nil
		case end := <-n.served:
			n.served <- ended{end.name, nil} // stop waits for it
			return fmt.Errorf("%s: the frontend ended: %w", end.name, end.err)
		}
	}
}

// drain stops the node within the drain timeout; a second signal cuts it short.
func drain(n *node, c *config.Config, signals <-chan os.Signal, ended error) error {
	ctx, cancel := context.WithTimeout(context.Background(), c.DrainTimeout)
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- n.stop(ctx) }()
	select {
	case err := <-done:
		if ended == nil {
			ended = err
		}
	case <-signals:
		return cli.Errorf(cli.Interrupted, "stopped before the drain was over")
	}
	if ended != nil {
		return &cli.Error{Code: cli.Server, Err: ended}
	}
	n.log.Info("stopped")
	return nil
}
