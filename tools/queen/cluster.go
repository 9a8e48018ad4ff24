package main

import (
	"fmt"
	"log/slog"
	"time"

	"queen/engine"
	"queen/engine/format"
	"queen/replication"
	"queen/tools/certs"
	"queen/tools/config"
)

// openEngine opens the data directory: a single node's, or that of a node of a cluster, in all of its raft groups, which for a new one
// returns when its cluster has formed.
func openEngine(c *config.Config, cfg engine.Config, peers *certs.Store) (engine.Served, error) {
	if !c.Clustered() {
		n, err := engine.OpenLocal(cfg)
		if err != nil {
			return nil, err // not a nil node, which would be one
		}
		return n, nil
	}
	o, err := clusterOptions(c, peers)
	if err != nil {
		return nil, err
	}
	// A setting that can not be must not leave a directory behind.
	o.Dir = cfg.Dir
	if err := o.Validate(); err != nil {
		return nil, err
	}
	return replication.OpenAll(cfg, o)
}

// clusterOptions makes the settings of a cluster what replication takes; peers is nil where nodes speak in the clear.
func clusterOptions(c *config.Config, peers *certs.Store) (o replication.Options, err error) {
	v := &c.Cluster
	o = replication.Options{Node: format.Replica(v.Node), Listen: v.Addr, Joining: v.Join, Tick: v.Tick, Hold: v.Hold,
		PullRate: v.PullRate, Groups: uint8(v.Groups), Spread: v.Spread, Version: version, TLS: peerTLS(peers, v.Names...)}
	if o.Peers, err = replication.ParsePeers(v.Peers); err != nil {
		return o, fmt.Errorf("peers: %w", err)
	}
	return o, nil
}

// openPeerCerts reads the files with which nodes authenticate each other; nil when there are none.
func openPeerCerts(v *config.Cluster, log *slog.Logger) (*certs.Store, error) {
	if v.CA == "" {
		return nil, nil
	}
	s, err := certs.Open(certs.Options{Cert: v.Cert, Key: v.Key, ClientCA: v.CA, Now: time.Now, Told: told(log, "peer.cert")})
	if err != nil {
		return nil, fmt.Errorf("peer.ca, peer.cert, peer.key: %w", err)
	}
	tellEnd(log, "peer.cert", s)
	return s, nil
}

// peerTLS has a listener take who bears one of the names, if there are any.
func peerTLS(s *certs.Store, names ...string) *replication.TLS {
	if s == nil {
		return nil
	}
	t := &replication.TLS{}
	t.Listener, t.To = s.Peers(names...)
	return t
}
