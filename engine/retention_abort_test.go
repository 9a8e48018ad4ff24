package engine_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"queen/engine"
	"queen/engine/format"
)

// Goal: aborted ranges of partitions to which nothing happens any more go with their records, whatever retention did before,
// a few with each entry; until then readers are told of them. A queue that keeps its messages for ever keeps them.
func TestAbortedRangesOfQuietPartitions(t *testing.T) {
	const parts = 40
	r := newRecordRig(t)
	r.close()
	r.config = func(c *engine.Config) { c.RetentionEvery = 1000 * 24 * time.Hour } // passes are those of Settle
	r.open()
	r.node.BoundAborts(1)
	keep := func(on bool) {
		t.Helper()
		r.configure(format.QueueOptions{Set: format.OptRetentionSeconds | format.OptRetentionEnabled, RetentionSeconds: 60, RetentionEnabled: on})
	}
	pass := func(d time.Duration) {
		t.Helper()
		r.clock.Advance(d)
		r.node.Settle()
	}
	p := r.producer("tx")
	p.implicit = true
	for i := range parts {
		require.Nil(t, p.send(fmt.Sprint(i), "a").Err)
	}
	require.NoError(t, p.end(false, true))
	pass(time.Hour)
	require.Equal(t, parts, r.node.AbortedRanges("q"), "kept for ever")
	known := func(part string) {
		t.Helper()
		f := r.fetch(part, 0, true)
		require.Equal(t, []string{"0=a", "1=control"}, values(t, f))
		require.Equal(t, []engine.Aborted{{Producer: p.id.ID, First: 0}}, f.Aborted)
	}
	known("0")

	keep(true)
	require.Nil(t, p.send("late", "a").Err)
	require.NoError(t, p.end(false, true))
	pass(time.Second)
	left := r.node.AbortedRanges("q")
	require.Greater(t, left, 1, "one entry forgets one, one pass a few")
	require.Less(t, left, parts)
	known("late")
	r.crash() // what is left is found again
	require.Equal(t, left, r.node.AbortedRanges("q"))
	r.node.BoundAborts(1)
	for range parts / 10 {
		pass(time.Second)
	}
	require.Equal(t, 1, r.node.AbortedRanges("q"), "only what is not a minute old is left, with no message written since")
	known("late")

	keep(false)
	pass(time.Hour)
	known("late")
	keep(true)
	pass(time.Second)
	require.Zero(t, r.node.AbortedRanges("q"))
	f := r.fetch("late", 2, true)
	require.Nil(t, f.Err)
	require.Equal(t, format.Offset(2), f.Start)
	require.Equal(t, engine.CodeOffsetOutOfRange, r.fetch("late", 0, true).Err.Code)
}
