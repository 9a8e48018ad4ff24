package diagnosis_test

import (
	"context"
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

func (c clustered) Members() []engine.Member                       { return c.members }
func (c clustered) MakeLead(context.Context, format.Replica) error { return nil }

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
