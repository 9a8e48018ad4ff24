package frontendkafka

import (
	"context"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"queen/engine"
	"queen/engine/clock"
)

// ledBy makes a node one of two, of which leader leads.
func ledBy(node int32, leader *atomic.Int32) func(*Options) {
	return func(o *Options) {
		o.NodeID = node
		o.Brokers = func() ([]Broker, int32) { return nil, leader.Load() }
	}
}

// Goal: a member that waits for the others of its group is sent to the new coordinator when the node that it asked loses the lead,
// although nothing of the group is due there for long.
func TestParkedJoinOfALostLead(t *testing.T) {
	var leader atomic.Int32
	leader.Store(1)
	n := start(t, ledBy(1, &leader))
	n.topic("t", 1)
	join := kmsg.NewPtrJoinGroupRequest()
	join.Version, join.Group, join.ProtocolType = 2, "g", "consumer"
	join.SessionTimeoutMillis, join.RebalanceTimeoutMillis = 1_800_000, 1_800_000
	join.Protocols = []kmsg.JoinGroupRequestProtocol{{Name: "range"}}
	first, second := n.dial(), n.dial()
	require.Zero(t, first.ask(join).(*kmsg.JoinGroupResponse).ErrorCode)
	second.send(join)
	require.Eventually(t, func() bool {
		describe := kmsg.NewPtrDescribeGroupsRequest()
		describe.Groups = []string{"g"}
		return first.ask(describe).(*kmsg.DescribeGroupsResponse).Groups[0].State == "PreparingRebalance"
	}, patience, pollEvery)
	leader.Store(2)
	require.Equal(t, kerr.NotCoordinator.Code, second.receive(join).(*kmsg.JoinGroupResponse).ErrorCode)
}

// Goal: what a Kafka member held that died together with the coordinator of its group is free for native consumers on every node once
// its session would have ended, although no client of Kafka asks for the group again.
func TestDeadMembersOfADeadLeader(t *testing.T) {
	var leader atomic.Int32
	leader.Store(1)
	n := start(t, ledBy(1, &leader))
	n.topic("t", 1)
	n.dial().joinClassic("g", 0)
	n.dial().joinNext("modern")
	n.stop()
	leader.Store(0)

	fake := clock.NewFake(1_700_000_000_000_000)
	serve := func(node int32) *Frontend {
		o := Options{Engine: n.engine, Rows: n.engine, Clock: fake, Listeners: []Listener{{Listener: listen(t)}}}
		ledBy(node, &leader)(&o)
		f, err := New(o)
		require.NoError(t, err)
		served := make(chan error, 1)
		go func() { served <- f.Serve() }()
		t.Cleanup(func() {
			require.Zero(t, f.Shutdown(context.Background()))
			require.NoError(t, <-served)
		})
		return f
	}
	serve(2)
	shared := serve(3).Shared(n.engine, false)
	pop := func(group string) error {
		d, err := shared.Pop(context.Background(), n.caller(), engine.PopRequest{Scope: engine.Scope{Queue: "t"}, Group: group})
		if d != nil {
			d.Abandon()
		}
		return err
	}
	for _, group := range []string{"g", "modern"} {
		require.ErrorIs(t, pop(group), &engine.Error{Code: engine.CodeGroupHeld})
	}
	leader.Store(2)
	for _, group := range []string{"g", "modern"} {
		require.Eventually(t, func() bool {
			fake.Advance(leadEvery)
			return pop(group) == nil
		}, patience, pollEvery)
	}
}
