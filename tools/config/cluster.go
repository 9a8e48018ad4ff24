package config

import (
	"errors"
	"fmt"
	"time"

	"github.com/spf13/pflag"
)

// Cluster says which node of which cluster this is; the zero value is a single node.
type Cluster struct {
	// Node is this node's number; 0 runs a single node.
	Node int
	// Addr is where the other nodes reach this one, and Peers names them all: 1=HOST:PORT,2=... The port above each serves
	// as well.
	Addr, Peers string
	// Join says that the node was added to a cluster that runs already.
	Join bool
	// CA, Cert and Key are PEM files of mutual authentication between nodes, or "": they speak in the clear.
	CA, Cert, Key string
	// Names are those of which the certificate of who connects has to bear one; none takes any that comes from CA.
	Names []string
	// Tick is the unit of the timers of elections.
	Tick time.Duration
	// Hold is how long log is kept for a node that is away; 0 for as long as it is a member.
	Hold time.Duration
	// Groups is how many raft groups the cluster has; Spread has different nodes lead them.
	Groups int
	Spread bool
	// PullRate bounds in bytes per second what is sent to nodes that copy this one's state; 0 is no limit.
	PullRate int64
}

// minPullRate is the least rate beside none: with less who copies would take the node for silent.
const minPullRate = 64 << 10

// maxGroups bounds the raft groups of a cluster.
const maxGroups = 16

// maxNode bounds the number of a node.
const maxNode = 1 << 30

// clusterSettings make a node one of several.
var clusterSettings = []setting{
	{key: "node.id", def: "0", usage: "number of this node in its cluster, for ever that of its data directory; 0 is a single node",
		bind: func(c *Config) pflag.Value { return whole(&c.Cluster.Node, 0, maxNode) }},
	{key: "peer.addr", def: "", usage: "address for the other nodes, HOST:PORT; the port above it is used as well", needs: "node.id",
		bind: func(c *Config) pflag.Value { return text(&c.Cluster.Addr) }},
	{key: "peers", def: "", usage: "all nodes of the cluster: 1=HOST:PORT,2=...", needs: "node.id",
		bind: func(c *Config) pflag.Value { return text(&c.Cluster.Peers) }},
	{key: "peer.join", def: "false", usage: "the node was added to a running cluster, and joins it", needs: "node.id",
		bind: func(c *Config) pflag.Value { return flag(&c.Cluster.Join) }},
	{key: "peer.ca", def: "", usage: "PEM file of the authorities that nodes' certificates come from", needs: "node.id",
		bind: func(c *Config) pflag.Value { return text(&c.Cluster.CA) }},
	{key: "peer.cert", def: "", usage: "PEM file of this node's certificate, for both directions", needs: "node.id",
		bind: func(c *Config) pflag.Value { return text(&c.Cluster.Cert) }},
	{key: "peer.key", def: "", usage: "PEM file of its private key", needs: "node.id",
		bind: func(c *Config) pflag.Value { return text(&c.Cluster.Key) }},
	{key: "peer.names", def: "", usage: "names (DNS, IP address) of which certificates of nodes and tools that connect must bear one; none is any of peer.ca",
		needs: "peer.ca", bind: func(c *Config) pflag.Value { return list(&c.Cluster.Names) }},
	{key: "peer.tick", def: "50ms", usage: "unit of the timers of elections: a leader silent for 10 to 20 is replaced", needs: "node.id",
		bind: func(c *Config) pflag.Value { return duration(&c.Cluster.Tick) }},
	{key: "peer.hold", def: "10m", usage: "how long log is kept that only a node needs which is away or behind; 0 is as long as it is a member",
		needs: "node.id", bind: func(c *Config) pflag.Value { return durationOrNone(&c.Cluster.Hold) }},
	{key: "peer.groups", def: "1", usage: "raft groups of the cluster, fixed when it begins; each tenant is in one of them, with its own leader",
		needs: "node.id", bind: func(c *Config) pflag.Value { return whole(&c.Cluster.Groups, 1, maxGroups) }},
	{key: "peer.spread", def: "true", usage: "hand the lead of raft groups to different nodes when one has gone or come",
		needs: "peer.groups", bind: func(c *Config) pflag.Value { return flag(&c.Cluster.Spread) }},
	{key: "peer.pull.rate", def: "0", usage: "bytes per second at most that this node sends to nodes that copy its state; 0 is no limit",
		needs: "node.id", bind: func(c *Config) pflag.Value { return size(&c.Cluster.PullRate, 0) }},
}

// Clustered reports a node of a cluster.
func (c *Config) Clustered() bool { return c.Cluster.Node != 0 }

func (c *Config) validateCluster() (errs []error) {
	v := &c.Cluster
	if !c.Clustered() {
		return nil
	}
	if v.Peers == "" || v.Addr == "" {
		errs = append(errs, fmt.Errorf("node.id: node %d needs peer.addr, and peers with all nodes of its cluster", v.Node))
	}
	files := 0
	for _, f := range []string{v.CA, v.Cert, v.Key} {
		if f != "" {
			files++
		}
	}
	if files != 0 && files != 3 {
		errs = append(errs, errors.New("peer.ca, peer.cert, peer.key: nodes authenticate each other with all three, or with none"))
	}
	if v.Addr != "" && files == 0 && !c.Insecure && !loopback(v.Addr) {
		errs = append(errs, fmt.Errorf("peer.addr: %s can be reached from other machines, and nodes would take what anybody sends: "+
			"give peer.ca, peer.cert and peer.key, or say --insecure", v.Addr))
	}
	if v.Tick < time.Millisecond || v.Tick > time.Second {
		errs = append(errs, fmt.Errorf("peer.tick: %v is not from 1ms to 1s", v.Tick))
	}
	if v.PullRate != 0 && v.PullRate < minPullRate {
		errs = append(errs, fmt.Errorf("peer.pull.rate: %d bytes per second, want at least %s, or 0", v.PullRate, printSize(minPullRate)))
	}
	return errs
}
