package frontendkafka

import (
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"queen/engine"
)

// crowded is an engine that has no room for what transactions and groups need.
type crowded struct{ engine.Engine }

func (e crowded) Records() engine.Records { return crowdedRecords{e.Engine.Records()} }

type crowdedRecords struct{ engine.Records }

var errCrowded = &engine.Error{Code: engine.CodeTooLarge, Field: "positions", Limit: "2"}

func (crowdedRecords) CommitOffsets(context.Context, engine.Caller, engine.GroupCommit) ([]*engine.Error, error) {
	return nil, errCrowded
}

func (crowdedRecords) AddToTxn(context.Context, engine.Caller, engine.ProducerRef, []engine.PartitionRef) error {
	return errCrowded
}

func (crowdedRecords) EndTxn(context.Context, engine.Caller, engine.TxnEnd) (engine.ProducerIdentity, error) {
	return engine.ProducerIdentity{}, errCrowded
}

// commit makes a position of group g on partition 0 of topic t part of the transaction.
func (x *transactional) commit(version int16, offset int64) int16 {
	x.t.Helper()
	return x.commitAs("", -1, version, offset)
}

// commitAs is commit on behalf of a member of the group.
func (x *transactional) commitAs(member string, generation int32, version int16, offset int64) int16 {
	x.t.Helper()
	req := kmsg.NewPtrTxnOffsetCommitRequest()
	req.Version, req.TransactionalID, req.Group, req.ProducerID, req.ProducerEpoch = version, x.id, "g", x.pid, x.epoch
	req.MemberID, req.Generation = member, generation
	p := kmsg.NewTxnOffsetCommitRequestTopicPartition()
	p.Offset = offset
	topic := kmsg.NewTxnOffsetCommitRequestTopic()
	topic.Topic, topic.Partitions = "t", append(topic.Partitions, p)
	req.Topics = append(req.Topics, topic)
	return x.ask(req).(*kmsg.TxnOffsetCommitResponse).Topics[0].Partitions[0].ErrorCode
}

// position is where group g stands on partition 0 of topic t.
func (r *raw) position() int64 {
	r.t.Helper()
	req := kmsg.NewPtrOffsetFetchRequest()
	req.Version, req.Group = 7, "g"
	req.Topics = []kmsg.OffsetFetchRequestTopic{{Topic: "t", Partitions: []int32{0}}}
	p := r.ask(req).(*kmsg.OffsetFetchResponse).Topics[0].Partitions[0]
	require.Zero(r.t, p.ErrorCode)
	return p.Offset
}

// Goal: whoever finds no room is told so in a code that its version knows, and where there is one, that an abort is enough.
func TestNoRoomForTransactions(t *testing.T) {
	n := start(t, func(o *Options) { o.Engine = crowded{o.Engine} })
	n.topic("t", 1)
	x := n.dial().transactional("x")
	require.Equal(t, kerr.InvalidCommitOffsetSize.Code, x.commit(3, 1))
	require.Equal(t, kerr.TransactionAbortable.Code, x.commit(4, 1))
	require.Equal(t, kerr.TransactionAbortable.Code, x.commit(5, 1))
	require.Equal(t, kerr.PolicyViolation.Code, x.end(3, true).ErrorCode)
	require.Equal(t, kerr.TransactionAbortable.Code, x.end(4, true).ErrorCode)
	require.Equal(t, []int16{kerr.PolicyViolation.Code}, x.add(3, "t", 0))

	plain := kmsg.NewPtrOffsetCommitRequest()
	plain.Version, plain.Group, plain.Generation = 7, "g", -1
	plain.Topics = []kmsg.OffsetCommitRequestTopic{{Topic: "t", Partitions: []kmsg.OffsetCommitRequestTopicPartition{{Offset: 1}}}}
	require.Equal(t, kerr.InvalidCommitOffsetSize.Code, x.ask(plain).(*kmsg.OffsetCommitResponse).Topics[0].Partitions[0].ErrorCode)
}

// Goal: positions of a transaction are those of the producer that its id is bound to, and nothing of others' is committed.
func TestTransactionPositionsOfStrangers(t *testing.T) {
	n := start(t, nil)
	n.topic("t", 1)
	x := n.dial().transactional("x")
	for _, pid := range []int64{-1, x.pid + 64} {
		stranger := *x
		stranger.pid = pid
		require.Equal(t, kerr.InvalidProducerIDMapping.Code, stranger.commit(5, 7), pid)
		require.Equal(t, kerr.InvalidProducerIDMapping.Code, stranger.end(3, true).ErrorCode, pid)
		require.Equal(t, []int16{kerr.InvalidProducerIDMapping.Code}, stranger.add(3, "t", 0), pid)
	}
	nobody := *x
	nobody.id = ""
	require.Equal(t, kerr.InvalidRequest.Code, nobody.commit(5, 7))
	require.EqualValues(t, -1, x.position())

	add := kmsg.NewPtrAddOffsetsToTxnRequest()
	add.Version, add.TransactionalID, add.ProducerID, add.ProducerEpoch = 3, x.id, x.pid, x.epoch
	for group, want := range map[string]int16{"": kerr.InvalidGroupID.Code, strings.Repeat("g", 256): kerr.InvalidGroupID.Code, "g": 0} {
		add.Group = group
		require.Equal(t, want, x.ask(add).(*kmsg.AddOffsetsToTxnResponse).ErrorCode, "%d bytes", len(group))
	}
	require.Zero(t, x.commit(3, 7))
	require.Zero(t, x.end(3, true).ErrorCode)
	require.EqualValues(t, 7, x.position())
}

// Goal: a member whose epoch is not that of the group any more is told of a generation when its producer commits, which can abort
// then and go on; a code that this request has never had would end the producer. So it is when the tenant's plan has no room.
func TestTransactionOfAStaleMember(t *testing.T) {
	n := start(t, nil)
	n.topic("t", 1)
	c := n.dial()
	member, epoch := c.joinNext("g")
	x := c.transactional("x")
	plain := commitRequest(9, "t", [16]byte{}, 0, 7, nil)
	plain.Group, plain.MemberID, plain.Generation = "g", member, epoch-1
	require.Equal(t, kerr.StaleMemberEpoch.Code, c.ask(plain).(*kmsg.OffsetCommitResponse).Topics[0].Partitions[0].ErrorCode)
	for version := int16(3); version <= 5; version++ {
		require.Equal(t, kerr.IllegalGeneration.Code, x.commitAs(member, epoch-1, version, 7), version)
		require.Equal(t, kerr.UnknownMemberID.Code, x.commitAs("nobody", epoch, version, 7), version)
	}
	require.Zero(t, x.commitAs(member, epoch, 5, 7))
	require.Zero(t, x.end(5, true).ErrorCode)
	require.EqualValues(t, 7, x.position())
	require.Equal(t, kerr.PolicyViolation.Code, txnCommitCode(kerr.PolicyViolation.Code, 3))
	require.Equal(t, kerr.TransactionAbortable.Code, txnCommitCode(kerr.PolicyViolation.Code, 4))
}
