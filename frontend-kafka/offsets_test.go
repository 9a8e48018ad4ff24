package frontendkafka

import (
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"queen/engine/batch"
)

func (r *raw) listOffset(version int16, isolation int8, topic string, partition int32, at int64) kmsg.ListOffsetsResponseTopicPartition {
	r.t.Helper()
	req := kmsg.NewPtrListOffsetsRequest()
	req.Version, req.IsolationLevel = version, isolation
	p := kmsg.NewListOffsetsRequestTopicPartition()
	p.Partition, p.Timestamp, p.CurrentLeaderEpoch = partition, at, -1
	req.Topics = []kmsg.ListOffsetsRequestTopic{{Topic: topic, Partitions: []kmsg.ListOffsetsRequestTopicPartition{p}}}
	return r.ask(req).(*kmsg.ListOffsetsResponse).Topics[0].Partitions[0]
}

// timed produces one batch of records with times.
func (r *raw) timed(topic string, codec batch.Codec, times ...int64) {
	r.t.Helper()
	h := batch.Head(0)
	h.Attributes = int16(codec)
	b := batch.NewBuilder(nil, h)
	for i, at := range times {
		b.Add(&batch.Record{OffsetDelta: int32(i), Timestamp: at, Value: []byte("v")})
	}
	out, err := b.Finish(0)
	require.NoError(r.t, err)
	r.produce(topic, 0, out)
}

// Goal: a time finds the first record that is as late, by the times that clients see, ordered or not.
func TestListOffsets(t *testing.T) {
	n := start(t, nil)
	n.topic("t", 2)
	n.topic("odd", 1)
	c := n.dial()
	type answer struct{ code, offset, at int64 }
	ask := func(topic string, partition int32, at int64) answer {
		p := c.listOffset(11, 0, topic, partition, at)
		return answer{int64(p.ErrorCode), p.Offset, p.Timestamp}
	}
	require.Equal(t, answer{0, 0, -1}, ask("t", 0, timeLatest), "nobody has written")
	require.Equal(t, answer{0, 0, -1}, ask("t", 0, timeEarliest))
	require.Equal(t, answer{0, -1, -1}, ask("t", 0, 5))
	require.Equal(t, answer{0, -1, -1}, ask("t", 0, timeMax))

	c.timed("t", batch.None, 2)
	c.timed("t", batch.Zstd, 4, 6)
	c.timed("t", batch.None, 8)
	for at, want := range map[int64]answer{0: {0, 0, 2}, 2: {0, 0, 2}, 3: {0, 1, 4}, 4: {0, 1, 4}, 5: {0, 2, 6}, 7: {0, 3, 8}, 8: {0, 3, 8},
		9: {0, -1, -1}, timeEarliest: {0, 0, -1}, timeLatest: {0, 4, -1}, timeMax: {0, 3, 8}, timeEarliestLocal: {0, 0, -1},
		timeLatestTiered: {0, -1, -1}, timeEarliestUpload: {0, 0, -1}, -7: {35, -1, -1}} {
		require.Equal(t, want, ask("t", 0, at), "time %d", at)
	}
	c.timed("odd", batch.LZ4, 10, 50, 20)
	c.timed("odd", batch.None, 30, 40)
	for at, want := range map[int64]answer{5: {0, 0, 10}, 15: {0, 1, 50}, 45: {0, 1, 50}, 50: {0, 1, 50}, 51: {0, -1, -1}, timeMax: {0, 1, 50}} {
		require.Equal(t, want, ask("odd", 0, at), "time %d", at)
	}
	require.Equal(t, int16(35), c.listOffset(6, 0, "t", 0, timeMax).ErrorCode, "before its version")
	require.Equal(t, kerr.UnknownTopicOrPartition.Code, c.listOffset(5, 0, "t", 2, timeLatest).ErrorCode)
	require.Equal(t, kerr.UnknownTopicOrPartition.Code, c.listOffset(5, 0, "nobody", 0, timeLatest).ErrorCode)
	require.EqualValues(t, 1, c.listOffset(4, 0, "t", 0, timeEarliest).LeaderEpoch)
	require.EqualValues(t, -1, c.listOffset(4, 0, "t", 1, timeEarliest).LeaderEpoch, "of nothing there is no epoch")

	x := n.dial().transactional("x")
	require.Equal(t, []int16{0}, x.add(3, "t", 0))
	require.Zero(t, x.write(9, "t", "a").ErrorCode)
	require.EqualValues(t, 4, c.listOffset(5, 1, "t", 0, timeLatest).Offset)
	require.EqualValues(t, 5, c.listOffset(5, 0, "t", 0, timeLatest).Offset)
	require.EqualValues(t, -1, c.listOffset(5, 1, "t", 0, 1000).Offset, "it is not committed")
	require.EqualValues(t, 4, c.listOffset(5, 0, "t", 0, 1000).Offset)
}

