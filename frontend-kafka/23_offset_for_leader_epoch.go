package frontendkafka

import (
	"context"
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"queen/engine"
	"queen/engine/auth"
	"queen/engine/format"
)

// OffsetForLeaderEpoch, 2 to 4: where the records of an epoch end, so that a client finds out whether what it has read
// is still there.
func offsetForLeaderEpochAPI() *api {
	return &api{key: 23, min: 2, max: 4, level: auth.LevelReadOnly, denied: kerr.TopicAuthorizationFailed.Code,
		handle: offsetForLeaderEpoch, refuse: refuseOffsetForLeaderEpoch}
}

func offsetForLeaderEpoch(ctx context.Context, c *conn, r *request) (kmsg.Response, error) {
	req := r.req.(*kmsg.OffsetForLeaderEpochRequest)
	resp := refuseOffsetForLeaderEpoch(r, 0).(*kmsg.OffsetForLeaderEpochResponse)
	l := c.lookups()
	var queries []engine.RecordOffsetQuery
	var outs []*kmsg.OffsetForLeaderEpochResponseTopicPartition
	for i := range req.Topics {
		t := &req.Topics[i]
		for j := range t.Partitions {
			in, out := &t.Partitions[j], &resp.Topics[i].Partitions[j]
			if err := l.partition(ctx, t.Topic, in.Partition, in.CurrentLeaderEpoch); err != nil {
				out.ErrorCode = codeOf(err)
				continue
			}
			if in.LeaderEpoch < 0 {
				continue // of no epoch there is no end
			}
			if l.known[t.Topic].internal() {
				out.LeaderEpoch, out.EndOffset = in.LeaderEpoch, 0
				continue
			}
			queries = append(queries, engine.RecordOffsetQuery{Queue: t.Topic, Partition: partitionName(in.Partition),
				Kind: engine.RecordOfEpoch, Epoch: format.Term(in.LeaderEpoch)})
			outs = append(outs, out)
		}
	}
	if len(queries) == 0 {
		return resp, nil
	}
	res, err := c.f.engine.Records().RecordOffsets(ctx, l.who, queries)
	if err == nil && len(res) != len(outs) {
		return nil, fmt.Errorf("the engine answered %d of %d questions", len(res), len(outs))
	}
	for i, out := range outs {
		switch {
		case err != nil:
			out.ErrorCode = codeOf(err)
		case unwritten(res[i].Err):
			out.LeaderEpoch, out.EndOffset = epochNumber(queries[i].Epoch), 0
		case res[i].Err != nil:
			out.ErrorCode = codeOf(res[i].Err)
		case res[i].Found:
			out.LeaderEpoch, out.EndOffset = epochNumber(res[i].Epoch), int64(res[i].Offset)
		}
	}
	return resp, nil
}

// refuseOffsetForLeaderEpoch gives every partition one code.
func refuseOffsetForLeaderEpoch(r *request, code int16) kmsg.Response {
	req := r.req.(*kmsg.OffsetForLeaderEpochRequest)
	resp := req.ResponseKind().(*kmsg.OffsetForLeaderEpochResponse)
	resp.Topics = make([]kmsg.OffsetForLeaderEpochResponseTopic, len(req.Topics))
	for i := range req.Topics {
		t := &resp.Topics[i]
		t.Topic = req.Topics[i].Topic
		t.Partitions = make([]kmsg.OffsetForLeaderEpochResponseTopicPartition, len(req.Topics[i].Partitions))
		for j := range t.Partitions {
			p := &t.Partitions[j]
			p.Partition, p.ErrorCode = req.Topics[i].Partitions[j].Partition, code
			p.LeaderEpoch, p.EndOffset = -1, -1
		}
	}
	return resp
}
