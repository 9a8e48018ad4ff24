package frontendkafka

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"queen/engine/batch"
)

// Goal: readers of what is committed get that and nothing else; others get everything; the end of a transaction takes
// an offset.
func TestTransactions(t *testing.T) {
	n := start(t, nil)
	n.topic("t", 1)
	ctx := patient(t)
	cl := n.client(kgo.TransactionalID("x"), kgo.DefaultProduceTopic("t"))
	for i := range 4 {
		require.NoError(t, cl.BeginTransaction())
		for j := range 3 {
			require.NoError(t, cl.ProduceSync(ctx, kgo.StringRecord(fmt.Sprint(i, j))).FirstErr())
		}
		require.NoError(t, cl.EndTransaction(ctx, kgo.TransactionEndTry(i%2 == 0)))
	}
	require.EqualValues(t, 16, end(n, "t", "0"))
	for _, c := range []struct {
		level kgo.IsolationLevel
		want  []string
	}{
		{kgo.ReadCommitted(), []string{"0 0", "0 1", "0 2", "2 0", "2 1", "2 2"}},
		{kgo.ReadUncommitted(), []string{"0 0", "0 1", "0 2", "1 0", "1 1", "1 2", "2 0", "2 1", "2 2", "3 0", "3 1", "3 2"}},
	} {
		reader := n.client(kgo.ConsumeTopics("t"), kgo.FetchIsolationLevel(c.level))
		var got []string
		for len(got) < len(c.want) {
			fs := reader.PollFetches(ctx)
			require.NoError(t, fs.Err())
			fs.EachRecord(func(r *kgo.Record) { got = append(got, string(r.Value)) })
		}
		require.Equal(t, c.want, got)
	}
}

// transactional is a producer that speaks frames.
type transactional struct {
	*raw
	id    string
	pid   int64
	epoch int16
	seq   int32
}

func (r *raw) transactional(id string) *transactional {
	r.t.Helper()
	req := kmsg.NewPtrInitProducerIDRequest()
	req.Version, req.TransactionalID, req.TransactionTimeoutMillis = 4, &id, 60_000
	req.ProducerID, req.ProducerEpoch = -1, -1
	resp := r.ask(req).(*kmsg.InitProducerIDResponse)
	require.Zero(r.t, resp.ErrorCode, "%v", kerr.ErrorForCode(resp.ErrorCode))
	return &transactional{r, id, resp.ProducerID, resp.ProducerEpoch, 0}
}

func (x *transactional) add(version int16, topic string, parts ...int32) []int16 {
	x.t.Helper()
	req := kmsg.NewPtrAddPartitionsToTxnRequest()
	req.Version, req.TransactionalID, req.ProducerID, req.ProducerEpoch = version, x.id, x.pid, x.epoch
	req.Topics = []kmsg.AddPartitionsToTxnRequestTopic{{Topic: topic, Partitions: parts}}
	var codes []int16
	for _, p := range x.ask(req).(*kmsg.AddPartitionsToTxnResponse).Topics[0].Partitions {
		codes = append(codes, p.ErrorCode)
	}
	return codes
}

func (x *transactional) batch(values ...string) []byte {
	b := records(x.t, func(h *batch.Header) {
		h.ProducerID, h.ProducerEpoch, h.BaseSequence, h.Attributes = x.pid, x.epoch, x.seq, 0x10
	}, values...)
	return b
}

func (x *transactional) write(version int16, topic string, values ...string) kmsg.ProduceResponseTopicPartition {
	x.t.Helper()
	req := produceRequest(version, -1, topic, 0, x.batch(values...))
	req.TransactionID = &x.id
	p := x.ask(req).(*kmsg.ProduceResponse).Topics[0].Partitions[0]
	if p.ErrorCode == 0 {
		x.seq += int32(len(values))
	}
	return p
}

func (x *transactional) end(version int16, commit bool) *kmsg.EndTxnResponse {
	x.t.Helper()
	req := kmsg.NewPtrEndTxnRequest()
	req.Version, req.TransactionalID, req.ProducerID, req.ProducerEpoch, req.Commit = version, x.id, x.pid, x.epoch, commit
	return x.ask(req).(*kmsg.EndTxnResponse)
}

