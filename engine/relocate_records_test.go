package engine_test

import (
	"fmt"
	"path"
	"reflect"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"queen/engine"
	"queen/engine/batch"
	"queen/engine/format"
	"queen/engine/vfs"
)

// recordsBeside writes record batches of every kind to two partitions of the queue that keeps everything, while others
// fill the log: plain ones, those of transactions that commit or abort over both, native messages between.
type recordsBeside struct {
	*mixed
	r   *recordRig
	txs []*producer
}

func (b *recordsBeside) produce(p *producer, partition string) {
	b.t.Helper()
	h := batch.Head(0)
	if p != nil {
		h.ProducerID, h.ProducerEpoch, h.BaseSequence, h.Attributes = p.id.ID, p.id.Epoch, p.next[partition], 1<<4
		p.next[partition]++
	}
	out, err := b.node.Records().Produce(b.t.Context(), someone, []engine.RecordBatch{{Queue: "keep", Partition: partition,
		Batch: recordsOf(b.t, h, string(b.noise(1+b.rng.IntN(2000)))), Implicit: true}})
	require.NoError(b.t, err)
	require.Nil(b.t, out[0].Err)
}

func (b *recordsBeside) fill(over time.Duration) {
	b.t.Helper()
	for range 4 {
		for i, p := range b.txs {
			if b.rng.IntN(3) == 0 {
				require.NoError(b.t, p.end(b.rng.IntN(2) == 0, i == 0))
			}
			for _, part := range []string{"0", "1"} {
				b.produce(p, part)
				if b.rng.IntN(2) == 0 {
					b.produce(nil, part)
				}
				_, err := b.node.Do(b.t.Context(), someone, engine.Batch{Ops: []engine.Op{&engine.Append{Queue: "keep", Partition: part,
					Messages: []engine.Message{{Payload: b.noise(100)}}}}})
				require.NoError(b.t, err)
			}
		}
		b.mixed.fill(over / 4)
	}
}

// fetched is everything that Kafka's clients read of a partition, and native ones.
type fetched struct {
	all, committed []engine.Frame
	aborted        []engine.Aborted
	stable, end    format.Offset
	native         []engine.Record
}

func (b *recordsBeside) shootRecords() map[string]fetched {
	b.t.Helper()
	out := map[string]fetched{}
	for _, part := range []string{"0", "1"} {
		var f fetched
		for _, committed := range []bool{false, true} {
			for next := format.Offset(0); ; {
				got, err := b.node.Records().Fetch(b.t.Context(), someone, []engine.FetchAt{{Queue: "keep", Partition: part, Offset: next,
					Committed: committed}}, 1<<20)
				require.NoError(b.t, err)
				require.Nil(b.t, got[0].Err)
				f.stable, f.end = got[0].Stable, got[0].End
				if len(got[0].Frames) == 0 {
					break
				}
				if committed {
					f.committed, f.aborted = append(f.committed, got[0].Frames...), append(f.aborted, got[0].Aborted...)
				} else {
					f.all = append(f.all, got[0].Frames...)
				}
				last := &got[0].Frames[len(got[0].Frames)-1]
				if next = last.Base + format.Offset(len(last.Messages)); last.Batch != nil {
					h, err := batch.ParseHeader(last.Batch)
					require.NoError(b.t, err)
					next = last.Base + format.Offset(h.LastOffsetDelta) + 1
				}
			}
		}
		s, ok := b.shootPartition("keep", part)
		require.True(b.t, ok)
		f.native = s.records
		out[part] = f
	}
	return out
}

func (b *recordsBeside) sameRecords(what string, before map[string]fetched) {
	b.t.Helper()
	for part, was := range before {
		if now := b.shootRecords()[part]; !reflect.DeepEqual(now, was) {
			b.t.Fatalf("%s: partition %s: %d and %d frames, %d aborted, %d messages, stable %d of %d; was %d and %d, %d, %d, %d of %d", what, part,
				len(now.all), len(now.committed), len(now.aborted), len(now.native), now.stable, now.end,
				len(was.all), len(was.committed), len(was.aborted), len(was.native), was.stable, was.end)
		}
	}
}

// Goal: record batches and the ends of transactions stay what they were, to the byte and for both kinds of reader, when
// their segments are moved, moved again, and when every index is made again from what moved.
func TestRelocationKeepsRecords(t *testing.T) {
	b := &recordsBeside{mixed: newMixed(t, 7)}
	b.open()
	b.declare()
	b.r = &recordRig{rig: b.rig, timeout: time.Hour}
	b.txs = []*producer{b.r.producer("one"), b.r.producer("two")}
	for range 3 {
		b.fill(3 * time.Second)
	}
	require.NoError(t, b.txs[0].end(false, true)) // the other one stays open
	before := b.shootRecords()
	for part, f := range before {
		require.NotEmpty(t, f.aborted)
		require.Less(t, f.stable, f.end, part)
		require.Less(t, len(f.committed), len(f.all))
		require.Less(t, len(f.native), int(f.end)-len(f.aborted))
	}
	b.works(12)
	_, bulk, oldest := b.diskOf()
	require.NotZero(t, bulk)
	require.GreaterOrEqual(t, oldest, uint32(4))
	b.sameRecords("moved", before)
	b.close()
	b.open()
	b.sameRecords("reopened", before)
	for range 2 {
		b.mixed.fill(4 * time.Second)
	}
	b.works(12)
	b.sameRecords("moved again", before)
	b.close()
	disk := b.fs.Crash(vfs.KeepAll())
	for _, kinds := range [][]string{{".pidx"}, {".run"}, {".pidx", ".run", ".hsc"}} {
		o := &recordsBeside{mixed: &mixed{rig: b.on(disk.Crash(vfs.KeepAll())), rng: b.rng}}
		for _, kind := range kinds {
			for _, name := range o.files(func(name string) bool { return path.Ext(name) == kind }) {
				require.NoError(t, o.fs.Remove("data/"+name))
			}
		}
		o.open()
		o.sameRecords(fmt.Sprint("without ", kinds), before)
		o.close()
	}
}
