package groups

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Goal: a static member that comes back gets its assignment and nobody rebalances; whoever has its old id is fenced.
func TestStaticComesBack(t *testing.T) {
	for _, leads := range []bool{false, true} {
		for _, version := range []int16{5, 9} {
			r := newRig(t, nil)
			a, b := r.staticClient("i", "range"), r.client("range")
			if leads {
				r.stable(a, b)
			} else {
				r.stable(b, a)
			}
			old := *a
			saves := r.store.saves
			a.reset().version = version
			a.join()
			require.Zero(t, a.joined.ErrorCode)
			require.NotEqual(t, old.id, a.id)
			require.Equal(t, old.generation, a.generation)
			require.Equal(t, leads && version >= 9, a.joined.SkipAssignment)
			require.Equal(t, leads && version >= 9, a.joined.LeaderID == a.id, "a leader that can not skip is told that it is none")
			require.Equal(t, a.joined.SkipAssignment, len(a.joined.Members) == 2)
			require.Equal(t, saves+1, r.store.saves)
			a.sync()
			require.Equal(t, string(old.synced.MemberAssignment), string(a.synced.MemberAssignment))
			require.Zero(t, b.heartbeat())
			require.Zero(t, a.heartbeat())
			require.Equal(t, kerr.FencedInstanceID.Code, old.heartbeat())
			require.Equal(t, kerr.FencedInstanceID.Code, old.commit())
			require.Equal(t, kerr.FencedInstanceID.Code, old.sync().synced.ErrorCode)
			require.Equal(t, kerr.FencedInstanceID.Code, old.join().joined.ErrorCode)
			require.Equal(t, kerr.FencedInstanceID.Code, old.leave())
			require.Equal(t, Stable, r.state())
			r.restart()
			require.Zero(t, a.heartbeat())
			require.Equal(t, kerr.FencedInstanceID.Code, old.heartbeat())
		}
	}
}

// Goal: one that comes back with another subscription rebalances.
func TestStaticComesBackChanged(t *testing.T) {
	r := newRig(t, nil)
	a, b := r.staticClient("i", "range"), r.client("range")
	r.stable(a, b)
	a.reset().protocols[0].Metadata = []byte("other")
	a.join()
	require.Nil(t, a.joined)
	require.Equal(t, kerr.RebalanceInProgress.Code, b.heartbeat())
	b.join()
	require.Len(t, a.joined.Members, 2)
}

// Goal: a consumer that comes back wants the same although its first process owned something, and another one's topics are
// another subscription.
func TestStaticConsumerComesBack(t *testing.T) {
	r := newRig(t, nil)
	a, b := r.staticClient("i", "range").consumerOf(map[string][]int32{"t": {0}}, "t", "u"), r.client("range").consumerOf(nil, "t")
	r.stable(a, b)
	a.reset().consumerOf(nil, "u", "t").join()
	require.NotNil(t, a.joined)
	require.Zero(t, b.heartbeat())
	a.reset().consumerOf(nil, "t").join()
	require.Nil(t, a.joined)
	require.Equal(t, kerr.RebalanceInProgress.Code, b.heartbeat())
}

// Goal: one that comes back before the assignment is told does not end up without one.
func TestStaticComesBackBeforeAssignment(t *testing.T) {
	r := newRig(t, nil)
	a, b := r.staticClient("i", "range"), r.client("range")
	r.stable(b, a)
	b.join()
	a.join()
	old := *a
	old.sync()
	a.reset().join()
	require.Equal(t, kerr.RebalanceInProgress.Code, b.sync().synced.ErrorCode)
	require.Nil(t, a.joined)
	b.join()
	require.NotNil(t, a.joined)
	b.sync()
	a.sync()
	require.NotEmpty(t, a.synced.MemberAssignment)
}

// Goal: a static member stays through a rebalance that it does not take part in, until its session ends; a leave by its
// instance, without its member id, removes it at once.
func TestStaticStays(t *testing.T) {
	r := newRig(t, nil)
	a, b := r.client("range"), r.staticClient("i", "range")
	a.session, b.session = 60_000, 60_000
	r.stable(a, b)
	c := r.client("range")
	c.session = 60_000
	c.enter()
	a.join()
	require.Nil(t, a.joined)
	r.pass(20 * time.Second)
	require.NotNil(t, a.joined)
	require.Len(t, a.joined.Members, 3, "the static one is still there")
	c.sync()
	a.sync()
	require.Equal(t, Stable, r.state())
	require.Equal(t, kerr.IllegalGeneration.Code, b.heartbeat())
	b.join()
	require.Zero(t, b.joined.ErrorCode)

	req := kmsg.NewPtrLeaveGroupRequest()
	req.Version, req.Group = 5, "g"
	m := kmsg.NewLeaveGroupRequestMember()
	m.InstanceID = b.instance
	req.Members = append(req.Members, m)
	require.Zero(t, r.Leave(t.Context(), key("g"), req).Members[0].ErrorCode)
	require.Equal(t, kerr.RebalanceInProgress.Code, a.heartbeat())
	require.Equal(t, kerr.UnknownMemberID.Code, b.heartbeat())
}

// Goal: a group of which only static members are left, none of them there, does not begin generations by itself.
func TestOnlyAbsentStaticMembers(t *testing.T) {
	r := newRig(t, nil)
	a, b := r.client("range"), r.staticClient("i", "range")
	b.session = 600_000
	r.stable(a, b)
	require.Zero(t, a.leave())
	saves := r.store.saves
	r.pass(5 * time.Minute)
	require.Equal(t, saves, r.store.saves)
	b.join()
	require.NotNil(t, b.joined)
	require.Equal(t, int32(3), b.generation)
	require.Equal(t, b.id, b.joined.LeaderID)
}
