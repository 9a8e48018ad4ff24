package frontendkafka

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"queen/engine"
	"queen/engine/format"
)

// commitRequest commits one position as nobody in particular.
func commitRequest(version int16, topic string, id [16]byte, partition int32, offset int64, note *string) *kmsg.OffsetCommitRequest {
	req := kmsg.NewPtrOffsetCommitRequest()
	req.Version, req.Group, req.Generation = version, "g", -1
	t, p := kmsg.NewOffsetCommitRequestTopic(), kmsg.NewOffsetCommitRequestTopicPartition()
	t.Topic, t.TopicID = topic, id
	p.Partition, p.Offset, p.LeaderEpoch, p.Metadata = partition, offset, 1, note
	t.Partitions = append(t.Partitions, p)
	req.Topics = append(req.Topics, t)
	return req
}

// Goal: positions are committed and read back in every version: offset, metadata and, from where there is one, leader epoch;
// by name and by id; for all topics and for named ones; an offset beyond the end as it was committed.
func TestPositionsInEveryVersion(t *testing.T) {
	n := start(t, nil)
	r := n.dial()
	made, err := n.f.createTopic(t.Context(), n.caller(), "t", 4)
	require.NoError(t, err)
	for version := int16(2); version <= 10; version++ {
		offset := 100 + int64(version)
		resp := r.ask(commitRequest(version, "t", made.id, 2, offset, kmsg.StringPtr("note"))).(*kmsg.OffsetCommitResponse)
		require.Zero(t, resp.Topics[0].Partitions[0].ErrorCode)
		for fetch := int16(1); fetch <= 10; fetch++ {
			for _, all := range []bool{false, true} {
				if all && fetch < 2 {
					continue
				}
				got := n.positions(r, fetch, "g", "t", made.id, all)
				i := slices.IndexFunc(got, func(p kmsg.OffsetFetchResponseGroupTopicPartition) bool { return p.Partition == 2 })
				require.GreaterOrEqual(t, i, 0)
				require.Equal(t, offset, got[i].Offset)
				require.Equal(t, "note", *got[i].Metadata)
				if want := int32(1); version >= 6 && fetch >= 5 {
					require.Equal(t, want, got[i].LeaderEpoch)
				} else {
					require.Equal(t, int32(-1), got[i].LeaderEpoch)
				}
				require.Len(t, got, map[bool]int{false: 2, true: 1}[all], "where nothing is committed -1, or nothing")
			}
		}
	}
}

// positions fetches partitions 2 and 3 of a topic, or all that the group has.
func (n *testNode) positions(r *raw, version int16, group, topic string, id [16]byte, all bool) []kmsg.OffsetFetchResponseGroupTopicPartition {
	n.t.Helper()
	req := kmsg.NewPtrOffsetFetchRequest()
	req.Version, req.Group = version, group
	g := kmsg.NewOffsetFetchRequestGroup()
	g.Group = group
	if !all {
		g.Topics = []kmsg.OffsetFetchRequestGroupTopic{{Topic: topic, TopicID: id, Partitions: []int32{2, 3}}}
		req.Topics = []kmsg.OffsetFetchRequestTopic{{Topic: topic, Partitions: []int32{2, 3}}}
	}
	req.Groups = append(req.Groups, g)
	resp := r.ask(req).(*kmsg.OffsetFetchResponse)
	require.Zero(n.t, resp.ErrorCode)
	var out []kmsg.OffsetFetchResponseGroupTopicPartition
	if version >= 8 {
		require.Zero(n.t, resp.Groups[0].ErrorCode)
		for _, t := range resp.Groups[0].Topics {
			require.Equal(n.t, version >= 10, t.TopicID == id && id != [16]byte{})
			out = append(out, t.Partitions...)
		}
		return out
	}
	for _, t := range resp.Topics {
		require.Equal(n.t, topic, t.Topic)
		for _, p := range t.Partitions {
			require.Zero(n.t, p.ErrorCode)
			epoch := p.LeaderEpoch
			if version < 5 {
				epoch = -1
			}
			out = append(out, kmsg.OffsetFetchResponseGroupTopicPartition{Partition: p.Partition, Offset: p.Offset, LeaderEpoch: epoch, Metadata: p.Metadata})
		}
	}
	return out
}

// Goal: a group that nobody has seen has no positions, which is no error in any version.
func TestPositionsOfUnknownGroup(t *testing.T) {
	n := start(t, nil)
	r := n.dial()
	made, err := n.f.createTopic(t.Context(), n.caller(), "t", 4)
	require.NoError(t, err)
	for version := int16(1); version <= 10; version++ {
		got := n.positions(r, version, "never", "t", made.id, false)
		require.Len(t, got, 2)
		require.Equal(t, int64(-1), got[0].Offset)
		require.Zero(t, got[0].ErrorCode)
	}
}

