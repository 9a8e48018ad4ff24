package frontendkafka

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"

	"queen/engine"
	"queen/engine/batch"
	"queen/engine/format"
)

// bridge plays native and Kafka clients of one topic against what either must see: one log per partition.
type bridge struct {
	n    *testNode
	c    *raw
	rng  *rand.Rand
	log  [3][]bridged
	read [3]int // how far the consumer group got, natively or by a commit of Kafka's
	// start is where a log begins: what is before was deleted.
	start [3]int
}

// bridged is one message as Kafka and as native clients see it.
type bridged struct {
	value, native string
}

// Goal: whoever writes, both kinds of clients read every message once, in the same order and at the same offsets.
func TestBridgeRandomly(t *testing.T) {
	for seed := range uint64(8) {
		n := start(t, nil)
		n.topic("t", 3)
		b := &bridge{n: n, c: n.dial(), rng: rand.New(rand.NewPCG(seed, 9))}
		for p := range b.log { // it has a position everywhere, which Kafka can be asked for
			b.commit(p)
		}
		for range 160 {
			switch p := b.rng.IntN(3); b.rng.IntN(8) {
			case 0:
				b.push(p)
			case 1, 2:
				b.produce(p)
			case 3:
				b.fetch(p)
			case 4:
				b.pop(p)
			case 5:
				b.commit(p)
			case 6:
				b.position(p)
			case 7:
				if b.rng.IntN(4) == 0 {
					b.trim(p)
				}
			}
		}
		for p := range b.log {
			b.fetch(p)
			for b.next(p) < len(b.log[p]) {
				b.pop(p)
			}
			b.position(p)
		}
	}
}

func (b *bridge) push(p int) {
	var ms []engine.Message
	for range 1 + b.rng.IntN(4) {
		v := fmt.Sprintf(`{"native": %d}`, b.rng.Uint64())
		ms = append(ms, engine.Message{Payload: []byte(v)})
		b.log[p] = append(b.log[p], bridged{v, v})
	}
	_, err := b.n.engine.Do(context.Background(), b.n.caller(), engine.Batch{Ops: []engine.Op{&engine.Append{Queue: "t",
		Partition: partitionName(int32(p)), Messages: ms}}})
	require.NoError(b.n.t, err)
}

func (b *bridge) produce(p int) {
	h := batch.Head(0)
	h.Attributes = int16(b.rng.IntN(5))
	made := batch.NewBuilder(nil, h)
	base := len(b.log[p])
	for i := range 1 + b.rng.IntN(6) {
		r := batch.Record{OffsetDelta: int32(i), Timestamp: b.rng.Int64N(1 << 40), Value: fmt.Appendf(nil, "kafka %d", b.rng.Uint64())}
		if b.rng.IntN(2) == 0 {
			r.Key = []byte("key")
			r.Headers = []batch.RecordHeader{{Key: []byte("h"), Value: nil}}
		}
		made.Add(&r)
		b.log[p] = append(b.log[p], bridged{string(r.Value), string(batch.AppendEnvelope(nil, &r))})
	}
	out, err := made.Finish(0)
	require.NoError(b.n.t, err)
	require.EqualValues(b.n.t, base, b.c.produce("t", int32(p), out).BaseOffset)
}

// fetch reads from a random offset to the end: batches are whole, so records before it may come along.
func (b *bridge) fetch(p int) {
	t := b.n.t
	from := b.start[p] + b.rng.IntN(len(b.log[p])-b.start[p]+1)
	for at := from; at < len(b.log[p]); {
		req := fetchRequest(int16(4+b.rng.IntN(9)), "t", int32(p))
		req.Topics[0].Partitions[0].FetchOffset = int64(at)
		req.MaxBytes = int32(1 + b.rng.IntN(500))
		out := b.c.fetch(req).Topics[0].Partitions[0]
		require.Zero(t, out.ErrorCode)
		require.EqualValues(t, len(b.log[p]), out.HighWatermark)
		require.NotEmpty(t, out.RecordBatches)
		before := at
		for rest := out.RecordBatches; len(rest) > 0; {
			h, err := batch.ParseHeader(rest)
			require.NoError(t, err)
			whole := rest[:h.Size()]
			rest = rest[h.Size():]
			_, err = batch.VerifyRecords(whole, batch.Limits{}, func(r *batch.Record) error {
				o := int(h.BaseOffset) + int(r.OffsetDelta)
				require.Less(t, o, len(b.log[p]))
				require.Equal(t, b.log[p][o].value, string(r.Value), "offset %d", o)
				if o >= at {
					require.Equal(t, at, o)
					at++
				}
				return nil
			})
			require.NoError(t, err)
		}
		require.Greater(t, at, before)
	}
}

