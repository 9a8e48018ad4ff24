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

// DeleteRecords, 0 to 2: log starts move up. -1 is the end of what is there. Topics that are only compacted keep their
// records.
func deleteRecordsAPI() *api {
	return &api{key: 21, min: 0, max: 2, level: auth.LevelReadWrite, denied: kerr.TopicAuthorizationFailed.Code,
		handle: deleteRecords, refuse: refuseDeleteRecords}
}

func deleteRecords(ctx context.Context, c *conn, r *request) (kmsg.Response, error) {
	req := r.req.(*kmsg.DeleteRecordsRequest)
	resp := refuseDeleteRecords(r, 0).(*kmsg.DeleteRecordsResponse)
	l := c.lookups()
	var at []engine.FetchAt
	var outs []*kmsg.DeleteRecordsResponseTopicPartition
	for i := range req.Topics {
		t := &req.Topics[i]
		for j := range t.Partitions {
			in, out := &t.Partitions[j], &resp.Topics[i].Partitions[j]
			err := l.partition(ctx, t.Topic, in.Partition, -1)
			if err == nil {
				err = l.known[t.Topic].changeable()
			}
			switch {
			case err == nil && in.Offset < -1:
				err = kerr.OffsetOutOfRange
			case err == nil && c.f.settings(l.who, l.known[t.Topic].topic).compactOnly:
				err = kerr.PolicyViolation
			}
			if err != nil {
				out.ErrorCode = codeOf(err)
				continue
			}
			to := engine.DeleteToEnd
			if in.Offset >= 0 {
				to = format.Offset(in.Offset)
			}
			at = append(at, engine.FetchAt{Queue: t.Topic, Partition: partitionName(in.Partition), Offset: to})
			outs = append(outs, out)
		}
	}
	if len(at) == 0 {
		return resp, nil
	}
	ctx, cancel := within(ctx, req.TimeoutMillis)
	defer cancel()
	res, err := c.f.engine.Records().DeleteRecords(ctx, l.who, at)
	if err == nil && len(res) != len(outs) {
		return nil, fmt.Errorf("the engine answered %d of %d partitions", len(res), len(outs))
	}
	for i, out := range outs {
		switch {
		case err != nil:
			out.ErrorCode = codeOf(err)
		case unwritten(res[i].Err) && (at[i].Offset == 0 || at[i].Offset == engine.DeleteToEnd):
			out.LowWatermark = 0
		case unwritten(res[i].Err):
			out.ErrorCode = kerr.OffsetOutOfRange.Code
		case res[i].Err != nil:
			out.ErrorCode = codeOf(res[i].Err)
		default:
			out.LowWatermark = int64(res[i].Offset)
		}
	}
	return resp, nil
}

// refuseDeleteRecords gives every partition one code.
func refuseDeleteRecords(r *request, code int16) kmsg.Response {
	req := r.req.(*kmsg.DeleteRecordsRequest)
	resp := req.ResponseKind().(*kmsg.DeleteRecordsResponse)
	resp.Topics = make([]kmsg.DeleteRecordsResponseTopic, len(req.Topics))
	for i := range req.Topics {
		t := &resp.Topics[i]
		t.Topic = req.Topics[i].Topic
		t.Partitions = make([]kmsg.DeleteRecordsResponseTopicPartition, len(req.Topics[i].Partitions))
		for j := range t.Partitions {
			t.Partitions[j].Partition, t.Partitions[j].ErrorCode = req.Topics[i].Partitions[j].Partition, code
			t.Partitions[j].LowWatermark = -1
		}
	}
	return resp
}
