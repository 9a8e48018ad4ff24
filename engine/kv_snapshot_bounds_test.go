package engine

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"queen/engine/format"
)

// TestSnapshotsAreBounded: however many tenants begin snapshots a node holds 64, and none over more than 64 MiB that were
// written since, so that what they keep from being collected is bounded.
func TestSnapshotsAreBounded(t *testing.T) {
	h := &kvSnapshots{}
	tenant := func(i int) format.Tenant { return format.Tenant{byte(i)} }
	for i := range nodeSnapshots + 1 {
		h.add(&kvSnapshot{token: fmt.Sprint(i), look: kvLook{tenant: tenant(i / 2), written: int64(i)}})
	}
	has := func(i int) bool {
		_, ok := h.find(tenant(i/2), fmt.Sprint(i), 0)
		return ok
	}
	require.Len(t, h.mu.list, nodeSnapshots)
	require.False(t, has(0))
	require.True(t, has(1))
	_, ok := h.find(tenant(9), "1", 0)
	require.False(t, ok, "another tenant's")

	h.drop(0, snapshotWritten+1)
	require.True(t, has(1))
	h.drop(0, snapshotWritten+2)
	require.False(t, has(1))
	require.True(t, has(2))
	require.EqualValues(t, nodeSnapshots-1, h.held.Load())
	h.drop(snapshotIdle.Microseconds(), 0)
	require.Empty(t, h.mu.list)
	require.Zero(t, h.held.Load())
}
