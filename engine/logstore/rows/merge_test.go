package rows

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"queen/engine/format"
	"queen/engine/logstore/runfile"
	"queen/engine/vfs"
)

// TestMergeInPieces: between two pieces of a merge an input is replaced. What the merge has written is given up, and the
// next one is done in one call, with the rows as they are now.
func TestMergeInPieces(t *testing.T) {
	h := newHarness(t, vfs.NewMem(), 7)
	defer func() { h.runs.Shut() }()
	h.runs.opts.MergeRows = 10
	for range 3 {
		h.add(50)
		h.segment++
		require.NoError(t, h.runs.Close(h.segment-1))
	}
	temps := func() int {
		names, err := h.fs.List("/index")
		require.NoError(t, err)
		return len(slices.DeleteFunc(names, func(n string) bool { return !strings.HasSuffix(n, runfile.TempSuffix) }))
	}
	for range 3 {
		again, err := h.runs.Merge()
		require.NoError(t, err)
		require.True(t, again)
		require.Len(t, h.runs.Files(), 0, "merged before all rows were")
		require.Equal(t, 1, temps())
	}
	var moved []Moved
	for _, frames := range h.frames {
		for i := range frames {
			if frames[i].Segment == 2 {
				moved = append(moved, movedTo(&frames[i].Row, format.BulkBit|4, 8)...)
			}
		}
	}
	require.NoError(t, h.runs.ReplaceSegments([]format.SegmentID{2}, moved, nil))
	require.Zero(t, temps(), "the merge goes on with rows that lead to what is gone")
	again, err := h.runs.Merge()
	require.NoError(t, err)
	require.True(t, again)
	files := h.runs.Files()
	require.Len(t, files, 1, "a merge that was ended is in pieces again")
	require.EqualValues(t, 3, files[0].Last)
	want := map[format.SegmentID]int{1: 50, format.BulkBit | 4: 50, 3: 50}
	require.Equal(t, want, rowsPerSegment(t, h.runs))

	// And a merge that nobody disturbs ends in pieces, one that Shut ends leaves nothing.
	for range 3 {
		h.add(50)
		h.segment++
		require.NoError(t, h.runs.Close(h.segment-1))
	}
	_, err = h.runs.Merge()
	require.NoError(t, err)
	require.Equal(t, 1, temps())
	require.NoError(t, h.runs.Forget(func(s format.SegmentID) bool { return s != 5 }))
	require.Zero(t, temps(), "a run that the merge reads is gone")
}
