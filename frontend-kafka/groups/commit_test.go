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
