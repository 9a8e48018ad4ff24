package frontendkafka

import (
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
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
