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

// MakeLead implements Membership for all groups, one after the other: a call that fails half-way can be repeated.
func (m routedMembership) MakeLead(ctx context.Context, node format.Replica) error {
	for i, g := range append([]Membership{m.Membership}, m.others...) {
		if err := g.MakeLead(ctx, node); err != nil {
			return fmt.Errorf("raft group %d: %w", i+1, err)
		}
	}
	return nil
}
