package engine_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"queen/engine"
	"queen/engine/batch"
	"queen/engine/format"
)

// recordRig is a node that Kafka and native clients share.
type recordRig struct {
	*rig
	timeout time.Duration // of transactions, a minute at least
}

func newRecordRig(t *testing.T) *recordRig {
	r := &recordRig{rig: newRig(t)}
	r.open()
	t.Cleanup(func() {
		if r.node != nil { // else it did not open
			_ = r.node.Close(context.Background())
		}
	})
	r.configure(format.QueueOptions{})
	return r
}

// crash ends the node as a loss of power does, and starts it again.
func (r *recordRig) crash() {
	r.t.Helper()
	r.cut()
	r.open()
}

func (r *recordRig) configure(o format.QueueOptions) {
	r.t.Helper()
	_, err := r.node.Catalog().Configure(context.Background(), someone, engine.ConfigureRequest{Queue: "q", Patch: o})
	require.NoError(r.t, err)
}

// head is that of a batch without a producer, as clients send it.
func head() batch.Header { return batch.Head(0) }

// recordsOf is a batch with one record per value, keyed by it, at milliseconds 1000, 1001, ...
func recordsOf(t testing.TB, h batch.Header, values ...string) []byte {
	t.Helper()
	b := batch.NewBuilder(nil, h)
	for i, v := range values {
		b.Add(&batch.Record{OffsetDelta: int32(i), Timestamp: 1000 + int64(i), Key: []byte(v), Value: []byte(v)})
	}
	out, err := b.Finish(0)
	require.NoError(t, err)
	_, err = batch.Verify(out)
	require.NoError(t, err)
	return out
}

func (r *recordRig) produce(partition string, b []byte) engine.Produced {
	r.t.Helper()
	out, err := r.node.Records().Produce(context.Background(), someone, []engine.RecordBatch{{Queue: "q", Partition: partition, Batch: b}})
	require.NoError(r.t, err)
	return out[0]
}

// say pushes one native message and returns its offset.
func (r *recordRig) say(partition, payload string) format.Offset {
	r.t.Helper()
	out, err := r.node.Do(context.Background(), someone, engine.Batch{Ops: []engine.Op{&engine.Append{
		Queue: "q", Partition: partition, Messages: []engine.Message{{Payload: []byte(payload)}}}}})
	require.NoError(r.t, err)
	require.Nil(r.t, out[0].Err)
	return out[0].Messages[0].Offset
}

func (r *recordRig) fetch(partition string, from format.Offset, committed bool) engine.Fetched {
	r.t.Helper()
	out, err := r.node.Records().Fetch(context.Background(), someone, []engine.FetchAt{{Queue: "q", Partition: partition, Offset: from,
		MaxBytes: 1 << 20, Committed: committed}}, 8<<20)
	require.NoError(r.t, err)
	return out[0]
}

// values are what a Kafka client reads: "offset=value", in order.
func values(t testing.TB, f engine.Fetched) (out []string) {
	t.Helper()
	require.Nil(t, f.Err)
	for _, fr := range f.Frames {
		for _, m := range fr.Messages {
			out = append(out, fmt.Sprintf("%d=%s", m.Offset, m.Payload))
		}
		if fr.Batch == nil {
			continue
		}
		h, err := batch.ParseHeader(fr.Batch)
		require.NoError(t, err)
		if !h.Control() {
			_, err = batch.Verify(fr.Batch)
			require.NoError(t, err)
		}
		require.Equal(t, int64(fr.Base), h.BaseOffset)
		require.Equal(t, int32(fr.Epoch), h.LeaderEpoch)
		require.NoError(t, batch.Records(fr.Batch, batch.DefaultLimits, func(rec *batch.Record) bool {
			name := string(rec.Value)
			if h.Control() {
				name = "control"
			}
			out = append(out, fmt.Sprintf("%d=%s", h.BaseOffset+int64(rec.OffsetDelta), name))
			return true
		}))
	}
	return out
}

