package frontendkafka

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"queen/engine"
	"queen/engine/batch"
)

// records makes a batch of values; tune changes the header before.
func records(t testing.TB, tune func(*batch.Header), values ...string) []byte {
	t.Helper()
	h := batch.Head(0)
	if tune != nil {
		tune(&h)
	}
	b := batch.NewBuilder(nil, h)
	for i, v := range values {
		b.Add(&batch.Record{OffsetDelta: int32(i), Timestamp: int64(1000 + i), Value: []byte(v)})
	}
	out, err := b.Finish(0)
	require.NoError(t, err)
	return out
}

// produce sends one batch and wants no error.
func (r *raw) produce(topic string, partition int32, b []byte) kmsg.ProduceResponseTopicPartition {
	r.t.Helper()
	p := r.produced(9, 1, topic, partition, b)
	require.Zero(r.t, p.ErrorCode, "%v", kerr.ErrorForCode(p.ErrorCode))
	return p
}

func produceRequest(version, acks int16, topic string, partition int32, b []byte) *kmsg.ProduceRequest {
	req := kmsg.NewPtrProduceRequest()
	req.Version, req.Acks, req.TimeoutMillis = version, acks, 10_000
	part := kmsg.NewProduceRequestTopicPartition()
	part.Partition, part.Records = partition, b
	req.Topics = []kmsg.ProduceRequestTopic{{Topic: topic, Partitions: []kmsg.ProduceRequestTopicPartition{part}}}
	return req
}

// produced sends one batch and gives the partition's answer.
func (r *raw) produced(version, acks int16, topic string, partition int32, b []byte) kmsg.ProduceResponseTopicPartition {
	r.t.Helper()
	resp := r.ask(produceRequest(version, acks, topic, partition, b)).(*kmsg.ProduceResponse)
	return resp.Topics[0].Partitions[0]
}

// fetchRequest asks for partitions of one topic from offset 0 on and waits for nothing.
func fetchRequest(version int16, topic string, parts ...int32) *kmsg.FetchRequest {
	req := kmsg.NewPtrFetchRequest()
	req.Version, req.MaxBytes, req.MinBytes, req.SessionEpoch = version, 1<<20, 1, -1
	t := kmsg.NewFetchRequestTopic()
	t.Topic = topic
	for _, p := range parts {
		part := kmsg.NewFetchRequestTopicPartition()
		part.Partition, part.PartitionMaxBytes, part.CurrentLeaderEpoch, part.LastFetchedEpoch = p, 1<<20, -1, -1
		t.Partitions = append(t.Partitions, part)
	}
	req.Topics = []kmsg.FetchRequestTopic{t}
	return req
}

// incremental is a request that continues a session and names nothing.
func incremental(version int16, id, epoch int32) *kmsg.FetchRequest {
	req := fetchRequest(version, "")
	req.Topics, req.SessionID, req.SessionEpoch = nil, id, epoch
	return req
}

// fetched lists partitions of an answer as topic/partition:code:bytes>0.
func fetched(resp *kmsg.FetchResponse) (out []string) {
	for _, t := range resp.Topics {
		for _, p := range t.Partitions {
			s := fmt.Sprintf("%s/%d", t.Topic, p.Partition)
			if p.ErrorCode != 0 {
				s += fmt.Sprintf(":%d", p.ErrorCode)
			}
			if len(p.RecordBatches) > 0 {
				s += "+"
			}
			out = append(out, s)
		}
	}
	return out
}

func (r *raw) fetch(req *kmsg.FetchRequest) *kmsg.FetchResponse {
	r.t.Helper()
	return r.ask(req).(*kmsg.FetchResponse)
}

