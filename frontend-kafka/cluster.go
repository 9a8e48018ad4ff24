package frontendkafka

import (
	"cmp"
	"context"
	"math"
	"net"
	"slices"
	"strconv"
	"time"
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
	me := f.opts.NodeID
	var all []Broker
	leader := me
	switch {
	case f.opts.Brokers != nil:
		all, leader = f.opts.Brokers()
	case f.opts.Clustered:
		all, leader = f.placed.get(f), f.leader()
	}
	if !slices.ContainsFunc(all, func(b Broker) bool { return b.ID == me }) {
		all = append(slices.Clip(all), Broker{ID: me, Rack: f.opts.Rack})
	}
	c := cluster{controller: leader}
	for i := range all {
		b := broker{id: all[i].ID}
		c.voters = append(c.voters, b.id)
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
	return c
}

// followEvery is how often a node of a cluster asks who leads.
const followEvery = 200 * time.Millisecond

// follow keeps who leads at hand, so that no request waits for the cluster to say so.
func (f *Frontend) follow() {
	for f.ended.Err() == nil {
		f.leads.Store(f.askLeader())
		t := f.opts.Clock.NewTimer(followEvery)
		select {
		case <-t.C():
		case <-f.ended.Done():
		}
		t.Stop()
	}
}

// leader is the node that led when it was last asked, at most about followEvery ago; -1 while none does.
func (f *Frontend) leader() int32 {
	if l := f.leads.Load(); l != 0 {
		return l
	}
	return f.askLeader()
}

// askLeader asks which node leads; -1 while none does. It may wait for other nodes.
func (f *Frontend) askLeader() int32 {
	s, err := f.engine.Status(context.Background())
	if err != nil || s.Leader == 0 {
		return -1
	}
	return int32(s.Leader)
}

// leaderEpoch is the term that clients are told of every partition.
func (f *Frontend) leaderEpoch(ctx context.Context) int32 {
	s, err := f.engine.Status(ctx)
	if err != nil {
		return -1
	}
	return int32(min(s.Term, math.MaxInt32))
}
