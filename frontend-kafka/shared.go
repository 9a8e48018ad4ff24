package frontendkafka

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"queen/engine"
	"queen/engine/format"
	"queen/frontend-kafka/groups"
)

// Shared is an engine for frontends of native consumers. Positions of a consumer group are shared with Kafka, work is not:
// a pop of what a live Kafka member of the group holds is refused, unless allow says that it may be, and groups are listed
// with their Kafka members. It works once Attach was called with it or with e.
func (f *Frontend) Shared(e engine.Engine, allow bool) engine.Engine {
	return &shared{Engine: e, f: f, allow: allow}
}

type shared struct {
	engine.Engine
	f     *Frontend
	allow bool
}

// Wrapped implements engine.Wrapper.
func (s *shared) Wrapped() engine.Engine { return s.Engine }

// heldMost bounds the groups whose members are remembered.
const heldMost = 4096

// heldGroup is who holds what in a group, as of one row.
type heldGroup struct {
	at      format.Place
	members []heldMember
	holders map[engine.PartitionRef]int // places in members
}

// heldMember is a member with its partitions of all queues.
type heldMember struct {
	engine.GroupMember
	refs []engine.PartitionRef
}

// byQueue is the member as each queue sees it, in the order of their names.
func (m *heldMember) byQueue() (queues []string, own map[string]engine.GroupMember) {
	own = map[string]engine.GroupMember{}
	for _, ref := range m.refs {
		one, ok := own[ref.Queue]
		if !ok {
			one = m.GroupMember
			queues = append(queues, ref.Queue)
		}
		one.Partitions = append(one.Partitions, ref.Partition)
		own[ref.Queue] = one
	}
	slices.Sort(queues)
	return queues, own
}

// heldCache keeps the groups that native consumers asked for.
type heldCache struct {
	mu     sync.Mutex
	groups map[groups.Key]*heldGroup
}

// held is who holds what in a group; nil of one without a coordinator. A group whose row has not changed costs one look-up.
func (f *Frontend) held(ctx context.Context, who engine.Caller, group string) (*heldGroup, error) {
	records := f.engine.Records()
	at := records.GroupRowAt(who, group)
	if at == (format.Place{}) {
		return nil, nil
	}
	k := groups.Key{Tenant: who.Tenant, Group: group}
	f.members.mu.Lock()
	h := f.members.groups[k]
	f.members.mu.Unlock()
	if h != nil && h.at == at {
		return h, nil
	}
	row, err := records.GroupRow(ctx, who, group)
	if err != nil {
		return nil, err
	}
	h = &heldGroup{at: row.At, holders: map[engine.PartitionRef]int{}}
	for _, m := range groups.MembersOf(row.Value) {
		one := heldMember{GroupMember: engine.GroupMember{ID: m.ID, Instance: m.Instance, Client: m.Client,
			Host: strings.TrimPrefix(m.Host, "/"), Protocol: m.Type}}
		for _, part := range m.Held {
			name := part.Topic
			if name == "" {
				t, err := f.topicByID(ctx, who, part.ID)
				if err != nil {
					continue // deleted meanwhile
				}
				name = t.name
			}
			if _, internal := internalTopic(name); internal {
				continue // whoever holds it holds nothing of a queue
			}
			for _, n := range part.Partitions {
				ref := engine.PartitionRef{Queue: name, Partition: partitionName(n)}
				one.refs = append(one.refs, ref)
				h.holders[ref] = len(h.members)
			}
		}
		h.members = append(h.members, one)
	}
	f.members.mu.Lock()
	defer f.members.mu.Unlock()
	if f.members.groups == nil || len(f.members.groups) >= heldMost {
		f.members.groups = map[groups.Key]*heldGroup{}
	}
	f.members.groups[k] = h
	return h, nil
}

// holder finds who holds a partition of a queue, or with any one of them.
func (h *heldGroup) holder(at engine.PartitionRef, any bool) (engine.PartitionRef, *heldMember) {
	if h == nil {
		return at, nil
	}
	if !any {
		if i, ok := h.holders[at]; ok {
			return at, &h.members[i]
		}
		return at, nil
	}
	for i := range h.members {
		for _, ref := range h.members[i].refs {
			if ref.Queue == at.Queue {
				return ref, &h.members[i]
			}
		}
	}
	return at, nil
}

