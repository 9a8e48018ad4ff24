package engine_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"queen/engine"
	"queen/engine/format"
	"queen/engine/invariants"
	"queen/engine/vfs"
)

// newColdRig is a node that keeps next to nothing in memory.
func newColdRig(t *testing.T) *recordRig {
	r := &recordRig{rig: newRig(t)}
	r.config = func(c *engine.Config) { c.TailBytes = 64 << 10 }
	r.open()
	t.Cleanup(r.close)
	r.configure(format.QueueOptions{})
	return r
}

// scatter writes batches of one record each to partitions in random order; it returns the values of each partition.
func (r *recordRig) scatter(rng *rand.Rand, partitions, each, size int) [][]string {
	want := make([][]string, partitions)
	for left := partitions * each; left > 0; {
		p := rng.IntN(partitions)
		if len(want[p]) == each {
			continue
		}
		v := fmt.Sprintf("%d-%d-%s", p, len(want[p]), bytes.Repeat([]byte{byte('a' + rng.IntN(26))}, rng.IntN(size)))
		require.Nil(r.t, r.produce(fmt.Sprint(p), recordsOf(r.t, head(), v)).Err)
		want[p] = append(want[p], v)
		left--
	}
	return want
}

// Goal: whatever bounds a client has, it gets every batch of every partition once and in order, no more at a time than
// it allows but for one batch, and always something, from memory and from files.
func TestFetchFromFiles(t *testing.T) {
	const partitions = 12
	r := newColdRig(t)
	rng := rand.New(rand.NewPCG(5, 6))
	want := r.scatter(rng, partitions, 60, 20_000)
	for _, most := range []int{1, 5_000, 60_000, 500_000, 1 << 20, 64 << 20} {
		got := make([][]string, partitions)
		for fetches := 0; ; fetches++ {
			var at []engine.FetchAt
			for p := range partitions {
				if len(got[p]) < len(want[p]) {
					at = append(at, engine.FetchAt{Queue: "q", Partition: fmt.Sprint(p), Offset: format.Offset(len(got[p])),
						MaxBytes: 1 + rng.IntN(200_000)})
				}
			}
			if len(at) == 0 {
				break
			}
			rng.Shuffle(len(at), func(i, k int) { at[i], at[k] = at[k], at[i] })
			out, err := r.node.Records().Fetch(t.Context(), someone, at, most)
			require.NoError(t, err)
			total, frames := 0, 0
			for i := range out {
				size := 0
				for _, f := range out[i].Frames {
					size += len(f.Batch) + format.FrameHeadSize
				}
				if n := len(out[i].Frames); n > 1 || n == 1 && frames > 0 {
					require.LessOrEqual(t, size, at[i].MaxBytes)
				}
				total, frames = total+size, frames+len(out[i].Frames)
				var p int
				_, err := fmt.Sscan(at[i].Partition, &p)
				require.NoError(t, err)
				for _, v := range values(t, out[i]) {
					require.Equal(t, fmt.Sprintf("%d=%s", len(got[p]), want[p][len(got[p])]), v)
					got[p] = append(got[p], want[p][len(got[p])])
				}
			}
			require.NotZero(t, frames, "%d bytes, fetch %d", most, fetches)
			if frames > 1 {
				require.LessOrEqual(t, total, most)
			}
		}
	}
}

