package replication

import (
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"queen/engine"
	"queen/engine/clock"
	"queen/engine/format"
)

// Options say which node of which cluster this is.
type Options struct {
	// Node is this node's number, above 0, for ever bound to its data directory.
	Node format.Replica
	// Peers are the raft addresses of all nodes, HOST:PORT; the port above serves what nodes ask of each other besides. What
	// the log holds of an earlier start wins over it.
	Peers map[format.Replica]string
	// Listen is where this node listens for raft, default Peers[Node]; the other port is one above.
	Listen string
	// Dir is where the library keeps its lock and its flags, on the machine's own file system; required.
	Dir string
	// Joining says that the node was added to a running cluster and waits to be told its log.
	Joining bool
	// Tick is the unit of raft's timers: heartbeats come every 2, elections after 10 to 20. Default 50 ms: half a second without
	// a heartbeat is more than a flush or a collection takes on a busy machine, and a failover stays well under two.
	Tick time.Duration
	// Hold is how long log that the node itself needs no more is kept for a member that has not applied it: one that was away for
	// longer pulls a copy of another node's state when it comes back. 0 keeps it as long as that node is a member.
	Hold time.Duration
	// PullRate is how many bytes in a second this node sends at most, together, to nodes that copy its state; 0 is no limit.
	PullRate int64
	// Groups is how many raft groups the cluster has, 1 to MaxGroups, 0 for 1: fixed when a cluster begins, and OpenAll refuses another
	// number. Each tenant is in one of them.
	Groups uint8
	// Spread has the lead of raft groups handed to different nodes once one has gone or come; nothing with one group.
	Spread bool
	// Version is that of the program, of which other nodes are told the first 24 bytes.
	Version string
	// TLS secures all connections between nodes, both sides showing their certificates; nil speaks in the clear.
	TLS *TLS
	// Clock paces retries; default the machine's. Log receives events; nil discards them.
	Clock clock.Clock
	Log   *slog.Logger

	// alone is for how long a node that has taken part before waits at its start for a majority to answer, default aloneFor.
	alone time.Duration
	quit  <-chan struct{} // ends a Join that waits for others
	// group is the raft group, default the first.
	group format.RaftGroup
	// shared is what the raft groups of a process share; nil is one of its own for each.
	shared *host
	// origin is where a group above the first one has its first members from; nil for the list of peers.
	origin *origin
}

// groups is how many raft groups the cluster has.
func (o *Options) groups() int { return max(1, int(o.Groups)) }

// of takes from the engine's configuration what o leaves open.
func (o Options) of(cfg engine.Config) Options {
	if o.Dir == "" {
		o.Dir = path.Join(cfg.Dir, "raft")
	}
	if o.Clock == nil {
		o.Clock = cfg.Clock
	}
	if o.Log == nil {
		o.Log = cfg.Log
	}
	o.quit = cfg.Quit
	return o
}

// TLS is how nodes show each other who they are. What it gives may change while a node runs: it is asked at each handshake.
type TLS struct {
	// Listener is for what accepts connections; it has to ask for certificates.
	Listener *tls.Config
	// To is for a connection to a host.
	To func(host string) *tls.Config
}

// clientConfig is for a connection to the node at an address.
func (t *TLS) clientConfig(addr string) *tls.Config {
	host, _, _ := net.SplitHostPort(addr)
	return t.To(host)
}

const (
	defaultTick = 50 * time.Millisecond
	// MaxNodes bounds a cluster.
	MaxNodes = 9
	// MinPullRate is the least PullRate beside 0: with less all other nodes together would find the one they read from silent.
	MinPullRate = 64 << 10
)

func (o Options) withDefaults() Options {
	o.Peers = maps.Clone(o.Peers)
	if o.group == 0 {
		o.group = firstGroup
	}
	if o.alone == 0 {
		o.alone = aloneFor
	}
	if o.Tick == 0 {
		o.Tick = defaultTick
	}
	if o.Listen == "" {
		o.Listen = o.Peers[o.Node]
	}
	if o.Clock == nil {
		o.Clock = clock.Real()
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return o
}

// Validate joins every problem of o.
func (o Options) Validate() error {
	var errs []error
	bad := func(cond bool, format string, args ...any) {
		if cond {
			errs = append(errs, fmt.Errorf("replication: "+format, args...))
		}
	}
	bad(o.Node == 0, "the node needs a number above 0")
	bad(o.Dir == "", "Dir is missing")
	bad(o.Peers[o.Node] == "", "node %d is not among the peers", o.Node)
	bad(len(o.Peers) > MaxNodes, "%d peers, at most %d", len(o.Peers), MaxNodes)
	bad(o.Tick < 0 || o.Tick > 0 && o.Tick < time.Millisecond, "a tick of %v, at least 1ms", o.Tick)
	bad(o.Groups > MaxGroups, "%d raft groups, at most %d", o.Groups, MaxGroups)
	bad(o.Hold < 0, "Hold %v is below 0", o.Hold)
	bad(o.PullRate != 0 && o.PullRate < MinPullRate, "PullRate %d, at least %d bytes in a second, or 0", o.PullRate, MinPullRate)
	seen := map[string]format.Replica{}
	for _, node := range slices.Sorted(maps.Keys(o.Peers)) {
		addr := o.Peers[node]
		_, err := sideAddress(addr)
		bad(err != nil, "peer %d: %v", node, err)
		bad(seen[addr] != 0, "peers %d and %d have the same address %s", seen[addr], node, addr)
		bad(node == 0, "peer numbers start at 1")
		seen[addr] = node
	}
	return errors.Join(errs...)
}

// ParsePeers reads 1=HOST:PORT,2=HOST:PORT,...
func ParsePeers(s string) (map[format.Replica]string, error) {
	peers := map[format.Replica]string{}
	for _, part := range strings.Split(s, ",") {
		number, addr, ok := strings.Cut(strings.TrimSpace(part), "=")
		node, err := strconv.ParseUint(number, 10, 32)
		switch {
		case !ok || err != nil || node == 0:
			return nil, fmt.Errorf("%q: want NUMBER=HOST:PORT, the number above 0", part)
		case peers[format.Replica(node)] != "":
			return nil, fmt.Errorf("node %d is there twice", node)
		}
		if _, err := sideAddress(addr); err != nil {
			return nil, fmt.Errorf("node %d: %w", node, err)
		}
		peers[format.Replica(node)] = addr
	}
	return peers, nil
}

// sideAddress is where a node serves what other nodes ask for besides raft: the port above.
func sideAddress(raft string) (string, error) {
	host, port, err := net.SplitHostPort(raft)
	if err != nil {
		return "", fmt.Errorf("address %q: want HOST:PORT", raft)
	}
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil || n == 0 || n == 65535 || host == "" {
		return "", fmt.Errorf("address %q: want a host, and a port from 1 to 65534", raft)
	}
	return net.JoinHostPort(host, strconv.FormatUint(n+1, 10)), nil
}
