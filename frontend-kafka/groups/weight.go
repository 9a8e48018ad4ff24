package groups

import (
	"bytes"

	"github.com/twmb/franz-go/pkg/kerr"
)

// Weights are the memory that groups take by what their clients say: ids, metadata for assignors, topics, patterns, assignments of
// leaders. Members and ids cost something besides. A group's is the sum of its parts, the manager's that of its groups (mustWeigh of
// the tests), so that neither is counted anew for a request.
//
// What the coordinator makes of it is not in it: targets of KIP-848 are bounded by the topics there are, and by the row.
const (
	memberBytes  = 512
	pendingBytes = 256
)

// weigh notes what a part of the group weighs from now on.
func (g *group) weigh(part *int, now int) {
	if !g.gone {
		g.weight += now - *part
		g.m.weight.Add(int64(now - *part))
	}
	*part = now
}

// fits says whether the group may weigh that much more; one that comes to weigh less always may. Groups are judged apart, so that
// calls that come together may pass the bound of them all by what they bring.
func (g *group) fits(more int) int16 {
	switch {
	case more <= 0:
		return 0
	case g.weight+more > groupSayMax:
		return kerr.GroupMaxSizeReached.Code
	case g.m.weight.Load()+int64(more) > g.m.o.Memory:
		g.m.o.Logger.Warn("kafka: the consumer groups of this node have no more memory", "group", g.key.Group, "limit", g.m.o.Memory)
		return kerr.CoordinatorNotAvailable.Code
	}
	return 0
}

// weightOf is what a member weighs by its ids and by what it says.
func weightOf(id string, instance *string, client Client, said int) int {
	n := memberBytes + len(id) + len(client.ID) + len(client.Host) + said
	if instance != nil {
		n += len(*instance)
	}
	return n
}

// saidBy is the size of what a member says to assignors.
func saidBy(protocols []protocol) (n int) {
	for i := range protocols {
		n += 64 + len(protocols[i].Name) + len(protocols[i].Metadata)
	}
	return n
}

// saidInNames is the size of a subscription.
func saidInNames(names []string) (n int) {
	for _, name := range names {
		n += 16 + len(name)
	}
	return n
}

func (m *member) size() int {
	return weightOf(m.id, m.instance, m.client, saidBy(m.protocols)+len(m.assignment))
}

func (m *cmember) size() int {
	said := len(m.rack) + len(m.regex) + m.compiledBytes + saidInNames(m.topics)
	if m.classic != nil {
		said += saidBy(m.classic.protocols)
	}
	return weightOf(m.id, m.instance, m.client, said)
}

// size is what the member weighs that the join is about, without an assignment.
func (j *joinCall) size(id string) int {
	return weightOf(id, j.req.InstanceID, j.client, saidBy(j.protocols))
}

// fits says whether a request may change what the member that it is of says.
func (j *joinCall) fits(m *member) int16 {
	return j.g.fits(j.size(m.id) - weightOf(m.id, m.instance, m.client, saidBy(m.protocols)))
}

// assign has the members of a group keep what their leader gave them, each its own, if that fits.
func (g *group) assign(of map[string][]byte) int16 {
	more := 0
	for id, m := range g.members {
		more += len(of[id]) - len(m.assignment)
	}
	if code := g.fits(more); code != 0 {
		return code
	}
	for id, m := range g.members {
		m.assignment = bytes.Clone(of[id]) // as what members say
		g.weigh(&m.weight, m.size())
	}
	return 0
}

// dropPending forgets an id that was told.
func (g *group) dropPending(id string) {
	p := g.pending[id]
	g.m.timers.stop(p.timer)
	g.weigh(&p.weight, 0)
	delete(g.pending, id)
}