// Goal: who is far behind on all partitions is given some of each, the same of each where all have as much.
func TestFetchShares(t *testing.T) {
	const partitions, each = 8, 40
	r := newColdRig(t)
	value := string(bytes.Repeat([]byte("x"), 20_000))
	for range each {
		for p := range partitions {
			require.Nil(t, r.produce(fmt.Sprint(p), recordsOf(t, head(), value)).Err)
		}
	}
	var at []engine.FetchAt
	for p := range partitions {
		at = append(at, engine.FetchAt{Queue: "q", Partition: fmt.Sprint(p), MaxBytes: 8 << 20})
	}
	size := len(recordsOf(t, head(), value)) + format.FrameHeadSize
	for _, c := range []struct{ most, least, greatest int }{{8 * 10 * size, 10, 10}, {8*10*size + 3*size, 10, 13}, {8 * 40 * size, 40, 40}} {
		out, err := r.node.Records().Fetch(t.Context(), someone, at, c.most)
		require.NoError(t, err)
		frames := 0
		for i := range out {
			require.Nil(t, out[i].Err)
			require.GreaterOrEqual(t, len(out[i].Frames), c.least)
			require.LessOrEqual(t, len(out[i].Frames), c.greatest)
			frames += len(out[i].Frames)
		}
		require.LessOrEqual(t, frames*size, c.most)
		require.Greater(t, frames*size, c.most*9/10)
	}
}

// Goal: a batch that can not be read ends what is given of its partition, is named where nothing comes before it, and
// takes nothing from the others.
func TestFetchMeetsRot(t *testing.T) {
	r := newColdRig(t)
	want := r.scatter(rand.New(rand.NewPCG(1, 9)), 4, 40, 20_000)
	rotten := want[1][7]
	name := r.rot(rotten)
	require.NotEmpty(t, name)
	fetch := func(offset format.Offset) []engine.Fetched {
		var at []engine.FetchAt
		for p := range 4 {
			at = append(at, engine.FetchAt{Queue: "q", Partition: fmt.Sprint(p), Offset: offset, MaxBytes: 8 << 20})
		}
		out, err := r.node.Records().Fetch(t.Context(), someone, at, 64<<20)
		require.NoError(t, err)
		return out
	}
	for _, offset := range []int{0, 7, 8} {
		out := fetch(format.Offset(offset))
		for p := range out {
			to := len(want[p])
			if p == 1 && offset < 8 {
				if to = 7; offset == 7 {
					require.NotNil(t, out[p].Err)
					require.Equal(t, engine.CodeCorrupt, out[p].Err.Code)
					continue
				}
			}
			var expected []string
			for i := offset; i < to; i++ {
				expected = append(expected, fmt.Sprintf("%d=%s", i, want[p][i]))
			}
			require.Equal(t, expected, values(t, out[p]))
		}
	}
}

// rot damages a value on the disk and returns the file in which it is.
func (r *recordRig) rot(value string) string {
	r.t.Helper()
	segments, _ := r.node.LogSegments()
	for _, s := range segments {
		name := "data/" + format.SegmentID(s.Segment).FileName()
		b, err := vfs.ReadFile(r.fs, name, 1<<20)
		require.NoError(r.t, err)
		if at := bytes.Index(b, []byte(value)); at >= 0 {
			require.NoError(r.t, r.fs.FlipBit(name, int64(at)+3, 1))
			return name
		}
	}
	return ""
}

// Goal: between the look-up of frames and the read of them all of them move, and the segments in which they were are gone.
func TestFetchIsOvertaken(t *testing.T) {
	r := ripe(t)
	m := lives(t, r, r.fs)
	defer m.close()
	overtaken := false
	disarm := invariants.ArmFunc("engine.read.row-found", 1, func() {
		overtaken = true
		m.until(4)
	})
	defer disarm()
	names := []string{"a", "b", "c"}
	var at []engine.FetchAt
	for _, name := range names {
		at = append(at, engine.FetchAt{Queue: "q", Partition: name, MaxBytes: 8 << 20})
	}
	out, err := m.node.Records().Fetch(t.Context(), someone, at, 64<<20)
	require.NoError(t, err)
	require.True(t, overtaken)
	for i, name := range names {
		require.Nil(t, out[i].Err)
		var got []string
		for _, f := range out[i].Frames {
			for _, msg := range f.Messages {
				got = append(got, string(msg.Payload))
			}
		}
		require.Equal(t, m.pushed[name], got)
	}
}
