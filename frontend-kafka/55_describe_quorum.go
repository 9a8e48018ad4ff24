package frontendkafka

import (
	"context"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"queen/engine/auth"
)

// DescribeQuorum, 0 to 2: who replicates, under the name that Kafka's tools ask for. Offsets are entries of the log.
func describeQuorumAPI() *api {
	return &api{key: 55, min: 0, max: 2, level: auth.LevelReadOnly, handle: describeQuorum, refuse: func(r *request, code int16) kmsg.Response {
		resp := r.req.ResponseKind().(*kmsg.DescribeQuorumResponse)
		resp.ErrorCode = code
		return resp
	}}
}

// quorumTopic is the name of the log of metadata, which is partition 0 of it.
const quorumTopic = "__cluster_metadata"

func describeQuorum(ctx context.Context, c *conn, r *request) (kmsg.Response, error) {
	req := r.req.(*kmsg.DescribeQuorumRequest)
	resp := req.ResponseKind().(*kmsg.DescribeQuorumResponse)
	status, err := c.f.engine.Status(ctx)
	if err != nil {
		return nil, err
	}
	cl := c.cluster()
	req.Topics = once(req.Topics, func(t *kmsg.DescribeQuorumRequestTopic) string { return t.Topic })
	for _, asked := range req.Topics {
		row := kmsg.NewDescribeQuorumResponseTopic()
		row.Topic = asked.Topic
		for _, want := range once(asked.Partitions, func(p *kmsg.DescribeQuorumRequestTopicPartition) int32 { return p.Partition }) {
			p := kmsg.NewDescribeQuorumResponseTopicPartition()
			p.Partition = want.Partition
			if asked.Topic != quorumTopic || want.Partition != 0 {
				p.ErrorCode = kerr.UnknownTopicOrPartition.Code
				row.Partitions = append(row.Partitions, p)
				continue
			}
			p.LeaderID, p.LeaderEpoch, p.HighWatermark = cl.controller, c.f.leaderEpoch(c.caller().Tenant), int64(status.Applied)
			for _, id := range cl.voters {
				v := kmsg.NewDescribeQuorumResponseTopicPartitionReplicaState()
				v.ReplicaID, v.LogEndOffset, v.LastFetchTimestamp, v.LastCaughtUpTimestamp = id, -1, -1, -1
				if id == c.f.opts.NodeID { // of others this node does not know
					v.LogEndOffset = int64(status.Durable)
				}
				p.CurrentVoters = append(p.CurrentVoters, v)
			}
			row.Partitions = append(row.Partitions, p)
		}
		resp.Topics = append(resp.Topics, row)
	}
	for _, b := range cl.brokers {
		resp.Nodes = append(resp.Nodes, kmsg.DescribeQuorumResponseNode{NodeID: b.id, Listeners: []kmsg.DescribeQuorumResponseNodeListener{
			{Name: c.l.Name, Host: b.host, Port: uint16(b.port)}}})
	}
	return resp, nil
}
