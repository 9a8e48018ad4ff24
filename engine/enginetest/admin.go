package enginetest

import (
	"bytes"
	"cmp"
	"context"
	"slices"
	"sync"

	"queen/engine"
	"queen/engine/format"
)

// adminRows keeps administrative rows in memory, as a sorted list.
type adminRows struct {
	mu         sync.Mutex
	rows       []adminRow
	generation uint64
}

type adminRow struct {
	tenant format.Tenant
	kind   format.AdminKind
	engine.AdminRow
}

// NewAdminRows returns an empty store of administrative rows, in memory.
func NewAdminRows() engine.AdminStore { return &adminRows{} }

func (a *adminRows) find(t format.Tenant, kind format.AdminKind, name string) (int, bool) {
	return slices.BinarySearchFunc(a.rows, name, func(r adminRow, name string) int {
		return cmp.Or(bytes.Compare(r.tenant[:], t[:]), cmp.Compare(r.kind, kind), cmp.Compare(r.Name, name))
	})
}

// AdminRow implements engine.AdminStore.
func (a *adminRows) AdminRow(t format.Tenant, kind format.AdminKind, name string) (engine.AdminRow, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	i, ok := a.find(t, kind, name)
	if !ok {
		return engine.AdminRow{}, false
	}
	return a.rows[i].AdminRow, true
}

// AdminRows implements engine.AdminStore.
func (a *adminRows) AdminRows(t format.Tenant, kind format.AdminKind, after string, limit int) (out []engine.AdminRow) {
	a.mu.Lock()
	defer a.mu.Unlock()
	i, found := a.find(t, kind, after)
	if found && after != "" {
		i++
	}
	for ; i < len(a.rows) && len(out) < limit && a.rows[i].tenant == t && a.rows[i].kind == kind; i++ {
		out = append(out, a.rows[i].AdminRow)
	}
	return out
}

// AdminGeneration implements engine.AdminStore.
func (a *adminRows) AdminGeneration() uint64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.generation
}

// SetAdmin implements engine.AdminStore.
func (a *adminRows) SetAdmin(_ context.Context, t format.Tenant, c engine.AdminChange) (bool, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	i, found := a.find(t, c.Kind, c.Name)
	at := format.Place{}
	if found {
		at = a.rows[i].At
	}
	if c.Guarded && c.At != at {
		return false, nil
	}
	a.generation++
	if found {
		a.rows = slices.Delete(a.rows, i, i+1)
	}
	if !c.Delete {
		row := adminRow{t, c.Kind, engine.AdminRow{Name: c.Name, Value: bytes.Clone(c.Value),
			At: format.Place{Index: format.Index(a.generation)}}}
		a.rows = slices.Insert(a.rows, i, row)
	}
	return true, nil
}

// Records implements engine.Engine: the model has no record batches.
func (m *Model) Records() engine.Records { return engine.UnbuiltRecords() }

// Ephemeral implements engine.Engine: the model has the same queues in memory as a node, and forgets its declarations
// with everything else.
func (m *Model) Ephemeral() engine.Ephemeral { return m.ephemeral }