// Goal: an incremental fetch tells what changed and nothing else, whatever happened to the offsets.
func TestFetchIncremental(t *testing.T) {
	n := start(t, nil)
	n.topic("t", 4)
	c, p := n.dial(), n.dial()
	p.produce("t", 1, records(t, nil, "a"))
	req := fetchRequest(11, "t", 0, 1, 2)
	req.SessionEpoch = 0
	first := c.fetch(req)
	require.NotZero(t, first.SessionID)
	require.Equal(t, []string{"t/0", "t/1+", "t/2"}, fetched(first))
	require.EqualValues(t, 1, first.Topics[0].Partitions[1].HighWatermark)

	// The offset did not move, so the record is there again.
	id := first.SessionID
	require.Equal(t, []string{"t/1+"}, fetched(c.fetch(incremental(11, id, 1))))
	next := fetchRequest(11, "t", 1)
	next.SessionID, next.SessionEpoch, next.Topics[0].Partitions[0].FetchOffset = id, 2, 1
	require.Empty(t, fetched(c.fetch(next)))
	require.Empty(t, fetched(c.fetch(incremental(11, id, 3))))

	p.produce("t", 2, records(t, nil, "b"))
	p.produce("t", 3, records(t, nil, "not in the set"))
	require.Equal(t, []string{"t/2+"}, fetched(c.fetch(incremental(11, id, 4))))

	forget := incremental(11, id, 5)
	forget.ForgottenTopics = []kmsg.FetchRequestForgottenTopic{{Topic: "t", Partitions: []int32{2}}}
	add := fetchRequest(11, "t", 3)
	forget.Topics = add.Topics
	require.Equal(t, []string{"t/3+"}, fetched(c.fetch(forget)))
	p.produce("t", 2, records(t, nil, "c"))
	require.Equal(t, []string{"t/3+"}, fetched(c.fetch(incremental(11, id, 6))))
}

// Goal: what does not continue a session is told so at the top, with nothing else.
func TestFetchEpochs(t *testing.T) {
	n := start(t, nil)
	n.topic("t", 1)
	c := n.dial()
	open := func() int32 {
		req := fetchRequest(12, "t", 0)
		req.SessionEpoch = 0
		resp := c.fetch(req)
		require.Zero(t, resp.ErrorCode)
		return resp.SessionID
	}
	code := func(version int16, id, epoch int32) *kerr.Error {
		resp := c.fetch(incremental(version, id, epoch))
		if resp.ErrorCode != 0 {
			require.Empty(t, resp.Topics)
			require.Zero(t, resp.SessionID)
		}
		return kerr.TypedErrorForCode(resp.ErrorCode)
	}
	id := open()
	require.Equal(t, kerr.FetchSessionIDNotFound, code(12, id+1, 1))
	require.Equal(t, kerr.FetchSessionIDNotFound, code(12, 0, 1))
	require.Equal(t, kerr.InvalidFetchSessionEpoch, code(12, id, 2))
	require.Equal(t, kerr.FetchSessionTopicIDError, code(13, id, 1))
	require.Nil(t, code(12, id, 1))
	require.Equal(t, kerr.InvalidFetchSessionEpoch, code(12, id, 1))
	require.Nil(t, code(12, id, 2))
	// It is ended by a fetch that says so, and by a new one in its place.
	end := fetchRequest(12, "t", 0)
	end.SessionID = id
	require.Zero(t, c.fetch(end).SessionID)
	require.Equal(t, kerr.FetchSessionIDNotFound, code(12, id, 3))
	id = open()
	require.Nil(t, code(12, id, 1))
	again := fetchRequest(12, "t", 0)
	again.SessionID, again.SessionEpoch = id, 0
	resp := c.fetch(again)
	require.NotZero(t, resp.SessionID)
	require.NotEqual(t, id, resp.SessionID)
	require.Equal(t, kerr.FetchSessionIDNotFound, code(12, id, 2))
	// Another connection may go on with it while this one is open.
	require.Nil(t, code(12, resp.SessionID, 1))
	other := n.dial()
	require.Zero(t, other.fetch(incremental(12, resp.SessionID, 2)).ErrorCode)
}

