package frontendkafka

import (
	"context"
	"encoding/binary"
	"hash/crc32"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"queen/engine"
	"queen/engine/batch"
)

// configure sets the configuration of a topic.
func (n *testNode) configure(topic string, set map[string]string) {
	n.t.Helper()
	t, err := n.f.topic(context.Background(), n.caller(), topic)
	require.NoError(n.t, err)
	require.NoError(n.t, n.f.apply(context.Background(), n.caller(), t, recorded{}, set))
}

// Goal: every reason to refuse a batch has its code, and nothing of it is stored.
func TestProduceRefuses(t *testing.T) {
	n := start(t, nil)
	n.topic("t", 2)
	n.topic("small", 1)
	n.topic("compacted", 1)
	n.configure("small", map[string]string{maxMessageBytes: "100"})
	n.configure("compacted", map[string]string{cleanupPolicy: "compact"})
	good := func() []byte { return records(t, nil, "a", "b") }
	changed := func(at int, to byte, sealed bool) []byte {
		b := good()
		if b[at] = to; sealed {
			binary.BigEndian.PutUint32(b[17:], crc32.Checksum(b[21:], crc32.MakeTable(crc32.Castagnoli)))
		}
		return b
	}
	codec := func(c batch.Codec) []byte {
		return records(t, func(h *batch.Header) { h.Attributes = int16(c) }, "a")
	}
	c := n.dial()
	for name, x := range map[string]struct {
		version   int16
		topic     string
		partition int32
		b         []byte
		want      *kerr.Error
	}{
		"good":            {9, "t", 0, good(), nil},
		"illegal name":    {9, "no/slash", 0, good(), kerr.InvalidTopicException},
		"internal name":   {9, "__t", 0, good(), kerr.InvalidTopicException},
		"unknown":         {9, "nobody", 0, good(), kerr.UnknownTopicOrPartition},
		"past the width":  {9, "t", 2, good(), kerr.UnknownTopicOrPartition},
		"negative":        {9, "t", -1, good(), kerr.UnknownTopicOrPartition},
		"null":            {9, "t", 0, nil, kerr.InvalidRecord},
		"null at 12":      {12, "t", 0, nil, kerr.InvalidRecord},
		"null at 3":       {3, "t", 0, nil, kerr.InvalidRecord},
		"null at 2":       {2, "t", 0, nil, kerr.InvalidRecord},
		"empty":           {9, "t", 0, []byte{}, kerr.InvalidRecord},
		"checksum":        {9, "t", 0, changed(70, 9, false), kerr.CorruptMessage},
		"magic":           {9, "t", 0, changed(16, 1, true), kerr.UnsupportedForMessageFormat},
		"count 0":         {9, "t", 0, changed(60, 0, true), kerr.InvalidRecord},
		"last delta":      {9, "t", 0, changed(26, 9, true), kerr.InvalidRecord},
		"two batches":     {9, "t", 0, append(good(), good()...), kerr.InvalidRecord},
		"control":         {9, "t", 0, changed(22, 0x20, true), kerr.InvalidRecord},
		"append time":     {9, "t", 0, changed(22, 0x08, true), kerr.InvalidTimestamp},
		"no producer":     {9, "t", 0, changed(22, 0x10, true), kerr.InvalidRecord},
		"codec 5":         {9, "t", 0, changed(22, 0x05, true), kerr.UnsupportedCompressionType},
		"not gzip":        {9, "t", 0, changed(22, 0x01, true), kerr.CorruptMessage},
		"zstd at 6":       {6, "t", 0, codec(batch.Zstd), kerr.UnsupportedCompressionType},
		"zstd at 7":       {7, "t", 0, codec(batch.Zstd), nil},
		"gzip at 3":       {3, "t", 0, codec(batch.Gzip), nil},
		"too large":       {9, "small", 0, records(t, nil, "a value that is longer than this topic takes"), kerr.MessageTooLarge},
		"small enough":    {9, "small", 0, records(t, nil, "a"), nil},
		"null key":        {9, "compacted", 0, good(), kerr.InvalidRecord},
		"messages at 3":   {3, "t", 0, []byte("\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x0f\x00\x00\x00\x00\x01\x00more"), kerr.UnsupportedForMessageFormat},
		"no message at 2": {2, "t", 0, []byte("\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x0f\x00\x00\x00\x00\x01\x00more"), kerr.CorruptMessage},
	} {
		before := end(n, "t", "0")
		got := c.produced(x.version, -1, x.topic, x.partition, x.b)
		require.Equal(t, x.want, kerr.TypedErrorForCode(got.ErrorCode), "%s: %v", name, kerr.ErrorForCode(got.ErrorCode))
		if x.want == nil {
			require.GreaterOrEqual(t, got.BaseOffset, int64(0), name)
			continue
		}
		require.EqualValues(t, -1, got.BaseOffset, name)
		require.Equal(t, before, end(n, "t", "0"), name)
		if x.version >= 8 {
			require.NotEmpty(t, got.ErrorMessage, name)
		}
		if name == "null key" {
			require.Len(t, got.ErrorRecords, 2)
			require.EqualValues(t, 1, got.ErrorRecords[1].RelativeOffset)
		}
	}
	require.Equal(t, kerr.InvalidRequiredAcks.Code, c.produced(9, 2, "t", 0, good()).ErrorCode)
	stranger := produceRequest(13, 1, "", 0, good())
	for _, id := range [][16]byte{{1}, {}} {
		stranger.Topics[0].TopicID = id
		resp := c.ask(stranger).(*kmsg.ProduceResponse)
		require.Equal(t, kerr.UnknownTopicID.Code, resp.Topics[0].Partitions[0].ErrorCode)
	}
}