// stable gives the high watermark and the last stable offset that a fetch of committed records tells, and its ranges.
func (r *raw) stable(topic string) kmsg.FetchResponseTopicPartition {
	r.t.Helper()
	req := fetchRequest(12, topic, 0)
	req.IsolationLevel = 1
	return r.fetch(req).Topics[0].Partitions[0]
}

// Goal: every situation of a transaction has its code.
func TestTransactionCodes(t *testing.T) {
	n := start(t, nil)
	n.topic("t", 1)
	n.topic("u", 1)
	x := n.dial().transactional("x")

	// What was not added is refused before TV2, and added by itself from then on.
	require.Equal(t, kerr.InvalidTxnState.Code, x.write(9, "t", "a").ErrorCode)
	require.Equal(t, kerr.InvalidTxnState.Code, x.end(3, true).ErrorCode)
	require.Equal(t, []int16{3, 55}, append(x.add(3, "nobody", 0), func() int16 {
		req := kmsg.NewPtrAddPartitionsToTxnRequest()
		req.Version, req.TransactionalID, req.ProducerID, req.ProducerEpoch = 3, x.id, x.pid, x.epoch
		req.Topics = []kmsg.AddPartitionsToTxnRequestTopic{{Topic: "nobody", Partitions: []int32{0}}, {Topic: "t", Partitions: []int32{0}}}
		return x.ask(req).(*kmsg.AddPartitionsToTxnResponse).Topics[1].Partitions[0].ErrorCode
	}()))
	require.Equal(t, []int16{0}, x.add(3, "t", 0))
	first := x.write(9, "t", "a", "b")
	require.Zero(t, first.ErrorCode)
	require.Zero(t, first.BaseOffset)
	p := x.stable("t")
	require.EqualValues(t, 2, p.HighWatermark)
	require.Zero(t, p.LastStableOffset)
	require.Empty(t, p.RecordBatches)

	// Nobody else may end it, nor an older life of the producer.
	stranger := *x
	stranger.pid++
	require.Equal(t, kerr.InvalidProducerIDMapping.Code, stranger.end(3, true).ErrorCode)
	ahead := *x
	ahead.epoch++
	require.Contains(t, []int16{kerr.InvalidProducerEpoch.Code, kerr.ProducerFenced.Code}, ahead.end(3, true).ErrorCode)
	require.Zero(t, x.end(3, false).ErrorCode)
	require.Zero(t, x.end(3, false).ErrorCode, "an end may be said again")
	require.Equal(t, kerr.InvalidTxnState.Code, x.end(3, true).ErrorCode)
	p = x.stable("t")
	require.EqualValues(t, 3, p.HighWatermark)
	require.EqualValues(t, 3, p.LastStableOffset)
	require.Equal(t, []kmsg.FetchResponseTopicPartitionAbortedTransaction{{ProducerID: x.pid, FirstOffset: 0}}, p.AbortedTransactions)

	// TV2: the partition adds itself, the end raises the epoch.
	require.Zero(t, x.write(12, "t", "c").ErrorCode)
	ended := x.end(5, true)
	require.Zero(t, ended.ErrorCode)
	require.Equal(t, x.pid, ended.ProducerID)
	require.Equal(t, x.epoch+1, ended.ProducerEpoch)
	require.Equal(t, kerr.InvalidProducerEpoch.Code, x.write(12, "t", "late").ErrorCode)

	// A new life fences the one before.
	y := n.dial().transactional("x")
	require.Greater(t, y.epoch, ended.ProducerEpoch)
	x.epoch = ended.ProducerEpoch
	require.Equal(t, kerr.ProducerFenced.Code, x.end(3, true).ErrorCode)
	require.Equal(t, kerr.InvalidProducerEpoch.Code, x.end(1, true).ErrorCode)
	require.Equal(t, []int16{kerr.ProducerFenced.Code}, x.add(3, "t", 0))
}

