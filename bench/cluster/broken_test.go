package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"queen/bench/internal/nodes"
)

// TestPatches: what nodes are broken with fits the tree as it is.
func TestPatches(t *testing.T) {
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("there is no git")
	}
	found := 0
	for name, b := range breaks {
		if b.patch == "" {
			continue
		}
		found++
		patch, err := filepath.Abs(filepath.Join("testdata", b.patch))
		require.NoError(t, err)
		cmd := exec.Command("git", "apply", "--check", patch)
		cmd.Dir = "../.."
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "%s: %s", name, out)
	}
	all, err := os.ReadDir("testdata")
	require.NoError(t, err)
	require.Len(t, all, found, "each patch has a name")
}

// TestPlan: a campaign has each kind, at least 60 runs, some of five nodes, and each run's faults exist.
func TestPlan(t *testing.T) {
	all := (&campaign{}).plan(&options{other: "x", seed: 7})
	require.GreaterOrEqual(t, len(all), 60)
	five := 0
	for i, p := range all {
		require.Equal(t, i, p.number)
		require.Equal(t, 7+uint64(i), p.seed)
		require.NoError(t, nodes.CheckKinds((&options{faults: p.faults}).kinds()))
		if p.nodes == 5 {
			five++
		}
	}
	require.Greater(t, five, 10)
	require.Less(t, len((&campaign{}).plan(&options{})), len(all), "without another binary there is no upgrade")
}
