package groups

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"queen/engine/format"
)

// Goal: every situation of a classic group that has a code of its own answers that code, and harms nobody else in the
// group.
func TestClassicCodes(t *testing.T) {
	commitAs := func(r *rig, c Committer) int16 {
		_, code := r.CommitFence(r.t.Context(), key("g"), c)
		return code
	}
	for _, c := range []struct {
		name string
		want *kerr.Error
		do   func(r *rig, a, b *client) int16
	}{
		{"a new member without an id", kerr.MemberIDRequired, func(r *rig, a, b *client) int16 {
			n := r.client("range").join()
			require.NotEmpty(r.t, n.joined.MemberID)
			return n.joined.ErrorCode
		}},
		{"joining with an id nobody was told", kerr.UnknownMemberID, func(r *rig, a, b *client) int16 {
			n := r.client("range")
			n.id = "made up"
			return n.join().joined.ErrorCode
		}},
		{"syncing with an unknown id", kerr.UnknownMemberID, func(r *rig, a, b *client) int16 {
			a.id = "made up"
			return a.sync().synced.ErrorCode
		}},
		{"a heartbeat with an unknown id", kerr.UnknownMemberID, func(r *rig, a, b *client) int16 {
			a.id = "made up"
			return a.heartbeat()
		}},
		{"leaving with an unknown id", kerr.UnknownMemberID, func(r *rig, a, b *client) int16 {
			a.id = "made up"
			return a.leave()
		}},
		{"committing with an unknown id", kerr.UnknownMemberID, func(r *rig, a, b *client) int16 {
			a.id = "made up"
			return a.commit()
		}},
		{"committing as nobody in a group with members", kerr.UnknownMemberID, func(r *rig, a, b *client) int16 {
			return commitAs(r, Committer{Generation: -1})
		}},
		{"syncing with an old generation", kerr.IllegalGeneration, func(r *rig, a, b *client) int16 {
			a.generation--
			return a.sync().synced.ErrorCode
		}},
		{"a heartbeat with a later generation", kerr.IllegalGeneration, func(r *rig, a, b *client) int16 {
			a.generation++
			return a.heartbeat()
		}},
		{"committing with an old generation", kerr.IllegalGeneration, func(r *rig, a, b *client) int16 {
			a.generation--
			return a.commit()
		}},
		{"a heartbeat in the join window", kerr.RebalanceInProgress, func(r *rig, a, b *client) int16 {
			r.client("range").enter()
			return a.heartbeat()
		}},
		{"syncing in the join window", kerr.RebalanceInProgress, func(r *rig, a, b *client) int16 {
			r.client("range").enter()
			return a.sync().synced.ErrorCode
		}},
		{"committing in the join window", nil, func(r *rig, a, b *client) int16 {
			r.client("range").enter()
			return a.commit()
		}},
		{"a heartbeat before the assignment", nil, func(r *rig, a, b *client) int16 {
			a.join()
			b.join()
			return a.heartbeat()
		}},
		{"committing before the assignment", kerr.RebalanceInProgress, func(r *rig, a, b *client) int16 {
			a.join()
			b.join()
			return b.commit()
		}},
		{"too short a session", kerr.InvalidSessionTimeout, func(r *rig, a, b *client) int16 {
			n := r.client("range")
			n.session = 5999
			return n.join().joined.ErrorCode
		}},
		{"too long a session", kerr.InvalidSessionTimeout, func(r *rig, a, b *client) int16 {
			n := r.client("range")
			n.session = 1_800_001
			return n.join().joined.ErrorCode
		}},
		{"no common assignor", kerr.InconsistentGroupProtocol, func(r *rig, a, b *client) int16 {
			return r.client("sticky").join().joined.ErrorCode
		}},
		{"no assignor at all", kerr.InconsistentGroupProtocol, func(r *rig, a, b *client) int16 {
			return r.client().join().joined.ErrorCode
		}},
		{"another protocol type", kerr.InconsistentGroupProtocol, func(r *rig, a, b *client) int16 {
			req := r.client("range").joinRequest()
			req.ProtocolType = "connect"
			return r.ask(req).ErrorCode
		}},
		{"syncing for another protocol type", kerr.InconsistentGroupProtocol, func(r *rig, a, b *client) int16 {
			return r.askSync(a, kmsg.StringPtr("connect"), kmsg.StringPtr("range")).ErrorCode
		}},
		{"syncing for another assignor", kerr.InconsistentGroupProtocol, func(r *rig, a, b *client) int16 {
			return r.askSync(a, kmsg.StringPtr("consumer"), kmsg.StringPtr("sticky")).ErrorCode
		}},
		{"no group id", kerr.InvalidGroupID, func(r *rig, a, b *client) int16 {
			req := r.client("range").joinRequest()
			req.Group = ""
			return r.ask(req).ErrorCode
		}},
		{"too long a group id", kerr.InvalidGroupID, func(r *rig, a, b *client) int16 {
			req := r.client("range").joinRequest()
			req.Group = strings.Repeat("g", 256)
			return r.ask(req).ErrorCode
		}},
		{"an instance that is not there", kerr.UnknownMemberID, func(r *rig, a, b *client) int16 {
			a.instance = kmsg.StringPtr("nobody")
			return a.heartbeat()
		}},
		{"leaving as an instance that is not there", kerr.UnknownMemberID, func(r *rig, a, b *client) int16 {
			a.instance = kmsg.StringPtr("nobody")
			return a.leave()
		}},
		{"deleting a group with members", kerr.NonEmptyGroup, func(r *rig, a, b *client) int16 {
			return r.Delete(r.t.Context(), key("g"), func() (bool, error) { return true, nil })
		}},
		{"deleting a group that never was", kerr.GroupIDNotFound, func(r *rig, a, b *client) int16 {
			return r.Delete(r.t.Context(), key("other"), func() (bool, error) { return false, nil })
		}},
		{"asking for positions as nobody", nil, func(r *rig, a, b *client) int16 {
			return r.CheckFetch(r.t.Context(), key("other"), nil, -1)
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t, nil)
			a, b := r.client("range"), r.client("range")
			r.stable(a, b)
			other := *b
			want := int16(0)
			if c.want != nil {
				want = c.want.Code
			}
			require.Equal(t, want, c.do(r, a, b))
			if code := other.heartbeat(); code != 0 && code != kerr.RebalanceInProgress.Code && code != kerr.IllegalGeneration.Code {
				t.Fatalf("the other member gets %d", code)
			}
		})
	}
}

