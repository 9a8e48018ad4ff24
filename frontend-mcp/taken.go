package frontendmcp

import (
	"sync"

	"queen/engine"
	"queen/engine/format"
)

// recently is for how long a consumer group counts as used after its cursors moved.
const recently = format.Wall(600e6) // microseconds

// maxTaken bounds what is remembered of groups and leases; what is forgotten counts as that of another worker.
const maxTaken = 10_000

// taken remembers where the cursors of consumer groups were when callers of this frontend looked or settled, since the
// engine keeps no time of that: cursors that stand where they were left say that nobody else is at work.
type taken struct {
	mu     sync.Mutex
	leases map[string]takenKey
	groups map[takenKey]stood
}

type takenKey struct {
	tenant       format.Tenant
	queue, group string
}

// stood is where the cursors of a group were, added up, and since when that is known.
type stood struct {
	at  uint64
	was format.Wall
	own bool // a caller of this frontend moved them there
}

func newTaken() *taken { return &taken{leases: map[string]takenKey{}, groups: map[takenKey]stood{}} }

func (t *taken) note(k takenKey, s stood) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.groups) >= maxTaken {
		clear(t.groups)
	}
	t.groups[k] = s
}

func (t *taken) took(lease string, k takenKey) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.leases) >= maxTaken {
		clear(t.leases)
	}
	t.leases[lease] = k
}

// ofLease is the group that a lease was taken for; false for a lease of somebody else.
func (t *taken) ofLease(lease string) (takenKey, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	k, ok := t.leases[lease]
	return k, ok
}

func (t *taken) of(k takenKey) (stood, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	s, ok := t.groups[k]
	return s, ok
}

// cursors adds up where the cursors of a group are.
func (c *call) cursors(k takenKey) (sum uint64, err error) {
	page := engine.Page{Limit: 1000}
	for looked := 0; looked < maxScan; {
		rows, next, err := c.engine.Catalog().GroupPartitions(c.ctx, c.caller, k.group, k.queue, page)
		if err != nil {
			return 0, err
		}
		for i := range rows {
			sum += uint64(rows[i].Next)
		}
		looked += len(rows)
		if page.After = next; next == "" {
			break
		}
	}
	return sum, nil
}

// usedByOthers tells whether somebody but callers of this frontend holds a lease of a group that has consumed, or moved its
// cursors in the last ten minutes as far as this frontend can tell: a group that it sees for the first time counts as used.
func (c *call) usedByOthers(k takenKey) (bool, error) {
	leases, err := c.leases(k.queue, k.group)
	if err != nil {
		return false, err
	}
	for i := range leases {
		if _, ours := c.f.taken.ofLease(leases[i].Lease); !ours {
			return true, nil
		}
	}
	sum, err := c.cursors(k)
	if err != nil {
		return false, err
	}
	now := c.f.now()
	s, known := c.f.taken.of(k)
	if known && s.at == sum && (s.own || now-s.was >= recently) {
		return false, nil
	}
	if !known || s.at != sum {
		c.f.taken.note(k, stood{at: sum, was: now})
	}
	return true, nil
}

// left notes where a caller of this frontend left the cursors of a group.
func (c *call) left(k takenKey) {
	if sum, err := c.cursors(k); err == nil { // else the group counts as used by others
		c.f.taken.note(k, stood{at: sum, was: c.f.now(), own: true})
	}
}
