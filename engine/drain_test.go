package engine_test

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"queen/engine"
	"queen/engine/format"
)

// Goal: the nodes that drain are one row, which outlives a power cut. A change that another one overtakes is made anew over what
// that left; one that is refused, and one that changes nothing, write nothing; without nodes there is no row.
func TestChangeDraining(t *testing.T) {
	r := newRig(t)
	r.open()
	type list = []format.Replica
	add := func(node format.Replica) func(list) (list, error) {
		return func(now list) (list, error) { return append(now, node), nil }
	}
	require.Empty(t, r.node.Draining())
	require.NoError(t, r.node.ChangeDraining(t.Context(), add(2)))
	calls := 0
	require.NoError(t, r.node.ChangeDraining(t.Context(), func(now list) (list, error) {
		if calls++; calls == 1 {
			require.NoError(t, r.node.ChangeDraining(t.Context(), add(3)))
		}
		return append(now, 7), nil
	}))
	require.Equal(t, 2, calls)
	require.Equal(t, list{2, 3, 7}, r.node.Draining())

	before, refusal := r.node.AdminGeneration(), errors.New("no")
	require.ErrorIs(t, r.node.ChangeDraining(t.Context(), func(list) (list, error) { return nil, refusal }), refusal)
	require.NoError(t, r.node.ChangeDraining(t.Context(), func(now list) (list, error) { return slices.Clone(now), nil }))
	require.Equal(t, before, r.node.AdminGeneration())

	r.cut()
	r.open()
	require.Equal(t, list{2, 3, 7}, r.node.Draining())
	require.NoError(t, r.node.ChangeDraining(t.Context(), func(list) (list, error) { return nil, nil }))
	_, there := r.node.AdminRow(format.SystemTenant, format.AdminNode, "draining")
	require.False(t, there)
	require.Empty(t, r.node.Draining())
	r.close()
}

// Goal: a full disk refuses administrative rows, and keeps neither a node from being told to drain nor the cluster from remembering whose disk
// is whose and which raft groups have begun.
func TestFullDiskDrains(t *testing.T) {
	r := newRig(t)
	r.config = func(c *engine.Config) { c.DiskHigh, c.DiskLow = 90, 80 }
	r.open()
	space, err := r.fs.Free("data")
	require.NoError(t, err)
	used := space.Total - space.Available
	r.fs.SetCapacity(used + used/20)
	r.gate(true)
	_, err = r.node.SetAdmin(t.Context(), format.SystemTenant, engine.AdminChange{Kind: format.AdminKey, Name: "k"})
	require.ErrorIs(t, err, &engine.Error{Code: engine.CodeStorageFull})
	require.NoError(t, r.node.ChangeDraining(t.Context(), func([]format.Replica) ([]format.Replica, error) {
		return []format.Replica{1}, nil
	}))
	require.Equal(t, []format.Replica{1}, r.node.Draining())
	disk := engine.Disk{ID: format.UUID{7}, Boot: 3}
	require.NoError(t, r.node.NoteDisk(t.Context(), 2, disk))
	known, ok := r.node.DiskOf(2)
	require.True(t, ok)
	require.Equal(t, disk, known)
	require.NoError(t, r.node.NoteGroup(t.Context(), 2))
	require.True(t, r.node.GroupBorn(2))
	r.fs.SetCapacity(0)
	r.close()
}

// drainable is a cluster that notes who drains.
type drainable struct {
	engine.Membership
	asked []any
	leads bool
	fail  error
}

func (d *drainable) Drain(_ context.Context, node format.Replica, on bool) (bool, error) {
	d.asked = append(d.asked, node, on)
	return d.leads, d.fail
}

// Goal: who drains is said once for all raft groups, to the first one. Rows of the others would be of no use, and would be left behind by who
// asks the first one alone, as the command line does.
func TestDrainOfGroups(t *testing.T) {
	a, b := &drainable{leads: true}, &drainable{}
	m := engine.MembershipOfGroups(a, b)
	for _, on := range []bool{true, false} {
		leads, err := m.Drain(t.Context(), 3, on)
		require.NoError(t, err)
		require.True(t, leads)
	}
	require.Equal(t, []any{format.Replica(3), true, format.Replica(3), false}, a.asked)
	require.Empty(t, b.asked)
	a.fail = &engine.Error{Code: engine.CodeBadRequest, Message: "no"}
	_, err := m.Drain(t.Context(), 3, true)
	require.Equal(t, a.fail, err)
}
