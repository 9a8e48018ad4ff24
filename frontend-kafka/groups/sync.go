package groups

import (
	"context"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Sync answers a SyncGroup by reply, which is called exactly once: at once, or when the leader has told the assignment.
func (m *Manager) Sync(ctx context.Context, k Key, req *kmsg.SyncGroupRequest, reply func(*kmsg.SyncGroupResponse)) {
	refuse := func(code int16) { reply(syncAnswer(req, code)) }
	if code := checkName(req.Group); code != 0 {
		refuse(code)
		return
	}
	err := m.with(ctx, k, func(g *group) {
		if g.consumer != nil {
			g.consumer.classicSync(req, reply)
			return
		}
		one, code := g.current(req.MemberID, req.InstanceID, req.Generation)
		if code == 0 && (req.ProtocolType != nil && *req.ProtocolType != g.protocolType || req.Protocol != nil && *req.Protocol != g.protocol) {
			code = kerr.InconsistentGroupProtocol.Code
		}
		if code == 0 && g.state == Preparing {
			code = kerr.RebalanceInProgress.Code
		}
		if code != 0 {
			refuse(code)
			return
		}
		g.sync(one, req, reply)
	})
	if err != nil {
		refuse(m.codeOf(k, err))
	}
}

// current is the member of a request that names a generation.
func (g *group) current(id string, instance *string, generation int32) (*member, int16) {
	m, code := g.find(id, instance)
	switch {
	case code != 0:
		return nil, code
	case generation != g.generation:
		return nil, kerr.IllegalGeneration.Code
	}
	return m, 0
}

// sync takes the assignment from the leader, or keeps the request until it is there.
func (g *group) sync(m *member, req *kmsg.SyncGroupRequest, reply func(*kmsg.SyncGroupResponse)) {
	m.answerSync(g, kerr.RebalanceInProgress.Code) // of a connection that was given up
	m.sync, m.syncReq, m.synced = reply, req, true
	g.alive(m)
	if g.state == Stable {
		m.answerSync(g, 0)
		g.settled()
		return
	}
	if m.id != g.leader {
		return
	}
	told := make(map[string][]byte, len(req.GroupAssignment))
	for _, a := range req.GroupAssignment {
		told[a.MemberID] = a.MemberAssignment
	}
	code := g.assign(told)
	if code == 0 {
		g.enter(Stable)
		code = g.save()
	}
	if code != 0 {
		if !g.gone {
			g.assign(nil)
			g.enter(Completing)
			m.answerSync(g, code)
			g.prepare("the assignment could not be kept")
		}
		return
	}
	for _, id := range g.order() {
		g.members[id].answerSync(g, 0)
	}
	g.settled()
}

// settled stops the wait for syncs once there are none to wait for.
func (g *group) settled() {
	if !g.unsynced() {
		g.m.timers.stop(g.phase)
	}
}

// Heartbeat answers a Heartbeat.
func (m *Manager) Heartbeat(ctx context.Context, k Key, req *kmsg.HeartbeatRequest) *kmsg.HeartbeatResponse {
	resp := req.ResponseKind().(*kmsg.HeartbeatResponse)
	if resp.ErrorCode = checkName(req.Group); resp.ErrorCode != 0 {
		return resp
	}
	err := m.with(ctx, k, func(g *group) {
		if g.consumer != nil {
			resp.ErrorCode = g.consumer.classicHeartbeat(req)
			return
		}
		var one *member
		if one, resp.ErrorCode = g.current(req.MemberID, req.InstanceID, req.Generation); resp.ErrorCode != 0 {
			return
		}
		g.alive(one)
		if g.state == Preparing {
			resp.ErrorCode = kerr.RebalanceInProgress.Code
		}
	})
	if err != nil {
		resp.ErrorCode = m.codeOf(k, err)
	}
	return resp
}

// Leave answers a LeaveGroup.
func (m *Manager) Leave(ctx context.Context, k Key, req *kmsg.LeaveGroupRequest) *kmsg.LeaveGroupResponse {
	resp := req.ResponseKind().(*kmsg.LeaveGroupResponse)
	if resp.ErrorCode = checkName(req.Group); resp.ErrorCode != 0 {
		return resp
	}
	leaving := req.Members
	if req.Version < 3 {
		leaving = []kmsg.LeaveGroupRequestMember{{MemberID: req.MemberID}}
	}
	err := m.with(ctx, k, func(g *group) {
		for i := range leaving {
			l := &leaving[i]
			one := kmsg.NewLeaveGroupResponseMember()
			one.MemberID, one.InstanceID = l.MemberID, l.InstanceID
			switch {
			case g.gone:
				one.ErrorCode = kerr.NotCoordinator.Code
			case g.consumer != nil:
				one.ErrorCode = g.consumer.classicLeave(l)
			default:
				one.ErrorCode = g.depart(l)
			}
			resp.Members = append(resp.Members, one)
		}
		if g.consumer != nil && !g.gone {
			g.consumer.left()
		}
	})
	if err != nil {
		resp.ErrorCode, resp.Members = m.codeOf(k, err), nil
	}
	if req.Version < 3 && len(resp.Members) == 1 {
		resp.ErrorCode, resp.Members = resp.Members[0].ErrorCode, nil
	}
	return resp
}

// depart lets one member go. A static one is named by its instance, with or without its member id.
func (g *group) depart(l *kmsg.LeaveGroupRequestMember) int16 {
	if l.InstanceID == nil {
		if g.pending[l.MemberID] != nil {
			g.pendingEnds(l.MemberID)
			return 0
		}
		m := g.members[l.MemberID]
		if m == nil {
			return kerr.UnknownMemberID.Code
		}
		g.leave(m, kerr.UnknownMemberID.Code)
		return 0
	}
	m := g.static[*l.InstanceID]
	switch {
	case m == nil:
		return kerr.UnknownMemberID.Code
	case l.MemberID != "" && m.id != l.MemberID:
		return kerr.FencedInstanceID.Code
	}
	g.leave(m, kerr.UnknownMemberID.Code)
	return 0
}
