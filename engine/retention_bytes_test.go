package engine_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"queen/engine"
	"queen/engine/format"
)

// frameBytes is what each batch of a partition takes, read through the log start that a fetch tells.
const frameBytes = 1000

// bytesRig produces batches of which each takes a little more than frameBytes.
type bytesRig struct{ *recordRig }

func newBytesRig(t *testing.T, keep int64) bytesRig {
	r := bytesRig{newRecordRig(t)}
	r.bound(keep)
	return r
}

func (r bytesRig) bound(keep int64) {
	r.configure(format.QueueOptions{Set: format.OptRetentionBytes, RetentionBytes: keep})
}

func (r bytesRig) write(partition string, batches int) {
	r.t.Helper()
	for range batches {
		require.Nil(r.t, r.produce(partition, recordsOf(r.t, head(), strings.Repeat("v", frameBytes/2))).Err) // key and value
	}
}

func (r bytesRig) start(partition string) format.Offset {
	r.t.Helper()
	end := r.fetch(partition, 0, false).End
	return r.fetch(partition, end, false).Start
}

// Goal: a partition keeps at least what it was told and not a batch more, over restarts and crashes, whatever else
// moves its start; others keep everything.
func TestRetentionBytes(t *testing.T) {
	r := newBytesRig(t, 10*frameBytes)
	rng := rand.New(rand.NewPCG(1, 2))
	written := map[string]int{}
	for i := range 60 {
		part := fmt.Sprint(rng.IntN(3))
		n := rng.IntN(7)
		r.write(part, n)
		written[part] += n
		if rng.IntN(8) == 0 {
			r.crash()
		}
		if rng.IntN(8) == 0 && written[part] > 0 {
			at := r.start(part) + format.Offset(rng.IntN(4))
			_, err := r.node.Records().DeleteRecords(t.Context(), someone, []engine.FetchAt{{Queue: "q", Partition: part,
				Offset: min(at, format.Offset(written[part]))}})
			require.NoError(t, err)
		}
		before := map[string]format.Offset{}
		for part := range written {
			before[part] = r.start(part)
		}
		r.node.Settle()
		for part, n := range written {
			want := max(before[part], format.Offset(max(n-10, 0))) // ten batches are a little more than 10 * frameBytes
			require.Equal(t, want, r.start(part), "round %d partition %s of %d", i, part, n)
		}
	}
	require.Greater(t, r.start("0"), format.Offset(0))
}

// Goal: the newest batch stays however small the bound, and what is not decided neither counts nor goes.
func TestRetentionBytesLeavesTheUndecided(t *testing.T) {
	r := newBytesRig(t, 1)
	r.write("0", 3)
	r.node.Settle()
	require.Equal(t, format.Offset(2), r.start("0"))

	p := r.producer("tx")
	require.NoError(t, p.add("0"))
	require.Nil(t, p.send("0", "a").Err) // 3
	r.write("0", 3)
	r.node.Settle()
	require.Equal(t, format.Offset(2), r.start("0"))
	require.NoError(t, p.end(true, false)) // 7
	r.node.Settle()
	require.Equal(t, format.Offset(7), r.start("0"))
}

// Goal: time and size both bound a partition, and a bound that is lifted before it is applied removes nothing.
func TestRetentionBytesAndTime(t *testing.T) {
	r := newBytesRig(t, 5*frameBytes)
	r.configure(format.QueueOptions{Set: format.OptRetentionSeconds | format.OptRetentionEnabled, RetentionSeconds: 60, RetentionEnabled: true})
	r.write("0", 4)
	r.clock.Advance(40 * time.Second)
	r.write("0", 3)
	r.node.Settle()
	require.Equal(t, format.Offset(2), r.start("0"))
	r.clock.Advance(30 * time.Second)
	r.node.Settle()
	require.Equal(t, format.Offset(4), r.start("0"))
	require.Zero(t, r.node.Surplus("q", "0", 5*frameBytes), "what time removed is no surplus: it took one entry for all partitions")
	require.Equal(t, format.Offset(5), r.node.Surplus("q", "0", 2*frameBytes))
	r.write("0", 3)
	r.node.Settle()
	require.Equal(t, format.Offset(5), r.start("0"))

	o := newOvertaken(t)
	o.configure(format.OptRetentionBytes, format.QueueOptions{RetentionBytes: 1})
	o.mustPush("p", "kept")
	o.mustPush("p", "newest")
	o.at("engine.trim.asked", func() { o.configure(format.OptRetentionBytes, format.QueueOptions{}) })
	o.tick(time.Minute)
	require.Equal(t, 0, o.start())
	o.configure(format.OptRetentionBytes, format.QueueOptions{RetentionBytes: 1})
	o.tick(time.Minute)
	require.Equal(t, 1, o.start())
}
