package engine

import (
	"context"

	"queen/engine/format"
)

// Keyed reads keyed rows. Answers are linearizable: they hold whatever was acknowledged before the call.
// Rows past their expiry are never returned. Byte slices are the caller's.
type Keyed interface {
	// KV answers reads (KVGet, KVGetMany, KVPrefix, KVCheck) from one moment, in order; later pages of a snapshot from
	// that one's moment, or with CodeSnapshotExpired when it can not be told any more.
	KV(ctx context.Context, c Caller, reads []KV) ([]KVItem, error)
	// Namespaces lists namespaces in byte order with their number of rows, expired ones not yet swept
	// included. It walks the tenant's keys: an operator's call.
	Namespaces(ctx context.Context, c Caller) ([]KVNamespace, error)
	// Browse pages over a namespace as operators see it: expired rows too, when includeExpired.
	Browse(ctx context.Context, c Caller, b KVBrowse) (KVItem, error)
	// Locks tells who holds each of the named locks.
	Locks(ctx context.Context, c Caller, names []string) ([][]LockHolder, error)
	// Timer finds one timer.
	Timer(ctx context.Context, c Caller, queue, key string) (TimerInfo, bool, error)
	// Timers pages in byte order of the key, without payloads; next is "" at the end.
	Timers(ctx context.Context, c Caller, queue string, p Page) (rows []TimerInfo, next string, err error)
	// CountTimers counts the timers of a queue whose key begins with prefix.
	CountTimers(ctx context.Context, c Caller, queue, prefix string) (uint64, error)
	// WatchKV follows a prefix of a namespace. See KVWatcher.
	WatchKV(ctx context.Context, c Caller, w KVWatch) (KVWatcher, error)
}

// KVNamespace is one namespace and how many rows it has.
type KVNamespace struct {
	Name string
	Keys uint64
}

// KVBrowse pages over a namespace.
type KVBrowse struct {
	Namespace, Prefix, After string
	Limit                    int // 1..1000, 0 means 100
	KeysOnly, IncludeExpired bool
	Snapshot                 string // as in KV
}

// TimerInfo is one pending timer.
type TimerInfo struct {
	Queue, Key, Partition string
	Due                   format.Wall
	TransactionID         string
	MessageID             format.UUID
	// Message is filled by Keyed.Timer only.
	Message          Message
	Cron, Zone       string
	CatchUp          CatchUp
	MaxFires         uint64
	Until            format.Wall
	Fires            uint64 // of a recurring one, so far
	Paused           bool   // it does not fire; what falls due meanwhile is due when it goes on
	Attempts         uint32 // fires refused since the last schedule
	LastError        string
	Created, Updated format.Wall
}

// KVWatch says what to follow. From 0 starts with what changes from now on; N sends first what is newer
// than version N. An N that no change had yet is a place in other data: the watcher is told that it lost its
// place, then every row.
type KVWatch struct {
	Namespace, Prefix string
	From              uint64
}

// KVChange is one change of a watched key, in order of version.
type KVChange struct {
	Row     KVRow
	Deleted bool // deleted or expired; Row has key and version only
}

// KVWatcher hands out changes. A watcher that falls behind the node's ring of recent changes, or resumes
// from before it, gets Lost once: deletions before the next change may be missing, live rows are not.
type KVWatcher interface {
	// Next blocks until there is a change or ctx ends.
	Next(ctx context.Context) (changes []KVChange, lost bool, err error)
	Close()
}
