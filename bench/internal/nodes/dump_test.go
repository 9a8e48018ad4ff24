package nodes

import (
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// nodeEnv has the test's binary be a node that says that it is ready and then never comes to an end.
const nodeEnv = "NODES_TEST_NODE"

func TestMain(m *testing.M) {
	if os.Getenv(nodeEnv) == "" {
		os.Exit(m.Run())
	}
	runtime.GOMAXPROCS(spinners + 1)
	var begun sync.WaitGroup
	begun.Add(spinners)
	for range spinners {
		go runsOn(&begun)
	}
	begun.Wait()
	ready := os.Args[slices.Index(os.Args, "--ready-file")+1]
	if err := os.WriteFile(ready+".new", []byte(`{"HTTP":"127.0.0.1:1"}`), 0o644); err != nil {
		os.Exit(1)
	}
	if err := os.Rename(ready+".new", ready); err != nil {
		os.Exit(1)
	}
	waitsOn()
}

// spinners is how many goroutines of the node run and never rest.
const spinners = 3

func runsOn(begun *sync.WaitGroup) {
	for n := 0; ; n++ {
		if n == 1000 {
			begun.Done()
		}
	}
}

func waitsOn() { select {} }

// TestDump: of nodes that are ended so the logs tell what their goroutines do, those that wait and those that run, and that they ended is
// no finding.
func TestDump(t *testing.T) {
	t.Setenv(nodeEnv, "1")
	withoutCores()
	dir := t.TempDir()
	c := &Cluster{o: Options{Binary: os.Args[0], Dir: dir, Groups: 1}}
	for i := range 2 {
		s := &slot{index: i, http: "127.0.0.1:1"}
		s.seat.Store(&seat{number: i + 1, data: filepath.Join(dir, "node"+string('1'+rune(i)))})
		c.slots = append(c.slots, s)
	}
	require.NoError(t, c.startAll(c.slots))
	first := c.slots[0].running.Load()
	require.True(t, c.Up(0) && c.Up(1))
	c.Dump()
	require.False(t, c.Up(0) || c.Up(1))
	<-first.Ended()
	require.NoError(t, c.Ended())
	for _, name := range []string{"node1.log", "node2.log"} {
		text, err := os.ReadFile(filepath.Join(dir, name))
		require.NoError(t, err)
		require.Contains(t, string(text), "nodes.waitsOn")
		require.Equal(t, spinners, strings.Count(string(text), "nodes.runsOn("), "which no thread but their own can tell of")
	}
}