// Goal: a fetch looks at what changed, not at what it is about.
func TestFetchCost(t *testing.T) {
	n, fake := startFake(t, func(o *Options) { o.Partitions = 2000 })
	n.topic("t", 2000)
	c, p := n.dial(), n.dial()
	var all []int32
	for i := range int32(2000) {
		all = append(all, i)
	}
	req := fetchRequest(12, "t", all...)
	req.SessionEpoch = 0
	id := c.fetch(req).SessionID
	require.Empty(t, fetched(c.fetch(incremental(12, id, 1)))) // everything may have changed meanwhile
	looked := func() int {
		fake.mu.Lock()
		defer fake.mu.Unlock()
		n := fake.looked
		fake.looked = 0
		return n
	}
	looked()
	for i := range int32(20) {
		p.produce("t", i*7, records(t, nil, "x"))
		next := incremental(12, id, 2+i)
		if i > 0 {
			next.Topics = fetchRequest(12, "t", (i-1)*7).Topics
			next.Topics[0].Partitions[0].FetchOffset = 1
		}
		require.Equal(t, []string{fmt.Sprintf("t/%d+", i*7)}, fetched(c.fetch(next)))
		require.LessOrEqual(t, looked(), 2)
	}
}

// Goal: sessions that are offered and never taken up cost nothing beyond their connection and end no other.
func TestFetchOneShots(t *testing.T) {
	n := start(t, nil)
	n.topic("t", 2)
	active, c := n.dial(), n.dial()
	open := fetchRequest(11, "t", 0, 1)
	open.SessionEpoch = 0
	id := active.fetch(open).SessionID
	require.Zero(t, active.fetch(incremental(11, id, 1)).ErrorCode)
	for range 10_000 {
		require.NotZero(t, c.fetch(open).SessionID)
	}
	require.Len(t, n.f.sessions.byID, 1)
	require.Zero(t, active.fetch(incremental(11, id, 2)).ErrorCode)
	// A connection that ends takes its sessions along.
	require.NoError(t, active.Close())
	require.Eventually(t, func() bool {
		n.f.sessions.mu.Lock()
		defer n.f.sessions.mu.Unlock()
		return len(n.f.sessions.byID) == 0
	}, patience, pollEvery)
}

// Goal: with room for one batch, every partition has its turn.
func TestFetchRotates(t *testing.T) {
	n := start(t, nil)
	n.topic("t", 3)
	c := n.dial()
	for i := range int32(3) {
		c.produce("t", i, records(t, nil, "a long value that fills the answer on its own"))
	}
	open := fetchRequest(11, "t", 0, 1, 2)
	open.SessionEpoch, open.MaxBytes = 0, 100
	resp := c.fetch(open)
	require.Equal(t, []string{"t/0+", "t/1", "t/2"}, fetched(resp))
	var got []string
	for i := range int32(5) {
		next := incremental(11, resp.SessionID, 1+i)
		next.MaxBytes = 100
		for _, s := range fetched(c.fetch(next)) {
			if s[len(s)-1] == '+' {
				got = append(got, s)
			}
		}
	}
	require.Len(t, got, 5)
	for _, s := range []string{"t/0+", "t/1+", "t/2+"} {
		require.Contains(t, got[:3], s)
	}
}

// Goal: what became of a topic decides the code, and a partition with an error ends the wait.
func TestFetchTopicsComeAndGo(t *testing.T) {
	n := start(t, nil)
	ctx := context.Background()
	n.topic("t", 1)
	made, err := n.f.topic(ctx, n.caller(), "t")
	require.NoError(t, err)
	byID, byName := n.dial(), n.dial()
	open := fetchRequest(13, "", 0)
	open.Topics[0].TopicID, open.SessionEpoch, open.MinBytes = made.id, 0, 0
	named := fetchRequest(12, "t", 0)
	named.SessionEpoch, named.MinBytes = 0, 0
	ids, names := byID.fetch(open).SessionID, byName.fetch(named).SessionID
	both := func(epoch int32) (id, name []string) {
		wait := func(version int16, s int32) *kmsg.FetchRequest {
			req := incremental(version, s, epoch)
			req.MaxWaitMillis = 600_000
			return req
		}
		return fetched(byID.fetch(wait(13, ids))), fetched(byName.fetch(wait(12, names)))
	}
	byName.produce("t", 0, records(t, nil, "x"))
	id, name := both(1)
	require.Equal(t, []string{"/0+"}, id)
	require.Equal(t, []string{"t/0+"}, name)

	_, err = n.engine.Catalog().DeleteQueue(ctx, n.caller(), "t")
	require.NoError(t, err)
	id, name = both(2)
	require.Equal(t, []string{"/0:100"}, id)
	require.Equal(t, []string{"t/0:3"}, name)

	n.topic("t", 1)
	byName.produce("t", 0, records(t, nil, "y"))
	id, name = both(3)
	require.Equal(t, []string{"/0:103"}, id)
	require.Equal(t, []string{"t/0+"}, name)

	stranger := fetchRequest(13, "", 0)
	stranger.Topics[0].TopicID, stranger.MaxWaitMillis = [16]byte{1, 2, 3}, 600_000
	require.Equal(t, []string{"/0:100"}, fetched(byName.fetch(stranger)))
	past := fetchRequest(12, "t", 0, 5)
	past.MaxWaitMillis = 600_000
	require.Equal(t, []string{"t/0+", "t/5:3"}, fetched(byName.fetch(past)))
}

