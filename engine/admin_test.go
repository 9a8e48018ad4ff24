package engine_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"queen/engine"
	"queen/engine/format"
)

// Goal: administrative rows outlive clean stops, kills and checkpoints, exactly as they were.
// Method: eager checkpoints; every life changes, adds and deletes rows, and ends in one of the two ways.
func TestAdminRowsOutliveRestarts(t *testing.T) {
	r := newRig(t)
	r.open()
	want := map[string]string{}
	for life := range 6 {
		for i := range 5 {
			name, value := fmt.Sprintf("row %d", (life+i*7)%11), fmt.Sprintf("value %d.%d", life, i)
			applied, err := r.node.SetAdmin(t.Context(), someone.Tenant, engine.AdminChange{Kind: format.AdminEphemeral, Name: name, Value: []byte(value)})
			require.NoError(t, err)
			require.True(t, applied)
			want[name] = value
			r.tick(1500 * time.Millisecond)
		}
		gone := fmt.Sprintf("row %d", life)
		_, err := r.node.SetAdmin(t.Context(), someone.Tenant, engine.AdminChange{Kind: format.AdminEphemeral, Name: gone, Delete: true})
		require.NoError(t, err)
		delete(want, gone)
		if life%2 == 0 {
			r.close()
		} else {
			r.cut()
		}
		r.open()
		got := map[string]string{}
		for _, row := range r.node.AdminRows(someone.Tenant, format.AdminEphemeral, "", 100) {
			got[row.Name] = string(row.Value)
		}
		require.Equal(t, want, got, "life %d", life)
	}
	r.close()
}

// Goal: guards, tenants, kinds, pages and bounds of administrative rows, through the node.
func TestAdminRows(t *testing.T) {
	r := newRig(t)
	r.open()
	defer r.close()
	set := func(tenant format.Tenant, c engine.AdminChange) (bool, error) {
		return r.node.SetAdmin(context.Background(), tenant, c)
	}
	before := r.node.AdminGeneration()
	key := func(name, value string) engine.AdminChange {
		return engine.AdminChange{Kind: format.AdminKey, Name: name, Value: []byte(value)}
	}
	onlyNew := key("a", "1")
	onlyNew.Guarded = true
	for i, want := range []bool{true, false} {
		applied, err := set(someone.Tenant, onlyNew)
		require.NoError(t, err)
		require.Equal(t, want, applied, "attempt %d", i)
	}
	require.NotEqual(t, before, r.node.AdminGeneration())
	row, ok := r.node.AdminRow(someone.Tenant, format.AdminKey, "a")
	require.True(t, ok)
	change := key("a", "2")
	change.Guarded, change.At = true, row.At
	for i, want := range []bool{true, false} {
		applied, err := set(someone.Tenant, change)
		require.NoError(t, err)
		require.Equal(t, want, applied, "attempt %d", i)
	}
	for _, c := range []engine.AdminChange{key("b", "x"), key("c", ""), {Kind: format.AdminPlan, Name: "a"}} {
		_, err := set(someone.Tenant, c)
		require.NoError(t, err)
	}
	_, err := set(format.SystemTenant, engine.AdminChange{Kind: format.AdminKey, Name: "a", Value: []byte("system")})
	require.NoError(t, err)

	names := func(rows []engine.AdminRow) (s string) {
		for _, row := range rows {
			s += row.Name + "=" + string(row.Value) + " "
		}
		return s
	}
	require.Equal(t, "a=2 b=x ", names(r.node.AdminRows(someone.Tenant, format.AdminKey, "", 2)))
	require.Equal(t, "c= ", names(r.node.AdminRows(someone.Tenant, format.AdminKey, "b", 2)))
	require.Equal(t, "a=system ", names(r.node.AdminRows(format.SystemTenant, format.AdminKey, "", 9)))
	_, ok = r.node.AdminRow(format.Tenant{7}, format.AdminKey, "a")
	require.False(t, ok, "another tenant's row is not there")

	for field, c := range map[string]engine.AdminChange{
		"name":  key(strings.Repeat("n", format.MaxAdminName+1), ""),
		"value": key("n", strings.Repeat("v", format.MaxAdminValue+1)),
		"kind":  {Name: "n"},
	} {
		_, err := set(someone.Tenant, c)
		var e *engine.Error
		require.True(t, errors.As(err, &e), "%v", err)
		require.Equal(t, field, e.Field)
	}
	_, err = set(someone.Tenant, key("n", strings.Repeat("v", format.MaxAdminValue)))
	require.NoError(t, err)
}
