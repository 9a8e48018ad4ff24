package frontendkafka

import (
	"context"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"queen/engine"
	"queen/engine/auth"
)

// DescribeProducers, 0: who has written to partitions of late, and since which offset a transaction is open.
func describeProducersAPI() *api {
	return &api{key: 61, min: 0, max: 0, level: auth.LevelReadOnly, denied: kerr.TopicAuthorizationFailed.Code,
		handle: describeProducers, refuse: refuseDescribeProducers}
}

func describeProducers(ctx context.Context, c *conn, r *request) (kmsg.Response, error) {
	req := r.req.(*kmsg.DescribeProducersRequest)
	req.Topics = joined(req.Topics, func(t *kmsg.DescribeProducersRequestTopic) (string, *[]int32) { return t.Topic, &t.Partitions })
	resp := refuseDescribeProducers(r, 0).(*kmsg.DescribeProducersResponse)
	l, list := c.lookups(), listing{c: c}
	for i := range req.Topics {
		t := &req.Topics[i]
		for j, n := range t.Partitions {
			out := &resp.Topics[i].Partitions[j]
			err := l.partition(ctx, t.Topic, n, -1)
			var rows []engine.ProducerState
			if err == nil && !l.known[t.Topic].internal() {
				rows, err = c.f.engine.Records().Producers(ctx, l.who, engine.PartitionRef{Queue: t.Topic, Partition: partitionName(n)})
			}
			if isUnwritten(err) {
				err = nil
			}
			if err != nil {
				out.ErrorCode, out.ErrorMessage = codeOf(err), textOf(err)
				continue
			}
			if err := list.add(ctx, int64(len(rows))*producerRoom); err != nil {
				return nil, err
			}
			for _, p := range rows {
				a := kmsg.NewDescribeProducersResponseTopicPartitionActiveProducer()
				a.ProducerID, a.ProducerEpoch, a.LastSequence, a.LastTimestamp = p.ID, int32(p.Epoch), p.LastSequence, p.LastTimestamp
				a.CoordinatorEpoch, a.CurrentTxnStartOffset = l.epoch, -1
				if p.HasTxn {
					a.CurrentTxnStartOffset = int64(p.TxnStart)
				}
				out.ActiveProducers = append(out.ActiveProducers, a)
			}
		}
	}
	return resp, nil
}

// refuseDescribeProducers gives every partition one code.
func refuseDescribeProducers(r *request, code int16) kmsg.Response {
	req := r.req.(*kmsg.DescribeProducersRequest)
	resp := req.ResponseKind().(*kmsg.DescribeProducersResponse)
	resp.Topics = make([]kmsg.DescribeProducersResponseTopic, len(req.Topics))
	for i := range req.Topics {
		t := &resp.Topics[i]
		t.Topic = req.Topics[i].Topic
		t.Partitions = make([]kmsg.DescribeProducersResponseTopicPartition, len(req.Topics[i].Partitions))
		for j, n := range req.Topics[i].Partitions {
			t.Partitions[j].Partition, t.Partitions[j].ErrorCode = n, code
		}
	}
	return resp
}
