package groups

import (
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// consumerType is the protocol type of consumers; connectors and others have their own.
const consumerType = "consumer"

// classicMember is what a member of a KIP-848 group has that speaks the classic protocol, so that a group can change over
// one process at a time. Its generation is its member epoch; the coordinator is the leader.
type classicMember struct {
	session   time.Duration
	protocols []protocol
}

// subscription reads what a classic consumer says to an assignor.
func subscription(protocols []protocol) (meta kmsg.ConsumerMemberMetadata, ok bool) {
	if len(protocols) == 0 {
		return meta, false
	}
	return meta, readSafely(&meta, protocols[0].Metadata)
}

// sameSubscription tells whether a consumer with these protocols wants what it wanted: the same topics from the same
// assignors. What it owned before its process ended, and in which generation, is no difference.
func sameSubscription(typ string, a, b []protocol) bool {
	if typ != consumerType || len(a) != len(b) {
		return false
	}
	for i := range a {
		var x, y kmsg.ConsumerMemberMetadata
		if a[i].Name != b[i].Name || !readSafely(&x, a[i].Metadata) || !readSafely(&y, b[i].Metadata) ||
			!slices.Equal(slices.Sorted(slices.Values(x.Topics)), slices.Sorted(slices.Values(y.Topics))) {
			return false
		}
	}
	return true
}

// readSafely decodes bytes of strangers with codecs that are not ours.
func readSafely(into interface{ ReadFrom([]byte) error }, b []byte) (ok bool) {
	defer func() {
		if recover() != nil {
			ok = false
		}
	}()
	return into.ReadFrom(b) == nil
}

// classicSubscriptions are the topics of a classic group's members; all says that somebody's can not be read.
func (g *group) classicSubscriptions() (topics map[string]bool, all bool) {
	topics = map[string]bool{}
	for _, m := range g.members {
		meta, ok := subscription(m.protocols)
		all = all || !ok
		for _, t := range meta.Topics {
			topics[t] = true
		}
	}
	return topics, all
}

// upgrade makes a classic group with members one of KIP-848: what they have they keep. Members whose assignor says more than
// the consumer protocol does can not be taken over.
func (g *group) upgrade() int16 {
	clash := kerr.InconsistentGroupProtocol.Code
	if g.protocolType != consumerType || len(g.members) == 0 {
		return clash
	}
	c := newConsumer(g)
	c.epoch, c.targetEpoch = g.generation, g.generation
	defer c.unlessOf(g)
	for _, id := range g.order() {
		m := g.members[id]
		meta, ok := subscription(m.protocols)
		if !ok {
			return clash
		}
		var told kmsg.ConsumerMemberAssignment
		if len(m.assignment) > 0 && (!readSafely(&told, m.assignment) || len(told.UserData) > 0) {
			return clash
		}
		one := &cmember{id: id, instance: m.instance, client: m.client, rebalance: m.rebalance, state: atTarget, epoch: g.generation,
			topics: slices.Compact(slices.Sorted(slices.Values(meta.Topics))), assigned: assignment{}, revoking: assignment{},
			classic: &classicMember{session: m.session, protocols: m.protocols}}
		for _, t := range told.Topics {
			topic, found, err := c.topicNamed(t.Topic)
			if err != nil {
				return g.m.codeOf(g.key, err)
			}
			for _, n := range t.Partitions {
				if _, held := c.owners[partition{topic.ID, n}]; found && n >= 0 && n < topic.Width && !held {
					one.assigned.add(topic.ID, n)
					c.owners[partition{topic.ID, n}] = id
				}
			}
		}
		c.add(one)
		c.target[id] = one.assigned.join(nil)
		c.alive(one)
	}
	for _, id := range g.order() {
		m := g.members[id]
		m.answerJoin(g, kerr.RebalanceInProgress.Code)
		m.answerSync(g, kerr.RebalanceInProgress.Code)
	}
	g.stopTimers()
	for _, m := range g.members {
		g.weigh(&m.weight, 0)
	}
	for id := range g.pending {
		g.dropPending(id)
	}
	g.members, g.static = map[string]*member{}, map[string]*member{}
	g.consumer = c
	c.bump()
	return 0
}

// unlessOf lets go of members that were made for a group which did not become c: their timers would end sessions of nobody, and
// write the row of a group in whatever state that is.
func (c *consumer) unlessOf(g *group) {
	if g.consumer == c {
		return
	}
	c.stopTimers()
	for _, m := range c.members {
		g.weigh(&m.weight, 0)
	}
}

// toConsumer lets a member of the classic protocol into a KIP-848 group; code is the answer when it can not be.
func (j *joinCall) toConsumer(code int16) int16 {
	g, req := j.g, j.req
	c := g.consumer
	meta, ok := subscription(j.protocols)
	if req.ProtocolType != consumerType || !ok {
		return code
	}
	names := slices.Compact(slices.Sorted(slices.Values(meta.Topics)))
	was := 0
	if at := c.named(req.MemberID, req.InstanceID); at != nil {
		was = at.weight
	}
	if code := g.fits(weightOf(req.MemberID, req.InstanceID, j.client, saidBy(j.protocols)+saidInNames(names)) - was); code != 0 {
		return code
	}
	m, refused := j.consumerMember(c)
	if refused != 0 || m == nil {
		return refused
	}
	m.client, m.rebalance = j.client, j.rebalance
	m.classic = &classicMember{session: j.session, protocols: j.protocols}
	if !slices.Equal(names, m.topics) {
		m.topics, c.resolved = names, false
		c.bump()
	}
	g.weigh(&m.weight, m.size())
	c.alive(m)
	ctx, cancel := saveContext()
	defer cancel()
	if err := c.resolve(ctx); err != nil {
		return g.m.codeOf(g.key, err)
	}
	c.retarget()
	owned := assignment{}
	for _, t := range meta.OwnedPartitions {
		if topic, found := c.topics[t.Topic]; found {
			for _, n := range t.Partitions {
				owned.add(topic.ID, n)
			}
		}
	}
	c.reconcile(m, owned)
	if code := c.flush(); code != 0 {
		return code
	}
	resp := req.ResponseKind().(*kmsg.JoinGroupResponse)
	resp.Generation, resp.MemberID = m.epoch, m.id
	resp.ProtocolType, resp.Protocol = kmsg.StringPtr(consumerType), kmsg.StringPtr(j.protocols[0].Name)
	j.reply(resp)
	return 0
}

// consumerMember finds or makes the member that a JoinGroup is from; nil when it was answered.
func (j *joinCall) consumerMember(c *consumer) (*cmember, int16) {
	g, req := j.g, j.req
	if req.InstanceID != nil {
		if at := c.static[*req.InstanceID]; at != nil {
			switch {
			case req.MemberID == at.id:
				return at, 0
			case req.MemberID != "":
				return nil, kerr.FencedInstanceID.Code
			}
			m := c.replace(at, g.m.newID(*req.InstanceID))
			c.bump()
			return m, 0
		}
	}
	id := req.MemberID
	switch m := c.members[id]; {
	case m != nil:
		return m, 0
	case id != "" && g.pending[id] == nil, id != "" && req.InstanceID != nil:
		return nil, kerr.UnknownMemberID.Code
	case len(c.members) >= g.m.o.MaxMembers:
		return nil, kerr.GroupMaxSizeReached.Code
	case id == "" && req.InstanceID == nil && req.Version >= 4:
		return nil, j.stranger()
	case id == "":
		id = g.m.newID(j.client.ID)
	default:
		g.pendingEnds(id)
	}
	m := &cmember{id: id, instance: req.InstanceID, state: atTarget, assigned: assignment{}, revoking: assignment{}}
	c.add(m)
	c.bump()
	return m, 0
}

// named finds a member by its instance id, or by its id where it tells none; nil when there is none.
func (c *consumer) named(id string, instance *string) *cmember {
	if instance != nil {
		return c.static[*instance]
	}
	return c.members[id]
}

// classicOf is the member of a request of the classic protocol.
func (c *consumer) classicOf(id string, instance *string, generation int32) (*cmember, int16) {
	m := c.members[id]
	if instance != nil {
		at := c.static[*instance]
		if at != nil && at.id != id {
			return nil, kerr.FencedInstanceID.Code
		}
		m = at
	}
	switch {
	case m == nil || m.classic == nil:
		return nil, kerr.UnknownMemberID.Code
	case generation != m.epoch:
		return nil, kerr.IllegalGeneration.Code
	}
	return m, 0
}

// classicSync tells a member of the classic protocol what it has by now.
func (c *consumer) classicSync(req *kmsg.SyncGroupRequest, reply func(*kmsg.SyncGroupResponse)) {
	m, code := c.classicOf(req.MemberID, req.InstanceID, req.Generation)
	resp := syncAnswer(req, code)
	if code == 0 && (req.ProtocolType != nil && *req.ProtocolType != consumerType ||
		req.Protocol != nil && *req.Protocol != m.classic.protocols[0].Name) {
		resp.ErrorCode = kerr.InconsistentGroupProtocol.Code
	}
	if resp.ErrorCode == 0 {
		c.alive(m)
		ctx, cancel := saveContext()
		defer cancel()
		if err := c.resolve(ctx); err != nil {
			reply(syncAnswer(req, c.g.m.codeOf(c.g.key, err)))
			return
		}
		meta, _ := subscription(m.classic.protocols)
		told := kmsg.NewConsumerMemberAssignment()
		told.Version = meta.Version
		names := map[[16]byte]string{}
		for name, t := range c.topics {
			names[t.ID] = name
		}
		for _, id := range m.assigned.topics() {
			if names[id] != "" {
				t := kmsg.NewConsumerMemberAssignmentTopic()
				t.Topic, t.Partitions = names[id], m.assigned[id]
				told.Topics = append(told.Topics, t)
			}
		}
		resp.ProtocolType, resp.Protocol = kmsg.StringPtr(consumerType), kmsg.StringPtr(m.classic.protocols[0].Name)
		resp.MemberAssignment = told.AppendTo(nil)
	}
	reply(resp)
}

// classicHeartbeat tells a member of the classic protocol to join again when there is something new for it.
func (c *consumer) classicHeartbeat(req *kmsg.HeartbeatRequest) int16 {
	m, code := c.classicOf(req.MemberID, req.InstanceID, req.Generation)
	if code != 0 {
		return code
	}
	c.alive(m)
	ctx, cancel := saveContext()
	defer cancel()
	if err := c.resolve(ctx); err != nil {
		return c.g.m.codeOf(c.g.key, err)
	}
	c.retarget()
	if code := c.flush(); code != 0 {
		return code
	}
	if m.epoch < c.epoch || m.state == unrevoked || m.state == unreleased && c.released(m) {
		return kerr.RebalanceInProgress.Code
	}
	return 0
}

// released tells whether a partition that a member waits for is free by now.
func (c *consumer) released(m *cmember) bool {
	_, missing := c.target[m.id].split(m.assigned)
	for id, list := range missing {
		for _, n := range list {
			if _, held := c.owners[partition{id, n}]; !held {
				return true
			}
		}
	}
	return false
}

// classicLeave removes a member that a LeaveGroup names; whoever calls ends with left.
func (c *consumer) classicLeave(l *kmsg.LeaveGroupRequestMember) int16 {
	m := c.members[l.MemberID]
	if l.InstanceID != nil {
		if m = c.static[*l.InstanceID]; m != nil && l.MemberID != "" && m.id != l.MemberID {
			return kerr.FencedInstanceID.Code
		}
	}
	if m == nil {
		if c.g.pending[l.MemberID] != nil {
			c.g.pendingEnds(l.MemberID)
			return 0
		}
		return kerr.UnknownMemberID.Code
	}
	c.remove(m)
	return 0
}
