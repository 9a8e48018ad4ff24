package frontendhttp

import (
	"context"
	"sync/atomic"
	"testing"

	"queen/engine"
	"queen/engine/enginetest"
	"queen/engine/format"
)

// twoGroups is an engine that is node 1 of two that have two raft groups, of which it leads the first.
type twoGroups struct {
	*twoNodes
	lost atomic.Bool // the majority of group 2
}

func (e *twoGroups) Status(ctx context.Context) (engine.Status, error) {
	st, err := e.twoNodes.Status(ctx)
	st.Groups = []engine.GroupStatus{
		{Group: 1, Role: "leader", Leader: 1, Term: 3, Applied: 10, Commit: 11, Quorum: true, CanWrite: true},
		{Group: 2, Role: "follower", Leader: 2, Term: 4, Applied: 20, Commit: 25, Quorum: true, CanWrite: true}}
	if e.lost.Load() {
		const why = "no majority of the cluster answers"
		st.Quorum, st.CanWrite, st.Why = false, false, "raft group 2: "+why
		st.Groups[1] = engine.GroupStatus{Group: 2, Role: "candidate", Term: 5, Applied: 20, Commit: 25, Why: why}
	}
	return st, err
}

// TestRaftGroups: health, members and metrics tell of every raft group, and which one has no majority. A node of one group has one
// that says what the node says, and one that is not open yet has none.
func TestRaftGroups(t *testing.T) {
	e := &twoGroups{twoNodes: &twoNodes{Engine: enginetest.NewModel(enginetest.ModelOptions{}), draining: map[format.Replica]bool{}}}
	n := startWith(t, Options{Engine: e})
	const first = `{"group":1,"role":"leader","leader":1,"term":3,"applied":10,"commit":11,"quorum":true,"canWrite":true,"why":null}`
	const both = `[` + first + `,{"group":2,"role":"follower","leader":2,"term":4,"applied":20,"commit":25,"quorum":true,"canWrite":true,"why":null}]`
	n.get("/health").is(200).equal(both, "raft", "groups")
	n.get("/api/v1/raft/members").is(200).equal(both, "groups").equal(`[1]`, "members", 0, "leadsGroups").equal(`[2]`, "members", 1, "leadsGroups")
	series := func(want map[string]string) {
		t.Helper()
		got := n.values()
		for name, v := range want {
			if got[name] != v {
				t.Errorf("%s is %q want %q", name, got[name], v)
			}
		}
	}
	series(map[string]string{`queen_raft_group_leader{group="1"}`: "1", `queen_raft_group_leader{group="2"}`: "0",
		`queen_raft_group_term{group="1"}`: "3", `queen_raft_group_term{group="2"}`: "4",
		`queen_raft_group_index{group="1",kind="applied"}`: "10", `queen_raft_group_index{group="1",kind="committed"}`: "11",
		`queen_raft_group_index{group="2",kind="applied"}`: "20", `queen_raft_group_index{group="2",kind="committed"}`: "25",
		`queen_raft_group_writable{group="1"}`: "1", `queen_raft_group_writable{group="2"}`: "1"})

	e.lost.Store(true)
	n.get("/health").is(503).equal(`"settling"`, "status").equal(`"raft group 2: no majority of the cluster answers"`, "raft", "apply", "failure").
		equal(`[`+first+`,{"group":2,"role":"candidate","leader":null,"term":5,"applied":20,"commit":25,"quorum":false,"canWrite":false,`+
			`"why":"no majority of the cluster answers"}]`, "raft", "groups")
	n.get("/api/v1/raft/members").is(200).equal(`[1]`, "members", 0, "leadsGroups").equal(`[]`, "members", 1, "leadsGroups")
	series(map[string]string{`queen_raft_group_writable{group="1"}`: "1", `queen_raft_group_writable{group="2"}`: "0",
		`queen_raft_group_term{group="2"}`: "5"})

	n = start(t)
	h := n.get("/health").is(200).equal(`1`, "raft", "groups", 0, "group").equal(`"leader"`, "raft", "groups", 0, "role").
		equal(`null`, "raft", "groups", 0, "leader").equal(`true`, "raft", "groups", 0, "canWrite")
	if h.len("raft", "groups") != 1 {
		t.Errorf("a single node has %d groups", h.len("raft", "groups"))
	}
	series(map[string]string{`queen_raft_group_leader{group="1"}`: "1", `queen_raft_group_leader{group="2"}`: "",
		`queen_raft_group_writable{group="1"}`: "1"})
	startWith(t, Options{Starting: func() (string, float64) { return "replay", 0.25 }}).get("/health").is(503).equal(`[]`, "raft", "groups")
}
