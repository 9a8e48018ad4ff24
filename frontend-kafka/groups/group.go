package groups

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"queen/engine/format"
)

// State is where a classic group is. The names are Kafka's.
type State string

// States of classic groups.
const (
	Empty      State = "Empty"
	Preparing  State = "PreparingRebalance"
	Completing State = "CompletingRebalance"
	Stable     State = "Stable"
	Dead       State = "Dead"
)

// group is one consumer group in memory. Everything is guarded by mu, which is held across the writing of its row.
type group struct {
	m   *Manager
	key Key
	// lane is where timers of the group are called.
	lane lane
	mu   sync.Mutex
	// gone groups are not in the manager's map any more: whoever finds one looks again.
	gone, loaded bool
	// row is the place of the row as last written, zero while there is none.
	row format.Place
	// weight is the sum of those of its parts, bytes.
	weight int

	// consumer is the state of KIP-848; nil of a classic group, whose state is below.
	consumer *consumer

	state        State
	generation   int32
	protocolType string
	protocol     string
	leader       string // member id
	members      map[string]*member
	static       map[string]*member  // by instance id
	pending      map[string]*pending // member ids that were told and not used yet
	joined       uint64              // numbers members in the order they came
	since        int64               // wall microseconds of the last change of state
	phase        *timer              // end of the join window, or of the wait for syncs
	fresh        bool                // the join window of an empty group, which only its timer ends
	left         time.Duration       // how much longer it may be drawn out
	newcomer     bool                // somebody joined in this round of it
}

// pending is a member id that was told (KIP-394).
type pending struct {
	timer  *timer
	weight int
}

// protocol is an assignor that a member supports, with what it says to it.
type protocol struct {
	Name     string
	Metadata []byte
}

// member of a classic group.
type member struct {
	id         string
	instance   *string
	client     Client
	session    time.Duration
	rebalance  time.Duration
	protocols  []protocol
	assignment []byte
	weight     int
	number     uint64
	// fresh members have not been in a generation yet.
	fresh bool
	// deadline is when the session ends; timer looks at it.
	deadline int64
	timer    *timer
	// join and sync answer a request that waits.
	join    func(*kmsg.JoinGroupResponse)
	joinReq *kmsg.JoinGroupRequest
	sync    func(*kmsg.SyncGroupResponse)
	syncReq *kmsg.SyncGroupRequest
	synced  bool
}

func (g *group) reset() {
	g.state, g.generation, g.protocolType, g.protocol, g.leader = Empty, 0, "", "", ""
	g.consumer = nil
	g.members, g.static, g.pending = map[string]*member{}, map[string]*member{}, map[string]*pending{}
	g.row = format.Place{}
	g.since = g.m.o.Clock.Now()
	if g.phase == nil {
		g.phase = g.newTimer(g.phaseEnds)
	}
}

func (g *group) enter(s State) {
	g.state, g.since = s, g.m.o.Clock.Now()
}

// order lists member ids in the order their members came.
func (g *group) order() []string {
	ids := make([]string, 0, len(g.members))
	for id := range g.members {
		ids = append(ids, id)
	}
	slices.SortFunc(ids, func(a, b string) int { return cmp.Compare(g.members[a].number, g.members[b].number) })
	return ids
}

// add takes a member in.
func (g *group) add(m *member) {
	g.joined++
	m.number = g.joined
	m.timer = g.newTimer(func() { g.sessionEnds(m) })
	g.members[m.id] = m
	g.weigh(&m.weight, m.size())
	if m.instance != nil {
		g.static[*m.instance] = m
	}
	if g.leader == "" {
		g.leader = m.id
	}
}

// remove takes a member out, answering what it waits for with code.
func (g *group) remove(m *member, code int16) {
	m.answerJoin(g, code)
	m.answerSync(g, code)
	g.m.timers.stop(m.timer)
	g.weigh(&m.weight, 0)
	delete(g.members, m.id)
	if m.instance != nil && g.static[*m.instance] == m {
		delete(g.static, *m.instance)
	}
	if g.leader == m.id {
		g.leader = ""
		if ids := g.order(); len(ids) > 0 {
			g.leader = ids[0]
		}
	}
}

func (g *group) stopTimers() {
	if g.phase != nil {
		g.m.timers.stop(g.phase)
	}
	for _, m := range g.members {
		g.m.timers.stop(m.timer)
	}
	for _, p := range g.pending {
		g.m.timers.stop(p.timer)
	}
	if g.consumer != nil {
		g.consumer.stopTimers()
	}
}

// alive starts a member's session anew.
func (g *group) alive(m *member) { g.aliveFor(m, m.session) }

func (g *group) aliveFor(m *member, d time.Duration) {
	m.deadline = g.m.o.Clock.Mono() + d.Microseconds()
	g.m.timers.notAfter(m.timer, m.deadline)
}

