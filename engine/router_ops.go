package engine

import (
	"context"

	"queen/engine/format"
)

// AdminRow implements AdminStore. It reads memory.
func (r *Router) AdminRow(t format.Tenant, kind format.AdminKind, name string) (AdminRow, bool) {
	return r.rows(t, kind).AdminRow(t, kind, name)
}

// AdminRows implements AdminStore.
func (r *Router) AdminRows(t format.Tenant, kind format.AdminKind, after string, limit int) []AdminRow {
	return r.rows(t, kind).AdminRows(t, kind, after, limit)
}

// rows is the node whose administrative rows of a kind are the tenant's.
func (r *Router) rows(t format.Tenant, kind format.AdminKind) *Node {
	if kind == format.AdminEphemeral {
		return r.groups[0]
	}
	return r.near(t)
}

// AdminGeneration implements AdminStore. Each part only grows, so the sum changes when any does.
func (r *Router) AdminGeneration() (sum uint64) {
	for _, n := range r.groups {
		sum += n.AdminGeneration()
	}
	return sum
}

// SetAdmin implements AdminStore.
func (r *Router) SetAdmin(ctx context.Context, t format.Tenant, c AdminChange) (bool, error) {
	if c.Kind == format.AdminEphemeral {
		return r.groups[0].SetAdmin(ctx, t, c)
	}
	n, err := r.of(ctx, t)
	if err != nil {
		return false, err
	}
	return n.SetAdmin(ctx, t, c)
}

// Switches implements Operations: what one group has switched off is off.
func (r *Router) Switches() Switches {
	all := r.groups[0].Switches()
	for _, n := range r.groups[1:] {
		s := n.Switches()
		all.KV, all.TimerSchedule, all.TimerFire = all.KV && s.KV, all.TimerSchedule && s.TimerSchedule, all.TimerFire && s.TimerFire
	}
	return all
}

// SetSwitches implements Operations. It writes to one group after the other: a call that fails half-way can be repeated, and until then
// Switches says off of what one group has off.
func (r *Router) SetSwitches(ctx context.Context, kv, schedule, fire *bool) (Switches, error) {
	for _, n := range r.groups {
		if _, err := n.SetSwitches(ctx, kv, schedule, fire); err != nil {
			return r.Switches(), err
		}
	}
	return r.Switches(), nil
}

// Activity implements Operations.
func (r *Router) Activity(c Caller, queue format.QueueID, from, to format.Wall) ([]ActivityPoint, bool) {
	return r.near(c.Tenant).Activity(c, queue, from, to)
}

// CountRedrive implements Operations.
func (r *Router) CountRedrive(ctx context.Context, c Caller, req RedriveRequest) (RedriveCount, error) {
	n, err := r.of(ctx, c.Tenant)
	if err != nil {
		return RedriveCount{}, err
	}
	return n.CountRedrive(ctx, c, req)
}

// StartRedrive implements Operations.
func (r *Router) StartRedrive(ctx context.Context, c Caller, req RedriveRequest) (RedriveJob, error) {
	n, err := r.of(ctx, c.Tenant)
	if err != nil {
		return RedriveJob{}, err
	}
	return n.StartRedrive(ctx, c, req)
}

// RedriveJob implements Operations. A job is a row of the group of its tenant.
func (r *Router) RedriveJob(ctx context.Context, c Caller, id string) (RedriveJob, error) {
	n, err := r.of(ctx, c.Tenant)
	if err != nil {
		return RedriveJob{}, err
	}
	return n.RedriveJob(ctx, c, id)
}
