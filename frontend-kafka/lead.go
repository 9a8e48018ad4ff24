package frontendkafka

import (
	"time"

	"queen/engine"
	"queen/engine/format"
	"queen/frontend-kafka/groups"
)

const (
	// leadEvery is how often a node looks which groups it coordinates.
	leadEvery = 500 * time.Millisecond
	// rowsAgain is how often it looks through the rows of those that it does coordinate: who led before may have written one when
	// another node led already, and a group whose row could not be written is let go of.
	rowsAgain = time.Minute
)

// lookedAt is in which term a node looked through a tenant's rows, and when it does so again, monotonic microseconds.
type lookedAt struct {
	term  format.Term
	again int64
}

// takeOver has the node coordinate the groups of which it leads, where their rows name members: one that does not come back is
// given up by the coordinator, and only one that has the group in memory does. Nobody need ask for the group: until then native
// consumers of it are refused what the member held, by every node. seen is what the last call returned.
func (f *Frontend) takeOver(seen map[format.Tenant]lookedAt) map[format.Tenant]lookedAt {
	now, next := f.opts.Clock.Mono(), map[format.Tenant]lookedAt{}
	for _, t := range f.engine.Records().GroupTenants() {
		if !f.coordinates(t) {
			continue
		}
		_, term := f.engine.Records().Leader(engine.Caller{Tenant: t})
		at, ok := seen[t]
		if ok && at.term == term && now < at.again {
			next[t] = at
		} else if f.takeRows(t) {
			next[t] = lookedAt{term, now + rowsAgain.Microseconds()}
		}
	}
	return next
}

// takeRows looks through a tenant's rows; false when it could not read them all.
func (f *Frontend) takeRows(t format.Tenant) bool {
	ctx, cancel := within(f.stopping, 0)
	defer cancel()
	for after := ""; ; {
		rows, next, err := f.engine.Records().GroupRows(ctx, engine.Caller{Tenant: t}, after, 1000)
		if err != nil {
			return false
		}
		for i := range rows {
			f.groups.Take(groups.Key{Tenant: t, Group: rows[i].Group}, rows[i].Value, rows[i].At)
		}
		if after = next; next == "" {
			return true
		}
	}
}

// every calls fn again and again until the node stops, with d in between.
func (f *Frontend) every(d time.Duration, fn func()) {
	for f.stopping.Err() == nil {
		fn()
		t := f.opts.Clock.NewTimer(d)
		select {
		case <-t.C():
		case <-f.stopping.Done():
		}
		t.Stop()
	}
}
