package frontendkafka

import (
	"context"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"queen/engine"
	"queen/engine/auth"
	"queen/frontend-kafka/groups"
)

// TxnOffsetCommit, 0 to 5: positions of a consumer group that count when the producer's transaction is committed. v2
// brings leader epochs, v3 the member, v4 knows TRANSACTION_ABORTABLE, v5 begins the transaction by itself (KIP-890).
func txnOffsetCommitAPI() *api {
	return &api{key: 28, min: 0, max: 5, level: auth.LevelReadWrite, denied: kerr.TransactionalIDAuthorizationFailed.Code,
		handle: txnOffsetCommit, refuse: refuseTxnOffsetCommit}
}

func txnOffsetCommit(ctx context.Context, c *conn, r *request) (kmsg.Response, error) {
	req := r.req.(*kmsg.TxnOffsetCommitRequest)
	_, code := c.groupKey(req.Group)
	switch {
	case code != 0:
	case req.TransactionalID == "":
		code = kerr.InvalidRequest.Code
	case req.ProducerID < 0: // for the engine that is a commit outside of any transaction
		code = kerr.InvalidProducerIDMapping.Code
	}
	if code != 0 {
		return refuseTxnOffsetCommit(r, code), nil
	}
	resp := refuseTxnOffsetCommit(r, 0).(*kmsg.TxnOffsetCommitResponse)
	b := commitBuilder{c: c, who: c.caller(), commit: engine.GroupCommit{Group: req.Group, Implicit: req.Version >= 5,
		Producer: engine.ProducerRef{TransactionalID: req.TransactionalID, ID: req.ProducerID, Epoch: req.ProducerEpoch}}}
	for i := range req.Topics {
		t := &req.Topics[i]
		found, err := c.topicOf(ctx, t.Topic, t.TopicID, false)
		for j := range t.Partitions {
			p, code := &t.Partitions[j], &resp.Topics[i].Partitions[j].ErrorCode
			if *code = groupCode(err); err == nil {
				*code = b.add(found, p.Partition, p.Offset, p.LeaderEpoch, p.Metadata, code)
			}
		}
	}
	ctx, cancel := within(ctx, 0)
	defer cancel()
	by := groups.Committer{Generation: -1, Transactional: true}
	if req.Version >= 3 {
		by.Member, by.Instance, by.Generation = req.MemberID, req.InstanceID, req.Generation
	}
	if code := b.run(ctx, by); code != 0 {
		return refuseTxnOffsetCommit(r, txnCommitCode(code, req.Version)), nil
	}
	return resp, nil
}

// txnCommitCode is the code of a refused whole. A producer ends at any code that this request has never had: it does not know
// PRODUCER_FENCED, nor that a member epoch is stale, which it is told of as a generation. That there is no more room for
// positions ends its producer where it can not be told that an abort is enough.
func txnCommitCode(code, version int16) int16 {
	switch code {
	case kerr.ProducerFenced.Code:
		return kerr.InvalidProducerEpoch.Code
	case kerr.StaleMemberEpoch.Code:
		return kerr.IllegalGeneration.Code
	case kerr.InvalidCommitOffsetSize.Code, kerr.PolicyViolation.Code:
		if version >= 4 {
			return kerr.TransactionAbortable.Code
		}
	}
	return code
}

// refuseTxnOffsetCommit gives every partition one code.
func refuseTxnOffsetCommit(r *request, code int16) kmsg.Response {
	req := r.req.(*kmsg.TxnOffsetCommitRequest)
	resp := req.ResponseKind().(*kmsg.TxnOffsetCommitResponse)
	resp.Topics = make([]kmsg.TxnOffsetCommitResponseTopic, len(req.Topics))
	for i := range req.Topics {
		t := &resp.Topics[i]
		t.Topic, t.TopicID = req.Topics[i].Topic, req.Topics[i].TopicID
		t.Partitions = make([]kmsg.TxnOffsetCommitResponseTopicPartition, len(req.Topics[i].Partitions))
		for j := range t.Partitions {
			t.Partitions[j].Partition, t.Partitions[j].ErrorCode = req.Topics[i].Partitions[j].Partition, code
		}
	}
	return resp
}
