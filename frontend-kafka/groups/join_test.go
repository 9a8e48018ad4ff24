package groups

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
)

// Goal: two members first of all: one generation, one leader that knows both, assignments that reach each.
func TestTwoMembers(t *testing.T) {
	r := newRig(t, nil)
	a, b := r.client("range"), r.client("range")
	r.stable(a)
	require.Equal(t, int32(1), a.generation)
	b.enter()
	require.Nil(t, b.joined)
	require.Equal(t, kerr.RebalanceInProgress.Code, a.heartbeat())
	a.join()
	require.Equal(t, int32(2), a.generation)
	require.Equal(t, a.id, a.joined.LeaderID)
	require.Len(t, a.joined.Members, 2)
	require.Equal(t, "meta of range", string(a.joined.Members[1].ProtocolMetadata))
	require.Equal(t, a.id, b.joined.LeaderID)
	require.Empty(t, b.joined.Members)
	require.Zero(t, b.heartbeat())
	b.sync()
	require.Nil(t, b.synced)
	a.sync()
	require.Equal(t, "of "+b.id+" in 2", string(b.synced.MemberAssignment))
	require.Equal(t, "consumer", *b.synced.ProtocolType)
	require.Equal(t, "range", *b.synced.Protocol)
	require.Zero(t, a.heartbeat())
}

// Goal: a restart of the coordinator costs no rebalance: generations, members and assignments are as they were, sessions
// begin anew.
func TestRestartCostsNoRebalance(t *testing.T) {
	r := newRig(t, nil)
	a, b := r.client("range"), r.staticClient("i", "range")
	r.stable(a, b)
	r.restart()
	require.Zero(t, a.heartbeat())
	require.Zero(t, b.heartbeat())
	require.Zero(t, a.commit())
	require.Zero(t, b.sync().synced.ErrorCode)
	require.Equal(t, "of "+b.id+" in "+"2", string(b.synced.MemberAssignment))
	r.pass(9 * time.Second)
	require.Equal(t, Stable, r.state())
	require.Zero(t, a.heartbeat())
	r.pass(2 * time.Second)
	require.Equal(t, kerr.UnknownMemberID.Code, b.heartbeat())
	require.Equal(t, kerr.RebalanceInProgress.Code, a.heartbeat())
	generation := a.generation
	a.join()
	require.Equal(t, generation+1, a.generation)
	require.Zero(t, a.sync().synced.ErrorCode)
	// All gone: the generation outlives the members.
	require.Zero(t, a.leave())
	r.restart()
	require.Equal(t, Empty, r.state())
	r.stable(b.reset())
	require.Equal(t, generation+3, b.generation)
}

func (c *client) reset() *client {
	c.id, c.generation, c.joined, c.synced, c.phase = "", 0, nil, nil, idle
	c.asked++
	return c
}
