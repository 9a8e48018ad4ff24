package frontendkafka

import (
	"context"
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"queen/engine"
	"queen/engine/auth"
)

// ListOffsets, 1 to 11: where partitions begin and end, and the first record that is as late as a time. v2 may ask for
// committed records only, v4 tells leader epochs, v7 finds the latest time, v8, v9 and v11 ask about tiers, of which
// there is one.
func listOffsetsAPI() *api {
	return &api{key: 2, min: 1, max: 11, level: auth.LevelReadOnly, denied: kerr.TopicAuthorizationFailed.Code,
		handle: listOffsets, refuse: refuseListOffsets}
}

// Times that mean a place.
const (
	timeLatest         = -1
	timeEarliest       = -2
	timeMax            = -3
	timeEarliestLocal  = -4
	timeLatestTiered   = -5
	timeEarliestUpload = -6
)

func listOffsets(ctx context.Context, c *conn, r *request) (kmsg.Response, error) {
	req := r.req.(*kmsg.ListOffsetsRequest)
	resp := refuseListOffsets(r, 0).(*kmsg.ListOffsetsResponse)
	l := c.lookups()
	var queries []engine.RecordOffsetQuery
	var outs []*kmsg.ListOffsetsResponseTopicPartition
	for i := range req.Topics {
		t := &req.Topics[i]
		for j := range t.Partitions {
			in, out := &t.Partitions[j], &resp.Topics[i].Partitions[j]
			q := engine.RecordOffsetQuery{Queue: t.Topic, Partition: partitionName(in.Partition), Committed: req.IsolationLevel == 1}
			err := l.partition(ctx, t.Topic, in.Partition, in.CurrentLeaderEpoch)
			if err == nil {
				err = placeOf(in.Timestamp, req.Version, &q)
			}
			if err != nil {
				out.ErrorCode = codeOf(err)
				continue
			}
			switch {
			case q.Kind == 0:
			case l.known[t.Topic].internal():
				listed(out, &q, &engine.RecordOffset{Err: errEmpty})
			default:
				queries, outs = append(queries, q), append(outs, out)
			}
		}
	}
	if len(queries) == 0 {
		return resp, nil
	}
	ctx, cancel := within(ctx, req.TimeoutMillis)
	defer cancel()
	res, err := c.f.engine.Records().RecordOffsets(ctx, l.who, queries)
	if err == nil && len(res) != len(outs) {
		return nil, fmt.Errorf("the engine answered %d of %d questions", len(res), len(outs))
	}
	for i, out := range outs {
		if err != nil {
			out.ErrorCode = codeOf(err)
			continue
		}
		listed(out, &queries[i], &res[i])
	}
	return resp, nil
}

// listed answers one partition. One that nobody has written to begins and ends at 0.
func listed(out *kmsg.ListOffsetsResponseTopicPartition, q *engine.RecordOffsetQuery, res *engine.RecordOffset) {
	place := q.Kind != engine.RecordAtTime && q.Kind != engine.RecordMaxTime
	switch {
	case unwritten(res.Err):
		if place {
			out.Offset = 0
		}
	case res.Err != nil:
		out.ErrorCode = codeOf(res.Err)
	case res.Found:
		out.Offset = int64(res.Offset)
		if !place {
			out.Timestamp = res.Timestamp
		}
		if res.Epoch > 0 {
			out.LeaderEpoch = epochNumber(res.Epoch)
		}
	}
}

// placeOf makes a question of a time. No question is left of one about a tier that does not exist: its answer is -1.
func placeOf(at int64, version int16, q *engine.RecordOffsetQuery) error {
	switch {
	case at >= 0:
		q.Kind, q.Time = engine.RecordAtTime, at
	case at == timeLatest && q.Committed:
		q.Kind = engine.RecordStable
	case at == timeLatest:
		q.Kind = engine.RecordLatest
	case at == timeEarliest, at == timeEarliestLocal && version >= 8, at == timeEarliestUpload && version >= 11:
		q.Kind = engine.RecordEarliest
	case at == timeMax && version >= 7:
		q.Kind = engine.RecordMaxTime
	case at == timeLatestTiered && version >= 9:
	default:
		return kerr.UnsupportedVersion
	}
	return nil
}

// refuseListOffsets gives every partition one code.
func refuseListOffsets(r *request, code int16) kmsg.Response {
	req := r.req.(*kmsg.ListOffsetsRequest)
	resp := req.ResponseKind().(*kmsg.ListOffsetsResponse)
	resp.Topics = make([]kmsg.ListOffsetsResponseTopic, len(req.Topics))
	for i := range req.Topics {
		t := &resp.Topics[i]
		t.Topic = req.Topics[i].Topic
		t.Partitions = make([]kmsg.ListOffsetsResponseTopicPartition, len(req.Topics[i].Partitions))
		for j := range t.Partitions {
			p := &t.Partitions[j]
			p.Default()
			p.Partition, p.ErrorCode = req.Topics[i].Partitions[j].Partition, code
			p.Timestamp, p.Offset, p.LeaderEpoch = -1, -1, -1
		}
	}
	return resp
}
