package replication

import (
	"sync"

	"queen/engine"
	"queen/engine/format"
)

// unusedEphemeral is for groups above the first one, which serves the ephemeral queues of all tenants.
const unusedEphemeral = 1 << 20

// groupConfig is what a raft group of a node takes of the node's configuration: a directory of its own, its share of memory and of segment files that
// are kept ready, and the cluster's identity, which groups above the first one take over.
func groupConfig(cfg engine.Config, h *host, g format.RaftGroup, cluster format.UUID) engine.Config {
	cfg = cfg.Share(h.o.groups())
	if cfg.Rested != nil {
		cfg.Rested = h.quiet.rest
	}
	if g == firstGroup {
		return cfg
	}
	cfg.Dir, cfg.KeyedDir, cfg.Cluster = engine.GroupDir(cfg.Dir, g), "", cluster
	cfg.EphemeralBytes = unusedEphemeral
	if cfg.Log != nil {
		cfg.Log = cfg.Log.With("group", g)
	}
	return cfg
}

// quiet has a node give memory back when one of its raft groups has fallen idle and none of them is busy: collecting would disturb those.
type quiet struct {
	do func() // nil does nothing

	mu struct {
		sync.Mutex
		owed bool
		last map[format.RaftGroup]format.Index // of each log, a round of the census ago
		calm map[format.RaftGroup]int          // for how many rounds it has not grown by much
	}
}

const (
	// calmRounds of the census without calmEntries more entries make a group idle enough to be disturbed.
	calmRounds  = 3
	calmEntries = 16
)

// rest notes that a group has fallen idle.
func (q *quiet) rest() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.mu.owed = true
}

// note is called in each round of a group's census with the end of its log.
func (q *quiet) note(g format.RaftGroup, last format.Index) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.mu.last == nil {
		q.mu.last, q.mu.calm = map[format.RaftGroup]format.Index{}, map[format.RaftGroup]int{}
	}
	q.mu.calm[g]++
	if last-q.mu.last[g] >= calmEntries {
		q.mu.calm[g] = 0
	}
	q.mu.last[g] = last
	if !q.mu.owed {
		return
	}
	for _, rounds := range q.mu.calm {
		if rounds < calmRounds {
			return
		}
	}
	q.mu.owed = false
	go q.do()
}