// popped are the payloads and offsets that a native consumer group gets with its next pops, acked.
func (r *recordRig) popped(group string) (out []string) {
	r.t.Helper()
	for {
		d, err := r.node.Pop(context.Background(), someone, engine.PopRequest{Scope: engine.Scope{Queue: "q"}, Group: group, Batch: 3,
			Start: engine.Start{Kind: format.StartAll}, Lease: time.Minute})
		require.NoError(r.t, err)
		if d == nil {
			return out
		}
		var acks []engine.Op
		for m, err := range d.Messages() {
			require.NoError(r.t, err)
			out = append(out, fmt.Sprintf("%d=%s", m.Offset, m.Payload))
			acks = append(acks, &engine.Ack{Partition: d.Claims[m.Claim].PartitionID, Group: group, Lease: d.Lease,
				TransactionID: m.TransactionID, Status: format.AckCompleted})
		}
		d.Delivered()
		if len(acks) == 0 {
			return out
		}
		res, err := r.node.Do(context.Background(), someone, engine.Batch{Ops: acks})
		require.NoError(r.t, err)
		for i := range res {
			require.Nil(r.t, res[i].Err)
		}
	}
}

func envelope(v string, ms int64) string {
	return string(batch.AppendEnvelope(nil, &batch.Record{Timestamp: ms, Key: []byte(v), Value: []byte(v)}))
}

// Goal: one partition, written and read by Kafka's clients and native ones, has the same messages at the same offsets
// for both, before and after a restart and when its segments are moved; record batches come back as they were produced.
func TestRecordsAndMessagesShareAPartition(t *testing.T) {
	r := newRecordRig(t)
	zipped := head()
	zipped.Attributes = int16(batch.Gzip)
	first := recordsOf(t, head(), "a", "b")
	p := r.produce("3", first)
	require.Nil(t, p.Err)
	require.Equal(t, format.Offset(0), p.Base)
	r.say("3", `{"k":null,"v":"eA=="}`) // looks like a record and is none
	p = r.produce("3", recordsOf(t, zipped, "c", "d", "e"))
	require.Nil(t, p.Err)
	require.Equal(t, format.Offset(3), p.Base)
	require.Equal(t, format.Offset(6), p.End)

	kafka := []string{"0=a", "1=b", `2={"k":null,"v":"eA=="}`, "3=c", "4=d", "5=e"}
	native := []string{"0=" + envelope("a", 1000), "1=" + envelope("b", 1001), `2={"k":null,"v":"eA=="}`,
		"3=" + envelope("c", 1000), "4=" + envelope("d", 1001), "5=" + envelope("e", 1002)}
	check := func(group string) {
		t.Helper()
		f := r.fetch("3", 0, false)
		require.Equal(t, kafka, values(t, f))
		require.Equal(t, format.Offset(6), f.End)
		require.Equal(t, format.Offset(6), f.Stable)
		require.Equal(t, first[batch.HeaderBytes:], f.Frames[0].Batch[batch.HeaderBytes:])
		require.Equal(t, kafka[2:], values(t, r.fetch("3", 2, false)))
		require.Equal(t, kafka[3:], values(t, r.fetch("3", 4, false)), "an offset inside a batch returns all of it")
		require.Empty(t, values(t, r.fetch("3", 6, true)))
		require.Equal(t, engine.CodeOffsetOutOfRange, r.fetch("3", 7, false).Err.Code)
		require.Equal(t, native, r.popped(group))
		res, err := r.node.Read(context.Background(), someone, engine.ReadRequest{At: []engine.Position{{Queue: "q", Partition: "3", Offset: 4}}})
		require.NoError(t, err)
		require.Len(t, res.Parts[0].Records, 2)
		require.Equal(t, native[4], "4="+string(res.Parts[0].Records[0].Payload))
	}
	check("g1")
	r.close()
	r.open()
	check("g2")
	for i := range 60 { // more segments, so that the first is closed and the log does not reach back
		r.say("other", fmt.Sprint(i, " ", string(make([]byte, 8192))))
	}
	r.close()
	r.open()
	f := r.fetch("3", 0, false)
	require.Equal(t, kafka, values(t, f))
}

