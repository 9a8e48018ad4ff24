package engine

import (
	"context"

	"queen/engine/auth"
)

// Ephemeral implements Engine.
func (l *limited) Ephemeral() Ephemeral { return limitedEphemeral{l.Engine.Ephemeral(), l.q} }

type limitedEphemeral struct {
	Ephemeral
	q *auth.Quotas
}

// Push implements Ephemeral. The rate is asked between the bounds of the queue and those of the node (S-eph-7).
func (e limitedEphemeral) Push(ctx context.Context, c Caller, r EphemeralPush) error {
	t, n := auth.Tenant(c.Tenant), len(r.Payloads)
	plan := e.q.Plan(t)
	if plan.BatchItems > 0 && n > plan.BatchItems && e.q.Exceeds(&plan, auth.BoundBatch) {
		return errCap(auth.BoundBatch, int64(plan.BatchItems))
	}
	for _, p := range r.Payloads {
		if plan.PayloadBytes > 0 && int64(len(p)) > plan.PayloadBytes && e.q.Exceeds(&plan, auth.BoundPayload) {
			return errCap(auth.BoundPayload, plan.PayloadBytes)
		}
	}
	taken := false
	r.Admit = func() error {
		ok, after := e.q.Take(t, auth.Ephemeral, n)
		if taken = ok; !ok {
			return errRate(auth.Ephemeral, after)
		}
		return nil
	}
	err := e.Ephemeral.Push(ctx, c, r)
	if err != nil && taken {
		e.q.Give(t, auth.Ephemeral, n)
	}
	return err
}

// Pop implements Ephemeral. A pop that is ready to wait counts as waiting until it returns.
func (e limitedEphemeral) Pop(ctx context.Context, c Caller, r EphemeralPop) (*EphemeralDelivery, error) {
	t := auth.Tenant(c.Tenant)
	if r.Wait <= 0 {
		return e.Ephemeral.Pop(ctx, c, r)
	}
	if !e.q.Park(t) {
		return nil, errCap(auth.BoundParked, int64(e.q.Plan(t).ParkedPops))
	}
	defer e.q.Unpark(t)
	return e.Ephemeral.Pop(ctx, c, r)
}
