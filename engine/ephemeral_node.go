package engine

import (
	"context"
	"errors"

	"queen/engine/clock"
	"queen/engine/ephemeral"
	"queen/engine/format"
)

// EphemeralOptions say what ephemeral queues need. The zero value of a field means its default.
type EphemeralOptions struct {
	Clock clock.Clock // required
	// Rows keeps declarations and the switch; required.
	Rows AdminStore
	// Incarnation is random, one a life of the node.
	Incarnation uint64
	// MaxBytes is the node's memory for them; default 256 MiB.
	MaxBytes int64
}

// ephemeralQueues implements Ephemeral over a store in memory and rows that are durable.
type ephemeralQueues struct {
	store *ephemeral.Store
	rows  AdminStore
}

// NewEphemeral makes the ephemeral queues of one node.
func NewEphemeral(o EphemeralOptions) Ephemeral { return newEphemeral(o) }

func newEphemeral(o EphemeralOptions) *ephemeralQueues {
	so := ephemeral.Options{Clock: o.Clock, Incarnation: o.Incarnation, MaxBytes: o.MaxBytes, Declarations: declarations{o.Rows}}
	e := &ephemeralQueues{store: ephemeral.New(so), rows: o.Rows}
	e.refresh()
	return e
}

// declarations reads declarations for the store.
type declarations struct{ rows AdminStore }

func (d declarations) Generation() uint64 { return d.rows.AdminGeneration() }

// Declared reads the row of a queue. One that a later version wrote in a way unknown here counts as none.
func (d declarations) Declared(t format.Tenant, queue string) (ephemeral.Settings, bool) {
	row, ok := d.rows.AdminRow(t, format.AdminEphemeral, queue)
	if !ok {
		return ephemeral.Settings{}, false
	}
	s, err := ephemeral.DecodeSettings(row.Value)
	return s, err == nil
}

// The switch is a row of the system's: there is none while the family is on.
const (
	ephemeralSwitch = "ephemeral"
	switchedOff     = "off"
)

// refresh takes over the switch as the rows have it now.
func (e *ephemeralQueues) refresh() {
	row, ok := e.rows.AdminRow(format.SystemTenant, format.AdminSwitch, ephemeralSwitch)
	e.store.SetEnabled(!ok || string(row.Value) != switchedOff)
}

func (e *ephemeralQueues) Push(_ context.Context, c Caller, r EphemeralPush) error {
	return ephemeralError(e.store.Push(c.Tenant, r))
}

func (e *ephemeralQueues) Pop(ctx context.Context, c Caller, r EphemeralPop) (*EphemeralDelivery, error) {
	d, err := e.store.Pop(ctx, c.Tenant, r)
	if err != nil && ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		return nil, errContext(ctx, OutcomeNone)
	}
	return d, ephemeralError(err)
}

func (e *ephemeralQueues) Ack(_ context.Context, c Caller, queue, group string, acks []EphemeralAck) ([]EphemeralOutcome, error) {
	out, err := e.store.Ack(c.Tenant, queue, group, acks)
	return out, ephemeralError(err)
}

func (e *ephemeralQueues) Configure(ctx context.Context, c Caller, queue string, s EphemeralSettings) (EphemeralSettings, error) {
	s, err := s.Normal()
	if err == nil {
		err = e.store.Usable(queue)
	}
	if err != nil {
		return s, ephemeralError(err)
	}
	if _, err := e.rows.SetAdmin(ctx, c.Tenant, AdminChange{Kind: format.AdminEphemeral, Name: queue, Value: s.Encode()}); err != nil {
		return s, err
	}
	e.store.Refresh(c.Tenant, queue)
	return s, nil
}

func (e *ephemeralQueues) Reset(_ context.Context, c Caller, queue string) (int64, error) {
	n, err := e.store.Reset(c.Tenant, queue)
	return n, ephemeralError(err)
}

func (e *ephemeralQueues) Delete(ctx context.Context, c Caller, queue string) (deleted, declared bool, err error) {
	if err := e.store.Usable(queue); err != nil {
		return false, false, ephemeralError(err)
	}
	if _, declared = e.rows.AdminRow(c.Tenant, format.AdminEphemeral, queue); declared {
		if _, err := e.rows.SetAdmin(ctx, c.Tenant, AdminChange{Kind: format.AdminEphemeral, Name: queue, Delete: true}); err != nil {
			return false, false, err
		}
	}
	there, err := e.store.Delete(c.Tenant, queue)
	return there || declared, declared, ephemeralError(err)
}

