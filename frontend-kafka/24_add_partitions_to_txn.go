package frontendkafka

import (
	"context"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"queen/engine"
	"queen/engine/auth"
)

// AddPartitionsToTxn, 0 to 3: partitions that a transaction is about to write to. All of them or none: when one can not
// be added, the others answer OPERATION_NOT_ATTEMPTED. An internal topic is one that nobody may write to here, as in Kafka, after which
// a producer can abort and go on. v4 and later are what brokers say to each other.
func addPartitionsToTxnAPI() *api {
	return &api{key: 24, min: 0, max: 3, level: auth.LevelWriteOnly, denied: kerr.TransactionalIDAuthorizationFailed.Code,
		handle: addPartitionsToTxn, refuse: refuseAddPartitionsToTxn}
}

func addPartitionsToTxn(ctx context.Context, c *conn, r *request) (kmsg.Response, error) {
	req := r.req.(*kmsg.AddPartitionsToTxnRequest)
	resp := refuseAddPartitionsToTxn(r, kerr.OperationNotAttempted.Code).(*kmsg.AddPartitionsToTxnResponse)
	l := c.lookups()
	var refs []engine.PartitionRef
	bad := false
	for i := range req.Topics {
		t := &req.Topics[i]
		for j, n := range t.Partitions {
			err := error(kerr.TopicAuthorizationFailed)
			if _, internal := internalTopic(t.Topic); !internal {
				err = l.partition(ctx, t.Topic, n, -1)
			}
			if err != nil {
				resp.Topics[i].Partitions[j].ErrorCode = coordinatorCode(err, req.Version < 2)
				bad = true
			}
			refs = append(refs, engine.PartitionRef{Queue: t.Topic, Partition: partitionName(n)})
		}
	}
	if bad || len(refs) == 0 {
		return resp, nil
	}
	ref := engine.ProducerRef{TransactionalID: req.TransactionalID, ID: req.ProducerID, Epoch: req.ProducerEpoch}
	ctx, cancel := within(ctx, 0)
	defer cancel()
	if err := c.f.widen(ctx, l.who, ref, refs...); err != nil {
		return refuseAddPartitionsToTxn(r, codeOf(err)), nil
	}
	err := c.f.engine.Records().AddToTxn(ctx, l.who, ref, refs)
	return refuseAddPartitionsToTxn(r, coordinatorCode(err, req.Version < 2)), nil
}

// refuseAddPartitionsToTxn gives every partition one code.
func refuseAddPartitionsToTxn(r *request, code int16) kmsg.Response {
	req := r.req.(*kmsg.AddPartitionsToTxnRequest)
	resp := req.ResponseKind().(*kmsg.AddPartitionsToTxnResponse)
	resp.Topics = make([]kmsg.AddPartitionsToTxnResponseTopic, len(req.Topics))
	for i := range req.Topics {
		t := &resp.Topics[i]
		t.Topic = req.Topics[i].Topic
		t.Partitions = make([]kmsg.AddPartitionsToTxnResponseTopicPartition, len(req.Topics[i].Partitions))
		for j, n := range req.Topics[i].Partitions {
			t.Partitions[j].Partition, t.Partitions[j].ErrorCode = n, code
		}
	}
	return resp
}
