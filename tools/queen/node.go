package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"syscall"

	"queen/engine"
	"queen/engine/auth"
	"queen/engine/clock"
	"queen/engine/invariants"
	"queen/engine/mask"
	"queen/engine/vfs"
	frontendhttp "queen/frontend-http"
	frontendkafka "queen/frontend-kafka"
	frontendmcp "queen/frontend-mcp"
	"queen/tools/certs"
	"queen/tools/cli"
	"queen/tools/config"
)

// node is a running process: the engine and its frontends.
type node struct {
	config *config.Config
	log    *slog.Logger
	engine engine.Served
	http   *frontendhttp.Frontend
	kafka  *frontendkafka.Frontend
	// mcpMetrics are made before the MCP server, because HTTP renders them; nil without one.
	mcpMetrics *frontendmcp.Metrics
	// frontends are those that run, in the order in which they were bound.
	frontends []*frontend
	// auth judges callers; nil when nobody is asked.
	auth *auth.Chain
	// certs is the certificate of every listener; nil when they speak in the clear.
	certs *certs.Store
	// kafkaCerts is that of Kafka's listeners where they have one of their own.
	kafkaCerts *certs.Store
	// peerCerts is what nodes of a cluster show each other; nil when they speak in the clear.
	peerCerts *certs.Store
	keys      *keyring
	// masks hide parts of payloads from who looks at messages; nil hides nothing.
	masks *mask.Set
	plans *plans
	ready readyFile
	// served gets the end of each frontend's Serve.
	served chan ended
}

// startNode binds the listeners, opens the data directory and hands the engine to the frontends. Health is answered
// from the moment the listeners are bound, so that an orchestrator sees a node that replays its log.
func startNode(c *config.Config, log *slog.Logger, quit <-chan struct{}) (*node, error) {
	if err := invariants.Arm(c.Failpoint); err != nil {
		return nil, err
	}
	if err := clearReady(c.ReadyFile); err != nil {
		return nil, err
	}
	n := &node{config: c, log: log, ready: readyFile{PID: os.Getpid()}, served: make(chan ended, len(config.KnownFrontends))}
	ticks := systemClock()
	var err error
	if n.masks, err = masksOf(c.MCPMask); err != nil {
		return nil, err
	}
	if n.auth, err = openAuth(c, log); err != nil {
		return nil, err
	}
	if n.certs, err = openCerts(c, log); err != nil {
		return nil, err
	}
	if n.kafkaCerts, err = openKafkaCerts(c, log); err != nil {
		return nil, err
	}
	if n.peerCerts, err = openPeerCerts(&c.Cluster, log); err != nil {
		return nil, err
	}
	if n.keys, err = openKeyring(c, log); err != nil {
		return nil, err
	}
	if n.plans, err = openPlans(c, log); err != nil {
		return nil, err
	}
	if err := n.bind(ticks); err != nil {
		_ = n.stop(context.Background())
		return nil, err
	}
	cfg := engineConfig(c, ticks, log, n.keys)
	cfg.Quit = quit
	if n.engine, err = openEngine(c, cfg, n.peerCerts); err != nil {
		_ = n.stop(context.Background())
		return nil, err
	}
	served := engine.Limit(n.engine, n.plans.quotas)
	if n.kafka != nil {
		served = n.kafka.Shared(served, c.Kafka.SharedGroups)
	}
	n.attach(served)
	if err := writeReady(c.ReadyFile, n.ready); err != nil {
		_ = n.stop(context.Background())
		return nil, err
	}
	return n, nil
}

func engineConfig(c *config.Config, ticks clock.Clock, log *slog.Logger, keys *keyring) engine.Config {
	return engine.Config{
		FS: vfs.NewOS(vfs.OSOptions{}), Clock: ticks, Rand: clock.RealRand(), Log: log, Dir: c.Data, Fatal: fatal(log),
		SegmentBytes: c.SegmentBytes, TailBytes: c.TailBytes, EphemeralBytes: c.EphemeralBytes, WriteBytes: c.WriteBytes,
		AdmitHold: c.AdmitHold, DiskHigh: c.DiskHigh, DiskLow: c.DiskLow, MarkBytes: c.MarkBytes, MarkEvery: c.MarkEvery,
		CheckpointBytes: c.CheckpointBytes, CheckpointEvery: c.CheckpointEvery, RetentionEvery: c.RetentionEvery, PartitionCleanup: c.PartitionCleanup,
		DefaultStartAll: c.SubscriptionDefault == "all", Rested: giveBack, Keyring: keys.ring,
	}
}

// fatal ends the process at once: after a failed flush nothing more may be acknowledged, and what runs would try.
func fatal(log *slog.Logger) func(error) {
	return func(err error) {
		log.Error("the node can not go on", "err", err)
		os.Exit(cli.Fatal)
	}
}

// stop drains: no new connection, running requests end or are cut when ctx ends, and the engine closes last.
func (n *node) stop(ctx context.Context) error {
	var errs []error
	errs = append(errs, n.stopFrontends(ctx)...)
	if n.engine != nil {
		if err := n.engine.Close(ctx); err != nil {
			errs = append(errs, err)
		}
	}
	if n.auth != nil {
		n.auth.Close()
	}
	if err := clearReady(n.config.ReadyFile); err != nil {
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// reload reads again what comes from files that people change while the node runs.
func (n *node) reload() {
	if n.auth != nil && n.auth.Keys != nil {
		told(n.log, "auth.keys")(n.auth.Keys.Reload())
	}
	if n.keys.file != nil {
		told(n.log, "encryption.keyring")(n.keys.file.Reload())
	}
	if n.plans.file != nil {
		told(n.log, "quota.file")(n.plans.file.Reload())
	}
	if n.certs != nil {
		told(n.log, "tls.cert")(n.certs.Reload())
	}
	if n.kafkaCerts != nil {
		told(n.log, "kafka.tls.cert")(n.kafkaCerts.Reload())
	}
	if n.peerCerts != nil {
		told(n.log, "peer.cert")(n.peerCerts.Reload())
	}
}

// bindError says in a line which listener could not be bound and why.
func bindError(name, addr string, err error) error {
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return fmt.Errorf("%s: %s is in use by another process: stop it, or choose another address with --%s", name, addr, name)
	case errors.Is(err, syscall.EACCES):
		return fmt.Errorf("%s: this user may not bind %s", name, addr)
	}
	return fmt.Errorf("%s: can not listen on %s: %w", name, addr, err)
}
