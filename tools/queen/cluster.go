package main

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"

	"queen/engine"
	"queen/engine/format"
	"queen/replication"
	"queen/tools/config"
)

// openEngine opens the data directory: a single node's, or that of a node of a cluster, which for a new one returns
// when its cluster has formed.
func openEngine(c *config.Config, cfg engine.Config) (*engine.Node, error) {
	if !c.Clustered() {
		return engine.OpenLocal(cfg)
	}
	o, err := clusterOptions(c)
	if err != nil {
		return nil, err
	}
	// A setting that can not be must not leave a directory behind.
	o.Dir = cfg.Dir
	if err := o.Validate(); err != nil {
		return nil, err
	}
	return replication.Open(cfg, o)
}

// clusterOptions makes the settings of a cluster what replication takes.
func clusterOptions(c *config.Config) (o replication.Options, err error) {
	v := &c.Cluster
	o = replication.Options{Node: format.Replica(v.Node), Listen: v.Addr, Joining: v.Join, Tick: v.Tick, Hold: v.Hold}
	if o.Peers, err = replication.ParsePeers(v.Peers); err != nil {
		return o, fmt.Errorf("peers: %w", err)
	}
	if v.CA != "" {
		if o.TLS, err = peerTLS(v); err != nil {
			return o, err
		}
	}
	return o, nil
}

// peerTLS reads the files with which nodes authenticate each other.
func peerTLS(v *config.Cluster) (*replication.TLS, error) {
	cert, err := tls.LoadX509KeyPair(v.Cert, v.Key)
	if err != nil {
		return nil, fmt.Errorf("peer.cert: %w", err)
	}
	pem, err := os.ReadFile(v.CA)
	if err != nil {
		return nil, fmt.Errorf("peer.ca: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(pem) {
		return nil, errors.New("peer.ca: the file holds no certificate")
	}
	return &replication.TLS{CA: v.CA, Cert: v.Cert, Key: v.Key, Config: &tls.Config{MinVersion: tls.VersionTLS13,
		Certificates: []tls.Certificate{cert}, RootCAs: pool, ClientCAs: pool, ClientAuth: tls.RequireAndVerifyClientCert}}, nil
}
