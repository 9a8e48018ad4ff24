package frontendkafka

import (
	"cmp"
	"net"
	"slices"
	"strconv"

	"github.com/twmb/franz-go/pkg/kerr"

	"queen/engine"
	"queen/engine/format"
)

// Broker is a node of the cluster as clients of it are told.
type Broker struct {
	ID   int32
	Rack string
	// Addresses are host:port by the names of listeners; a listener without one is not told of the broker.
	Addresses map[string]string
}

// broker is a node as the clients of one listener are told.
type broker struct {
	id   int32
	host string
	port int32
	rack *string
}

// cluster is who is there: the brokers by their numbers, and the one that leads.
type cluster struct {
	brokers    []broker
	controller int32
	// voters hold every partition; inSync are those of them that are there.
	voters, inSync []int32
}

// cluster is who is there as the connection's client is told.
func (c *conn) cluster() cluster { return c.f.cluster(c.l, c.caller().Tenant) }

// cluster asks who is there, for clients of a listener and a tenant: the one that leads is the one of the tenant's partitions.
func (f *Frontend) cluster(l *Listener, t format.Tenant) cluster {
	me := f.opts.NodeID
	var all []Broker
	leader := me
	switch {
	case f.opts.Brokers != nil:
		all, leader = f.opts.Brokers()
	case f.opts.Clustered:
		all, leader = f.placed.get(f), f.leader(t)
	}
	if !slices.ContainsFunc(all, func(b Broker) bool { return b.ID == me }) {
		all = append(slices.Clip(all), Broker{ID: me, Rack: f.opts.Rack})
	}
	c, seen := cluster{controller: leader}, f.seenNodes.Load()
	for i := range all {
		b := broker{id: all[i].ID}
		if b.id != me && !seen.member(b.id) {
			continue
		}
		c.voters = append(c.voters, b.id)
		if b.id != me && b.id != leader && !seen.there(b.id) {
			continue
		}
		c.inSync = append(c.inSync, b.id)
		host, port, err := net.SplitHostPort(all[i].Addresses[l.Name])
		n, bad := strconv.ParseUint(port, 10, 16)
		switch {
		case b.id == me:
			b.host, b.port = l.host, l.port
		case err != nil || bad != nil:
			continue
		default:
			b.host, b.port = host, int32(n)
		}
		if all[i].Rack != "" {
			b.rack = &all[i].Rack
		}
		c.brokers = append(c.brokers, b)
	}
	slices.SortFunc(c.brokers, func(a, b broker) int { return cmp.Compare(a.id, b.id) })
	slices.Sort(c.voters)
	slices.Sort(c.inSync)
	return c
}

// leaderless is the code of a partition in what clients are told of topics: LEADER_NOT_AVAILABLE while nobody leads it.
func (cl *cluster) leaderless() int16 {
	if cl.controller < 0 {
		return kerr.LeaderNotAvailable.Code
	}
	return 0
}

// leader is the node that leads where a tenant's partitions are; -1 while none does. It asks no other node.
func (f *Frontend) leader(t format.Tenant) int32 {
	if l, _ := f.engine.Records().Leader(engine.Caller{Tenant: t}); l != 0 {
		return int32(l)
	}
	return -1
}

// leaderEpoch is the term that clients of a tenant are told of every partition. That of another tenant would have them refused: terms
// only rise within one.
func (f *Frontend) leaderEpoch(t format.Tenant) int32 {
	_, term := f.engine.Records().Leader(engine.Caller{Tenant: t})
	return epochNumber(term)
}

// guide is what a client is told that did not meet the leader (KIP-951), so that it need not ask for metadata first.
type guide struct {
	leader, epoch int32
	// at is where the leader is, for clients of the listener; nil while none is known there.
	at *broker
}

// guide finds the leader for clients of a connection. While none is known nobody is sent anywhere.
func (c *conn) guide() guide {
	cl := c.cluster()
	if cl.controller < 0 {
		return guide{leader: -1, epoch: -1}
	}
	g := guide{leader: cl.controller, epoch: c.f.leaderEpoch(c.caller().Tenant)}
	if i := slices.IndexFunc(cl.brokers, func(b broker) bool { return b.id == cl.controller }); i >= 0 {
		g.at = &cl.brokers[i]
	}
	return g
}
