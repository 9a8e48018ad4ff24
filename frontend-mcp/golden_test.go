package frontendmcp

import (
	"bytes"
	"encoding/json"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

// goldenTools is what tools/list answers where everything is offered: clients build on it, so that a change is meant.
const goldenTools = "testdata/tools.json"

// TestGoldenTools compares names, descriptions, annotations and schemas of all tools with what is written down.
// QUEEN_WRITE_GOLDEN=1 writes them.
func TestGoldenTools(t *testing.T) {
	r := newRig(t, nil)
	list, err := r.connect(Identity{}, nil).ListTools(r.ctx, nil)
	require.NoError(t, err)
	text, err := json.Marshal(list.Tools)
	require.NoError(t, err)
	var got bytes.Buffer
	require.NoError(t, json.Indent(&got, text, "", " "))
	got.WriteByte('\n')
	if os.Getenv("QUEEN_WRITE_GOLDEN") != "" {
		require.NoError(t, os.WriteFile(goldenTools, got.Bytes(), 0o644))
		return
	}
	want, err := os.ReadFile(goldenTools)
	require.NoError(t, err)
	require.Equal(t, string(want), got.String(), "run QUEEN_WRITE_GOLDEN=1 go test ./frontend-mcp -run TestGoldenTools")
}