// Goal: what a commit refuses, position by position.
func TestCommitRefusals(t *testing.T) {
	n := start(t, nil)
	r := n.dial()
	made, err := n.f.createTopic(t.Context(), n.caller(), "t", 4)
	require.NoError(t, err)
	code := func(req *kmsg.OffsetCommitRequest) int16 {
		return r.ask(req).(*kmsg.OffsetCommitResponse).Topics[0].Partitions[0].ErrorCode
	}
	long := strings.Repeat("x", 4097)
	require.Zero(t, code(commitRequest(9, "t", made.id, 0, 5, kmsg.StringPtr(long[:4096]))))
	require.Equal(t, kerr.OffsetMetadataTooLarge.Code, code(commitRequest(9, "t", made.id, 0, 5, &long)))
	require.Equal(t, kerr.UnknownTopicOrPartition.Code, code(commitRequest(9, "t", made.id, 4, 5, nil)))
	require.Equal(t, kerr.UnknownTopicOrPartition.Code, code(commitRequest(9, "none", made.id, 0, 5, nil)))
	require.Equal(t, kerr.UnknownTopicID.Code, code(commitRequest(10, "", [16]byte{9}, 0, 5, nil)))
	require.Equal(t, kerr.InvalidRequest.Code, code(commitRequest(9, "t", made.id, 0, -2, nil)))
	req := commitRequest(9, "t", made.id, 0, 5, nil)
	req.Group = ""
	require.Equal(t, kerr.InvalidGroupID.Code, code(req))
	req = commitRequest(9, "t", made.id, 0, 5, nil)
	req.MemberID, req.Generation = "made up", 3
	require.Equal(t, kerr.UnknownMemberID.Code, code(req))
}

// Goal: members of KIP-848 commit in versions that know of member epochs: before, they are told so, whatever they say their epoch is,
// and nothing is committed; from then on, that an epoch is stale. Members of the classic protocol commit in every version.
func TestCommitOfMembersInEveryVersion(t *testing.T) {
	n := start(t, nil)
	n.topic("t", 4)
	made, err := n.f.topic(t.Context(), n.caller(), "t")
	require.NoError(t, err)
	c := n.dial()
	old, generation := c.joinClassic("old", 0)
	commit := func(version int16, group, member string, epoch int32) int16 {
		req := commitRequest(version, "t", made.id, 0, int64(version), nil)
		req.Group, req.MemberID, req.Generation = group, member, epoch
		return c.ask(req).(*kmsg.OffsetCommitResponse).Topics[0].Partitions[0].ErrorCode
	}
	member, epoch := c.joinNext("g")
	for version := int16(2); version <= 10; version++ {
		current, stale := int16(0), kerr.StaleMemberEpoch.Code
		if version < 9 {
			current, stale = kerr.UnsupportedVersion.Code, kerr.UnsupportedVersion.Code
		}
		require.Equal(t, current, commit(version, "g", member, epoch), "version %d", version)
		require.Equal(t, stale, commit(version, "g", member, epoch+1), "version %d", version)
		require.Equal(t, kerr.UnknownMemberID.Code, commit(version, "g", "nobody", epoch), "version %d", version)
		require.Equal(t, kerr.UnknownMemberID.Code, commit(version, "g", "", -1), "version %d", version)
		require.Zero(t, commit(version, "old", old, generation), "version %d", version)
		if at := c.position(); version < 9 {
			require.EqualValues(t, -1, at)
		} else {
			require.EqualValues(t, version, at)
		}
	}
}

// Goal: a group of native consumers is a group to Kafka's administration, and one position is everybody's: a native ack is
// seen by Kafka, a deletion by natives.
func TestNativeGroup(t *testing.T) {
	n := start(t, nil)
	r := n.dial()
	cl := n.client(kgo.RecordPartitioner(kgo.ManualPartitioner()))
	made, err := n.f.createTopic(t.Context(), n.caller(), "t", 4)
	require.NoError(t, err)
	n.produce(cl, 0, 40)
	d, err := n.engine.Pop(t.Context(), n.caller(), engine.PopRequest{Scope: engine.Scope{Queue: "t", Partition: "2", Pinned: true},
		Group: "native", Batch: 3, Start: engine.Start{Kind: format.StartAll}})
	require.NoError(t, err)
	require.NotNil(t, d)
	d.Delivered()
	out, err := n.engine.Do(t.Context(), n.caller(), engine.Batch{Ops: []engine.Op{&engine.Ack{Partition: d.Claims[0].PartitionID,
		Group: "native", Lease: d.Lease, Offset: 2, HasOffset: true, Status: format.AckCompleted}}})
	require.NoError(t, err)
	require.Nil(t, out[0].Err)
	require.Equal(t, int64(3), n.positions(r, 9, "native", "t", made.id, true)[0].Offset)

	describe := func(version int16, group string) kmsg.DescribeGroupsResponseGroup {
		req := kmsg.NewPtrDescribeGroupsRequest()
		req.Version, req.Groups = version, []string{group}
		return r.ask(req).(*kmsg.DescribeGroupsResponse).Groups[0]
	}
	require.Equal(t, "Empty", describe(6, "native").State)
	require.Equal(t, "Dead", describe(5, "never").State)
	require.Zero(t, describe(5, "never").ErrorCode)
	require.Equal(t, kerr.GroupIDNotFound.Code, describe(6, "never").ErrorCode)
	list := kmsg.NewPtrListGroupsRequest()
	list.Version, list.StatesFilter, list.TypesFilter = 5, []string{"empty"}, []string{"Classic"}
	groups := r.ask(list).(*kmsg.ListGroupsResponse).Groups
	require.Len(t, groups, 1)
	require.Equal(t, "native", groups[0].Group)
	list.StatesFilter = []string{"Stable"}
	require.Empty(t, r.ask(list).(*kmsg.ListGroupsResponse).Groups)

	del := kmsg.NewPtrDeleteGroupsRequest()
	del.Version, del.Groups = 2, []string{"native", "never", ""}
	var codes []int16
	for _, g := range r.ask(del).(*kmsg.DeleteGroupsResponse).Groups {
		codes = append(codes, g.ErrorCode)
	}
	require.Equal(t, []int16{0, kerr.GroupIDNotFound.Code, kerr.InvalidGroupID.Code}, codes)
	require.Empty(t, n.positions(r, 9, "native", "t", made.id, true))
	left, err := n.engine.Catalog().Groups(t.Context(), n.caller())
	require.NoError(t, err)
	require.Empty(t, left)
}

