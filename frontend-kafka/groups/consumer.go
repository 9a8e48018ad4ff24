package groups

import (
	"cmp"
	"context"
	"regexp"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Epochs by which a member says that it goes: for good, or a static one for a while.
const (
	epochLeave       = -1
	epochLeaveStatic = -2
)

// consumer is a group of KIP-848: the coordinator assigns partitions, and moves every member towards its target on its own.
//
// INVARIANT: a partition is in assigned or revoking of at most one member, its owner (TestConsumerRandom).
type consumer struct {
	g *group
	// epoch rises with every change of members, subscriptions or topics; target was made at targetEpoch.
	epoch, targetEpoch int32
	target             map[string]assignment
	members            map[string]*cmember
	static             map[string]*cmember
	owners             map[partition]string

	// topics are those subscribed to, as of generation; hash is theirs, and outlives a restart.
	topics     map[string]Topic
	generation uint64
	resolved   bool
	// restUntil is until when a look at all topics is not repeated, monotonic microseconds.
	restUntil int64
	hash      uint64
	dirty     bool
}

type partition struct {
	topic [16]byte
	n     int32
}

// assignment is a set of partitions; the lists ascend and are never empty.
type assignment map[[16]byte][]int32

// memberState is where a member of KIP-848 is on its way to its target.
type memberState string

const (
	atTarget   memberState = "stable"
	unrevoked  memberState = "unrevoked"  // it has to let go of partitions first
	unreleased memberState = "unreleased" // others have to
)

// cmember is a member of a KIP-848 group.
type cmember struct {
	id, rack string
	instance *string
	client   Client
	topics   []string // sorted
	regex    string
	compiled *regexp.Regexp
	// compiledBytes is about what that takes.
	compiledBytes int
	weight        int
	matched       []string // topics subscribed to, by name or regex, that are there; sorted
	assignor      string
	rebalance     time.Duration

	epoch, previous    int32
	state              memberState
	assigned, revoking assignment

	deadline int64
	timer    *timer
	// overdue fires when the member did not let go of partitions in its rebalance timeout.
	overdue *timer
	// classic is set for one that speaks the classic protocol.
	classic *classicMember
}

func newConsumer(g *group) *consumer {
	return &consumer{g: g, target: map[string]assignment{}, members: map[string]*cmember{}, static: map[string]*cmember{},
		owners: map[partition]string{}}
}

func (c *consumer) size() int {
	if c == nil {
		return 0
	}
	return len(c.members)
}

func (c *consumer) stopTimers() {
	for _, m := range c.members {
		c.g.m.timers.stop(m.timer)
		c.g.m.timers.stop(m.overdue)
	}
}

// bump makes the target out of date.
func (c *consumer) bump() {
	c.epoch++
	c.dirty = true
}

// ConsumerHeartbeat answers a ConsumerGroupHeartbeat.
func (m *Manager) ConsumerHeartbeat(ctx context.Context, k Key, client Client, req *kmsg.ConsumerGroupHeartbeatRequest) *kmsg.ConsumerGroupHeartbeatResponse {
	h := heartbeat{ctx: ctx, client: client, req: req, resp: req.ResponseKind().(*kmsg.ConsumerGroupHeartbeatResponse)}
	h.resp.MemberID, h.resp.MemberEpoch = kmsg.StringPtr(req.MemberID), req.MemberEpoch
	_, interval := m.consumerTimes(k)
	h.resp.HeartbeatIntervalMillis = int32(interval.Milliseconds())
	if code, why := h.check(); code != 0 {
		h.refuse(code, why)
		return h.resp
	}
	err := m.with(ctx, k, func(g *group) {
		code := g.toConsumer(req)
		if code != 0 {
			h.refuse(code, "")
			return
		}
		h.c = g.consumer
		if code, why := h.run(); code != 0 {
			h.refuse(code, why)
		}
		if code := g.consumer.flush(); code != 0 {
			h.refuse(code, "")
		}
	})
	if err != nil {
		h.refuse(m.codeOf(k, err), "")
	}
	return h.resp
}

// flush writes what changed.
func (c *consumer) flush() int16 {
	if !c.dirty || c.g.gone {
		return 0
	}
	c.dirty = false
	return c.g.save()
}

// toConsumer makes the group one of KIP-848 if it may become one.
func (g *group) toConsumer(req *kmsg.ConsumerGroupHeartbeatRequest) int16 {
	switch {
	case g.consumer != nil:
		return 0
	case req.MemberEpoch != 0:
		if len(g.members) == 0 {
			return kerr.GroupIDNotFound.Code
		}
		return kerr.UnknownMemberID.Code
	case len(g.members)+len(g.pending) > 0:
		return g.upgrade()
	case g.m.full():
		return kerr.CoordinatorNotAvailable.Code
	}
	c := newConsumer(g)
	c.epoch, c.targetEpoch = g.generation, g.generation
	g.consumer = c
	return 0
}

// downgrade makes the group a classic one if nobody is in it.
func (g *group) downgrade() int16 {
	if g.consumer.size() > 0 {
		return kerr.InconsistentGroupProtocol.Code
	}
	g.generation, g.consumer = g.consumer.epoch, nil
	g.enter(Empty)
	return 0
}

// heartbeat is one ConsumerGroupHeartbeat.
type heartbeat struct {
	ctx    context.Context
	client Client
	req    *kmsg.ConsumerGroupHeartbeatRequest
	resp   *kmsg.ConsumerGroupHeartbeatResponse
	c      *consumer
}

// refuse tells nothing of the member, as Kafka does.
func (h *heartbeat) refuse(code int16, why string) {
	h.resp.ErrorCode, h.resp.Assignment, h.resp.MemberID, h.resp.MemberEpoch = code, nil, nil, 0
	if why != "" {
		h.resp.ErrorMessage = &why
	}
}

// check refuses what makes no sense whatever the group.
func (h *heartbeat) check() (int16, string) {
	req, bad := h.req, kerr.InvalidRequest.Code
	switch {
	case req.Group == "":
		return bad, "the group id is empty"
	case len(req.Group) > groupNameMax:
		return kerr.InvalidGroupID.Code, "the group id is longer than 255 bytes"
	case saidInNames(req.SubscribedTopicNames) > sayMax:
		return bad, "the subscribed topics are more than 512 KiB of names"
	case req.SubscribedTopicRegex != nil && len(*req.SubscribedTopicRegex) > regexMax:
		return kerr.InvalidRegularExpression.Code, "a regular expression is at most 4096 bytes"
	case req.MemberEpoch < epochLeaveStatic:
		return bad, "there is no such member epoch"
	case req.MemberID == "" && (req.Version >= 1 || req.MemberEpoch != 0):
		return bad, "the member id is empty"
	case !isID(req.MemberID) || req.InstanceID != nil && (*req.InstanceID == "" || !isID(*req.InstanceID)):
		return bad, "member and instance ids are 1 to 1024 bytes of UTF-8"
	case req.RackID != nil && (*req.RackID == "" || len(*req.RackID) > textMax):
		return bad, "the rack id is 1 to 1024 bytes"
	case req.ServerAssignor != nil && assignors[*req.ServerAssignor] == nil:
		return kerr.UnsupportedAssignor.Code, "there are the assignors uniform and range"
	}
	if req.MemberEpoch != 0 {
		return 0, ""
	}
	switch {
	case req.RebalanceTimeoutMillis < 0:
		return bad, "a member that joins tells its rebalance timeout"
	case req.Topics == nil || len(req.Topics) > 0:
		return bad, "a member that joins owns no partitions"
	case req.SubscribedTopicNames == nil && req.SubscribedTopicRegex == nil:
		return bad, "a member that joins tells its subscription"
	}
	return 0, ""
}

func (h *heartbeat) run() (int16, string) {
	if h.req.MemberEpoch < 0 {
		return h.leave()
	}
	m, code := h.member()
	if code != 0 {
		return code, ""
	}
	if code, why := h.subscribe(m); code != 0 {
		if len(m.topics) == 0 && m.regex == "" && m.epoch == 0 {
			h.c.remove(m)
		}
		return code, why
	}
	h.c.alive(m)
	if err := h.c.resolve(h.ctx); err != nil {
		return h.c.g.m.codeOf(h.c.g.key, err), ""
	}
	h.c.retarget()
	before := m.assigned
	h.c.reconcile(m, ownedOf(h.req))
	h.resp.MemberID, h.resp.MemberEpoch = &m.id, m.epoch
	full := h.req.RebalanceTimeoutMillis >= 0 && h.req.Topics != nil && (h.req.SubscribedTopicNames != nil || h.req.SubscribedTopicRegex != nil)
	if h.req.MemberEpoch == 0 || full || !before.equal(m.assigned) || h.req.MemberEpoch < m.epoch && h.req.MemberEpoch == m.previous {
		h.resp.Assignment = h.c.tell(m.assigned)
	}
	return 0, ""
}

// tell is an assignment as a heartbeat's answer has it.
func (c *consumer) tell(a assignment) *kmsg.ConsumerGroupHeartbeatResponseAssignment {
	out := kmsg.NewConsumerGroupHeartbeatResponseAssignment()
	for _, id := range a.topics() {
		t := kmsg.NewConsumerGroupHeartbeatResponseAssignmentTopic()
		t.TopicID, t.Partitions = id, a[id]
		out.Topics = append(out.Topics, t)
	}
	return &out
}

// ownedOf is what a member says that it owns; nil when it does not say.
func ownedOf(req *kmsg.ConsumerGroupHeartbeatRequest) assignment {
	if req.Topics == nil {
		return nil
	}
	a := assignment{}
	for _, t := range req.Topics {
		for _, p := range t.Partitions {
			a.add(t.TopicID, p)
		}
	}
	return a
}

// member finds or makes the member that speaks.
func (h *heartbeat) member() (*cmember, int16) {
	c, req := h.c, h.req
	if req.MemberEpoch == 0 {
		return h.join()
	}
	if req.InstanceID != nil {
		at := c.static[*req.InstanceID]
		switch {
		case at == nil:
			return nil, kerr.UnknownMemberID.Code
		case at.id != req.MemberID:
			return nil, kerr.FencedInstanceID.Code
		}
	}
	m := c.members[req.MemberID]
	switch {
	case m == nil:
		return nil, kerr.UnknownMemberID.Code
	case req.MemberEpoch == m.epoch:
	case req.MemberEpoch == m.previous && req.MemberEpoch < m.epoch && ownedOf(req).within(m.assigned):
		// The answer was lost.
	default:
		return nil, kerr.FencedMemberEpoch.Code
	}
	return m, 0
}

func (h *heartbeat) join() (*cmember, int16) {
	c, req := h.c, h.req
	id := req.MemberID
	if id == "" {
		id = c.g.m.newID("")
	}
	if req.InstanceID != nil {
		at := c.static[*req.InstanceID]
		switch {
		case at == nil, at.id == id:
		case at.epoch != epochLeaveStatic:
			return nil, kerr.UnreleasedInstanceID.Code
		default:
			return c.replace(at, id), 0
		}
	}
	m := c.members[id]
	if m == nil {
		if len(c.members) >= c.g.m.o.MaxMembers {
			return nil, kerr.GroupMaxSizeReached.Code
		}
		if code := c.g.fits(weightOf(id, req.InstanceID, h.client, saidInNames(req.SubscribedTopicNames))); code != 0 {
			return nil, code
		}
		m = &cmember{id: id, instance: req.InstanceID, state: atTarget, assigned: assignment{}, revoking: assignment{}}
		c.add(m)
		c.bump()
		return m, 0
	}
	if m.epoch != 0 && !(m.previous == 0 && m.state == atTarget && m.epoch == c.targetEpoch) {
		// It begins anew and owns nothing.
		c.hold(m, assignment{}, assignment{})
		m.epoch, m.previous, m.state = 0, 0, atTarget
		c.dirty = true
	}
	return m, 0
}

func (c *consumer) add(m *cmember) {
	m.timer = c.g.newTimer(func() { c.sessionEnds(m) })
	m.overdue = c.g.newTimer(func() { c.late(m) })
	c.members[m.id] = m
	c.g.weigh(&m.weight, m.size())
	if m.instance != nil {
		c.static[*m.instance] = m
	}
}

// replace gives the place of a static member that went for a while to its next process.
func (c *consumer) replace(old *cmember, id string) *cmember {
	m := &cmember{id: id, instance: old.instance, topics: old.topics, regex: old.regex, compiled: old.compiled,
		compiledBytes: old.compiledBytes, matched: old.matched, assignor: old.assignor, rebalance: old.rebalance, state: atTarget,
		assigned: assignment{}, revoking: assignment{}}
	target := c.target[old.id]
	c.drop(old)
	c.add(m)
	c.target[id] = target
	c.dirty = true
	return m
}

// drop takes a member out; the target is as it was.
func (c *consumer) drop(m *cmember) {
	c.hold(m, assignment{}, assignment{})
	c.g.m.timers.stop(m.timer)
	c.g.m.timers.stop(m.overdue)
	c.g.weigh(&m.weight, 0)
	delete(c.members, m.id)
	delete(c.target, m.id)
	if m.instance != nil && c.static[*m.instance] == m {
		delete(c.static, *m.instance)
	}
	c.dirty = true
}

// remove takes a member out for good.
func (c *consumer) remove(m *cmember) {
	c.drop(m)
	c.bump()
}

// leave lets a member go: for good, or a static one until its next process comes. franz-go names only its member id.
func (h *heartbeat) leave() (int16, string) {
	c, req := h.c, h.req
	m := c.members[req.MemberID]
	if req.InstanceID != nil {
		at := c.static[*req.InstanceID]
		switch {
		case at == nil:
			return kerr.UnknownMemberID.Code, ""
		case at.id != req.MemberID:
			return kerr.FencedInstanceID.Code, ""
		}
	}
	switch {
	case m == nil:
		return kerr.UnknownMemberID.Code, ""
	case req.MemberEpoch == epochLeave:
		c.remove(m)
		return 0, ""
	case m.instance == nil:
		return kerr.InvalidRequest.Code, "only static members leave for a while"
	}
	// What it had to let go of it has let go of.
	c.hold(m, m.assigned, assignment{})
	m.epoch, m.state = epochLeaveStatic, atTarget
	c.g.m.timers.stop(m.overdue)
	c.alive(m)
	c.dirty = true
	return 0, ""
}

// subscribe takes over what a request says of the member; fields that are absent are as they were.
func (h *heartbeat) subscribe(m *cmember) (int16, string) {
	req, next := h.req, *m
	next.client = h.client
	if req.RebalanceTimeoutMillis >= 0 {
		next.rebalance = min(max(time.Duration(req.RebalanceTimeoutMillis)*time.Millisecond, time.Millisecond), rebalanceMax)
	}
	if req.RackID != nil {
		next.rack = *req.RackID
	}
	changed := false
	if req.ServerAssignor != nil && m.assignor != *req.ServerAssignor {
		next.assignor, changed = *req.ServerAssignor, true
	}
	if req.SubscribedTopicRegex != nil && *req.SubscribedTopicRegex != m.regex {
		if why := next.match(*req.SubscribedTopicRegex); why != "" {
			return kerr.InvalidRegularExpression.Code, why
		}
		changed = true
	}
	if req.SubscribedTopicNames != nil {
		names := slices.Compact(slices.Sorted(slices.Values(req.SubscribedTopicNames)))
		if !slices.Equal(names, m.topics) {
			next.topics, changed = names, true
		}
	}
	if changed || next.client != m.client || next.rack != m.rack {
		if code := h.c.g.fits(next.size() - m.weight); code != 0 {
			return code, "the coordinator has no room for what its members say"
		}
		h.c.g.weigh(&next.weight, next.size())
	}
	if *m = next; changed {
		h.c.resolved = false
		h.c.bump()
	}
	return 0, ""
}

func (c *consumer) alive(m *cmember) {
	d, _ := c.g.m.consumerTimes(c.g.key)
	if m.classic != nil {
		d = m.classic.session
	}
	m.deadline = c.g.m.o.Clock.Mono() + d.Microseconds()
	c.g.m.timers.notAfter(m.timer, m.deadline)
}

func (c *consumer) sessionEnds(m *cmember) {
	if c.members[m.id] != m {
		return
	}
	now := c.g.m.o.Clock.Mono()
	switch late := time.Duration(now-m.deadline) * time.Microsecond; {
	case late < 0:
		c.g.m.timers.setAt(m.timer, m.deadline)
		return
	case late > lateFrom:
		session, _ := c.g.m.consumerTimes(c.g.key)
		m.deadline = now + min(late, session).Microseconds()
		c.g.m.timers.setAt(m.timer, m.deadline)
		return
	}
	c.g.m.o.Logger.Info("kafka: a member of a consumer group did not give a sign of life", "group", c.g.key.Group, "member", m.id)
	c.remove(m)
	c.left()
}

// late removes a member that did not let go of partitions in time.
func (c *consumer) late(m *cmember) {
	if c.members[m.id] != m || m.state != unrevoked {
		return
	}
	c.g.m.o.Logger.Warn("kafka: a member of a consumer group did not revoke partitions in time", "group", c.g.key.Group, "member", m.id)
	c.remove(m)
	c.left()
}

// left ends the removal of members: nobody asked, so nobody is told when the row can not be written.
func (c *consumer) left() {
	c.retarget()
	c.flush()
}

// current judges the epoch that a member names.
func (c *consumer) current(id string, epoch int32) int16 {
	m := c.members[id]
	switch {
	case m == nil:
		return kerr.UnknownMemberID.Code
	case epoch != m.epoch && m.classic != nil:
		return kerr.IllegalGeneration.Code
	case epoch != m.epoch:
		return kerr.StaleMemberEpoch.Code
	}
	return 0
}

func (c *consumer) mayCommit(who *Committer) int16 {
	if who.Instance != nil {
		if at := c.static[*who.Instance]; at != nil && at.id != who.Member {
			return kerr.FencedInstanceID.Code
		}
	}
	// As Kafka 4 has it, also for an epoch that is the member's: the version has no word for one that is not. Members of the
	// classic protocol tell a generation in every version.
	if m := c.members[who.Member]; m != nil && m.classic == nil && who.NoEpochs {
		return kerr.UnsupportedVersion.Code
	}
	return c.current(who.Member, who.Generation)
}

// subscriptions are the topics that members are subscribed to.
func (c *consumer) subscriptions() map[string]bool {
	topics := map[string]bool{}
	for _, m := range c.members {
		for _, t := range m.matched {
			topics[t] = true
		}
		for _, t := range m.topics {
			topics[t] = true
		}
	}
	return topics
}

// ids lists members by id.
func (c *consumer) ids() []string {
	ids := make([]string, 0, len(c.members))
	for id := range c.members {
		ids = append(ids, id)
	}
	slices.SortFunc(ids, cmp.Compare[string])
	return ids
}
