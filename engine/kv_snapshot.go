package engine

import (
	"encoding/hex"
	"errors"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"queen/engine/format"
	"queen/engine/keyed"
)

// Bounds of what is held for pages of one moment. Views share their rows with the node and with each other: all
// snapshots together keep from being collected no more than the overlays that the oldest began with, and what was written
// since, which snapshotWritten bounds.
const (
	nodeSnapshots    = 64
	tenantSnapshots  = 16
	snapshotIdle     = time.Minute      // since the last page
	snapshotLife     = 10 * time.Minute // since the first one
	snapshotWritten  = 64 << 20         // bytes of keyed rows since the first one
	maxSnapshotToken = 64
)

// kvSnapshots are the moments of which pages may still be asked for. They are this node's, in memory: another node, and the
// next life of this one, know none of their tokens.
//
// INVARIANT: a page of a snapshot is of its moment or refused as CodeSnapshotExpired (TestSnapshotPages): the live rows of
// the view are a copy on write, and the store refuses to read a version whose history it gave up.
type kvSnapshots struct {
	// held is the length of the list, so that apply takes no lock while there is none.
	held atomic.Int32

	mu struct {
		sync.Mutex
		list []*kvSnapshot // the one that was used last is last
	}
}

type kvSnapshot struct {
	token string
	// look is never read through: pages take a copy.
	look        kvLook
	began, used int64 // monotonic time
}

// old says that nothing more is told of the snapshot.
func (s *kvSnapshot) old(now int64) bool {
	return now-s.used >= snapshotIdle.Microseconds() || now-s.began >= snapshotLife.Microseconds()
}

// later says that the op reads a further page of a snapshot.
func (op *KV) later() bool { return op.Snapshot != "" && op.Snapshot != SnapshotNew }

func errSnapshotExpired() *Error {
	return &Error{Code: CodeSnapshotExpired, Field: "snapshot",
		Message: "the snapshot is over, or another node's: begin again without it"}
}

// errSnapshotInDo refuses what Do can not answer: its reads are of the moment of its changes.
func errSnapshotInDo() *Error {
	return errBad("snapshot", "", "only a call that changes nothing reads pages of a snapshot")
}

// hold keeps the moment of a look for later pages and returns its token: the version that it is of, and what nobody
// guesses and no other life of the node repeats.
func (n *Node) hold(l *kvLook) string {
	var unique [8]byte
	n.cfg.Rand.Fill(unique[:])
	now := n.cfg.Clock.Mono()
	s := &kvSnapshot{token: strconv.FormatUint(l.version, 10) + "-" + hex.EncodeToString(unique[:]), began: now, used: now,
		look: kvLook{tenant: l.tenant, w: l.w, then: l.then, view: l.view, version: l.version, written: l.written}}
	n.keyed.snapshots.add(s)
	return s.token
}

// add keeps a snapshot in the place of the tenant's, or the node's, that was not used for longest if there is no room.
func (h *kvSnapshots) add(s *kvSnapshot) {
	h.mu.Lock()
	defer h.mu.Unlock()
	own, first := 0, 0
	for i, o := range h.mu.list {
		if o.look.tenant != s.look.tenant {
			continue
		}
		if own++; own == 1 {
			first = i
		}
	}
	switch {
	case own >= tenantSnapshots:
		h.mu.list = slices.Delete(h.mu.list, first, first+1)
	case len(h.mu.list) >= nodeSnapshots:
		h.mu.list = slices.Delete(h.mu.list, 0, 1)
	}
	h.mu.list = append(h.mu.list, s)
	h.held.Store(int32(len(h.mu.list)))
}

// find returns a look at the moment of a tenant's snapshot, which counts as a use of it.
func (h *kvSnapshots) find(t format.Tenant, token string, now int64) (kvLook, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	at := slices.IndexFunc(h.mu.list, func(s *kvSnapshot) bool { return s.token == token && s.look.tenant == t })
	if at < 0 || h.mu.list[at].old(now) {
		return kvLook{}, false
	}
	s := h.mu.list[at]
	s.used = now
	h.mu.list = append(slices.Delete(h.mu.list, at, at+1), s)
	return s.look, true
}

// drop forgets what was held for too long, and what too much was written since.
func (h *kvSnapshots) drop(now, written int64) {
	if h.held.Load() == 0 {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.mu.list = slices.DeleteFunc(h.mu.list, func(s *kvSnapshot) bool {
		return s.old(now) || written-s.look.written > snapshotWritten
	})
	h.held.Store(int32(len(h.mu.list)))
}

// laterPage reads a further page of a snapshot.
func (n *Node) laterPage(t format.Tenant, token string, s kvScan, left *int) (KVItem, *Error) {
	look, ok := n.keyed.snapshots.find(t, token, n.cfg.Clock.Mono())
	if !ok {
		return KVItem{}, errSnapshotExpired()
	}
	item, err := look.scan(s, left)
	switch {
	case errors.Is(err, keyed.ErrDiscarded): // two checkpoints came since
		return KVItem{}, errSnapshotExpired()
	case err != nil:
		n.event("keyed row", err)
		return KVItem{}, errRead(err)
	}
	if item.Truncated {
		item.Snapshot = token
	}
	return item, nil
}
