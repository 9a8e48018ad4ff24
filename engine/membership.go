package engine

import (
	"context"
	"fmt"
	"time"

	"queen/engine/format"
)

// Member is one node of a cluster as another one knows it.
type Member struct {
	Node    format.Replica
	Address string // raft's
	// Votes is false for a node that only follows.
	Votes bool
	// Draining is what the cluster remembers of it, whether it was heard or not.
	Draining bool
	// Heard says that it answered when it was last asked, a second or two ago. Alive says that it shows that it runs: it answers, or
	// it asks, or raft hears it lead.
	Heard, Alive bool
	// What follows counts only if it was heard.
	Leads bool
	// Term is of the newest epoch that it applied.
	Term format.Term
	// Applied, Commit and Last are entries: how far it applied its log, how far it knows that to be committed, and how far that
	// reaches.
	Applied, Commit, Last format.Index
	Mark                  uint64
	// Behind is for how long there has been an entry that it had not applied, as far as the node that is asked saw; 0 for none.
	Behind time.Duration
	// Version is that of its program.
	Version string
}

// Reach is a word for how a member can be reached.
func (m *Member) Reach() string {
	switch {
	case m.Heard:
		return "answers"
	case m.Alive:
		return "port_silent"
	}
	return "silent"
}

// Membership is what an operator may ask of a node of a cluster about the others.
type Membership interface {
	// Members are all members that this node knows, itself included, by number. It reads memory.
	Members() []Member
	// MakeLead has a member that votes lead a raft group, or all of them for 0; any node can be asked. nil says that it leads. Refused
	// is a group that the cluster has not (CodeBadRequest). An error of another kind than that and ErrNotLeader leaves open who leads.
	MakeLead(ctx context.Context, g format.RaftGroup, node format.Replica) error
	// Drain has a member drain, or end that; any node can be asked, and it may be said again. A member that drains gives the lead
	// away; leads says that it has it still, since no other voter can take it: it gives it away once one can. Refused are who is no
	// member and the last voter that does not drain (CodeBadRequest).
	Drain(ctx context.Context, node format.Replica, on bool) (leads bool, err error)
}

// NoGroup refuses a raft group of a cluster that has n.
func NoGroup(g format.RaftGroup, n int) error {
	return &Error{Code: CodeBadRequest, Field: "group", Message: fmt.Sprintf("group %d: the cluster has %d raft groups", g, n)}
}

// Wrapper is an engine that stands in front of another one, which it leaves all but a few calls to.
type Wrapper interface{ Wrapped() Engine }

// Wrapped implements Wrapper.
func (l *limited) Wrapped() Engine { return l.Engine }

// innermost is the engine behind all that stand in front of it.
func innermost(e Engine) Engine {
	for w, ok := e.(Wrapper); ok; w, ok = e.(Wrapper) {
		e = w.Wrapped()
	}
	return e
}

// MembershipOf finds the cluster of an engine; false for a single node.
func MembershipOf(e Engine) (Membership, bool) {
	e = innermost(e)
	if r, ok := e.(*Router); ok {
		return r.membership()
	}
	if n, ok := e.(*Node); ok {
		if n.cluster == nil {
			return nil, false
		}
		m, ok := n.cluster.seq.(Membership)
		return m, ok
	}
	m, ok := e.(Membership)
	return m, ok
}
