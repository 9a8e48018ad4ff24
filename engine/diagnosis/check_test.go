package diagnosis_test

import (
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"queen/engine"
	"queen/engine/diagnosis"
	"queen/engine/enginetest/memnode"
	"queen/engine/format"
)

// clustered is an engine that says that it is of a cluster.
type clustered struct {
	engine.Engine
	members []engine.Member
}

func (c clustered) Members() []engine.Member { return c.members }

func (c clustered) MakeLead(context.Context, format.RaftGroup, format.Replica) error { return nil }

func (c clustered) Drain(context.Context, format.Replica, bool) (bool, error) { return false, nil }

// Goal: of the members of a cluster those are told that are silent and those that are far behind, and no other.
func TestMembers(t *testing.T) {
	target := memnode.Open(memnode.Options{Seed: 1})
	t.Cleanup(target.Close)
	e := clustered{target.Engine, []engine.Member{
		{Node: 1, Address: "a:1", Votes: true, Heard: true, Leads: true, Applied: 30_000},
		{Node: 2, Address: "b:1", Votes: true, Heard: true, Applied: 20_000},
		{Node: 3, Address: "c:1", Votes: true, Heard: true, Applied: 19_999},
		{Node: 4, Address: "d:1"},
		{Node: 5, Address: "e:1", Alive: true},
	}}
	r, err := diagnosis.Run(context.Background(), e, engine.Caller{}, 1, diagnosis.Request{Symptom: "node_down"})
	require.NoError(t, err)
	var causes []string
	for _, f := range r.Findings {
		causes = append(causes, f.Cause+" "+f.Evidence[0])
	}
	require.Equal(t, []string{"node_behind node 3 at c:1", "node_silent node 4 at d:1", "port_silent node 5 at e:1"}, causes)
	r, err = diagnosis.Run(context.Background(), target.Engine, engine.Caller{}, 1, diagnosis.Request{Symptom: "node_down"})
	require.NoError(t, err)
	require.Empty(t, r.Findings)
	_, err = diagnosis.Run(context.Background(), target.Engine, engine.Caller{}, 1, diagnosis.Request{Symptom: "luck"})
	require.ErrorIs(t, err, diagnosis.ErrSymptom)
}

// inGroups is an engine of two raft groups, of which those that lost is true of have no leader.
type inGroups struct {
	engine.Engine
	lost [2]bool
}

func (e inGroups) Status(ctx context.Context) (engine.Status, error) {
	st, err := e.Engine.Status(ctx)
	for i, lost := range e.lost {
		g := engine.GroupStatus{Group: format.RaftGroup(i + 1), CanWrite: !lost}
		if lost {
			st.CanWrite, g.Why = false, "the cluster has no leader"
		}
		st.Groups = append(st.Groups, g)
	}
	return st, err
}

// Goal: which raft groups take no writes is told, and whether others do.
func TestGroupWithoutWrites(t *testing.T) {
	target := memnode.Open(memnode.Options{Seed: 1})
	t.Cleanup(target.Close)
	for _, c := range []struct {
		lost     [2]bool
		evidence []string
		some     bool
	}{
		{[2]bool{false, false}, nil, false},
		{[2]bool{false, true}, []string{"raft group 2: the cluster has no leader"}, true},
		{[2]bool{true, true}, []string{"raft group 1: the cluster has no leader", "raft group 2: the cluster has no leader"}, false},
	} {
		r, err := diagnosis.Run(context.Background(), inGroups{target.Engine, c.lost}, engine.Caller{}, 1, diagnosis.Request{Symptom: "node_down"})
		require.NoError(t, err)
		if c.evidence == nil {
			require.Empty(t, r.Findings)
			continue
		}
		require.Len(t, r.Findings, 1)
		f := r.Findings[0]
		require.Equal(t, []any{"no_writes", "critical", c.evidence}, []any{f.Cause, f.Severity, f.Evidence})
		require.Equal(t, c.some, strings.Contains(f.NextStep, "groups"), f.NextStep)
	}
}
