package groups

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"queen/engine/format"
)

// mustWeigh counts anew what groups weigh.
func (r *rig) mustWeigh() {
	r.t.Helper()
	all := 0
	for k, g := range r.groups {
		n := 0
		for _, m := range g.members {
			n += m.size()
		}
		for id := range g.pending {
			n += pendingBytes + len(id)
		}
		if g.consumer != nil {
			for _, m := range g.consumer.members {
				n += m.size()
			}
		}
		require.Equal(r.t, n, g.weight, k.Group)
		all += n
	}
	require.EqualValues(r.t, all, r.weight.Load())
}

// joinedTo sends a JoinGroup of a group; nil while it waits.
func (r *rig) joinedTo(group, member string, version int16, said int) (resp *kmsg.JoinGroupResponse) {
	req := r.client("range").joinRequest()
	req.Group, req.MemberID, req.Version, req.Protocols[0].Metadata = group, member, version, make([]byte, said)
	r.Join(r.t.Context(), key(group), Client{"app", "host"}, req, func(got *kmsg.JoinGroupResponse) { resp = got })
	return resp
}

// saying is a member of KIP-848 of a group that subscribes to a name of a length.
func (r *rig) saying(group, member string, epoch int32, said int) *kmsg.ConsumerGroupHeartbeatResponse {
	m := r.modern(member, strings.Repeat("x", said))
	req := m.request()
	req.Group, req.MemberEpoch = group, epoch
	return r.ConsumerHeartbeat(r.t.Context(), key(group), Client{"app", "host"}, req)
}

// Goal: what the clients of all groups of a node say is bounded, in both protocols: who is new, who says more than before, ids that
// are told and assignments. Who says no more goes on, and what was said by those who left leaves room.
func TestMemoryOfGroups(t *testing.T) {
	const said = 100 << 10
	full := kerr.CoordinatorNotAvailable.Code
	r := newRig(t, func(o *Options) { o.Memory = 1 << 20 })
	a := r.client("range")
	r.stable(a)
	m := r.saying("modern", "m", 0, 10)
	require.Zero(t, m.ErrorCode)
	for i := range 10 {
		require.Zero(t, r.joinedTo(fmt.Sprint("group ", i), "", 3, said).ErrorCode)
	}
	r.mustWeigh()
	require.Equal(t, full, r.joinedTo("other", "", 3, said).ErrorCode)
	require.Equal(t, full, r.joinedTo("other", "", 4, said).ErrorCode)
	require.Equal(t, full, r.saying("other", "m", 0, said).ErrorCode)
	require.NotContains(t, r.groups, key("other"))

	metadata := a.protocols[0].Metadata
	a.protocols[0].Metadata = make([]byte, said)
	require.Equal(t, full, a.join().joined.ErrorCode)
	require.Zero(t, a.heartbeat())
	a.protocols[0].Metadata = metadata
	require.Zero(t, a.join().joined.ErrorCode)
	require.Equal(t, full, r.assign(a, make([]byte, said)))
	require.Equal(t, kerr.RebalanceInProgress.Code, a.heartbeat())
	require.Zero(t, a.join().joined.ErrorCode)
	require.Zero(t, r.assign(a, []byte("little")))
	static := r.staticClient("i", "range")
	static.version = 3
	require.Nil(t, static.join().joined)
	require.Zero(t, a.join().joined.ErrorCode)
	static.id = ""
	static.protocols[0].Metadata = make([]byte, said)
	require.Equal(t, full, static.join().joined.ErrorCode, "its process starts anew")

	require.Equal(t, full, r.saying("modern", "m", m.MemberEpoch, said).ErrorCode)
	require.Zero(t, r.saying("modern", "m", m.MemberEpoch, 10).ErrorCode)
	old := r.client("range").consumerOf(nil, strings.Split(strings.Repeat(strings.Repeat("x", 9999)+" ", 10), " ")...).joinRequest()
	old.Group, old.Version = "modern", 3
	require.Equal(t, full, r.ask(old).ErrorCode, "of the classic protocol among those of the other one")
	r.mustWeigh()

	told := 0
	for ; r.joinedTo("ids", "", 4, 10).ErrorCode == kerr.MemberIDRequired.Code; told++ {
		require.Less(t, told, 1000)
	}
	require.Equal(t, full, r.joinedTo("ids", "", 4, 10).ErrorCode)
	require.Greater(t, told, 10)
	r.mustWeigh()

	r.pass(2 * time.Minute)
	require.Empty(t, r.groups)
	require.Zero(t, r.weight.Load())
	require.Zero(t, r.joinedTo("other", "", 3, said).ErrorCode)
}

// Goal: what members say together is bounded in each group, also of those that say more than when they joined.
func TestMemoryOfAGroup(t *testing.T) {
	r := newRig(t, nil)
	first := r.saying("g", "first", 0, 10)
	require.Zero(t, first.ErrorCode)
	others := 0
	r.groups[key("g")].weigh(&others, groupSayMax-2000)
	require.Equal(t, kerr.GroupMaxSizeReached.Code, r.saying("g", "last", 0, 3000).ErrorCode)
	require.Equal(t, kerr.GroupMaxSizeReached.Code, r.saying("g", "first", first.MemberEpoch, 3000).ErrorCode)
	require.Zero(t, r.saying("g", "first", first.MemberEpoch, 20).ErrorCode)
	require.Zero(t, r.saying("h", "first", 0, 3000).ErrorCode)
	r.groups[key("g")].weigh(&others, 0)
	require.Zero(t, r.saying("g", "last", 0, 3000).ErrorCode)
	r.mustWeigh()
}

// Goal: nothing is kept of a request but what it says: it may have much else in it.
func TestRequestsAreNotKept(t *testing.T) {
	r := newRig(t, nil)
	a := r.client("range")
	frame := []byte("metadata, assignment")
	a.protocols[0].Metadata = frame[:8]
	require.Zero(t, a.enter().joined.ErrorCode)
	require.Zero(t, r.assign(a, frame[10:]))
	clear(frame)
	m := r.groups[key("g")].members[a.id]
	require.Equal(t, "metadata", string(m.protocols[0].Metadata))
	require.Equal(t, "assignment", string(m.assignment))
}

// Goal: a short pattern does not take much memory; one that somebody subscribed to before there was a bound is read.
func TestRegexIsBounded(t *testing.T) {
	r := newRig(t, nil)
	r.topics.set("xx", 1)
	beat := func(pattern string) int16 {
		m := r.modern("m")
		m.regex = &pattern
		return m.beat()
	}
	large := "(?:" + strings.Repeat("x", 4000) + "){9}"
	for _, bad := range []string{large, strings.Repeat(`\pL`, 1000), "(?:a|b){0,999}" + strings.Repeat("(?:a|b){0,999}", 20), "("} {
		require.Equal(t, kerr.InvalidRegularExpression.Code, beat(bad), "%.40s", bad)
	}
	for _, good := range []string{"x+", `^(?:[\p{L}_]{1,200}|x{1,3}\.?.*)$`, strings.Repeat("x|", regexMax/2-1)} {
		require.Zero(t, beat(good), "%.40s", good)
	}
	row := rowText{Consumer: true, Generation: 1, Members: []rowMember{{ID: "m", Regex: large, Epoch: 1}}}
	value, err := appendRow(&row)
	require.NoError(t, err)
	r = newRig(t, nil)
	r.store.rows[key("g")] = memRow{value, format.Place{Index: 1}}
	m := r.modern("m")
	m.epoch = 1
	require.Zero(t, m.ping())
	require.Greater(t, r.weight.Load(), int64(regexBytesMax))
	r.mustWeigh()
}