// Goal: topics by id, message sets of old clients, and times of the append.
func TestProduceForms(t *testing.T) {
	n := start(t, nil)
	n.topic("t", 1)
	made, err := n.f.topic(context.Background(), n.caller(), "t")
	require.NoError(t, err)
	c := n.dial()
	byID := produceRequest(13, -1, "", 0, records(t, nil, "by id"))
	byID.Topics[0].TopicID = made.id
	require.Zero(t, c.ask(byID).(*kmsg.ProduceResponse).Topics[0].Partitions[0].BaseOffset)

	// One message of magic 1 with a timestamp, one without a key.
	m := []byte{0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0x30, 0x39, 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 3, 'o', 'l', 'd'}
	binary.BigEndian.PutUint32(m, crc32.ChecksumIEEE(m[4:]))
	set := append([]byte{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, byte(len(m))}, m...)
	require.EqualValues(t, 1, c.produced(2, 1, "t", 0, append(set, set...)).BaseOffset)
	require.EqualValues(t, 3, c.produced(0, 1, "t", 0, records(t, nil, "a batch in an old request")).BaseOffset)

	n.topic("appended", 1)
	n.configure("appended", map[string]string{timestampType: "LogAppendTime"})
	from := time.Now().UnixMilli()
	part := c.produced(9, 1, "appended", 0, records(t, nil, "x", "y"))
	require.InDelta(t, from, part.LogAppendTime, float64(patience.Milliseconds()))
	rs := readAll(t, c, "appended")
	require.Len(t, rs, 2)
	require.Equal(t, part.LogAppendTime, rs[0].Timestamp)
	require.Equal(t, part.LogAppendTime, rs[1].Timestamp)

	rs = readAll(t, c, "t")
	require.Len(t, rs, 4)
	require.Equal(t, "old", string(rs[1].Value))
	require.EqualValues(t, 12345, rs[2].Timestamp)
}

// readAll reads partition 0 of a topic from its start.
func readAll(t testing.TB, c *raw, topic string) (out []batch.Record) {
	t.Helper()
	p := c.fetch(fetchRequest(12, topic, 0)).Topics[0].Partitions[0]
	require.Zero(t, p.ErrorCode)
	for b := p.RecordBatches; len(b) > 0; {
		h := batchOf(b)
		require.NoError(t, batch.Records(b, batch.Limits{}, func(r *batch.Record) bool {
			c := *r
			c.Key, c.Value = append([]byte(nil), r.Key...), append([]byte(nil), r.Value...)
			c.OffsetDelta += int32(h.BaseOffset)
			out = append(out, c)
			return true
		}))
		b = b[h.Size():]
	}
	return out
}

