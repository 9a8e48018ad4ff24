package engine

import (
	"context"
	"fmt"

	"queen/engine/format"
)

// routedMembership is the cluster of several raft groups, of which every member is in all. What Members tells of a member is of
// group 1, and so is who drains: a row of that one, which all obey. What Drain says of the lead is of group 1 as well; a member that
// leads another one gives that away within a moment.
type routedMembership struct {
	Membership // of group 1
	others     []Membership
}

// membership is the cluster of the groups; false where one has none.
func (r *Router) membership() (Membership, bool) {
	var all []Membership
	for _, n := range r.groups {
		m, ok := MembershipOf(n)
		if !ok {
			return nil, false
		}
		all = append(all, m)
	}
	return routedMembership{all[0], all[1:]}, true
}

// MakeLead implements Membership. All groups are led one after the other: a call that fails half-way can be repeated.
func (m routedMembership) MakeLead(ctx context.Context, g format.RaftGroup, node format.Replica) error {
	all := append([]Membership{m.Membership}, m.others...)
	if int(g) > len(all) {
		return NoGroup(g, len(all))
	}
	for i, of := range all {
		if g != 0 && int(g) != i+1 {
			continue
		}
		if err := of.MakeLead(ctx, 0, node); err != nil {
			return fmt.Errorf("raft group %d: %w", i+1, err)
		}
	}
	return nil
}