// Goal: one transaction has a bound on its partitions, by which it can be aborted and its producer goes on; those that are in
// it already count once.
func TestTransactionIsBounded(t *testing.T) {
	n := start(t, nil)
	n.f.txns.most = 3
	for _, topic := range []string{"t", "u", "v", "w"} {
		n.topic(topic, 4)
	}
	x := n.dial().transactional("x")
	for range 5 {
		require.Equal(t, []int16{0, 0, 0}, x.add(3, "t", 0, 1, 2))
	}
	require.Equal(t, []int16{kerr.PolicyViolation.Code}, x.add(3, "t", 3))
	require.Zero(t, x.write(9, "t", "a").ErrorCode)
	require.Zero(t, x.end(3, false).ErrorCode)
	require.Equal(t, []int16{0}, x.add(3, "t", 3))
	require.Zero(t, x.end(3, true).ErrorCode)

	for _, topic := range []string{"u", "v", "w"} {
		x.seq = 0
		require.Zero(t, x.write(12, topic, "b").ErrorCode)
	}
	require.Zero(t, x.write(12, "w", "b").ErrorCode)
	require.Equal(t, kerr.TransactionAbortable.Code, x.write(12, "t", "c").ErrorCode)
	require.Zero(t, x.end(4, false).ErrorCode)
	n.f.txns.of = nil // a node that started anew asks
	require.Equal(t, []int16{0, 0}, x.add(3, "t", 0, 1))
	n.f.txns.of = nil
	require.Equal(t, []int16{kerr.PolicyViolation.Code, kerr.PolicyViolation.Code}, x.add(3, "u", 0, 1))
}

// Goal: what InitProducerID refuses.
func TestInitProducer(t *testing.T) {
	n := start(t, nil)
	c := n.dial()
	ask := func(id *string, millis int32, pid int64, epoch int16) int16 {
		req := kmsg.NewPtrInitProducerIDRequest()
		req.Version, req.TransactionalID, req.TransactionTimeoutMillis, req.ProducerID, req.ProducerEpoch = 4, id, millis, pid, epoch
		return c.ask(req).(*kmsg.InitProducerIDResponse).ErrorCode
	}
	id, empty := "x", ""
	require.Zero(t, ask(nil, 0, -1, -1))
	require.Zero(t, ask(&empty, 0, -1, -1))
	require.Equal(t, kerr.InvalidTransactionTimeout.Code, ask(&id, 0, -1, -1))
	require.Equal(t, kerr.InvalidTransactionTimeout.Code, ask(&id, 3_600_001, -1, -1))
	require.Equal(t, kerr.InvalidRequest.Code, ask(&id, 1000, 5, -1))
	require.Equal(t, kerr.InvalidRequest.Code, ask(&id, 1000, -1, 5))
}

// Goal: an idempotent producer that repeats itself writes once, and one that skips is told.
func TestIdempotence(t *testing.T) {
	n := start(t, nil)
	n.topic("t", 1)
	c := n.dial()
	req := kmsg.NewPtrInitProducerIDRequest()
	req.Version, req.ProducerID, req.ProducerEpoch = 4, -1, -1
	who := c.ask(req).(*kmsg.InitProducerIDResponse)
	write := func(seq int32, epoch int16, values ...string) kmsg.ProduceResponseTopicPartition {
		return c.produced(9, -1, "t", 0, records(t, func(h *batch.Header) {
			h.ProducerID, h.ProducerEpoch, h.BaseSequence = who.ProducerID, epoch, seq
		}, values...))
	}
	require.Equal(t, kerr.OutOfOrderSequenceNumber.Code, write(1, 0, "x").ErrorCode, "the first on an empty partition")
	for i := range int32(8) {
		p := write(2*i, 0, "a", "b")
		require.Zero(t, p.ErrorCode)
		require.EqualValues(t, 2*i, p.BaseOffset)
	}
	again := write(8, 0, "a", "b")
	require.Zero(t, again.ErrorCode)
	require.EqualValues(t, 8, again.BaseOffset)
	require.Equal(t, kerr.DuplicateSequenceNumber.Code, write(2, 0, "a", "b").ErrorCode)
	require.Equal(t, kerr.OutOfOrderSequenceNumber.Code, write(18, 0, "a", "b").ErrorCode)
	require.Equal(t, kerr.OutOfOrderSequenceNumber.Code, write(16, 1, "a").ErrorCode, "a new epoch starts at 0")
	require.Zero(t, write(0, 1, "a").ErrorCode)
	require.Equal(t, kerr.InvalidProducerEpoch.Code, write(16, 0, "a").ErrorCode)
	require.EqualValues(t, 17, end(n, "t", "0"))
}
