package engine_test

import (
	"fmt"
	"strings"
	"testing"

	"queen/engine"
)

// TestFullOverlayAsksForACheckpoint: keyed rows that fill memory are flushed although neither the bytes of
// the log nor time ask for a Mark or a checkpoint.
func TestFullOverlayAsksForACheckpoint(t *testing.T) {
	r, _ := withKeyed(t)
	keyedDir := r.config
	r.config = func(c *engine.Config) {
		keyedDir(c)
		c.KeyedBytes, c.MarkBytes, c.CheckpointBytes = 16<<10, 1<<40, 1<<40
		c.MarkEvery, c.CheckpointEvery = 1<<60, 1<<60
	}
	r.open()
	for i := range 8 {
		r.file(fmt.Sprint(i) + strings.Repeat("x", 3000))
	}
	for { // the checkpoint is written in the background
		r.node.Settle()
		r.node.SettleFiles()
		if len(r.node.Positions()) > 0 {
			break
		}
	}
	if at := r.node.Positions()[0]; at.Keyed == 0 {
		t.Fatalf("the checkpoint %+v holds no keyed rows", at)
	}
	r.close()
}
