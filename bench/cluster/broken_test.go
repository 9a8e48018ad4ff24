package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
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
