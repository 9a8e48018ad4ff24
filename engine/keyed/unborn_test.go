package keyed

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// Goal: a crash between the creation of a log of badger's and its first flush leaves a store that opens.
func TestUnbornLogs(t *testing.T) {
	dir := t.TempDir()
	s, err := Open(Options{Dir: dir})
	require.NoError(t, err)
	require.NoError(t, s.Close())
	require.NoError(t, os.WriteFile(filepath.Join(dir, "00077.mem"), nil, 0o644))
	require.NoError(t, os.Remove(filepath.Join(dir, cleanFile)))
	s, err = Open(Options{Dir: dir})
	require.NoError(t, err)
	require.True(t, s.report.Unclean)
	require.NoError(t, s.Close())
}