// ask sends a join whose answer comes at once.
func (r *rig) ask(req *kmsg.JoinGroupRequest) (resp *kmsg.JoinGroupResponse) {
	r.t.Helper()
	r.Join(r.t.Context(), Key{format.DefaultTenant, req.Group}, Client{}, req, func(a *kmsg.JoinGroupResponse) { resp = a })
	require.NotNil(r.t, resp)
	return resp
}

func (r *rig) askSync(c *client, typ, name *string) (resp *kmsg.SyncGroupResponse) {
	r.t.Helper()
	req := kmsg.NewPtrSyncGroupRequest()
	req.Version, req.Group, req.MemberID, req.Generation, req.ProtocolType, req.Protocol = 5, "g", c.id, c.generation, typ, name
	r.Sync(r.t.Context(), key("g"), req, func(a *kmsg.SyncGroupResponse) { resp = a })
	require.NotNil(r.t, resp)
	return resp
}

// Goal: before version 4 a member needs no second join, before 3 a leave has one code for the whole.
func TestOldVersions(t *testing.T) {
	r := newRig(t, nil)
	a := r.client("range")
	a.version = 0
	a.join()
	require.Zero(t, a.joined.ErrorCode)
	require.Zero(t, a.sync().synced.ErrorCode)
	req := kmsg.NewPtrLeaveGroupRequest()
	req.Version, req.Group, req.MemberID = 2, "g", "made up"
	resp := r.Leave(t.Context(), key("g"), req)
	require.Equal(t, kerr.UnknownMemberID.Code, resp.ErrorCode)
	req.MemberID = a.id
	require.Zero(t, r.Leave(t.Context(), key("g"), req).ErrorCode)
	require.Equal(t, Empty, r.state())
	// Unknown group: a whole without error from version 3 on, with one before.
	req.Group = "never"
	require.Equal(t, kerr.UnknownMemberID.Code, r.Leave(t.Context(), key("never"), req).ErrorCode)
}

// Goal: an id that was told counts as a member to wait for, until its session would have ended.
func TestToldIDIsWaitedFor(t *testing.T) {
	r := newRig(t, nil)
	a := r.client("range")
	r.stable(a)
	n := r.client("range").join()
	n.id = n.joined.MemberID
	require.Zero(t, a.heartbeat())
	b := r.client("range").enter() // opens the window
	a.join()
	require.Nil(t, a.joined, "the one with the told id is missing")
	n.join()
	require.NotNil(t, a.joined)
	require.Len(t, a.joined.Members, 3)
	require.NotNil(t, b.joined)

	late := r.client("range").join()
	r.client("range").enter()
	for _, m := range []*client{a, b, n} {
		m.join()
	}
	require.Nil(t, a.joined)
	r.pass(10 * time.Second)
	require.NotNil(t, a.joined)
	late.id = late.joined.MemberID
	require.Equal(t, kerr.UnknownMemberID.Code, late.join().joined.ErrorCode)
}