// refusal is why a native consumer may not have a partition; nil when it may.
func (s *shared) refusal(ctx context.Context, who engine.Caller, group string, at engine.PartitionRef, any bool) error {
	h, err := s.f.held(ctx, who, group)
	if err != nil {
		return err
	}
	ref, m := h.holder(at, any)
	if m == nil {
		return nil
	}
	// A coordinator that started anew waits for its members from now on.
	if s.f.coordinates(who.Tenant) {
		s.f.groups.Look(ctx, groups.Key{Tenant: who.Tenant, Group: group})
	}
	return &engine.Error{Code: engine.CodeGroupHeld, Field: "consumerGroup", Message: fmt.Sprintf(
		"Kafka client %q of this consumer group holds partition %q of %q: use another consumer group, or end the Kafka member",
		m.Client, ref.Partition, ref.Queue)}
}

// Pop implements engine.Engine. What a call waited for, or found in queues that it did not name, is looked at once more.
func (s *shared) Pop(ctx context.Context, who engine.Caller, req engine.PopRequest) (*engine.Delivery, error) {
	if s.allow || req.Group == "" || !s.f.ready(ctx) {
		return s.Engine.Pop(ctx, who, req)
	}
	if !req.Scope.Discovery {
		at := engine.PartitionRef{Queue: req.Scope.Queue, Partition: req.Scope.Partition}
		if err := s.refusal(ctx, who, req.Group, at, !req.Scope.Pinned); err != nil {
			return nil, err
		}
	}
	d, err := s.Engine.Pop(ctx, who, req)
	if err != nil || d == nil || !req.Scope.Discovery && req.Wait <= 0 {
		return d, err
	}
	for i := range d.Claims {
		at := engine.PartitionRef{Queue: d.Claims[i].Queue, Partition: d.Claims[i].Partition}
		if err := s.refusal(ctx, who, req.Group, at, false); err != nil {
			d.Abandon()
			return nil, err
		}
	}
	return d, nil
}

// Catalog implements engine.Engine.
func (s *shared) Catalog() engine.Catalog { return sharedCatalog{s.Engine.Catalog(), s} }

type sharedCatalog struct {
	engine.Catalog
	s *shared
}

// Groups implements engine.Catalog: the Kafka members of a group stand beside every queue of which they hold partitions,
// also where nobody of the group has read yet.
func (c sharedCatalog) Groups(ctx context.Context, who engine.Caller) ([]engine.GroupInfo, error) {
	rows, err := c.Catalog.Groups(ctx, who)
	if err != nil || !c.s.f.ready(ctx) {
		return rows, err
	}
	type place struct{ group, queue string }
	at := make(map[place]int, len(rows))
	for i := range rows {
		at[place{rows[i].Name, rows[i].Queue}] = i
	}
	for after := ""; ; {
		page, next, err := c.s.f.engine.Records().GroupRows(ctx, who, after, 1000)
		if err != nil {
			return nil, err
		}
		for i := range page {
			h, err := c.s.f.held(ctx, who, page[i].Group)
			if err != nil || h == nil {
				continue // deleted meanwhile
			}
			for k := range h.members {
				queues, own := h.members[k].byQueue()
				for _, queue := range queues {
					p := place{page[i].Group, queue}
					if _, ok := at[p]; !ok {
						at[p] = len(rows)
						rows = append(rows, engine.GroupInfo{Name: p.group, Queue: queue})
					}
					rows[at[p]].Members = append(rows[at[p]].Members, own[queue])
				}
			}
		}
		if after = next; next == "" {
			break
		}
	}
	slices.SortStableFunc(rows, func(a, b engine.GroupInfo) int {
		return cmp.Or(strings.Compare(a.Name, b.Name), strings.Compare(a.Queue, b.Queue))
	})
	return rows, nil
}

// GroupPartitions implements engine.Catalog: of a group that only has Kafka members nothing is known yet.
func (c sharedCatalog) GroupPartitions(ctx context.Context, who engine.Caller, group, queue string, p engine.Page) (
	rows []engine.GroupPartition, next string, err error,
) {
	rows, next, err = c.Catalog.GroupPartitions(ctx, who, group, queue, p)
	if errors.Is(err, &engine.Error{Code: engine.CodeUnknownGroup}) && c.s.f.ready(ctx) {
		if h, bad := c.s.f.held(ctx, who, group); bad == nil && h != nil {
			return nil, "", nil
		}
	}
	return rows, next, err
}
