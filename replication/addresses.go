package replication

import (
	"log/slog"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	pb "github.com/lni/dragonboat/v4/raftpb"

	"queen/engine/clock"
	"queen/engine/format"
)

// addresses are the raft addresses of the members of all raft groups here, which never change: another one under a number is that of a node that
// is set up wrongly, or of a copy of a directory that runs somewhere else. What such a one says to raft is dropped. The library would take it
// for the member, or end the process, since it knows the member by another address.
type addresses struct {
	log   *slog.Logger
	clock clock.Clock
	known atomic.Pointer[map[member]string] // never changed, but replaced

	mu    sync.Mutex // while it is replaced, and what follows
	quiet int64      // monotonic time until which nothing is told
}

// member is one of a raft group, by its number.
type member struct{ group, node uint64 }

// learn takes over the members of a group in place of those that were known.
func (a *addresses) learn(g format.RaftGroup, all map[format.Replica]string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	next := map[member]string{}
	if old := a.known.Load(); old != nil {
		maps.Copy(next, *old)
	}
	maps.DeleteFunc(next, func(m member, _ string) bool { return m.group == uint64(g) })
	for node, addr := range all {
		next[member{uint64(g), uint64(node)}] = addr
	}
	if old := a.known.Load(); old == nil || !maps.Equal(*old, next) {
		a.known.Store(&next)
	}
}

// admit reports that raft may take a batch of messages: none is of a member that has another address than who sent it.
func (a *addresses) admit(b *pb.MessageBatch) bool {
	from := b.SourceAddress
	if from == "" {
		return true // the library learns no address from it
	}
	var known map[member]string
	if m := a.known.Load(); m != nil {
		known = *m
	}
	for i := range b.Requests {
		r := &b.Requests[i]
		if r.From == 0 {
			continue
		}
		addr, ok := known[member{r.ShardID, r.From}]
		if !ok {
			if _, err := sideAddress(from); err == nil {
				continue // one that was added, of which this node has not heard yet
			}
		}
		if addr != from {
			a.refused(format.Replica(r.From), from, addr)
			return false
		}
	}
	return true
}

// refused tells of it, now and then.
func (a *addresses) refused(node format.Replica, from, addr string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	now := a.clock.Mono()
	if now < a.quiet {
		return
	}
	a.quiet = now + time.Minute.Microseconds()
	a.log.Warn("raft's messages of a node are dropped, since they come from another address than the member's: it is set up wrongly, or a copy "+
		"of its directory runs somewhere else", "node", node, "from", from, "member", addr)
}
