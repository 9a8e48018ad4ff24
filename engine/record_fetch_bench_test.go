package engine_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"

	"queen/engine"
	"queen/engine/batch"
	"queen/engine/clock"
	"queen/engine/format"
	"queen/engine/vfs"
)

// BenchmarkColdFetch reads every second one of 200 partitions, of which memory has nothing, in answers of 8 MiB, as one
// of two consumers does that are far behind: batches of 24 KiB, written to partitions at random, eight with one entry, and as many
// as a node writes with one that is offered more than it can do.
func BenchmarkColdFetch(b *testing.B) {
	for _, together := range []int{8, 100} {
		b.Run(fmt.Sprint(together), func(b *testing.B) { coldFetch(b, together) })
	}
}

func coldFetch(b *testing.B, together int) {
	const partitions, batches = 200, 8000
	n, err := engine.OpenLocal(engine.Config{FS: vfs.NewOS(vfs.OSOptions{}), Clock: clock.Real(), Rand: clock.RealRand(), Dir: b.TempDir(),
		SegmentBytes: 64 << 20, PoolReady: 1, TailBytes: 1 << 20})
	if err != nil {
		b.Fatal(err)
	}
	defer n.Close(context.Background())
	if _, err := n.Catalog().Configure(b.Context(), someone, engine.ConfigureRequest{Queue: "q"}); err != nil {
		b.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(1, 2))
	value := make([]byte, 24<<10)
	ends := make([]format.Offset, partitions)
	for range batches / together {
		calls := make([]engine.RecordBatch, together)
		for i := range calls {
			for k := range value {
				value[k] = byte(rng.Uint32())
			}
			p := rng.IntN(partitions)
			w := batch.NewBuilder(nil, head())
			w.Add(&batch.Record{Timestamp: 1000, Value: value})
			sent, err := w.Finish(0)
			if err != nil {
				b.Fatal(err)
			}
			calls[i] = engine.RecordBatch{Queue: "q", Partition: fmt.Sprint(p), Batch: sent}
			ends[p]++
		}
		if _, err := n.Records().Produce(b.Context(), someone, calls); err != nil {
			b.Fatal(err)
		}
	}
	at := make([]engine.FetchAt, partitions/2)
	frames, rest := 0, 0
	for b.Loop() {
		if rest == 0 {
			for i := range at {
				at[i] = engine.FetchAt{Queue: "q", Partition: fmt.Sprint(2 * i)}
				rest += int(ends[2*i])
			}
		}
		out, err := n.Records().Fetch(b.Context(), someone, at, 8<<20)
		if err != nil {
			b.Fatal(err)
		}
		for i := range out {
			if out[i].Err != nil {
				b.Fatal(out[i].Err)
			}
			at[i].Offset += format.Offset(len(out[i].Frames))
			frames, rest = frames+len(out[i].Frames), rest-len(out[i].Frames)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(frames), "us/frame")
	b.ReportMetric(float64(frames)*(24<<10)/1e6/b.Elapsed().Seconds(), "MB/s")
}
