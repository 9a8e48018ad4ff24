package groups

import (
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Goal: nobody commits to a group without members who tells a generation, and to one with members nobody who is none.
func TestCommitToEmptyGroup(t *testing.T) {
	r := newRig(t, nil)
	fence, code := r.CommitFence(t.Context(), key("g"), Committer{Generation: -1})
	require.Zero(t, code)
	require.Zero(t, fence)
	_, code = r.CommitFence(t.Context(), key("g"), Committer{Generation: 3})
	require.Equal(t, kerr.IllegalGeneration.Code, code)
	_, code = r.CommitFence(t.Context(), key("g"), Committer{Member: "m", Generation: 3})
	require.Equal(t, kerr.UnknownMemberID.Code, code)
	_, code = r.CommitFence(t.Context(), key("g"), Committer{Member: "m", Generation: -1})
	require.Zero(t, code)
	_, code = r.CommitFence(t.Context(), key("g"), Committer{Instance: kmsg.StringPtr("i"), Generation: -1})
	require.Zero(t, code)
	a := r.client("range")
	r.stable(a)
	fence, code = r.CommitFence(t.Context(), key("g"), Committer{Member: a.id, Generation: a.generation})
	require.Zero(t, code)
	require.Equal(t, r.store.rows[key("g")].at, fence)
	_, code = r.CommitFence(t.Context(), key("g"), Committer{Generation: -1, Transactional: true})
	require.Zero(t, code)
	_, code = r.CommitFence(t.Context(), key("g"), Committer{Member: "m", Generation: -1})
	require.Equal(t, kerr.UnknownMemberID.Code, code)
	require.Zero(t, a.leave())
	_, code = r.CommitFence(t.Context(), key("g"), Committer{Generation: -1})
	require.Zero(t, code)
	require.Zero(t, r.Delete(t.Context(), key("g"), nil))
	require.Empty(t, r.store.rows)
	require.Empty(t, r.groups)
}

// Goal: positions of a transaction that a member of the generation sends while the assignment is being made count, as in Kafka,
// and plain ones do not; those of another generation or member count in no state.
func TestCommitBetweenGenerations(t *testing.T) {
	r := newRig(t, nil)
	a := r.client("range")
	r.stable(a)
	b := r.client("range").enter()
	code := func(member string, generation int32, transactional bool) int16 {
		_, code := r.CommitFence(t.Context(), key("g"), Committer{Member: member, Generation: generation, Transactional: transactional})
		return code
	}
	require.Equal(t, Preparing, r.state())
	require.Zero(t, code(a.id, a.generation, true))
	require.Zero(t, code(a.id, a.generation, false), "what it read before it joins again")
	require.Zero(t, a.join().joined.ErrorCode)
	require.Equal(t, Completing, r.state())
	for _, c := range []*client{a, b} {
		require.Zero(t, code(c.id, c.generation, true))
		require.Equal(t, kerr.RebalanceInProgress.Code, code(c.id, c.generation, false))
		require.Equal(t, kerr.IllegalGeneration.Code, code(c.id, c.generation-1, true))
	}
	require.Equal(t, kerr.UnknownMemberID.Code, code("nobody", a.generation, true))
}