// Goal: ids that were told and not used, and members, are bounded.
func TestGroupIsBounded(t *testing.T) {
	r := newRig(t, func(o *Options) { o.MaxMembers, o.MaxPending, o.MaxGroups = 3, 4, 1 })
	for range 4 {
		require.Equal(t, kerr.MemberIDRequired.Code, r.client("range").join().joined.ErrorCode)
	}
	require.Equal(t, kerr.GroupMaxSizeReached.Code, r.client("range").join().joined.ErrorCode)
	r.pass(11 * time.Second)
	require.Empty(t, r.groups)
	a, b, c := r.client("range"), r.client("range"), r.client("range")
	r.stable(a, b, c)
	require.Equal(t, kerr.GroupMaxSizeReached.Code, r.client("range").join().joined.ErrorCode)
	req := r.client("range").joinRequest()
	req.Group = "another"
	require.Equal(t, kerr.CoordinatorNotAvailable.Code, r.ask(req).ErrorCode)
	require.Zero(t, a.heartbeat())
}

// Goal: a member that dies at any step of a rebalance never keeps the others from going on.
func TestMemberDiesAtEveryStep(t *testing.T) {
	for _, c := range []struct {
		name string
		// die is when the third member stops; after it the other two need at most wait to be stable.
		die  func(r *rig, a, b, c *client)
		wait time.Duration
	}{
		{"before it uses its id", func(r *rig, a, b, c *client) { c.join() }, 10 * time.Second},
		{"while it waits for the join", func(r *rig, a, b, c *client) { c.enter() }, 31 * time.Second},
		{"after the join", func(r *rig, a, b, c *client) { c.enter(); a.join(); b.join() }, 20 * time.Second},
		{"while it waits for the assignment", func(r *rig, a, b, c *client) { c.enter(); a.join(); b.join(); c.sync() }, 31 * time.Second},
		{"with its assignment", func(r *rig, a, b, c *client) { r.finish(c, a, b); c.sync() }, 10 * time.Second},
		{"by leaving in the join window", func(r *rig, a, b, c *client) { c.enter(); a.join(); require.Zero(r.t, c.leave()) }, 0},
		{"by leaving before the assignment", func(r *rig, a, b, c *client) { c.enter(); a.join(); b.join(); require.Zero(r.t, c.leave()) }, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t, nil)
			a, b := r.client("range"), r.client("range")
			r.stable(a, b)
			before := a.generation
			c.die(r, a, b, r.client("range"))
			// The others do what their processes would do: every second a heartbeat, and whatever it asks for.
			for waited := time.Duration(0); ; waited += time.Second {
				r.live(a)
				r.live(b)
				if r.settled(a, b) && r.members() == 2 && (waited > 0 || c.wait == 0) {
					break
				}
				if waited > c.wait+2*time.Second {
					t.Fatalf("state %s after %s, %d members", r.state(), waited, r.members())
				}
				r.pass(time.Second)
			}
			require.GreaterOrEqual(t, a.generation, before)
			require.Zero(t, a.commit())
		})
	}
}

// finish completes a join of three.
func (r *rig) finish(c, a, b *client) {
	c.enter()
	a.join()
	b.join()
	b.sync()
	a.sync()
}

func (r *rig) members() int {
	out := kmsg.NewDescribeGroupsResponseGroup()
	_, _ = r.Describe(r.t.Context(), key("g"), &out)
	return len(out.Members)
}

func (r *rig) settled(clients ...*client) bool {
	if r.state() != Stable {
		return false
	}
	for _, c := range clients {
		if c.synced == nil || c.synced.ErrorCode != 0 || c.heartbeat() != 0 ||
			!strings.HasSuffix(string(c.synced.MemberAssignment), fmt.Sprint(" in ", c.generation)) {
			return false
		}
	}
	return true
}

// live does what a client's process does in a turn.
func (r *rig) live(c *client) {
	if c.phase == idle {
		c.enter()
		c.phase = joining
	}
	if c.phase == joining && c.joined != nil {
		if c.phase = joined; c.joined.ErrorCode != 0 {
			c.failed(c.joined.ErrorCode)
			return
		}
	}
	if c.phase == joined {
		c.sync()
		c.phase = syncing
	}
	if c.phase == syncing && c.synced != nil {
		if c.phase = member0; c.synced.ErrorCode != 0 {
			c.failed(c.synced.ErrorCode)
		}
		return
	}
	if c.phase == member0 {
		if code := c.heartbeat(); code != 0 {
			c.failed(code)
		}
	}
}

