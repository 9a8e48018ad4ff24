package frontendhttp

import (
	"context"
	"sync"
	"testing"

	"queen/engine"
	"queen/engine/enginetest"
	"queen/engine/format"
)

// twoNodes is an engine that is node 1 of two.
type twoNodes struct {
	engine.Engine
	mu       sync.Mutex
	draining map[format.Replica]bool
	leads    bool
	err      error
}

func (e *twoNodes) Status(ctx context.Context) (engine.Status, error) {
	st, err := e.Engine.Status(ctx)
	e.mu.Lock()
	defer e.mu.Unlock()
	if st.Node, st.Leader, st.Draining = 1, 1, e.draining[1]; st.Draining {
		st.Why = "an operator has the node drain"
	}
	return st, err
}

func (e *twoNodes) Members() []engine.Member {
	e.mu.Lock()
	defer e.mu.Unlock()
	return []engine.Member{{Node: 1, Votes: true, Heard: true, Draining: e.draining[1]}, {Node: 2, Draining: e.draining[2]}}
}

func (e *twoNodes) MakeLead(context.Context, format.RaftGroup, format.Replica) error { return nil }

func (e *twoNodes) Drain(_ context.Context, node format.Replica, on bool) (leads bool, err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.err == nil {
		e.draining[node] = on
	}
	return e.leads, e.err
}

// answers sets what the next calls are answered.
func (e *twoNodes) answers(leads bool, err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.leads, e.err = leads, err
}

// TestDrain: a node drains and does so no more, over HTTP, and says so: it is not ready, it is healthy, and it serves. What is asked
// wrong, of a single node, and what the engine refuses, is refused by name.
func TestDrain(t *testing.T) {
	e := &twoNodes{Engine: enginetest.NewModel(enginetest.ModelOptions{}), draining: map[format.Replica]bool{}}
	n := startWith(t, Options{Engine: e})
	doc, rows := loadDocument(t, n), 0
	for _, r := range table() {
		if r.Response == "Drain" {
			checkAnswer(t, doc, r, n.do(r.Method, "/api/v1/raft/members/2/drain", ""))
			rows++
		}
	}
	if rows != 2 {
		t.Errorf("%d routes drain", rows)
	}
	const of1 = "/api/v1/raft/members/1/drain"
	n.get("/readyz").is(200).equal(`false`, "draining").equal(`null`, "why")
	n.post(of1, "").is(200).equal(`1`, "node").equal(`true`, "draining").equal(`false`, "leads")
	n.get("/readyz").is(503).equal(`false`, "ready").equal(`true`, "draining").equal(`"an operator has the node drain"`, "why")
	n.get("/health").is(200).equal(`"healthy"`, "status").equal(`true`, "raft", "draining").equal(`null`, "raft", "apply", "failure")
	n.get("/api/v1/raft/members").is(200).equal(`true`, "members", 0, "draining").equal(`false`, "members", 1, "draining")
	n.push1("q", "p", "t", `1`)
	e.answers(true, nil)
	n.post(of1, "").is(200).equal(`true`, "leads")
	n.do("DELETE", of1, "").is(200).equal(`false`, "draining")
	n.get("/readyz").is(200).equal(`false`, "draining")
	n.get("/health").is(200).equal(`false`, "raft", "draining")

	for _, node := range []string{"0", "x", "-1", "1.0", "4294967296", "%20"} {
		n.post("/api/v1/raft/members/"+node+"/drain", "").is(400).equal(`"bad_request"`, "code").equal(`"node"`, "invalid")
	}
	e.answers(false, &engine.Error{Code: engine.CodeBadRequest, Field: "node", Message: "drain: node 1 is the last voter"})
	n.post(of1, "").is(400).equal(`"bad_request"`, "code").equal(`"node"`, "invalid").equal(`"drain: node 1 is the last voter"`, "error")
	e.answers(false, &engine.Error{Code: engine.CodeNoLeader})
	n.post(of1, "").is(503).equal(`"no_leader"`, "code")
	n.get("/readyz").is(200)
	start(t).post(of1, "").is(409).equal(`"not_a_cluster"`, "code")
}