// sessionEnds looks whether a member is to be given up. One that waits for an answer is alive, unless it is new: then
// nobody knows whether it is still there.
func (g *group) sessionEnds(m *member) {
	if g.members[m.id] != m {
		return
	}
	now := g.m.o.Clock.Mono()
	switch late := time.Duration(now-m.deadline) * time.Microsecond; {
	case late < 0:
		g.m.timers.setAt(m.timer, m.deadline)
		return
	case late > lateFrom:
		g.aliveFor(m, min(late, m.session))
		return
	}
	if !m.fresh && (m.join != nil || m.sync != nil) {
		g.alive(m)
		return
	}
	g.m.o.Logger.Info("kafka: a member of a consumer group did not give a sign of life", "group", g.key.Group, "member", m.id)
	g.leave(m, kerr.UnknownMemberID.Code)
}

// lateFrom is from when a timer that fires late says that this process stood still, or waited for its disk: signs of life
// may wait to be read, and members get that time once more.
const lateFrom = time.Second

// leave removes a member and has the others share what it had.
func (g *group) leave(m *member, code int16) {
	g.remove(m, code)
	switch g.state {
	case Stable, Completing:
		g.prepare("a member left")
	case Preparing:
		g.tryComplete()
	}
}

// rebalanceTimeout is the longest of the members'.
func (g *group) rebalanceTimeout() time.Duration {
	d := time.Duration(0)
	for _, m := range g.members {
		d = max(d, m.rebalance)
	}
	return d
}

// metadata is what a member says to an assignor.
func (m *member) metadata(protocol string) []byte {
	for _, p := range m.protocols {
		if p.Name == protocol {
			return p.Metadata
		}
	}
	return nil
}

func sameProtocols(a, b []protocol) bool {
	return slices.EqualFunc(a, b, func(x, y protocol) bool { return x.Name == y.Name && string(x.Metadata) == string(y.Metadata) })
}

// common lists the assignors that every member supports but skip, in the order of the first of them.
func (g *group) common(skip *member) (names []string, any bool) {
	for _, id := range g.order() {
		m := g.members[id]
		if m == skip {
			continue
		}
		if !any {
			for _, p := range m.protocols {
				names = append(names, p.Name)
			}
			any = true
			continue
		}
		names = slices.DeleteFunc(names, func(name string) bool {
			return !slices.ContainsFunc(m.protocols, func(p protocol) bool { return p.Name == name })
		})
	}
	return names, any
}

// supports tells whether a member with these assignors fits beside the others.
func (g *group) supports(typ string, protocols []protocol, skip *member) bool {
	if typ == "" || len(protocols) == 0 {
		return false
	}
	names, any := g.common(skip)
	if !any {
		return true
	}
	return typ == g.protocolType && slices.ContainsFunc(protocols, func(p protocol) bool { return slices.Contains(names, p.Name) })
}

// vote picks the assignor of the next generation: each member is for the first of its own that all support.
func (g *group) vote() string {
	names, _ := g.common(nil)
	votes := map[string]int{}
	for _, m := range g.members {
		for _, p := range m.protocols {
			if slices.Contains(names, p.Name) {
				votes[p.Name]++
				break
			}
		}
	}
	best := ""
	for _, name := range names {
		if best == "" || votes[name] > votes[best] {
			best = name
		}
	}
	return best
}

// answerJoin answers a join that waits with a code.
func (m *member) answerJoin(g *group, code int16) {
	if m.join == nil {
		return
	}
	resp := joinRefused(m.joinReq, code, m.id)
	reply := m.join
	m.join, m.joinReq = nil, nil
	reply(resp)
}

// answerSync answers a sync that waits: with the assignment, or a code.
func (m *member) answerSync(g *group, code int16) {
	if m.sync == nil {
		return
	}
	resp := syncAnswer(m.syncReq, code)
	if code == 0 {
		resp.MemberAssignment = m.assignment
		resp.ProtocolType, resp.Protocol = kmsg.StringPtr(g.protocolType), kmsg.StringPtr(g.protocol)
	}
	reply := m.sync
	m.sync, m.syncReq = nil, nil
	reply(resp)
}

func joinRefused(req *kmsg.JoinGroupRequest, code int16, memberID string) *kmsg.JoinGroupResponse {
	resp := req.ResponseKind().(*kmsg.JoinGroupResponse)
	resp.ErrorCode, resp.Generation, resp.MemberID = code, -1, memberID
	return resp
}

func syncAnswer(req *kmsg.SyncGroupRequest, code int16) *kmsg.SyncGroupResponse {
	resp := req.ResponseKind().(*kmsg.SyncGroupResponse)
	resp.ErrorCode = code
	return resp
}

// find is the member of a request that names one, with the code where it may not speak: an unknown id, or an instance id
// that another member has by now.
func (g *group) find(id string, instance *string) (*member, int16) {
	if instance != nil {
		m := g.static[*instance]
		switch {
		case m == nil:
			return nil, kerr.UnknownMemberID.Code
		case m.id != id:
			return nil, kerr.FencedInstanceID.Code
		}
		return m, 0
	}
	m := g.members[id]
	if m == nil {
		return nil, kerr.UnknownMemberID.Code
	}
	return m, 0
}