// Phases of a client's process.
const (
	idle = iota
	joining
	joined
	syncing
	member0
)

// failed begins anew, with another id where the old one is worth nothing.
func (c *client) failed(code int16) {
	c.phase = idle
	if code == kerr.UnknownMemberID.Code || code == kerr.FencedInstanceID.Code {
		c.reset()
	}
}

// Goal: the leader that does not tell the assignment is dropped after the rebalance timeout, and the rest rebalances.
func TestLeaderDoesNotSync(t *testing.T) {
	r := newRig(t, nil)
	a, b := r.client("range"), r.client("range")
	r.stable(a, b)
	a.join()
	b.join()
	b.sync()
	for range 19 {
		r.pass(time.Second)
		require.Zero(t, a.heartbeat(), "alive, but it does not tell the assignment")
	}
	require.Nil(t, b.synced)
	r.pass(time.Second)
	require.Equal(t, kerr.RebalanceInProgress.Code, b.synced.ErrorCode)
	require.Equal(t, kerr.UnknownMemberID.Code, a.heartbeat())
	b.join()
	require.Equal(t, b.id, b.joined.LeaderID)
	require.Len(t, b.joined.Members, 1)
}

// Goal: the first join of an empty group waits for others as long as is set, longer while they come, and no longer than a
// rebalance may take.
func TestInitialDelay(t *testing.T) {
	r := newRig(t, func(o *Options) { o.JoinDelay = 3 * time.Second })
	a := r.client("range").enter()
	r.pass(2 * time.Second)
	b := r.client("range").enter()
	r.pass(2 * time.Second)
	require.Nil(t, a.joined)
	r.pass(2 * time.Second)
	require.NotNil(t, a.joined)
	require.Equal(t, int32(1), b.joined.Generation)
	require.Len(t, a.joined.Members, 2)
}

// Goal: answers of another generation never reach a client whose answer was lost: it asks again and gets the same.
func TestLostAnswers(t *testing.T) {
	r := newRig(t, nil)
	a, b := r.client("range"), r.client("range")
	r.stable(a, b)
	b.join()
	require.Equal(t, a.generation, b.joined.Generation, "the same as before: nothing changed")
	require.Empty(t, b.joined.Members)
	b.sync()
	require.Zero(t, b.synced.ErrorCode)
	require.Zero(t, a.heartbeat())
	// The leader that joins again wants a rebalance; its answer is lost once.
	a.join()
	a.join()
	b.join()
	require.NotNil(t, a.joined)
	generation := a.generation
	a.join()
	require.Equal(t, generation, a.joined.Generation)
	require.Len(t, a.joined.Members, 2)
	// Other metadata is another subscription: a rebalance.
	b.sync()
	a.sync()
	b.protocols[0].Metadata = []byte("other")
	b.join()
	require.Nil(t, b.joined)
	require.Equal(t, kerr.RebalanceInProgress.Code, a.heartbeat())
}

// Goal: votes decide between assignors that everybody has.
func TestVote(t *testing.T) {
	r := newRig(t, nil)
	a, b, c := r.client("one", "two", "three"), r.client("two", "one"), r.client("two", "three", "one")
	r.stable(a, b, c)
	require.Equal(t, "two", *a.joined.Protocol)
}

// Goal: what can not be written is nobody's assignment: the group is let go of, or rebalances.
func TestRowIsNotWritten(t *testing.T) {
	r := newRig(t, nil)
	a, b := r.client("range"), r.client("range")
	a.enter()
	b.enter()
	a.join()
	b.sync()
	r.store.fail = errors.New("no disk")
	a.sync()
	require.Equal(t, kerr.NotCoordinator.Code, b.synced.ErrorCode)
	require.Equal(t, kerr.NotCoordinator.Code, a.synced.ErrorCode)
	r.store.fail = nil
	require.Equal(t, kerr.UnknownMemberID.Code, a.heartbeat())

	r = newRig(t, nil)
	a, b = r.client("range"), r.client("range")
	r.stable(a, b)
	a.join()
	b.join()
	b.sync()
	r.store.fail = ErrTooLarge
	a.sync()
	require.Equal(t, kerr.GroupMaxSizeReached.Code, a.synced.ErrorCode)
	require.Equal(t, kerr.RebalanceInProgress.Code, b.synced.ErrorCode)
	r.store.fail = nil
	r.finishTwo(a, b)
}

