package groups

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"

	"queen/engine/format"
)

// Goal: timers of a group count while this node coordinates that group, whatever it does for groups of the same name of other tenants;
// one that it does not coordinate any more is let go of, with its members as the row has them.
func TestOwnsByGroup(t *testing.T) {
	mine, theirs := key("g"), Key{format.Tenant{0: 0xb, 15: 1}, "g"}
	var led map[Key]bool
	r := newRig(t, func(o *Options) { o.Owns = func(k Key) bool { return led[k] } })
	led = map[Key]bool{mine: true, theirs: true}
	state := func(k Key) State {
		out := kmsg.NewDescribeGroupsResponseGroup()
		found, code := r.Describe(t.Context(), k, &out)
		require.Zero(t, code)
		require.True(t, found)
		return State(out.State)
	}
	for _, k := range []Key{mine, theirs} {
		join := r.client("range").joinRequest()
		join.Version = 2
		sync := kmsg.NewPtrSyncGroupRequest()
		sync.Version, sync.Group = 2, k.Group
		r.Join(t.Context(), k, Client{"app", "host"}, join, func(resp *kmsg.JoinGroupResponse) {
			require.Zero(t, resp.ErrorCode)
			sync.MemberID, sync.Generation = resp.MemberID, resp.Generation
		})
		sync.GroupAssignment = []kmsg.SyncGroupRequestGroupAssignment{{MemberID: sync.MemberID, MemberAssignment: []byte("all")}}
		r.Sync(t.Context(), k, sync, func(resp *kmsg.SyncGroupResponse) { require.Zero(t, resp.ErrorCode) })
		require.Equal(t, Stable, state(k))
	}
	led = map[Key]bool{mine: true}
	r.pass(15 * time.Second) // past the session of both
	require.NotContains(t, r.groups, theirs)
	require.Equal(t, Empty, state(mine), "its member gave no sign of life")
	require.Equal(t, Stable, state(theirs), "another node judges that")
}
