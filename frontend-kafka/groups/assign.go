package groups

import (
	"cmp"
	"container/heap"
	"slices"
)

// assignors make targets for members out of the topics they are subscribed to; old is the target before.
var assignors = map[string]func(members []*cmember, topics map[string]Topic, old map[string]assignment) map[string]assignment{
	"uniform": assignUniform,
	"range":   assignRange,
}

// defaultAssignor serves groups whose members name none.
const defaultAssignor = "uniform"

// assign makes the target with the assignor that most members want.
func (c *consumer) assign() map[string]assignment {
	members := make([]*cmember, 0, len(c.members))
	for _, id := range c.ids() {
		members = append(members, c.members[id])
	}
	return assignors[c.assignorName()](members, c.topics, c.target)
}

// subscribers lists, for each topic by name, its members, in order.
func subscribers(members []*cmember) (names []string, of map[string][]*cmember) {
	of = map[string][]*cmember{}
	for _, m := range members {
		for _, name := range m.matched {
			if of[name] == nil {
				names = append(names, name)
			}
			of[name] = append(of[name], m)
		}
	}
	slices.Sort(names)
	return names, of
}

// assignRange gives each member of a topic a range of its partitions, topic by topic, so that members of several topics get
// the same numbers of each. Static members are in the order of their instance ids, which outlive them.
func assignRange(members []*cmember, topics map[string]Topic, _ map[string]assignment) map[string]assignment {
	out := emptyTarget(members)
	key := func(m *cmember) string {
		if m.instance != nil {
			return *m.instance
		}
		return m.id
	}
	ordered := slices.SortedFunc(slices.Values(members), func(a, b *cmember) int {
		return cmp.Or(cmp.Compare(key(a), key(b)), cmp.Compare(a.id, b.id))
	})
	names, of := subscribers(ordered)
	for _, name := range names {
		t, list := topics[name], of[name]
		share, more := t.Width/int32(len(list)), t.Width%int32(len(list))
		at := int32(0)
		for i, m := range list {
			n := share
			if int32(i) < more {
				n++
			}
			for range n {
				out[m.id][t.ID] = append(out[m.id][t.ID], at)
				at++
			}
		}
	}
	return out
}

func emptyTarget(members []*cmember) map[string]assignment {
	out := make(map[string]assignment, len(members))
	for _, m := range members {
		out[m.id] = assignment{}
	}
	return out
}

// assignUniform spreads partitions evenly and leaves them where they were as far as that goes.
func assignUniform(members []*cmember, topics map[string]Topic, old map[string]assignment) map[string]assignment {
	u := uniform{loads: map[string]*load{}}
	for _, m := range members {
		l := &load{id: m.id, has: assignment{}}
		u.loads[m.id] = l
	}
	names, of := subscribers(members)
	kept := u.keep(names, of, topics, old)
	for _, name := range names {
		t := topics[name]
		u.begin(of[name])
		for n := range t.Width {
			if !kept[partition{t.ID, n}] {
				u.give(t.ID, n)
			}
		}
	}
	u.level(names, of, topics)
	out := make(map[string]assignment, len(members))
	for id, l := range u.loads {
		for topic, list := range l.has {
			if len(list) == 0 {
				delete(l.has, topic)
			}
		}
		out[id] = l.has
	}
	return out
}

// uniform is one assignment in the making.
type uniform struct {
	loads map[string]*load
	heap  loadHeap // of the members of the topic at hand
}

// load is what a member has got.
type load struct {
	id  string
	n   int
	has assignment
}

type loadHeap []*load

func (h loadHeap) Len() int { return len(h) }
func (h loadHeap) Less(i, j int) bool {
	return cmp.Or(cmp.Compare(h[i].n, h[j].n), cmp.Compare(h[i].id, h[j].id)) < 0
}
func (h loadHeap) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h *loadHeap) Push(x any)   { *h = append(*h, x.(*load)) }
func (h *loadHeap) Pop() any     { panic("groups: a member leaves an assignment") }

// keep leaves with members what they had, no more than an even share of what each topic's members get together.
func (u *uniform) keep(names []string, of map[string][]*cmember, topics map[string]Topic, old map[string]assignment) map[partition]bool {
	total := 0
	for _, name := range names {
		total += int(topics[name].Width)
	}
	share, more := total, 0
	if len(u.loads) > 0 {
		share, more = total/len(u.loads), total%len(u.loads)
	}
	kept := map[partition]bool{}
	for _, name := range names {
		t := topics[name]
		for _, m := range of[name] {
			l := u.loads[m.id]
			for _, n := range old[m.id][t.ID] {
				p := partition{t.ID, n}
				switch {
				case n >= t.Width || kept[p] || l.n > share || l.n == share && more == 0:
					continue
				case l.n == share:
					more--
				}
				l.take(t.ID, n)
				kept[p] = true
			}
		}
	}
	return kept
}

func (l *load) take(topic [16]byte, n int32) {
	l.has.add(topic, n)
	l.n++
}

func (u *uniform) begin(members []*cmember) {
	u.heap = u.heap[:0]
	for _, m := range members {
		u.heap = append(u.heap, u.loads[m.id])
	}
	heap.Init(&u.heap)
}

// give assigns a partition of the topic at hand to who has least.
func (u *uniform) give(topic [16]byte, n int32) {
	u.heap[0].take(topic, n)
	heap.Fix(&u.heap, 0)
}

// level moves partitions from who has most to who has least, topic by topic, until no topic's members differ by more than
// one. Each move brings two members nearer to each other, so it ends; the bound is for safety.
func (u *uniform) level(names []string, of map[string][]*cmember, topics map[string]Topic) {
	total := 0
	for _, name := range names {
		total += int(topics[name].Width)
	}
	for moved, moves := true, 0; moved && moves <= total*len(u.loads); {
		moved = false
		for _, name := range names {
			t := topics[name]
			for {
				from, to := u.furthest(of[name], t.ID)
				if from == nil || from.n <= to.n+1 {
					break
				}
				list := from.has[t.ID]
				n := list[len(list)-1]
				from.has[t.ID] = list[:len(list)-1]
				from.n--
				to.take(t.ID, n)
				moved = true
				moves++
			}
		}
	}
}

// furthest finds who has most of those that have a partition of the topic, and who has least of its members.
func (u *uniform) furthest(members []*cmember, topic [16]byte) (most, least *load) {
	for _, m := range members {
		l := u.loads[m.id]
		if len(l.has[topic]) > 0 && (most == nil || l.n > most.n) {
			most = l
		}
		if least == nil || l.n < least.n {
			least = l
		}
	}
	return most, least
}
