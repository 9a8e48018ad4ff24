package idruns

import (
	"fmt"

	"queen/engine/format"
)

// runName is the file of the ids of chunks first to last of a raft group. Its content is a function of
// the name, on every replica and at any time.
func runName(g format.RaftGroup, first, last uint64) string {
	return fmt.Sprintf("ids-%02d-%012d-%012d.run", g, first, last)
}

// parseRunName is the way back; ok is false for a name of another kind, group or spelling.
func parseRunName(name string, g format.RaftGroup) (first, last uint64, ok bool) {
	var group format.RaftGroup
	if _, err := fmt.Sscanf(name, "ids-%d-%d-%d.run", &group, &first, &last); err != nil || group != g {
		return 0, 0, false
	}
	return first, last, first > 0 && first <= last && runName(g, first, last) == name
}
