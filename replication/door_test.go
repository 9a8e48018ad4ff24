package replication

import (
	"io"
	"log/slog"
	"net"
	"strings"
	"testing"

	"queen/engine/format"
)

// TestStreamBeforeItsGroup: commands for a raft group that this node has, and has not opened yet, are nothing to warn of; those for one that
// it has not are.
func TestStreamBeforeItsGroup(t *testing.T) {
	told := make(lines, 4)
	log := slog.New(slog.NewTextHandler(told, &slog.HandlerOptions{Level: slog.LevelDebug}))
	o := Options{Node: 1, Listen: freePair(t), Groups: 2, Log: log}.withDefaults()
	d, err := openDoor(o, func(format.RaftGroup) *links { return nil })
	must(t, err)
	defer d.close()
	side, err := sideAddress(o.Listen)
	must(t, err)
	for g, want := range map[format.RaftGroup]string{2: "level=DEBUG", 3: "level=WARN"} {
		c, err := net.Dial("tcp", side)
		must(t, err)
		h := hello{group: g, node: 2}
		_, err = c.Write(h.append(nil))
		must(t, err)
		if n, err := io.Copy(io.Discard, c); n != 0 || err != nil {
			t.Errorf("group %d: %d bytes came: %v", g, n, err)
		}
		c.Close()
		if line := <-told; !strings.Contains(line, want) || !strings.Contains(line, "refused") {
			t.Errorf("group %d: %q, want %s", g, line, want)
		}
	}
}