// next is where the group reads on: what was deleted before it got there is skipped.
func (b *bridge) next(p int) int { return max(b.read[p], b.start[p]) }

// commit moves the group by way of Kafka, forwards or back.
func (b *bridge) commit(p int) {
	at := b.start[p] + b.rng.IntN(len(b.log[p])-b.start[p]+1)
	req := kmsg.NewPtrOffsetCommitRequest()
	req.Version, req.Group, req.Generation = int16(2+b.rng.IntN(8)), "g", -1
	part := kmsg.NewOffsetCommitRequestTopicPartition()
	part.Partition, part.Offset = int32(p), int64(at)
	req.Topics = []kmsg.OffsetCommitRequestTopic{{Topic: "t", Partitions: []kmsg.OffsetCommitRequestTopicPartition{part}}}
	require.Zero(b.n.t, b.c.ask(req).(*kmsg.OffsetCommitResponse).Topics[0].Partitions[0].ErrorCode)
	b.read[p] = at
}

// position asks Kafka where the group is.
func (b *bridge) position(p int) {
	req := kmsg.NewPtrOffsetFetchRequest()
	req.Version, req.Group = int16(1+b.rng.IntN(7)), "g"
	req.Topics = []kmsg.OffsetFetchRequestTopic{{Topic: "t", Partitions: []int32{int32(p)}}}
	got := b.c.ask(req).(*kmsg.OffsetFetchResponse).Topics[0].Partitions[0]
	require.Zero(b.n.t, got.ErrorCode)
	require.Contains(b.n.t, []int64{int64(b.read[p]), int64(b.next(p))}, got.Offset, "partition %d", p)
}

// trim deletes the first records.
func (b *bridge) trim(p int) {
	at := b.start[p] + b.rng.IntN(len(b.log[p])-b.start[p]+1)
	if len(b.log[p]) == 0 {
		return
	}
	req := kmsg.NewPtrDeleteRecordsRequest()
	req.Version, req.TimeoutMillis = 2, 10_000
	req.Topics = []kmsg.DeleteRecordsRequestTopic{{Topic: "t",
		Partitions: []kmsg.DeleteRecordsRequestTopicPartition{{Partition: int32(p), Offset: int64(at)}}}}
	got := b.c.ask(req).(*kmsg.DeleteRecordsResponse).Topics[0].Partitions[0]
	require.Zero(b.n.t, got.ErrorCode)
	require.EqualValues(b.n.t, at, got.LowWatermark)
	b.start[p] = at
}

// pop takes some for a native group and acknowledges them.
func (b *bridge) pop(p int) {
	t := b.n.t
	part := partitionName(int32(p))
	d, err := b.n.engine.Pop(context.Background(), b.n.caller(), engine.PopRequest{Group: "g", Batch: 1 + b.rng.IntN(7),
		Scope: engine.Scope{Queue: "t", Partition: part, Pinned: true}, Start: engine.Start{Kind: format.StartAll}})
	require.NoError(t, err)
	if d == nil {
		require.Equal(t, len(b.log[p]), b.next(p))
		return
	}
	b.read[p] = b.next(p)
	var acks []engine.Op
	for m, err := range d.Messages() {
		require.NoError(t, err)
		require.EqualValues(t, b.read[p], m.Offset)
		require.Equal(t, b.log[p][b.read[p]].native, string(m.Payload))
		b.read[p]++
		acks = append(acks, &engine.Ack{Partition: d.Claims[0].PartitionID, Group: "g", Lease: d.Lease, Offset: m.Offset, HasOffset: true,
			Status: format.AckCompleted})
	}
	d.Delivered()
	_, err = b.n.engine.Do(context.Background(), b.n.caller(), engine.Batch{Ops: acks})
	require.NoError(t, err)
}