// Goal: with acks 0 nothing is answered, and an error closes the connection with a line in the log.
func TestProduceWithoutAcks(t *testing.T) {
	n := start(t, nil)
	n.topic("t", 1)
	c := n.dial()
	c.send(produceRequest(9, 0, "t", 0, records(t, nil, "a")))
	require.EqualValues(t, 1, c.produce("t", 0, records(t, nil, "b")).BaseOffset)
	c.send(produceRequest(9, 0, "nobody", 0, records(t, nil, "a")))
	c.closed()
	require.Contains(t, n.logged.String(), "nobody")
}

// Goal: requests that are there become one append, up to the limit, and are answered in order.
func TestProduceCoalesces(t *testing.T) {
	n, fake := startFake(t, nil)
	n.topic("t", 2)
	c := n.dial()
	entered, leave := make(chan struct{}), make(chan struct{})
	fake.fail = func(string) *engine.Error {
		entered <- struct{}{}
		<-leave
		return nil
	}
	c.send(produceRequest(9, 1, "t", 0, records(t, nil, "first")))
	<-entered
	var sent []*kmsg.ProduceRequest
	for i := range 8 {
		req := produceRequest(9, 1, "t", int32(i%3), records(t, nil, "x")) // partition 2 is none
		sent = append(sent, req)
		c.send(req)
	}
	n.f.conns.mu.Lock()
	var it *conn
	for x := range n.f.conns.open {
		it = x
	}
	n.f.conns.mu.Unlock()
	require.Eventually(t, func() bool {
		it.in.mu.Lock()
		defer it.in.mu.Unlock()
		return len(it.in.frames) == len(sent)
	}, patience, pollEvery)
	go func() {
		for range 3 {
			leave <- struct{}{}
			select {
			case <-entered:
			case <-time.After(patience):
			}
		}
	}()
	c.correlation = 0
	for i := range len(sent) + 1 {
		c.correlation++
		resp := c.receive(produceRequest(9, 1, "t", 0, nil)).(*kmsg.ProduceResponse)
		code := resp.Topics[0].Partitions[0].ErrorCode
		if i > 0 && (i-1)%3 == 2 {
			require.Equal(t, kerr.UnknownTopicOrPartition.Code, code)
		} else {
			require.Zero(t, code)
		}
	}
	require.Equal(t, []int{1, 4, 2}, fake.produced)
}

// Goal: a node that has more to do than it can says so, and how long to wait; nothing of the batch was written.
func TestProduceThrottles(t *testing.T) {
	n, fake := startFake(t, nil)
	n.topic("t", 1)
	c := n.dial()
	fake.fail = func(string) *engine.Error { return &engine.Error{Code: engine.CodeOverloaded, RetryAfter: 1} }
	resp := c.ask(produceRequest(9, 1, "t", 0, records(t, nil, "x"))).(*kmsg.ProduceResponse)
	require.Equal(t, kerr.NotEnoughReplicas.Code, resp.Topics[0].Partitions[0].ErrorCode)
	require.EqualValues(t, 1000, resp.ThrottleMillis)
	require.Equal(t, kerr.NotEnoughReplicas.Code, produceCode(&engine.Error{Code: engine.CodeRateLimited}))
	require.Equal(t, kerr.CoordinatorNotAvailable.Code, groupCode(&engine.Error{Code: engine.CodeRateLimited}))
	c = n.dial()
	fake.mu.Lock()
	fake.fail = func(string) *engine.Error {
		return &engine.Error{Code: engine.CodeTimeout, Outcome: engine.OutcomeUnknown}
	}
	fake.mu.Unlock()
	require.Equal(t, kerr.RequestTimedOut.Code, c.produced(9, 1, "t", 0, records(t, nil, "x")).ErrorCode)
}
