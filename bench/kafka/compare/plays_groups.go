package main

import (
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// join asks to be a member of the play's group, under an instance id when there is one.
func join(instance string) func(*actor, int16) kmsg.Request {
	return func(a *actor, _ int16) kmsg.Request {
		req := kmsg.NewPtrJoinGroupRequest()
		req.Group, req.MemberID, req.ProtocolType, req.SessionTimeoutMillis, req.RebalanceTimeoutMillis = a.name, a.member, "consumer", 30_000, 30_000
		if instance != "" {
			req.InstanceID = kmsg.StringPtr(instance)
		}
		subscription := kmsg.ConsumerMemberMetadata{Topics: []string{a.name}}
		req.Protocols = []kmsg.JoinGroupRequestProtocol{{Name: "range", Metadata: subscription.AppendTo(nil)}}
		return req
	}
}

func joined(a *actor, resp kmsg.Response) {
	r := resp.(*kmsg.JoinGroupResponse)
	switch kerr.ErrorForCode(r.ErrorCode) {
	case nil:
		a.member, a.generation = r.MemberID, r.Generation
	case kerr.MemberIDRequired:
		a.member = r.MemberID
	}
}

// stale is a member that has missed a generation.
func stale(ask func(*actor, int16) kmsg.Request) func(*actor, int16) kmsg.Request {
	return func(a *actor, v int16) kmsg.Request {
		old := *a
		old.generation--
		return ask(&old, v)
	}
}

func syncGroup(a *actor, _ int16) kmsg.Request {
	req := kmsg.NewPtrSyncGroupRequest()
	req.Group, req.MemberID, req.Generation = a.name, a.member, a.generation
	req.ProtocolType, req.Protocol = kmsg.StringPtr("consumer"), kmsg.StringPtr("range")
	assignment := kmsg.ConsumerMemberAssignment{Topics: []kmsg.ConsumerMemberAssignmentTopic{{Topic: a.name, Partitions: []int32{0}}}}
	req.GroupAssignment = []kmsg.SyncGroupRequestGroupAssignment{{MemberID: a.member, MemberAssignment: assignment.AppendTo(nil)}}
	return req
}

func heartbeat(a *actor, _ int16) kmsg.Request {
	req := kmsg.NewPtrHeartbeatRequest()
	req.Group, req.MemberID, req.Generation = a.name, a.member, a.generation
	return req
}

func commit(a *actor, _ int16) kmsg.Request {
	req := kmsg.NewPtrOffsetCommitRequest()
	req.Group, req.MemberID, req.Generation = a.name, a.member, a.generation
	p := kmsg.NewOffsetCommitRequestTopicPartition()
	p.Offset, p.Metadata = 1, kmsg.StringPtr("said")
	t := kmsg.NewOffsetCommitRequestTopic()
	t.Topic, t.TopicID, t.Partitions = a.name, a.topic, []kmsg.OffsetCommitRequestTopicPartition{p}
	req.Topics = append(req.Topics, t)
	return req
}

func describeGroup(a *actor, _ int16) kmsg.Request {
	req := kmsg.NewPtrDescribeGroupsRequest()
	req.Groups = []string{a.name}
	return req
}

// leave goes, by the id of the member, or by an instance id when there is one.
func leave(instance string) func(*actor, int16) kmsg.Request {
	return func(a *actor, _ int16) kmsg.Request {
		req := kmsg.NewPtrLeaveGroupRequest()
		req.Group, req.MemberID = a.name, a.member
		one := kmsg.NewLeaveGroupRequestMember()
		one.MemberID = a.member
		if instance != "" {
			one.InstanceID = kmsg.StringPtr(instance)
		}
		req.Members = append(req.Members, one)
		return req
	}
}

// idRequired is the version from which on a member without an id is first given one.
const idRequired = 4

// classic is the life of a member of a classic group.
func classic() []step {
	return []step{
		{name: "join", key: kmsg.JoinGroup, ask: join(""), take: joined, to: idRequired - 1},
		{name: "ask-for-id", key: kmsg.JoinGroup, ask: join(""), take: joined, from: idRequired, refused: true},
		{name: "join-with-id", key: kmsg.JoinGroup, ask: join(""), take: joined, from: idRequired},
		{name: "sync", key: kmsg.SyncGroup, ask: syncGroup},
		{name: "heartbeat", key: kmsg.Heartbeat, ask: heartbeat},
		{name: "commit", key: kmsg.OffsetCommit, ask: commit},
		{name: "position", key: kmsg.OffsetFetch, ask: position},
		{name: "describe", key: kmsg.DescribeGroups, ask: describeGroup},
		{name: "stale-heartbeat", key: kmsg.Heartbeat, ask: stale(heartbeat), refused: true},
		{name: "stale-sync", key: kmsg.SyncGroup, ask: stale(syncGroup), refused: true},
		{name: "stale-commit", key: kmsg.OffsetCommit, ask: stale(commit), refused: true, from: 1},
		{name: "leave", key: kmsg.LeaveGroup, ask: leave("")},
		{name: "late-heartbeat", key: kmsg.Heartbeat, ask: heartbeat, refused: true},
		{name: "describe-empty", key: kmsg.DescribeGroups, ask: describeGroup},
	}
}

// Versions from which on there are instance ids.
const (
	joinInstance  = 5
	leaveInstance = 3
)

// static is a member with an instance id that comes again without its member id and gets its place back.
func static() []step {
	const instance = "i"
	return []step{
		{name: "join", key: kmsg.JoinGroup, ask: join(instance), take: joined, from: joinInstance},
		{name: "sync", key: kmsg.SyncGroup, ask: syncGroup},
		{name: "join-again", key: kmsg.JoinGroup, from: joinInstance, take: joined, ask: func(a *actor, v int16) kmsg.Request {
			fresh := *a
			fresh.member = ""
			return join(instance)(&fresh, v)
		}},
		{name: "sync-again", key: kmsg.SyncGroup, ask: syncGroup},
		{name: "heartbeat", key: kmsg.Heartbeat, ask: heartbeat},
		{name: "commit", key: kmsg.OffsetCommit, ask: commit},
		{name: "describe", key: kmsg.DescribeGroups, ask: describeGroup},
		{name: "leave", key: kmsg.LeaveGroup, ask: leave(instance), from: leaveInstance},
	}
}

// Versions from which on a position is one of a member of the newer kind of group.
const (
	commitMember   = 9
	positionMember = 9
)

// consumer is the life of a member of a group of KIP-848.
func consumer() []step {
	beat := func(tune func(*actor, *kmsg.ConsumerGroupHeartbeatRequest)) func(*actor, int16) kmsg.Request {
		return func(a *actor, _ int16) kmsg.Request {
			req := kmsg.NewPtrConsumerGroupHeartbeatRequest()
			a.member = "member-of-" + a.name
			req.Group, req.MemberID, req.MemberEpoch = a.name, a.member, a.generation
			tune(a, req)
			return req
		}
	}
	beaten := func(a *actor, resp kmsg.Response) {
		r := resp.(*kmsg.ConsumerGroupHeartbeatResponse)
		if kerr.ErrorForCode(r.ErrorCode) == nil {
			a.generation = r.MemberEpoch
		}
		a.assigned = a.assigned || r.Assignment != nil && len(r.Assignment.Topics) > 0
	}
	return []step{
		{name: "join", key: kmsg.ConsumerGroupHeartbeat, take: beaten, ask: beat(func(a *actor, req *kmsg.ConsumerGroupHeartbeatRequest) {
			req.MemberEpoch, req.RebalanceTimeoutMillis, req.SubscribedTopicNames = 0, 30_000, []string{a.name}
			req.Topics = []kmsg.ConsumerGroupHeartbeatRequestTopic{}
		})},
		// The assignment may take the group another moment.
		{name: "assigned", key: kmsg.ConsumerGroupHeartbeat, take: beaten, ask: beat(func(*actor, *kmsg.ConsumerGroupHeartbeatRequest) {}),
			until: func(a *actor, resp kmsg.Response) bool { beaten(a, resp); return a.assigned }},
		{name: "owned", key: kmsg.ConsumerGroupHeartbeat, take: beaten, ask: beat(func(a *actor, req *kmsg.ConsumerGroupHeartbeatRequest) {
			req.Topics = []kmsg.ConsumerGroupHeartbeatRequestTopic{{TopicID: a.topic, Partitions: []int32{0}}}
		})},
		{name: "describe", key: kmsg.ConsumerGroupDescribe, ask: describeConsumer},
		{name: "commit", key: kmsg.OffsetCommit, ask: commit, from: commitMember},
		{name: "position", key: kmsg.OffsetFetch, from: positionMember, ask: func(a *actor, v int16) kmsg.Request {
			req := position(a, v).(*kmsg.OffsetFetchRequest)
			req.Groups[0].MemberID, req.Groups[0].MemberEpoch = kmsg.StringPtr(a.member), a.generation
			return req
		}},
		{name: "stale-commit", key: kmsg.OffsetCommit, ask: stale(commit), refused: true, from: commitMember},
		{name: "ahead", key: kmsg.ConsumerGroupHeartbeat, refused: true, ask: beat(func(a *actor, req *kmsg.ConsumerGroupHeartbeatRequest) {
			req.MemberEpoch = a.generation + 1
		})},
		{name: "leave", key: kmsg.ConsumerGroupHeartbeat, ask: beat(func(_ *actor, req *kmsg.ConsumerGroupHeartbeatRequest) { req.MemberEpoch = -1 })},
		{name: "late", key: kmsg.ConsumerGroupHeartbeat, refused: true, ask: beat(func(*actor, *kmsg.ConsumerGroupHeartbeatRequest) {})},
		{name: "describe-empty", key: kmsg.ConsumerGroupDescribe, ask: describeConsumer},
	}
}

func describeConsumer(a *actor, _ int16) kmsg.Request {
	req := kmsg.NewPtrConsumerGroupDescribeRequest()
	req.Groups = []string{a.name}
	return req
}
