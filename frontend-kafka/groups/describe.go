package groups

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"

	"queen/engine/format"
)

// Info is what a listing says of a group.
type Info struct {
	Type         string // classic or consumer
	ProtocolType string
	State        string
}

// InfoOf reads what a row says of a group that is not in memory.
func InfoOf(row []byte) Info {
	r, err := parseRow(row)
	if err != nil {
		return Info{Type: "classic", State: string(Dead)}
	}
	in := Info{Type: "classic", ProtocolType: r.ProtocolType, State: string(Empty)}
	if r.Consumer {
		in.Type = "consumer"
	}
	if len(r.Members) > 0 {
		in.State = string(Stable)
	}
	return in
}

// Live lists the groups of a tenant that are in memory: what they say counts, whatever their rows do.
func (m *Manager) Live(t format.Tenant) map[string]Info {
	m.mu.Lock()
	var all []*group
	for k, g := range m.groups {
		if k.Tenant == t {
			all = append(all, g)
		}
	}
	m.mu.Unlock()
	out := map[string]Info{}
	for _, g := range all {
		g.mu.Lock()
		if !g.gone && g.loaded {
			out[g.key.Group] = g.info()
		}
		g.mu.Unlock()
	}
	return out
}

func (g *group) info() Info {
	if g.consumer != nil {
		return Info{Type: "consumer", ProtocolType: consumerType, State: g.consumer.stateName()}
	}
	return Info{Type: "classic", ProtocolType: g.protocolType, State: string(g.state)}
}

// stateName is where a KIP-848 group is.
func (c *consumer) stateName() string {
	switch {
	case len(c.members) == 0:
		return "Empty"
	case c.epoch != c.targetEpoch:
		return "Assigning"
	}
	for _, m := range c.members {
		if m.epoch != epochLeaveStatic && (m.epoch != c.targetEpoch || m.state != atTarget) {
			return "Reconciling"
		}
	}
	return "Stable"
}

// Describe fills in what DescribeGroups says of a group; false when there is neither a row nor a member.
func (m *Manager) Describe(ctx context.Context, k Key, out *kmsg.DescribeGroupsResponseGroup) (found bool, code int16) {
	if code := checkName(k.Group); code != 0 {
		return false, code
	}
	err := m.with(ctx, k, func(g *group) {
		found = g.row != (format.Place{}) || len(g.members) > 0 || g.consumer.size() > 0
		in := g.info()
		out.State, out.ProtocolType = in.State, in.ProtocolType
		if g.consumer != nil {
			_ = g.consumer.resolve(ctx) // names of topics; what can not be found is left out
			g.consumer.describeClassic(out)
			return
		}
		if g.state == Stable {
			out.Protocol = g.protocol
		}
		for _, id := range g.order() {
			one := kmsg.NewDescribeGroupsResponseGroupMember()
			from := g.members[id]
			one.MemberID, one.InstanceID, one.ClientID, one.ClientHost = id, from.instance, from.client.ID, from.client.Host
			if g.state == Stable {
				one.ProtocolMetadata, one.MemberAssignment = from.metadata(g.protocol), from.assignment
			}
			out.Members = append(out.Members, one)
		}
	})
	if err != nil {
		return false, m.codeOf(k, err)
	}
	return found, 0
}

// describeClassic tells clients that do not know KIP-848 who is in such a group.
func (c *consumer) describeClassic(out *kmsg.DescribeGroupsResponseGroup) {
	out.Protocol = defaultAssignor
	names := map[[16]byte]string{}
	for name, t := range c.topics {
		names[t.ID] = name
	}
	for _, id := range c.ids() {
		m := c.members[id]
		one := kmsg.NewDescribeGroupsResponseGroupMember()
		one.MemberID, one.InstanceID, one.ClientID, one.ClientHost = id, m.instance, m.client.ID, m.client.Host
		told := kmsg.NewConsumerMemberAssignment()
		for _, topic := range m.assigned.topics() {
			t := kmsg.NewConsumerMemberAssignmentTopic()
			t.Topic, t.Partitions = names[topic], m.assigned[topic]
			told.Topics = append(told.Topics, t)
		}
		one.MemberAssignment = told.AppendTo(nil)
		out.Members = append(out.Members, one)
	}
}

// DescribeConsumer fills in what ConsumerGroupDescribe says of a group; false when it is not one of KIP-848. nameOf finds
// the name of a topic.
func (m *Manager) DescribeConsumer(ctx context.Context, k Key, nameOf func(id [16]byte) string,
	out *kmsg.ConsumerGroupDescribeResponseGroup,
) (found bool, code int16) {
	if code := checkName(k.Group); code != 0 {
		return false, code
	}
	err := m.with(ctx, k, func(g *group) {
		c := g.consumer
		if found = c != nil && (g.row != (format.Place{}) || len(c.members) > 0); !found {
			return
		}
		out.State, out.Epoch, out.AssignmentEpoch, out.AssignorName = c.stateName(), c.epoch, c.targetEpoch, c.assignorName()
		for _, id := range c.ids() {
			from := c.members[id]
			one := kmsg.NewConsumerGroupDescribeResponseGroupMember()
			one.MemberID, one.InstanceID, one.MemberEpoch = id, from.instance, from.epoch
			one.ClientID, one.ClientHost, one.SubscribedTopics = from.client.ID, from.client.Host, from.topics
			if from.rack != "" {
				one.RackID = &from.rack
			}
			if from.regex != "" {
				one.SubscribedTopicRegex = &from.regex
			}
			if one.MemberType = 1; from.classic != nil {
				one.MemberType = 0
			}
			for _, part := range [...]struct {
				to   *kmsg.Assignment
				from assignment
			}{{&one.Assignment, from.assigned}, {&one.TargetAssignment, c.target[id]}} {
				for _, topic := range part.from.topics() {
					t := kmsg.NewAssignmentTopicPartition()
					t.TopicID, t.Topic, t.Partitions = topic, nameOf(topic), part.from[topic]
					part.to.TopicPartitions = append(part.to.TopicPartitions, t)
				}
			}
			out.Members = append(out.Members, one)
		}
	})
	if err != nil {
		return false, m.codeOf(k, err)
	}
	return found, 0
}

// assignorName is the assignor that most members want.
func (c *consumer) assignorName() string {
	votes := map[string]int{}
	for _, m := range c.members {
		if m.assignor != "" {
			votes[m.assignor]++
		}
	}
	name := defaultAssignor
	for candidate, n := range votes {
		if n > votes[name] || n == votes[name] && candidate < name {
			name = candidate
		}
	}
	return name
}