// Goal: a fetch of many positions keeps to its bytes, and always gives something.
func TestFetchKeepsToItsBytes(t *testing.T) {
	r := newRecordRig(t)
	b := recordsOf(t, head(), string(make([]byte, 1000)))
	for range 5 {
		require.Nil(t, r.produce("0", b).Err)
		require.Nil(t, r.produce("1", b).Err)
	}
	size := len(b) + format.FrameHeadSize
	at := []engine.FetchAt{{Queue: "q", Partition: "0", MaxBytes: 2 * size}, {Queue: "q", Partition: "1"}}
	count := func(most int) (n [2]int) {
		out, err := r.node.Records().Fetch(context.Background(), someone, at, most)
		require.NoError(t, err)
		for i := range n {
			require.Nil(t, out[i].Err)
			require.Equal(t, format.Offset(5), out[i].End)
			n[i] = len(out[i].Frames)
		}
		return n
	}
	require.Equal(t, [2]int{1, 0}, count(1))
	require.Equal(t, [2]int{1, 0}, count(size))
	require.Equal(t, [2]int{2, 1}, count(3*size))
	require.Equal(t, [2]int{2, 5}, count(1<<20))
}

// Goal: what can not be stored is refused with its reason, alone, and changes nothing.
func TestProduceRefusals(t *testing.T) {
	r := newRecordRig(t)
	good := recordsOf(t, head(), "a")
	control := batch.AppendControl(nil, 0, 0, batch.Marker{ProducerID: 64, Commit: true})
	out, err := r.node.Records().Produce(context.Background(), someone, []engine.RecordBatch{
		{Queue: "q", Partition: "0", Batch: good},
		{Queue: "nowhere", Partition: "0", Batch: good},
		{Queue: "q", Partition: "0", Batch: good[:40]},
		{Queue: "q", Partition: "0", Batch: append(good[:len(good):len(good)], good...)},
		{Queue: "q", Partition: "0", Batch: control},
		{Queue: "q", Partition: "0", Batch: good},
	})
	require.NoError(t, err)
	var codes []engine.ErrorCode
	for _, o := range out {
		if o.Err == nil {
			codes = append(codes, "")
		} else {
			codes = append(codes, o.Err.Code)
		}
	}
	require.Equal(t, []engine.ErrorCode{"", engine.CodeUnknownQueue, engine.CodeBadRequest, engine.CodeBadRequest,
		engine.CodeBadRequest, ""}, codes)
	require.Equal(t, format.Offset(1), out[5].Base)
	_, err = r.node.Catalog().Queue(context.Background(), someone, "nowhere")
	require.True(t, errors.Is(err, &engine.Error{Code: engine.CodeUnknownQueue}))

	r.configure(format.QueueOptions{Set: format.OptMaxSize, MaxSize: 3})
	require.Equal(t, engine.CodeQueueFull, r.produce("0", recordsOf(t, head(), "b", "c")).Err.Code)
	require.Nil(t, r.produce("0", good).Err)
	require.Equal(t, engine.CodeQueueFull, r.produce("1", recordsOf(t, head(), "b", "c", "d", "e")).Err.Code)
	_, err = r.node.Catalog().Partition(context.Background(), someone, "q", "1")
	require.True(t, errors.Is(err, &engine.Error{Code: engine.CodeUnknownPartition}), "a refused batch makes no partition")
}

// Goal: a sealed queue stores no record in the clear, and gives all of them back.
func TestRecordsAreSealed(t *testing.T) {
	v := newVault(t, ringOf(t, 1))
	v.encrypt("q", true)
	r := &recordRig{rig: v.rig}
	require.Nil(t, r.produce("0", recordsOf(t, head(), "a secret record")).Err)
	require.Equal(t, []string{"0=a secret record"}, values(t, r.fetch("0", 0, true)))
	require.Equal(t, []string{"0=" + envelope("a secret record", 1000)}, r.popped("g"))
	require.False(t, v.onDisk("a secret record"))
	v.ring = nil
	require.Equal(t, engine.CodeEncryption, r.produce("0", recordsOf(t, head(), "x")).Err.Code)
}

