package engine_test

import (
	"os"
	"path/filepath"
	"testing"

	"queen/engine"
	"queen/engine/enginetest"
	"queen/engine/enginetest/memnode"
)

// TestLists plays the lists in testdata/lists against the node and the rules: each showed a difference once. A list is what
// a Failure prints; the answers in it are what the node says today.
func TestLists(t *testing.T) {
	files, err := filepath.Glob("testdata/lists/*")
	if err != nil || len(files) == 0 {
		t.Fatalf("no lists: %v", err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			open := func(seed uint64) enginetest.Target {
				return memnode.Open(memnode.Options{Seed: seed, Keyed: t.TempDir(), Config: func(c *engine.Config) {
					c.MarkBytes, c.CheckpointBytes = 64<<10, 256<<10
				}})
			}
			got, failure, err := enginetest.Play(enginetest.RandomOptions{Open: open, Keyed: true}, 1, string(text))
			switch {
			case err != nil:
				t.Fatal(err)
			case failure != nil:
				t.Fatal(failure)
			case got != string(text):
				t.Errorf("answers are\n%s\nwant\n%s", got, text)
			}
		})
	}
}
