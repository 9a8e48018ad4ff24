//go:build faults

package main

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestFaultClock: the wall time follows the file, the mono time does not, and the variable is no unknown setting.
func TestFaultClock(t *testing.T) {
	t.Setenv("QUEEN_FAULT_CLOCK", "x")
	require.Equal(t, "x", takeEnv("QUEEN_FAULT_CLOCK"))
	_, there := os.LookupEnv("QUEEN_FAULT_CLOCK")
	require.False(t, there)
	was := faultClock
	defer func() { faultClock = was }()
	faultClock = filepath.Join(t.TempDir(), "clock")
	j := systemClock().(*jumpy)
	require.Zero(t, j.offset.Load())
	mono := j.Mono()
	require.NoError(t, os.WriteFile(faultClock, []byte("-3600000\n"), 0o644))
	require.Eventually(t, func() bool { return j.Now() < j.Clock.Now()-time.Hour.Microseconds()/2 }, time.Minute, time.Millisecond)
	j.look() // all of it is there
	require.GreaterOrEqual(t, j.Mono(), mono)
	require.NoError(t, os.WriteFile(faultClock, []byte("nothing"), 0o644))
	j.look()
	require.Equal(t, -time.Hour.Microseconds(), j.offset.Load())
}