// Goal: the catalogue tells Kafka clients what they may see: an id of this life of the queue, and a width that counts
// decimal names only and never falls, also over a restart.
func TestTopicOfAQueue(t *testing.T) {
	r := newRecordRig(t)
	catalog := r.node.Catalog()
	look := func() engine.QueueInfo {
		t.Helper()
		info, err := catalog.Topic(context.Background(), someone, "q")
		require.NoError(t, err)
		byID, err := catalog.TopicByID(context.Background(), someone, info.Topic)
		require.NoError(t, err)
		require.Equal(t, info, byID)
		all, next, err := catalog.Topics(context.Background(), someone, engine.Page{})
		require.NoError(t, err)
		require.Empty(t, next)
		require.Equal(t, []engine.QueueInfo{info}, all)
		return info
	}
	first := look()
	require.False(t, first.Topic.IsZero())
	require.Zero(t, first.Width)
	require.Nil(t, r.produce("41", recordsOf(t, head(), "a")).Err)
	for _, name := range []string{"007", "Default", "-1", "2147483647", "99999999999999999999", "7"} {
		r.say(name, "x")
	}
	info := look()
	require.Equal(t, uint32(42), info.Width)
	require.Equal(t, uint64(5), info.Hidden)
	require.Equal(t, first.Topic, info.Topic)
	r.close()
	r.open()
	catalog = r.node.Catalog()
	require.Equal(t, info, look())
	_, err := catalog.DeleteQueue(context.Background(), someone, "q")
	require.NoError(t, err)
	_, err = catalog.TopicByID(context.Background(), someone, first.Topic)
	require.True(t, errors.Is(err, &engine.Error{Code: engine.CodeUnknownQueue}))
	r.configure(format.QueueOptions{})
	again := look()
	require.NotEqual(t, first.Topic, again.Topic)
	require.Zero(t, again.Width)
}

// timed is a batch of one record per timestamp.
func timed(t testing.TB, times ...int64) []byte {
	t.Helper()
	b := batch.NewBuilder(nil, head())
	for i, ms := range times {
		b.Add(&batch.Record{OffsetDelta: int32(i), Timestamp: ms, Value: []byte("x")})
	}
	out, err := b.Finish(0)
	require.NoError(t, err)
	return out
}

func (r *recordRig) offset(q engine.RecordOffsetQuery) engine.RecordOffset {
	r.t.Helper()
	q.Queue, q.Partition = "q", "0"
	out, err := r.node.Records().RecordOffsets(context.Background(), someone, []engine.RecordOffsetQuery{q})
	require.NoError(r.t, err)
	require.Nil(r.t, out[0].Err)
	return out[0]
}

