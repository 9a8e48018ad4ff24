package groups

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
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

// Goal: who waits for an answer about a group that another node coordinates by now is told at once, and not when a timer of the
// group is due; groups of the same name of others go on, and what the row says is kept.
func TestLetGo(t *testing.T) {
	led := true
	r := newRig(t, func(o *Options) { o.Owns = func(k Key) bool { return led || k != key("g") } })
	a := r.client("range")
	r.stable(a)
	joining := r.client("range").enter()
	require.Nil(t, joining.joined, "it waits for the other one")
	other := r.client("range").joinRequest()
	other.Version, other.Group = 2, "h"
	r.Join(t.Context(), key("h"), Client{}, other, func(resp *kmsg.JoinGroupResponse) { require.Zero(t, resp.ErrorCode) })
	r.LetGo()
	require.Nil(t, joining.joined)

	led = false
	r.LetGo()
	require.NotNil(t, joining.joined)
	require.Equal(t, kerr.NotCoordinator.Code, joining.joined.ErrorCode)
	require.NotContains(t, r.groups, key("g"))
	require.Contains(t, r.groups, key("h"))
	led = true
	require.Zero(t, a.heartbeat())
	require.Equal(t, Stable, r.state())

	joining.reset().enter()
	a.join()
	following := joining.sync()
	require.Nil(t, following.synced, "it waits for the leader")
	led = false
	r.LetGo()
	require.NotNil(t, following.synced)
	require.Equal(t, kerr.NotCoordinator.Code, following.synced.ErrorCode)
	require.Len(t, r.timers.due, 2, "those of h, where one member is to ask for its assignment")
}

// Goal: a group whose row is being written for long keeps nobody from being let go of.
func TestLetGoWaitsForNobody(t *testing.T) {
	saving, release := make(chan string), make(chan struct{})
	store := &slowStore{memStore: memStore{rows: map[Key]memRow{}}, before: func(group string) {
		saving <- group
		<-release
	}}
	r := newRig(t, func(o *Options) { o.Store, o.Owns = store, func(Key) bool { return false } })
	join := func(group string, reply func(*kmsg.JoinGroupResponse)) {
		req := r.client("range").joinRequest()
		req.Version, req.Group = 2, group
		r.Join(t.Context(), key(group), Client{}, req, reply)
	}
	sync := kmsg.NewPtrSyncGroupRequest()
	sync.Version, sync.Group = 2, "slow"
	join("slow", func(resp *kmsg.JoinGroupResponse) { sync.MemberID, sync.Generation = resp.MemberID, resp.Generation })
	join("h", func(*kmsg.JoinGroupResponse) {})
	done := make(chan struct{})
	go func() {
		defer close(done)
		r.Sync(t.Context(), key("slow"), sync, func(*kmsg.SyncGroupResponse) {})
	}()
	require.Equal(t, "slow", <-saving)
	r.LetGo()
	require.NotContains(t, r.groups, key("h"))
	require.Contains(t, r.groups, key("slow"))
	close(release)
	<-done
	r.LetGo()
	require.Empty(t, r.groups)
}

// Goal: a coordinator that begins to lead takes over the groups whose rows name members, of either protocol, so that one who does not
// come is given up although nobody asks; who comes goes on, and groups without members stay out of memory.
func TestTake(t *testing.T) {
	r := newRig(t, nil)
	r.topics.set("t", 4)
	a := r.client("range")
	r.stable(a)
	classic := r.store.rows[key("g")]
	take := func(group string, row memRow) {
		r.store.rows[key(group)] = row
		r.Take(key(group), row.value, row.at)
	}
	members := func(group string) int { return len(MembersOf(r.store.rows[key(group)].value)) }
	m := newRig(t, nil)
	m.topics.set("t", 4)
	require.Zero(t, m.modern("m", "t").beat())
	modern := m.store.rows[key("g")]
	require.Zero(t, m.modern("m", "t").leave(epochLeave))
	empty := m.store.rows[key("g")]

	r.restart()
	take("g", classic)
	take("h", classic)
	take("modern", modern)
	take("empty", empty)
	take("damaged", memRow{[]byte{9}, format.Place{Index: 7}})
	r.Take(key("stale"), classic.value, classic.at) // its row is another one by now
	require.Len(t, r.groups, 3)
	r.pass(9 * time.Second)
	require.Zero(t, a.heartbeat())
	r.Take(key("g"), classic.value, classic.at) // again, of one that is in memory
	r.pass(9 * time.Second)
	require.Equal(t, 1, members("g"))
	require.Equal(t, 0, members("h"))
	require.Equal(t, 1, members("modern"), "its session is 45 s")
	require.Zero(t, a.heartbeat())
	require.Zero(t, a.leave())
	r.pass(45 * time.Second)
	require.Equal(t, 0, members("modern"))
	require.Empty(t, r.groups)
	require.Empty(t, r.timers.due)
}
