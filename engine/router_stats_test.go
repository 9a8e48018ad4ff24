package engine_test

import (
	"context"
	"reflect"
	"testing"

	"github.com/stretchr/testify/require"

	"queen/engine"
	"queen/engine/format"
)

// TestStatusOfGroups: a node is well if it is in all of its groups, and says which one it is not in.
func TestStatusOfGroups(t *testing.T) {
	ctx, r := context.Background(), newRouted(t)
	st, err := r.Status(ctx)
	require.NoError(t, err)
	require.True(t, st.Ready && st.CanWrite && st.Quorum, "%+v", st)
	require.Empty(t, st.Why)
	require.Len(t, st.Groups, 2)
	for i, g := range st.Groups {
		one, err := r.Group(format.RaftGroup(i + 1)).Status(ctx)
		require.NoError(t, err)
		require.Nil(t, one.Groups)
		require.Equal(t, engine.GroupStatus{Group: format.RaftGroup(i + 1), Role: "leader", Term: 1, Applied: one.Applied, Commit: one.Commit,
			Quorum: true, CanWrite: true}, g)
		g.Group = 1
		require.Equal(t, []engine.GroupStatus{g}, one.RaftGroups(), "of a node that has no other")
	}
	require.Equal(t, st.Groups, st.RaftGroups())
	require.NoError(t, r.Group(2).Close(ctx))
	st, err = r.Status(ctx)
	require.NoError(t, err)
	require.False(t, st.Ready || st.CanWrite || st.Quorum, "%+v", st)
	require.Equal(t, "raft group 2: the node is shutting down", st.Why)
	require.Equal(t, "stopping", st.Phase)
	require.Equal(t, "leader", st.Role)
	require.True(t, st.Groups[0].CanWrite)
	require.Equal(t, "stopped", st.Groups[1].Role)
	require.Equal(t, "the node is shutting down", st.Groups[1].Why)
	require.NoError(t, r.Close(ctx))
	st, err = r.Status(ctx)
	require.NoError(t, err)
	require.Equal(t, "raft group 1: the node is shutting down", st.Why)
}

// fillFigures sets every number of a struct, arrays and structs in it too, to one that no other has.
func fillFigures(v reflect.Value, next *uint64) {
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			fillFigures(v.Field(i), next)
		}
	case reflect.Array:
		for i := range v.Len() {
			fillFigures(v.Index(i), next)
		}
	case reflect.Uint64:
		*next++
		v.SetUint(*next)
	case reflect.Int64:
		*next++
		v.SetInt(int64(*next))
	default:
		panic("a figure of kind " + v.Kind().String())
	}
}

// TestSumOfStats: no field is forgotten, and all are added but for those that say otherwise.
func TestSumOfStats(t *testing.T) {
	var one, sum engine.Stats
	next := uint64(1000)
	fillFigures(reflect.ValueOf(&one).Elem(), &next)
	sum.Add(&one)
	require.Equal(t, one, sum)
	sum.Add(&one)
	same := map[string]bool{"TimerOldestLateMicros": true, "DiskTotal": true, "DiskFree": true, "LastCommitMicros": true, "LastCommitAt": true,
		"DeadAt": true}
	got, was := reflect.ValueOf(sum), reflect.ValueOf(one)
	for i := range got.NumField() {
		name := got.Type().Field(i).Name
		switch g, w := got.Field(i).Interface(), was.Field(i).Interface(); {
		case same[name]:
			require.Equal(t, w, g, name)
		case got.Field(i).Kind() == reflect.Struct:
			g, w := g.(engine.Histogram), w.(engine.Histogram)
			require.Equal(t, 2*w.Sum, g.Sum, name)
			for k := range w.Counts {
				require.Equal(t, 2*w.Counts[k], g.Counts[k], name)
			}
		case got.Field(i).CanInt():
			require.Equal(t, 2*was.Field(i).Int(), got.Field(i).Int(), name)
		default:
			require.Equal(t, 2*was.Field(i).Uint(), got.Field(i).Uint(), name)
		}
	}
	// What is no sum: the latest timer, the newest commit, the oldest look, the first disk.
	sum = engine.Stats{TimerOldestLateMicros: 5, LastCommitAt: 5, LastCommitMicros: 50, DeadAt: 5, DiskTotal: 5, DiskFree: 4}
	sum.Add(&engine.Stats{TimerOldestLateMicros: 7, LastCommitAt: 7, LastCommitMicros: 10, DeadAt: 7, DiskTotal: 7, DiskFree: 6})
	require.Equal(t, engine.Stats{TimerOldestLateMicros: 7, LastCommitAt: 7, LastCommitMicros: 10, DeadAt: 5, DiskTotal: 5, DiskFree: 4}, sum)
	sum.Add(&engine.Stats{TimerOldestLateMicros: 1, LastCommitAt: 1, LastCommitMicros: 99, DeadAt: 1})
	require.Equal(t, engine.Stats{TimerOldestLateMicros: 7, LastCommitAt: 7, LastCommitMicros: 10, DeadAt: 1, DiskTotal: 5, DiskFree: 4}, sum)
}

// TestStatsOfGroups: what happened in either group is in the figures of the node.
func TestStatsOfGroups(t *testing.T) {
	r := newRouted(t)
	first, second := r.two()
	r.push(first, "q", "p")
	r.push(second, "q", "p")
	r.push(second, "q", "p2")
	st := r.Inspect().Stats()
	require.EqualValues(t, 3, st.Pushed)
	require.EqualValues(t, 2, st.Queues)
	require.EqualValues(t, 3, st.Partitions)
	require.Equal(t, r.Group(1).Inspect().Stats().DiskTotal, st.DiskTotal)
}