// Queues merges what is in memory with what is declared and was not used in this life. The rows say what is declared.
func (e *ephemeralQueues) Queues(_ context.Context, c Caller) (rows []EphemeralQueue, more bool, err error) {
	live := e.store.Queues(c.Tenant)
	take := func(q EphemeralQueue) {
		if more = more || len(rows) == MaxEphemeralQueues; !more {
			rows = append(rows, q)
		}
	}
	until := func(name string, all bool) {
		for len(live) > 0 && (all || live[0].Name < name) {
			live[0].Declared = false
			take(live[0])
			live = live[1:]
		}
	}
	for row := range e.declared(c.Tenant) {
		until(row.Name, false)
		s, err := ephemeral.DecodeSettings(row.Value)
		q := EphemeralQueue{Name: row.Name}
		if len(live) > 0 && live[0].Name == row.Name {
			q, live = live[0], live[1:]
		}
		if q.Declared = err == nil; q.Declared {
			q.Settings = s
		}
		if take(q); more {
			return rows, true, nil
		}
	}
	until("", true)
	return rows, more, nil
}

// declared walks a tenant's declarations by name, a page at a time.
func (e *ephemeralQueues) declared(t format.Tenant) func(yield func(AdminRow) bool) {
	return func(yield func(AdminRow) bool) {
		const page = 1_000
		for after := ""; ; {
			rows := e.rows.AdminRows(t, format.AdminEphemeral, after, page)
			for _, row := range rows {
				if !yield(row) {
					return
				}
			}
			if len(rows) < page {
				return
			}
			after = rows[len(rows)-1].Name
		}
	}
}

func (e *ephemeralQueues) Depth(_ context.Context, c Caller, queue string, group *string) (EphemeralDepth, error) {
	d, err := e.store.Depth(c.Tenant, queue, group)
	var refusal *ephemeral.Error
	if errors.As(err, &refusal) && refusal.Reason == ephemeral.NotFound {
		if s, ok := (declarations{e.rows}).Declared(c.Tenant, queue); ok {
			return EphemeralDepth{Queue: EphemeralQueue{Name: queue, Declared: true, Settings: s}}, nil
		}
	}
	return d, ephemeralError(err)
}

func (e *ephemeralQueues) System() EphemeralStats { return e.store.Stats() }

func (e *ephemeralQueues) SetEnabled(ctx context.Context, on bool) error {
	change := AdminChange{Kind: format.AdminSwitch, Name: ephemeralSwitch, Value: []byte(switchedOff), Delete: on}
	_, err := e.rows.SetAdmin(ctx, format.SystemTenant, change)
	if err == nil {
		e.refresh()
	}
	return err
}

func (e *ephemeralQueues) close() {
	if e != nil {
		e.store.Close()
	}
}

// Ephemeral implements Engine.
func (n *Node) Ephemeral() Ephemeral { return n.ephemeral }

// ephemeralCodes are the engine's codes of the store's reasons.
var ephemeralCodes = map[ephemeral.Reason]ErrorCode{
	ephemeral.BadRequest: CodeBadRequest, ephemeral.QueueFull: CodeQueueFull, ephemeral.NoRoom: CodeOverloaded,
	ephemeral.Disabled: CodePaused, ephemeral.NotFound: CodeUnknownQueue, ephemeral.Closed: CodeClosed,
}

// ephemeralError turns a refusal of the store into the caller's error.
func ephemeralError(err error) error {
	var e *ephemeral.Error
	var ours *Error
	switch {
	case err == nil:
		return nil
	case errors.As(err, &ours):
		return ours // of a plan
	case !errors.As(err, &e):
		return &Error{Code: CodeInternal, Message: "ephemeral queues", Cause: err}
	}
	out := &Error{Code: ephemeralCodes[e.Reason], Field: e.Field, Limit: e.Limit, Message: e.Message, RetryAfter: e.RetryAfter}
	if out.Code == "" {
		out.Code = CodeInternal
	}
	return out
}
