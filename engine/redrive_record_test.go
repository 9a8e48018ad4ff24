package engine_test

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"queen/engine"
	"queen/engine/batch"
	"queen/engine/format"
)

// Goal: a record that Kafka produced comes back from the dead letters as the record that it was, also what JSON can not
// say, for both kinds of reader, into its own partition and into a queue that the move makes, with headers that tell where
// it was. Repeated under a key the answer is the same.
func TestRedriveRecord(t *testing.T) {
	r := newRecordRig(t)
	want := []batch.Record{
		{Timestamp: 123_456, Key: []byte{0xff, 0}, Value: []byte("v"), Headers: []batch.RecordHeader{{Key: []byte{0xfe}}, {Key: []byte("h"), Value: []byte("x")}}},
		{Timestamp: batch.NoTimestamp, Value: []byte{}},
	}
	h := head()
	h.Attributes = int16(batch.Zstd)
	b := batch.NewBuilder(nil, h)
	for i, rec := range want {
		rec.OffsetDelta = int32(i)
		b.Add(&rec)
	}
	made, err := b.Finish(0)
	require.NoError(t, err)
	require.Nil(t, r.produce("0", made).Err)
	for i := range want {
		_, d := r.one("g", 1, false)
		r.settle("g", d, format.AckDLQ, format.Offset(i))
	}
	dead, err := r.node.Catalog().DeadLetters(context.Background(), someone, engine.DeadLetterFilter{Queue: "q"})
	require.NoError(t, err)
	require.Len(t, dead, len(want)) // newest first

	keyed := someone
	keyed.Key = "again"
	move := func(op *engine.Redrive) engine.RedriveItem {
		t.Helper()
		res, err := r.node.Do(context.Background(), keyed, engine.Batch{Ops: []engine.Op{op}})
		require.NoError(t, err)
		require.Nil(t, res[0].Err)
		require.True(t, res[0].Redrive.Record)
		return res[0].Redrive
	}
	// origin adds what a copy tells of where it came from.
	origin := func(rec batch.Record, d *engine.DeadLetter) batch.Record {
		rec.Headers = append(slices.Clone(rec.Headers), batch.RecordHeader{Key: []byte("queen-original-id"), Value: []byte(d.Message.ID.String())},
			batch.RecordHeader{Key: []byte("queen-original-offset"), Value: fmt.Append(nil, d.Message.Offset)},
			batch.RecordHeader{Key: []byte("queen-original-created-at"), Value: format.AppendISO(nil, d.Message.CreatedAt)})
		return rec
	}
	holds := func(queue, partition string, at format.Offset, want batch.Record) {
		t.Helper()
		f, err := r.node.Records().Fetch(context.Background(), someone, []engine.FetchAt{{Queue: queue, Partition: partition, Offset: at,
			MaxBytes: 1 << 20}}, 1<<20)
		require.NoError(t, err)
		require.Nil(t, f[0].Err)
		require.Len(t, f[0].Frames, 1)
		n := 0
		require.NoError(t, batch.Records(f[0].Frames[0].Batch, batch.Limits{}, func(rec *batch.Record) bool {
			require.Equal(t, want, *rec)
			n++
			return true
		}))
		require.Equal(t, 1, n)
	}
	first := move(&engine.Redrive{DeadLetter: dead[1].ID})
	require.Equal(t, format.Offset(2), first.Message.Offset)
	require.Equal(t, first, move(&engine.Redrive{DeadLetter: dead[1].ID}), "its key")
	copied := origin(want[0], &dead[1])
	holds("q", "0", 2, copied)
	got, d := r.one("g", 10, false)
	require.Equal(t, []string{"2=" + string(batch.AppendEnvelope(nil, &copied))}, got)

	keyed.Key = ""
	move(&engine.Redrive{DeadLetter: dead[0].ID, ToOther: true, Queue: "made", ToPart: true, Partition: "7"})
	holds("made", "7", 0, origin(want[1], &dead[0]))
	list := func() []engine.DeadLetter {
		dead, err := r.node.Catalog().DeadLetters(context.Background(), someone, engine.DeadLetterFilter{Queue: "q"})
		require.NoError(t, err)
		return dead
	}
	require.Empty(t, list())

	// Moved once more, for its group alone: Kafka's clients still read it, another group is not handed it.
	r.settle("g", d, format.AckDLQ, 2)
	again := move(&engine.Redrive{DeadLetter: list()[0].ID, GroupOnly: true})
	require.Equal(t, format.Offset(3), again.Message.Offset)
	copied.Headers = append(copied.Headers, batch.RecordHeader{Key: []byte("queen-only-group"), Value: []byte("g")})
	r.crash()
	holds("q", "0", 3, copied)
	envelopeOf := func(at int, rec *batch.Record) string {
		return fmt.Sprintf("%d=%s", at, batch.AppendEnvelope(nil, rec))
	}
	require.Equal(t, []string{envelopeOf(3, &copied)}, r.popped("g"))
	require.Len(t, r.popped("other"), 3)
	require.Equal(t, uint64(0), r.pending("other"))
}

// pending is how many messages a consumer group has before it.
func (r *recordRig) pending(group string) uint64 {
	r.t.Helper()
	d, err := r.node.Inspect().Depth(context.Background(), someone, "q", group)
	require.NoError(r.t, err)
	return d.Pending
}
