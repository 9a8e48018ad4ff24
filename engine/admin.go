package engine

import (
	"context"
	"strconv"

	"queen/engine/format"
)

// AdminRow is a small replicated row that belongs to no queue: the declaration of an ephemeral queue, a
// switch, an API key. Value is shared and never changes: keep it, but do not write to it.
type AdminRow struct {
	Name  string
	Value []byte
	// At names the row's last change, for AdminChange.At.
	At format.Place
}

// AdminChange sets a row, or deletes it; deleting what is not there changes nothing.
type AdminChange struct {
	Kind   format.AdminKind
	Name   string // at most format.MaxAdminName bytes
	Value  []byte // at most format.MaxAdminValue bytes; ignored when Delete
	Delete bool
	// Guarded makes the change only while the row's last change is At; the zero place means only while
	// there is no such row.
	Guarded bool
	At      format.Place
}

// AdminRow finds an administrative row of a tenant, or of format.SystemTenant. It reads memory.
func (n *Node) AdminRow(t format.Tenant, kind format.AdminKind, name string) (AdminRow, bool) {
	n.state.RLock()
	defer n.state.RUnlock()
	row, ok := n.state.m.AdminRow(t, kind, name)
	return AdminRow(row), ok
}

// AdminRows lists a tenant's rows of a kind with names above after, at most limit, by name; "" begins.
func (n *Node) AdminRows(t format.Tenant, kind format.AdminKind, after string, limit int) []AdminRow {
	n.state.RLock()
	defer n.state.RUnlock()
	rows := n.state.m.AdminRows(t, kind, after, limit)
	out := make([]AdminRow, len(rows))
	for i := range rows {
		out[i] = AdminRow(rows[i])
	}
	return out
}

// AdminGeneration changes whenever any administrative row of this node does: whoever keeps something
// made of rows looks again when it differs. It costs one load.
func (n *Node) AdminGeneration() uint64 { return n.adminGen.Load() }

// SetAdmin sets or deletes one administrative row of a tenant; durable and visible to AdminRow when it
// returns. applied is false when a guard did not hold: then nothing changed. A bound that is reached is
// CodeTooLarge and names it.
func (n *Node) SetAdmin(ctx context.Context, t format.Tenant, c AdminChange) (applied bool, err error) {
	if err := c.check(); err != nil {
		return false, err
	}
	if !c.Delete && n.diskFull() {
		n.counters.storageRefused.Add(1)
		return false, &Error{Code: CodeStorageFull, Message: n.whyFull() + "; deletes still work"}
	}
	return n.setAdmin(ctx, t, &c)
}

// setAdmin proposes a change that was checked; the disk gate is the caller's.
func (n *Node) setAdmin(ctx context.Context, t format.Tenant, c *AdminChange) (applied bool, err error) {
	cmd := format.Admin{Tenant: t, Row: c.Kind, Name: viewBytes(c.Name), Value: c.Value, Delete: c.Delete,
		Guarded: c.Guarded, At: c.At}
	_, bad := n.counted(ctx, func(b *format.CommandBuf) { b.AddAdmin(&cmd) })
	switch {
	case bad == nil:
		return true, nil
	case bad.Code == CodeGone && c.Guarded:
		return false, nil
	case bad.Code == CodeTooLarge:
		bad.Field, bad.Limit = "name", strconv.Itoa(format.MaxAdminRows)+" rows or "+
			strconv.Itoa(format.MaxAdminBytes>>20)+" MiB a tenant, "+strconv.Itoa(format.MaxAdminTotal>>20)+" MiB in all"
		bad.Message = "there are too many declarations, keys and other administrative rows: " + bad.Limit
	}
	return false, bad
}

func (c *AdminChange) check() *Error {
	limit := func(field string, n, most int) *Error {
		if n <= most {
			return nil
		}
		return &Error{Code: CodeTooLarge, Field: field, Limit: strconv.Itoa(most) + " bytes",
			Message: "the " + field + " of an administrative row is at most " + strconv.Itoa(most) + " bytes"}
	}
	if c.Kind == 0 {
		return errBad("kind", "", "an administrative row needs a kind")
	}
	if err := limit("name", len(c.Name), format.MaxAdminName); err != nil {
		return err
	}
	if c.Delete {
		return nil
	}
	return limit("value", len(c.Value), format.MaxAdminValue)
}
