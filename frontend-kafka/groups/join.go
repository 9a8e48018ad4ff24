package groups

import (
	"bytes"
	"context"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// joinCall is one JoinGroup.
type joinCall struct {
	g         *group
	client    Client
	req       *kmsg.JoinGroupRequest
	protocols []protocol
	session   time.Duration
	rebalance time.Duration
	reply     func(*kmsg.JoinGroupResponse)
}

// Join answers a JoinGroup by reply, which is called exactly once: at once, or when the join is complete.
func (m *Manager) Join(ctx context.Context, k Key, client Client, req *kmsg.JoinGroupRequest, reply func(*kmsg.JoinGroupResponse)) {
	j := joinCall{client: client, req: req, reply: reply}
	if code := j.check(m); code != 0 {
		reply(joinRefused(req, code, req.MemberID))
		return
	}
	err := m.with(ctx, k, func(g *group) {
		j.g = g
		if code := j.admit(); code != 0 {
			reply(joinRefused(req, code, req.MemberID))
		}
	})
	if err != nil {
		reply(joinRefused(req, m.codeOf(k, err), req.MemberID))
	}
}

// check refuses what no group would take.
func (j *joinCall) check(m *Manager) int16 {
	req := j.req
	if code := checkName(req.Group); code != 0 {
		return code
	}
	j.session = time.Duration(req.SessionTimeoutMillis) * time.Millisecond
	if j.session < m.o.SessionMin || j.session > m.o.SessionMax {
		return kerr.InvalidSessionTimeout.Code
	}
	if j.rebalance = time.Duration(req.RebalanceTimeoutMillis) * time.Millisecond; req.Version < 1 || j.rebalance <= 0 {
		j.rebalance = j.session
	}
	if j.rebalance > rebalanceMax {
		m.o.Logger.Warn("kafka: a rebalance timeout is cut to 30 min", "group", req.Group, "asked", j.rebalance)
		j.rebalance = rebalanceMax
	}
	for _, p := range req.Protocols {
		j.protocols = append(j.protocols, protocol{p.Name, p.Metadata})
	}
	if saidBy(j.protocols) > sayMax {
		m.o.Logger.Warn("kafka: a member of a consumer group says too much to its assignors", "group", req.Group, "limit", sayMax)
		return kerr.InvalidRequest.Code
	}
	for i := range j.protocols { // it lies in the request, which may have much else in it and is not kept
		j.protocols[i].Metadata = bytes.Clone(j.protocols[i].Metadata)
	}
	if req.InstanceID != nil && (*req.InstanceID == "" || !isID(*req.InstanceID)) || len(req.MemberID) > 2*textMax {
		return kerr.InvalidRequest.Code
	}
	return 0
}

// admit finds out who joins; a code other than 0 refuses it, 0 leaves the answer to others.
func (j *joinCall) admit() int16 {
	g, req := j.g, j.req
	if g.consumer != nil {
		if code := g.downgrade(); code != 0 {
			return j.toConsumer(code)
		}
	}
	self := g.members[req.MemberID]
	if req.InstanceID != nil {
		if at := g.static[*req.InstanceID]; at != nil && (req.MemberID == "" || at.id == req.MemberID) {
			self = at
		}
	}
	if !g.supports(req.ProtocolType, j.protocols, self) {
		return kerr.InconsistentGroupProtocol.Code
	}
	if len(g.members) == 0 {
		g.protocolType = req.ProtocolType
	}
	if req.MemberID == "" {
		return j.stranger()
	}
	return j.known()
}

// stranger has no member id yet.
func (j *joinCall) stranger() int16 {
	g, req := j.g, j.req
	if req.InstanceID != nil {
		if old := g.static[*req.InstanceID]; old != nil {
			return j.takeOver(old)
		}
		return j.enter(g.m.newID(*req.InstanceID))
	}
	if code := j.room(); code != 0 {
		return code
	}
	id := g.m.newID(j.client.ID)
	if req.Version < 4 {
		return j.enter(id)
	}
	if len(g.pending) >= g.m.o.MaxPending {
		return kerr.GroupMaxSizeReached.Code
	}
	p := &pending{}
	p.timer = g.newTimer(func() { g.pendingEnds(id) })
	g.pending[id] = p
	g.weigh(&p.weight, pendingBytes+len(id))
	g.m.timers.set(p.timer, j.session)
	j.reply(joinRefused(req, kerr.MemberIDRequired.Code, id))
	return 0
}

// pendingEnds forgets an id that nobody used.
func (g *group) pendingEnds(id string) {
	if g.pending[id] == nil {
		return
	}
	g.dropPending(id)
	if g.state == Preparing {
		g.tryComplete()
	}
}

// room says whether one more member fits.
func (j *joinCall) room() int16 {
	g := j.g
	switch {
	case len(g.members)+len(g.pending) >= g.m.o.MaxMembers+g.m.o.MaxPending, len(g.members) >= g.m.o.MaxMembers:
		return kerr.GroupMaxSizeReached.Code
	case len(g.members) == 0 && g.m.full():
		g.m.o.Logger.Warn("kafka: too many consumer groups with members on this node", "limit", g.m.o.MaxGroups)
		return kerr.CoordinatorNotAvailable.Code
	}
	return g.fits(j.size(""))
}

// known has a member id: its own, or one that it was told.
func (j *joinCall) known() int16 {
	g, req := j.g, j.req
	if g.pending[req.MemberID] != nil && req.InstanceID == nil {
		g.dropPending(req.MemberID)
		return j.enter(req.MemberID)
	}
	m, code := g.find(req.MemberID, req.InstanceID)
	if code == 0 {
		code = j.fits(m)
	}
	if code != 0 {
		return code
	}
	same := sameProtocols(m.protocols, j.protocols)
	switch {
	case g.state == Completing && same:
		j.again(m) // the answer was lost
	case g.state == Stable && same && g.leader != m.id:
		j.again(m)
	default:
		j.update(m)
		j.wait(m)
		if g.state == Stable || g.state == Completing {
			g.prepare("a member joined again")
		} else {
			g.tryComplete()
		}
	}
	return 0
}

// enter makes a member of one that was none.
func (j *joinCall) enter(id string) int16 {
	g, req := j.g, j.req
	if code := j.room(); code != 0 {
		return code
	}
	m := &member{id: id, instance: req.InstanceID, fresh: true}
	j.update(m)
	g.add(m)
	j.wait(m)
	g.aliveFor(m, max(newMemberWait, m.session))
	g.newcomer = true
	switch g.state {
	case Empty, Stable, Completing:
		g.prepare("a member joined")
	default:
		g.tryComplete()
	}
	return 0
}

// update takes over what a request says of a member.
func (j *joinCall) update(m *member) {
	m.client, m.session, m.rebalance, m.protocols = j.client, j.session, j.rebalance, j.protocols
	j.g.weigh(&m.weight, m.size())
}

// wait parks the answer. A request that waits already is from a connection that was given up.
func (j *joinCall) wait(m *member) {
	m.answerJoin(j.g, kerr.RebalanceInProgress.Code)
	m.join, m.joinReq = j.reply, j.req
}

// again answers with the generation as it is.
func (j *joinCall) again(m *member) {
	j.update(m)
	j.g.alive(m)
	j.reply(j.g.joinAnswer(j.req, m))
}

// joinAnswer tells a member of the generation; the leader of its members, too.
func (g *group) joinAnswer(req *kmsg.JoinGroupRequest, m *member) *kmsg.JoinGroupResponse {
	resp := req.ResponseKind().(*kmsg.JoinGroupResponse)
	resp.Generation, resp.MemberID, resp.LeaderID = g.generation, m.id, g.leader
	resp.ProtocolType, resp.Protocol = kmsg.StringPtr(g.protocolType), kmsg.StringPtr(g.protocol)
	if m.id == g.leader {
		g.tellMembers(resp)
	}
	return resp
}

func (g *group) tellMembers(resp *kmsg.JoinGroupResponse) {
	for _, id := range g.order() {
		one := kmsg.NewJoinGroupResponseMember()
		one.MemberID, one.InstanceID, one.ProtocolMetadata = id, g.members[id].instance, g.members[id].metadata(g.protocol)
		resp.Members = append(resp.Members, one)
	}
}

// takeOver gives a static member's place to its new process, which does not know its id: whoever still has the old one is
// fenced. While the group is stable and says the same to the assignor nobody else notices (KIP-345).
func (j *joinCall) takeOver(old *member) int16 {
	g := j.g
	if code := j.fits(old); code != 0 {
		return code
	}
	m := &member{id: g.m.newID(*old.instance), instance: old.instance, assignment: old.assignment, number: old.number,
		synced: old.synced, protocols: old.protocols}
	m.timer = g.newTimer(func() { g.sessionEnds(m) })
	oldLeader := g.leader
	same := sameProtocols(old.protocols, j.protocols) || sameSubscription(g.protocolType, old.protocols, j.protocols)
	old.answerJoin(g, kerr.FencedInstanceID.Code)
	old.answerSync(g, kerr.FencedInstanceID.Code)
	g.m.timers.stop(old.timer)
	g.weigh(&old.weight, 0)
	delete(g.members, old.id)
	g.members[m.id], g.static[*m.instance] = m, m
	if oldLeader == old.id {
		g.leader = m.id
	}
	j.update(m)
	g.alive(m)
	if g.state != Stable || !same {
		j.wait(m)
		if g.state == Preparing {
			g.tryComplete()
		} else {
			g.prepare("a static member came back")
		}
		return 0
	}
	if code := g.save(); code != 0 {
		return code
	}
	resp := j.req.ResponseKind().(*kmsg.JoinGroupResponse)
	resp.Generation, resp.MemberID, resp.LeaderID = g.generation, m.id, oldLeader
	resp.ProtocolType, resp.Protocol = kmsg.StringPtr(g.protocolType), kmsg.StringPtr(g.protocol)
	// A leader that can not be told to skip the assignment is told that it is none.
	if g.leader == m.id && j.req.Version >= 9 {
		resp.LeaderID, resp.SkipAssignment = m.id, true
		g.tellMembers(resp)
	}
	j.reply(resp)
	return 0
}

// prepare opens the join window.
func (g *group) prepare(why string) {
	for _, m := range g.members {
		m.synced = false
		m.answerSync(g, kerr.RebalanceInProgress.Code)
	}
	g.m.o.Logger.Debug("kafka: a consumer group rebalances", "group", g.key.Group, "generation", g.generation, "why", why)
	fresh := g.state == Empty
	g.enter(Preparing)
	if g.fresh = fresh && g.m.o.JoinDelay > 0; g.fresh {
		most := g.rebalanceTimeout()
		delay := min(g.m.o.JoinDelay, most)
		g.left, g.newcomer = most-delay, false
		g.m.timers.set(g.phase, delay)
		return
	}
	g.m.timers.set(g.phase, g.rebalanceTimeout())
	g.tryComplete()
}

// tryComplete ends the join window when everybody is there.
func (g *group) tryComplete() {
	if g.state != Preparing || g.fresh && len(g.members) > 0 || len(g.pending) > 0 && len(g.members) > 0 {
		return
	}
	for _, m := range g.members {
		if m.join == nil {
			return
		}
	}
	g.complete()
}

// phaseEnds is the end of the join window, or of the wait for syncs.
func (g *group) phaseEnds() {
	switch g.state {
	case Preparing:
		if g.fresh && g.newcomer && g.left > 0 {
			delay := min(g.m.o.JoinDelay, g.left)
			g.left, g.newcomer = g.left-delay, false
			g.m.timers.set(g.phase, delay)
			return
		}
		g.complete()
	case Completing, Stable:
		if !g.unsynced() {
			return
		}
		for _, id := range g.order() {
			if m := g.members[id]; !m.synced {
				g.remove(m, kerr.UnknownMemberID.Code)
			}
		}
		g.prepare("not every member asked for its assignment")
	}
}

// unsynced says that a member has not asked for its assignment of this generation.
func (g *group) unsynced() bool {
	for _, m := range g.members {
		if !m.synced {
			return true
		}
	}
	return false
}

// complete begins the next generation with those who joined. Static members that did not stay in until their sessions end.
func (g *group) complete() {
	g.fresh = false
	for _, id := range g.order() {
		if m := g.members[id]; m.join == nil && m.instance == nil {
			g.remove(m, kerr.UnknownMemberID.Code)
		}
	}
	waiting := slices.DeleteFunc(g.order(), func(id string) bool { return g.members[id].join == nil })
	if len(g.members) > 0 && len(waiting) == 0 {
		g.m.timers.set(g.phase, g.rebalanceTimeout()) // only static members, and none of them is there
		return
	}
	if len(waiting) > 0 && g.members[g.leader].join == nil {
		g.leader = waiting[0]
	}
	if g.generation++; g.generation < 0 {
		g.generation = 1
	}
	if len(g.members) == 0 {
		g.m.timers.stop(g.phase)
		g.protocol, g.leader = "", ""
		g.enter(Empty)
		g.save()
		return
	}
	g.protocol = g.vote()
	g.enter(Completing)
	g.m.timers.set(g.phase, g.rebalanceTimeout())
	for _, id := range g.order() {
		m := g.members[id]
		m.fresh, m.synced = false, m.join == nil
		if m.join == nil {
			continue
		}
		g.alive(m)
		resp, reply := g.joinAnswer(m.joinReq, m), m.join
		m.join, m.joinReq = nil, nil
		reply(resp)
	}
}