// Goal: a fetch that found nothing wakes when there is enough, and not before.
func TestFetchWaits(t *testing.T) {
	n := start(t, nil)
	n.topic("t", 2)
	for _, session := range []bool{false, true} {
		c, p := n.dial(), n.dial()
		req := fetchRequest(12, "t", 0, 1)
		req.Topics[0].Partitions[0].FetchOffset = int64(end(n, "t", "0"))
		req.Topics[0].Partitions[1].FetchOffset = int64(end(n, "t", "1"))
		want := []string{"t/0+", "t/1+"}
		if session {
			req.SessionEpoch = 0
			id := c.fetch(req).SessionID
			req = incremental(12, id, 1)
		}
		one := records(t, nil, "half of what is wanted")
		req.MaxWaitMillis, req.MinBytes = 600_000, int32(len(one)+1)
		c.send(req)
		require.Eventually(t, func() bool { return n.f.parked.Load() == 1 }, patience, pollEvery)
		p.produce("t", 0, one)
		p.produce("t", 1, one)
		require.Equal(t, want, fetched(c.receive(req).(*kmsg.FetchResponse)))
		require.Zero(t, n.f.parked.Load())
	}
	// Time is up.
	c := n.dial()
	req := fetchRequest(12, "t", 1)
	req.MaxWaitMillis, req.MinBytes = 20, 1<<20
	require.Equal(t, []string{"t/1+"}, fetched(c.fetch(req)))
}

func end(n *testNode, queue, partition string) uint64 {
	res, err := n.engine.Records().RecordOffsets(context.Background(), n.caller(),
		[]engine.RecordOffsetQuery{{Queue: queue, Partition: partition, Kind: engine.RecordLatest}})
	require.NoError(n.t, err)
	return uint64(res[0].Offset)
}

// Goal: the codes of a partition are those of the closed set, whatever the engine says.
func TestFetchCodes(t *testing.T) {
	for _, code := range engine.Codes {
		for _, byID := range []bool{false, true} {
			got := fetchCode(&engine.Error{Code: code}, byID)
			require.True(t, fetchCodes[got] && got != 0, "%s becomes %d", code, got)
		}
	}
	n, fake := startFake(t, nil)
	n.topic("t", 1)
	c := n.dial()
	req := fetchRequest(12, "t", 0)
	for offset, want := range map[int64]string{0: "t/0", 1: "t/0:1", -5: "t/0:1"} {
		req.Topics[0].Partitions[0].FetchOffset = offset
		require.Equal(t, []string{want}, fetched(c.fetch(req)), "offset %d", offset)
	}
	req.Topics[0].Partitions[0].FetchOffset = 0
	for epoch, want := range map[int32]string{0: "t/0:74", 1: "t/0", 99: "t/0:75"} {
		req.Topics[0].Partitions[0].CurrentLeaderEpoch = epoch
		require.Equal(t, []string{want}, fetched(c.fetch(req)), "epoch %d", epoch)
	}
	fake.mu.Lock()
	fake.fail = func(string) *engine.Error { return &engine.Error{Code: engine.CodeOverloaded} }
	fake.mu.Unlock()
	req.Topics[0].Partitions[0].CurrentLeaderEpoch = -1
	require.Equal(t, []string{"t/0:78"}, fetched(c.fetch(req)))
}
