package frontendkafka

import (
	"cmp"
	"context"
	"math"
	"net"
	"slices"
	"strconv"
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
	// voters hold every partition.
	voters []int32
}

// cluster asks who is there, for clients of a listener.
func (f *Frontend) cluster(l *Listener) cluster {
	if f.opts.Brokers == nil {
		me := f.opts.NodeID
		return cluster{brokers: []broker{{id: me, host: l.host, port: l.port}}, controller: me, voters: []int32{me}}
	}
	all, leader := f.opts.Brokers()
	c := cluster{controller: leader}
	for i := range all {
		b := broker{id: all[i].ID}
		c.voters = append(c.voters, b.id)
		host, port, err := net.SplitHostPort(all[i].Addresses[l.Name])
		n, bad := strconv.ParseUint(port, 10, 16)
		switch {
		case b.id == f.opts.NodeID:
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
	return c
}

// leaderEpoch is the term that clients are told of every partition.
func (f *Frontend) leaderEpoch(ctx context.Context) int32 {
	s, err := f.engine.Status(ctx)
	if err != nil {
		return -1
	}
	return int32(min(s.Term, math.MaxInt32))
}
