package groups

import (
	"context"
	"encoding/binary"
	"maps"
	"slices"

	"github.com/zeebo/xxh3"
)

// hold sets what a member has and what it has to let go of. Whatever it held besides is free.
func (c *consumer) hold(m *cmember, assigned, revoking assignment) {
	for _, old := range [...]assignment{m.assigned, m.revoking} {
		for id, list := range old {
			for _, n := range list {
				delete(c.owners, partition{id, n})
			}
		}
	}
	m.assigned, m.revoking = assigned, revoking
	for _, now := range [...]assignment{assigned, revoking} {
		for id, list := range now {
			for _, n := range list {
				c.owners[partition{id, n}] = m.id
			}
		}
	}
}

// resolve finds the topics that members are subscribed to. The group's epoch rises when one came, went or was widened.
func (c *consumer) resolve(ctx context.Context) error {
	topics := c.g.m.o.Topics
	generation := topics.Generation()
	if c.resolved && generation == c.generation {
		return nil
	}
	start := c.g.m.o.Clock.Mono()
	if c.resolved && start < c.restUntil {
		return nil
	}
	found, all, err := c.lookUp(ctx)
	if err != nil {
		return err
	}
	matching := matches(c.members, all)
	for _, m := range c.members {
		m.matched = m.matched[:0:0]
		for _, name := range m.topics {
			if _, ok := found[name]; ok {
				m.matched = append(m.matched, name)
			}
		}
		for _, t := range matching[m.regex] {
			m.matched = append(m.matched, t.Name)
			found[t.Name] = t
		}
		slices.Sort(m.matched)
		m.matched = slices.Compact(m.matched)
	}
	now := c.g.m.o.Clock.Mono()
	c.restUntil = now + restFactor*(now-start)
	hash := hashTopics(found)
	if c.topics, c.generation, c.resolved = found, generation, true; hash != c.hash {
		c.hash = hash
		c.bump()
	}
	return nil
}

// restFactor keeps looks at topics, where they take long and topics come and go all the time, to a twentieth of the time.
const restFactor = 20

// matches lists the topics of each regular expression, "" for none.
func matches(members map[string]*cmember, all []Topic) map[string][]Topic {
	out := map[string][]Topic{}
	for _, m := range members {
		if _, done := out[m.regex]; done || m.compiled == nil {
			continue
		}
		list := []Topic{}
		for _, t := range all {
			if m.compiled.MatchString(t.Name) {
				list = append(list, t)
			}
		}
		out[m.regex] = list
	}
	return out
}

// topicNamed finds one topic.
func (c *consumer) topicNamed(name string) (Topic, bool, error) {
	ctx, cancel := saveContext()
	defer cancel()
	return c.g.m.o.Topics.Topic(ctx, c.g.key.Tenant, name)
}

// lookUp finds topics by the names that members told, and all there are if somebody has a regular expression.
func (c *consumer) lookUp(ctx context.Context) (found map[string]Topic, all []Topic, err error) {
	topics, found, regex := c.g.m.o.Topics, map[string]Topic{}, false
	for _, m := range c.members {
		regex = regex || m.compiled != nil
		for _, name := range m.topics {
			if _, ok := found[name]; ok {
				continue
			}
			t, ok, err := topics.Topic(ctx, c.g.key.Tenant, name)
			if err != nil {
				return nil, nil, err
			}
			if ok {
				found[name] = t
			}
		}
	}
	if regex {
		err = topics.Each(ctx, c.g.key.Tenant, func(t Topic) { all = append(all, t) })
	}
	return found, all, err
}

func hashTopics(topics map[string]Topic) uint64 {
	h := xxh3.New()
	for _, name := range slices.Sorted(maps.Keys(topics)) {
		t := topics[name]
		_, _ = h.WriteString(name)
		_, _ = h.Write(t.ID[:])
		_, _ = h.Write(binary.LittleEndian.AppendUint32([]byte{0}, uint32(t.Width)))
	}
	return h.Sum64()
}

// retarget makes the assignment that the group is to have, if it is out of date.
func (c *consumer) retarget() {
	if c.epoch == c.targetEpoch || !c.resolved && len(c.members) > 0 {
		return
	}
	c.target = c.assign()
	c.targetEpoch = c.epoch
	c.dirty = true
}

// reconcile moves a member as far towards its target as it can go now. owned is what it says that it still has, nil when it
// says nothing.
func (c *consumer) reconcile(m *cmember, owned assignment) {
	if m.epoch == epochLeaveStatic {
		return
	}
	if m.state == unrevoked {
		if owned == nil || owned.touches(m.revoking) {
			return
		}
		c.hold(m, m.assigned, assignment{})
		c.g.m.timers.stop(m.overdue)
		c.dirty = true
	} else if m.state == atTarget && m.epoch == c.targetEpoch {
		return
	}
	target := c.target[m.id]
	keep, revoke := m.assigned.split(target)
	if len(revoke) > 0 && m.epoch > 0 && (owned == nil || owned.touches(revoke)) {
		c.hold(m, keep, revoke)
		m.state = unrevoked
		c.g.m.timers.set(m.overdue, m.rebalance)
		c.dirty = true
		return
	}
	_, missing := target.split(keep)
	waiting := false
	for id, list := range missing {
		free := slices.DeleteFunc(list, func(n int32) bool {
			owner, held := c.owners[partition{id, n}]
			return held && owner != m.id
		})
		waiting = waiting || len(free) < len(target[id])-len(keep[id])
		if missing[id] = free; len(free) == 0 {
			delete(missing, id)
		}
	}
	state := atTarget
	if waiting {
		state = unreleased
	}
	if m.state == state && m.epoch == c.targetEpoch && len(missing) == 0 && len(revoke) == 0 {
		return
	}
	c.hold(m, keep.join(missing), assignment{})
	if m.epoch != c.targetEpoch {
		m.previous, m.epoch = m.epoch, c.targetEpoch
	}
	m.state = state
	c.dirty = true
}