// Goal: records before an offset are gone for everybody, and what can not be done says why.
func TestDeleteRecords(t *testing.T) {
	n := start(t, nil)
	n.topic("t", 2)
	n.topic("c", 1)
	n.configure("c", map[string]string{cleanupPolicy: "compact"})
	c := n.dial()
	ask := func(topic string, partition int32, offset int64) (code int16, low int64) {
		req := kmsg.NewPtrDeleteRecordsRequest()
		req.Version, req.TimeoutMillis = 2, 10_000
		req.Topics = []kmsg.DeleteRecordsRequestTopic{{Topic: topic,
			Partitions: []kmsg.DeleteRecordsRequestTopicPartition{{Partition: partition, Offset: offset}}}}
		p := c.ask(req).(*kmsg.DeleteRecordsResponse).Topics[0].Partitions[0]
		return p.ErrorCode, p.LowWatermark
	}
	for range 5 {
		c.produce("t", 0, records(t, nil, "a"))
	}
	for _, x := range []struct {
		topic     string
		partition int32
		offset    int64
		code      int16
		low       int64
	}{{"t", 0, 2, 0, 2}, {"t", 0, 1, 0, 2}, {"t", 0, 6, 1, -1}, {"t", 0, -2, 1, -1}, {"t", 1, -1, 0, 0}, {"t", 1, 1, 1, -1}, {"t", 2, 0, 3, -1},
		{"nobody", 0, 0, 3, -1}, {"c", 0, 0, 44, -1}, {"t", 0, -1, 0, 5}} {
		code, low := ask(x.topic, x.partition, x.offset)
		require.Equal(t, x.code, code, "%+v", x)
		if code == 0 {
			require.Equal(t, x.low, low, "%+v", x)
		}
		if x.offset == 2 && code == 0 {
			require.EqualValues(t, 2, c.listOffset(5, 0, "t", 0, timeEarliest).Offset)
			require.Equal(t, []string{"t/0:1"}, fetched(c.fetch(fetchRequest(12, "t", 0))))
		}
	}
	require.EqualValues(t, 5, c.listOffset(5, 0, "t", 0, timeEarliest).Offset)
	require.EqualValues(t, 5, c.listOffset(5, 0, "t", 0, timeLatest).Offset)
}

// Goal: producers and their transactions can be looked at.
func TestDescribeTransactions(t *testing.T) {
	n := start(t, nil)
	n.topic("t", 1)
	x := n.dial().transactional("x")
	n.dial().transactional("y")
	require.Equal(t, []int16{0}, x.add(3, "t", 0))
	require.Zero(t, x.write(9, "t", "a", "b").ErrorCode)
	c := n.dial()

	describe := kmsg.NewPtrDescribeTransactionsRequest()
	describe.TransactionalIDs = []string{"x", "y", "nobody"}
	got := c.ask(describe).(*kmsg.DescribeTransactionsResponse).TransactionStates
	require.Equal(t, "Ongoing", got[0].State)
	require.EqualValues(t, 60_000, got[0].TimeoutMillis)
	require.Equal(t, []kmsg.DescribeTransactionsResponseTransactionStateTopic{{Topic: "t", Partitions: []int32{0}}}, got[0].Topics)
	require.Equal(t, "Empty", got[1].State)
	require.Equal(t, kerr.TransactionalIDNotFound.Code, got[2].ErrorCode)

	list := kmsg.NewPtrListTransactionsRequest()
	list.Version, list.DurationFilterMillis = 2, -1
	names := func() (out []string) {
		resp := c.ask(list).(*kmsg.ListTransactionsResponse)
		require.Zero(t, resp.ErrorCode)
		for _, s := range resp.TransactionStates {
			out = append(out, s.TransactionalID)
		}
		return out
	}
	require.Equal(t, []string{"x", "y"}, names())
	list.TransactionalIDPattern = kmsg.StringPtr("[y-z]")
	require.Equal(t, []string{"y"}, names())
	list.TransactionalIDPattern, list.StateFilters = nil, []string{"Ongoing", "nonsense"}
	require.Equal(t, []string{"x"}, names())
	require.Equal(t, []string{"nonsense"}, c.ask(list).(*kmsg.ListTransactionsResponse).UnknownStateFilters)
	list.StateFilters, list.DurationFilterMillis = nil, 3_600_000
	require.Empty(t, names())

	producers := kmsg.NewPtrDescribeProducersRequest()
	producers.Topics = []kmsg.DescribeProducersRequestTopic{{Topic: "t", Partitions: []int32{0, 1}}}
	parts := c.ask(producers).(*kmsg.DescribeProducersResponse).Topics[0].Partitions
	require.Len(t, parts[0].ActiveProducers, 1)
	require.Equal(t, x.pid, parts[0].ActiveProducers[0].ProducerID)
	require.EqualValues(t, 1, parts[0].ActiveProducers[0].LastSequence)
	require.Zero(t, parts[0].ActiveProducers[0].CurrentTxnStartOffset)
	require.Equal(t, kerr.UnknownTopicOrPartition.Code, parts[1].ErrorCode)
}