// Goal: offsets are found by the timestamps that clients see, in order or not, ahead of the clock or not, and not in
// what is not there any more.
func TestOffsetsByTime(t *testing.T) {
	r := newRecordRig(t)
	now := r.clock.Now() / 1000
	ask := func(ms int64) string {
		t.Helper()
		o := r.offset(engine.RecordOffsetQuery{Kind: engine.RecordAtTime, Time: ms})
		if !o.Found {
			require.Equal(t, int64(-1), o.Timestamp)
			return "none"
		}
		require.Equal(t, format.Term(1), o.Epoch)
		return fmt.Sprintf("%d at %d", o.Offset, o.Timestamp)
	}
	newest := func() string {
		t.Helper()
		o := r.offset(engine.RecordOffsetQuery{Kind: engine.RecordMaxTime})
		return fmt.Sprintf("%v %d at %d", o.Found, o.Offset, o.Timestamp)
	}
	require.Nil(t, r.produce("0", timed(t, 2, 4)).Err)
	require.Nil(t, r.produce("0", timed(t, 6)).Err)
	require.Nil(t, r.produce("0", timed(t, 8)).Err)
	for ms, want := range map[int64]string{-5: "0 at 2", 2: "0 at 2", 3: "1 at 4", 5: "2 at 6", 7: "3 at 8", 8: "3 at 8", 9: "none",
		now: "none", 1 << 62: "none"} {
		require.Equal(t, want, ask(ms), "%d", ms)
	}
	require.Equal(t, "true 3 at 8", newest())
	require.Nil(t, r.produce("0", timed(t, 7, 3, 8)).Err) // 4, 5, 6
	require.Equal(t, "true 3 at 8", newest(), "the first of several")
	require.Nil(t, r.produce("0", timed(t, now+3_600_000)).Err) // 7, an hour ahead
	require.Nil(t, r.produce("0", timed(t, 9)).Err)             // 8
	r.say("0", `"native"`)                                      // 9, now
	require.Equal(t, "7 at "+fmt.Sprint(now+3_600_000), ask(9))
	require.Equal(t, "7 at "+fmt.Sprint(now+3_600_000), ask(now+3_600_000))
	require.Equal(t, "none", ask(now+3_600_001))
	require.Equal(t, "true 7 at "+fmt.Sprint(now+3_600_000), newest())
	check := func() {
		t.Helper()
		_, err := r.node.Records().DeleteRecords(context.Background(), someone, []engine.FetchAt{{Queue: "q", Partition: "0", Offset: 8}})
		require.NoError(t, err)
		require.Equal(t, "8 at 9", ask(1), "the first that is kept")
		require.Equal(t, "9 at "+fmt.Sprint(now), ask(10))
		require.Equal(t, "true 9 at "+fmt.Sprint(now), newest())
	}
	check()
	r.close()
	r.open()
	check()
	require.Equal(t, engine.RecordOffset{Found: true, Offset: 8, Timestamp: -1, Epoch: 1}, r.offset(engine.RecordOffsetQuery{Kind: engine.RecordEarliest}))
	require.Equal(t, engine.RecordOffset{Found: true, Offset: 10, Timestamp: -1, Epoch: 1}, r.offset(engine.RecordOffsetQuery{Kind: engine.RecordLatest}))
	require.Equal(t, engine.RecordOffset{Found: true, Offset: 10, Timestamp: -1, Epoch: 1},
		r.offset(engine.RecordOffsetQuery{Kind: engine.RecordOfEpoch, Epoch: 1}))
	require.False(t, r.offset(engine.RecordOffsetQuery{Kind: engine.RecordOfEpoch, Epoch: 0}).Found)
	require.False(t, r.offset(engine.RecordOffsetQuery{Kind: engine.RecordOfEpoch, Epoch: 2}).Found)

	// What is not decided is not there for who reads committed records only.
	p := r.producer("tx")
	require.NoError(t, p.add("0"))
	require.Nil(t, p.sendBatch("0", p.batch(0, "a")).Err) // 10, at 1000
	committed := engine.RecordOffsetQuery{Kind: engine.RecordAtTime, Time: now + 1, Committed: true}
	r.clock.Advance(time.Second)
	r.say("0", `"behind"`) // 11
	require.Equal(t, format.Offset(11), r.offset(engine.RecordOffsetQuery{Kind: engine.RecordAtTime, Time: now + 1}).Offset)
	require.False(t, r.offset(committed).Found)
	require.Equal(t, format.Offset(10), r.offset(engine.RecordOffsetQuery{Kind: engine.RecordLatest, Committed: true}).Offset)
	require.Equal(t, format.Offset(10), r.offset(engine.RecordOffsetQuery{Kind: engine.RecordStable}).Offset)
	require.NoError(t, p.end(true, false))
	require.Equal(t, format.Offset(11), r.offset(committed).Offset)
}

// Goal: where time retention has left a log to begin is told right although it is remembered.
func TestStartUnderRetention(t *testing.T) {
	r := newRecordRig(t)
	r.configure(format.QueueOptions{Set: format.OptRetentionSeconds | format.OptRetentionEnabled, RetentionSeconds: 60, RetentionEnabled: true})
	for i := range 4 {
		require.Nil(t, r.produce("0", recordsOf(t, head(), fmt.Sprint(i))).Err)
		r.clock.Advance(30 * time.Second)
		r.node.Settle()
	}
	for _, want := range []format.Offset{2, 3, 4} { // 0 and 1 are past their minute
		for range 2 {
			f := r.fetch("0", want, false)
			require.Nil(t, f.Err)
			require.Equal(t, want, f.Start)
			if want > 0 {
				require.Equal(t, engine.CodeOffsetOutOfRange, r.fetch("0", want-1, false).Err.Code)
			}
		}
		r.clock.Advance(30 * time.Second)
		r.node.Settle()
	}
	_, err := r.node.Records().DeleteRecords(context.Background(), someone, []engine.FetchAt{{Queue: "q", Partition: "0", Offset: 4}})
	require.NoError(t, err)
	require.Nil(t, r.produce("0", recordsOf(t, head(), "new")).Err)
	require.Equal(t, format.Offset(4), r.fetch("0", 4, false).Start)
}
