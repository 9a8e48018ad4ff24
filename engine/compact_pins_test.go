package engine_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"queen/engine"
	"queen/engine/batch"
	"queen/engine/format"
)

// put writes one record of a key; nil deletes the key.
func (b *tables) put(part, key string, value []byte) {
	b.t.Helper()
	w := batch.NewBuilder(nil, batch.Head(0))
	w.Add(&batch.Record{Timestamp: 1000, Key: []byte(key), Value: value})
	sent, err := w.Finish(0)
	require.NoError(b.t, err)
	out, err := b.node.Records().Produce(b.t.Context(), someone, []engine.RecordBatch{{Queue: "table", Partition: part, Batch: sent}})
	require.NoError(b.t, err)
	require.Nil(b.t, out[0].Err)
	b.append(part, out[0].Base, []naive{{key: key, value: string(value), null: value == nil, ms: 1000}})
}

// turn lets all that was written have its turn.
func (b *tables) turn() {
	b.t.Helper()
	bounds := map[string]format.Offset{}
	for _, part := range b.parts() {
		bounds[part] = format.Offset(len(b.log[part]))
	}
	for k := 0; k == 0 || !b.isClean(bounds); k++ {
		require.Less(b.t, k, 20, "compaction does not come to the end")
		b.fill(5 * time.Second)
		b.works(4)
	}
}

// Goal: an old record that a consumer group has under a lease, or that a dead letter points at, stays, and so does what deletes
// its key, however old; when it is let go of, both go.
func TestCompactionPins(t *testing.T) {
	b := newTables(t, 3, format.QueueOptions{Set: format.OptTombstoneMs | format.OptCompactDirtyPermille, TombstoneMs: 1000})
	b.close()
	plain, keyed := b.config, t.TempDir() // reasons of dead letters have a home
	b.config = func(c *engine.Config) { plain(c); c.KeyedDir = keyed }
	b.mixed.open()
	defer b.close()
	for _, part := range b.parts() {
		b.put(part, "held", []byte("one"))
		b.put(part, "free", []byte("one"))
	}
	pop := func(part string) *engine.Delivery {
		d, err := b.node.Pop(t.Context(), someone, engine.PopRequest{Scope: engine.Scope{Queue: "table", Partition: part, Pinned: true}, Group: "g",
			Batch: 1, Start: engine.Start{Kind: format.StartAll}, Lease: 10 * time.Hour})
		require.NoError(t, err)
		d.Delivered()
		return d
	}
	ack := func(d *engine.Delivery, status format.AckStatus) {
		out, err := b.node.Do(t.Context(), someone, engine.Batch{Ops: []engine.Op{&engine.Ack{Partition: d.Claims[0].PartitionID, Group: "g",
			Lease: d.Lease, HasOffset: true, Offset: d.Claims[0].First, Status: status}}})
		require.NoError(t, err)
		require.Nil(t, out[0].Err)
	}
	leased := pop("0")
	ack(pop("1"), format.AckDLQ)
	there := func(part string) (offsets []format.Offset) {
		all, _ := b.fetchAll(part, false)
		for at := range b.log[part] {
			if _, ok := all[format.Offset(at)]; ok {
				offsets = append(offsets, format.Offset(at))
			}
		}
		return offsets
	}
	for _, part := range b.parts() {
		b.put(part, "held", nil)
		b.put(part, "free", nil)
		b.put(part, "last", []byte("x"))
	}
	for range 3 {
		b.turn()
	}
	for _, part := range b.parts() {
		require.Equal(t, []format.Offset{0, 2, 3, 4}, there(part), part)
	}
	dead, err := b.node.Catalog().DeadLetters(t.Context(), someone, engine.DeadLetterFilter{Queue: "table"})
	require.NoError(t, err)
	require.Len(t, dead, 1)
	require.EqualValues(t, 0, dead[0].Message.Offset)

	ack(leased, format.AckCompleted)
	_, err = b.node.Catalog().Purge(t.Context(), someone, "table", nil)
	require.NoError(t, err)
	for range 3 {
		for _, part := range b.parts() {
			b.put(part, "last", []byte("y"))
		}
		b.turn()
	}
	for _, part := range b.parts() {
		require.Equal(t, []format.Offset{format.Offset(len(b.log[part]) - 1)}, there(part), part)
	}
}
