package engine_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"queen/engine"
	"queen/engine/batch"
	"queen/engine/format"
)

// Goal: a record that Kafka produced comes back from the dead letters as the record that it was, also what JSON can not
// say, for both kinds of reader, into its own partition and into a queue that the move makes. Repeated under a key the
// answer is the same.
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
	holds("q", "0", 2, want[0])
	got, _ := r.one("g", 10, false)
	require.Equal(t, []string{"2=" + string(batch.AppendEnvelope(nil, &want[0]))}, got)

	keyed.Key = ""
	move(&engine.Redrive{DeadLetter: dead[0].ID, ToOther: true, Queue: "made", ToPart: true, Partition: "7"})
	holds("made", "7", 0, want[1])
	dead, err = r.node.Catalog().DeadLetters(context.Background(), someone, engine.DeadLetterFilter{Queue: "q"})
	require.NoError(t, err)
	require.Empty(t, dead)
}