// Goal: positions of topics that a live member wants stay; others go, by themselves.
func TestOffsetDelete(t *testing.T) {
	n := start(t, nil)
	r := n.dial()
	made, err := n.f.createTopic(t.Context(), n.caller(), "t", 4)
	require.NoError(t, err)
	_, err = n.f.createTopic(t.Context(), n.caller(), "u", 4)
	require.NoError(t, err)
	for _, topic := range []string{"t", "u"} {
		require.Zero(t, r.ask(commitRequest(9, topic, made.id, 1, 5, nil)).(*kmsg.OffsetCommitResponse).Topics[0].Partitions[0].ErrorCode)
	}
	remove := func(group string) (whole int16, codes []int16) {
		req := kmsg.NewPtrOffsetDeleteRequest()
		req.Group = group
		for _, topic := range []string{"t", "u", "none"} {
			row := kmsg.NewOffsetDeleteRequestTopic()
			row.Topic = topic
			row.Partitions = []kmsg.OffsetDeleteRequestTopicPartition{{Partition: 1}, {Partition: 3}, {Partition: 9}}
			req.Topics = append(req.Topics, row)
		}
		resp := r.ask(req).(*kmsg.OffsetDeleteResponse)
		for _, topic := range resp.Topics {
			for _, p := range topic.Partitions {
				codes = append(codes, p.ErrorCode)
			}
		}
		return resp.ErrorCode, codes
	}
	whole, _ := remove("never")
	require.Equal(t, kerr.GroupIDNotFound.Code, whole)
	c := n.consumers()
	leave := c.join()
	c.until("a member has the topic", func() bool { return len(c.owners) == 4 })
	whole, codes := remove("g")
	require.Zero(t, whole)
	require.Equal(t, []int16{86, 86, 3, 0, 0, 3, 3, 3, 3}, codes)
	leave()
	require.Len(t, n.positions(r, 9, "g", "t", made.id, true), 1)
	_, codes = remove("g")
	require.Equal(t, []int16{0, 0, 3, 0, 0, 3, 3, 3, 3}, codes)
	require.Empty(t, n.positions(r, 9, "g", "t", made.id, true))
}

// Goal: every version of FindCoordinator names a node that serves, for every kind; nonsense has a code.
func TestFindCoordinator(t *testing.T) {
	n := start(t, nil)
	r := n.dial()
	for version := int16(0); version <= 6; version++ {
		for kind := int8(0); kind <= 3; kind++ {
			if version < 1 && kind > 0 {
				continue
			}
			req := kmsg.NewPtrFindCoordinatorRequest()
			req.Version, req.CoordinatorKey, req.CoordinatorKeys, req.CoordinatorType = version, "x", []string{"x", "y"}, kind
			resp := r.ask(req).(*kmsg.FindCoordinatorResponse)
			all := resp.Coordinators
			if version < 4 {
				all = []kmsg.FindCoordinatorResponseCoordinator{{Key: "x", NodeID: resp.NodeID, Host: resp.Host, Port: resp.Port,
					ErrorCode: resp.ErrorCode}}
			} else {
				require.Len(t, all, 2)
			}
			for _, c := range all {
				if kind == 3 {
					require.Equal(t, kerr.InvalidRequest.Code, c.ErrorCode)
					continue
				}
				require.Zero(t, c.ErrorCode)
				require.Equal(t, int32(1), c.NodeID)
				require.NotZero(t, c.Port)
			}
		}
	}
}