func (r *rig) finishTwo(a, b *client) {
	a.join()
	b.join()
	b.sync()
	a.sync()
	require.Equal(r.t, Stable, r.state())
}

// Goal: a coordinator whose row was taken lets go of the group, with everybody who waits; the other one goes on from the
// row.
func TestOvertaken(t *testing.T) {
	r := newRig(t, nil)
	a, b := r.client("range"), r.client("range")
	r.stable(a, b)
	first := r.Manager
	a.join() // waits at the first
	r.restart()
	require.Zero(t, b.heartbeat())
	require.Zero(t, b.leave())
	require.Equal(t, kerr.UnknownMemberID.Code, b.heartbeat())
	require.Equal(t, kerr.RebalanceInProgress.Code, a.heartbeat())
	// One member is left in the row of the second; a's join there ends the generation.
	a.join()
	require.Equal(t, int32(3), a.generation)
	a.sync()
	require.Zero(t, a.synced.ErrorCode)
	r.Manager = first
	require.Zero(t, a.heartbeat(), "the first reads the row again")
	require.Equal(t, kerr.UnknownMemberID.Code, b.heartbeat())
	// A row that is deleted natively is a group without members.
	delete(r.store.rows, key("g"))
	require.Equal(t, kerr.UnknownMemberID.Code, a.heartbeat())
	require.Equal(t, Dead, r.state())
}

// Goal: a new member that waits for others who take their time is given up after a while: nobody knows whether it is there.
func TestNewMemberIsNotWaitedForEver(t *testing.T) {
	r := newRig(t, nil)
	a := r.client("range")
	r.stable(a)
	n := r.client("range")
	req := n.joinRequest()
	req.RebalanceTimeoutMillis = 1_200_000
	req.Version = 3
	var resp *kmsg.JoinGroupResponse
	r.Join(t.Context(), key("g"), Client{}, req, func(got *kmsg.JoinGroupResponse) { resp = got })
	for range 299 {
		r.pass(time.Second)
		require.Equal(t, kerr.RebalanceInProgress.Code, a.heartbeat())
	}
	require.Nil(t, resp)
	r.pass(time.Second)
	require.Equal(t, kerr.UnknownMemberID.Code, resp.ErrorCode)
	require.Equal(t, kerr.RebalanceInProgress.Code, a.heartbeat())
	a.join()
	require.Len(t, a.joined.Members, 1)
}

// Goal: what members say of themselves is bounded, one by one and together.
func TestWhatMembersSayIsBounded(t *testing.T) {
	r := newRig(t, nil)
	large := func(size int) *client {
		c := r.client("range")
		c.protocols[0].Metadata = make([]byte, size)
		return c
	}
	require.Equal(t, kerr.InvalidRequest.Code, large(sayMax).join().joined.ErrorCode)
	for range groupSayMax / (sayMax - 100) {
		large(sayMax - 200).enter()
	}
	last := large(sayMax - 200).enter()
	require.Equal(t, kerr.GroupMaxSizeReached.Code, last.joined.ErrorCode)

	r.topics.set("t", 1)
	m := r.modern("m", "t")
	m.topics = []string{strings.Repeat("x", sayMax)}
	req := m.request()
	req.Group = "other"
	require.Equal(t, kerr.InvalidRequest.Code, m.send(req))
	m.topics, m.regex = []string{"t"}, kmsg.StringPtr(strings.Repeat("x", regexMax+1))
	require.Equal(t, kerr.InvalidRegularExpression.Code, m.send(m.request()))
}

// Goal: a coordinator that stood still gives its members time to be heard before it gives them up.
func TestCoordinatorStoodStill(t *testing.T) {
	r := newRig(t, nil)
	r.topics.set("t", 2)
	a, b := r.client("range"), r.client("range")
	r.stable(a, b)
	r.clock.Advance(30 * time.Second)
	r.timers.fire(here)
	require.Zero(t, a.heartbeat())
	r.pass(9 * time.Second)
	require.Equal(t, Stable, r.state())
	require.Zero(t, a.heartbeat())
	r.pass(2 * time.Second)
	require.Equal(t, kerr.UnknownMemberID.Code, b.heartbeat())
	require.Equal(t, kerr.RebalanceInProgress.Code, a.heartbeat())

	r = newRig(t, nil)
	r.topics.set("t", 2)
	m := r.modern("m", "t")
	require.Zero(t, m.beat())
	r.clock.Advance(10 * time.Minute)
	r.timers.fire(here)
	require.Zero(t, m.ping())
	r.pass(46 * time.Second)
	require.Equal(t, kerr.UnknownMemberID.Code, m.ping())
}
