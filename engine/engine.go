package engine

import (
	"context"

	"queen/engine/format"
)

// Caller is who asks. The tenant comes from the authenticated principal and from nowhere else.
type Caller struct {
	Tenant format.Tenant
	// Subject is stamped on pushed messages as producerSub; empty when authentication is off.
	Subject string
	// Key is the caller's Idempotency-Key; empty means none.
	Key string
}

// Engine is a node as frontends see it. Every context carries the caller's deadline and hang-up;
// cancelling it ends waiting, never a write already handed to the log, and a call that writes its entry
// itself, as one does that comes alone, returns when the disk has answered. Errors are *Error.
type Engine interface {
	// Do commits ops and returns one Result per op, in order, after they are durable (majority, or
	// this node's disk) and applied. Atomic batches: all or none, the first refusal named. Otherwise
	// each partition and each (partition, lease) is judged alone and refusals are in the results.
	// The error is about the call as a whole; when its Outcome is OutcomeUnknown the ops may have
	// been applied. Payloads are copied before Do returns.
	Do(ctx context.Context, c Caller, b Batch) ([]Result, error)

	// Pop claims offset ranges for a consumer group and may park up to req.Wait. An idle park writes
	// nothing to the log. Nothing to give is (nil, nil), unless the group conflates: then a Delivery
	// without claims tells so. A Delivery must end in exactly one of Delivered and Abandon.
	Pop(ctx context.Context, c Caller, req PopRequest) (*Delivery, error)

	// Read returns committed messages by offset; no lease, moves nothing (S-fetch-1). Answers carry
	// per-position errors; the call waits up to req.Wait for req.MinBytes.
	Read(ctx context.Context, c Caller, req ReadRequest) (*ReadResult, error)

	// Offsets answers where things are: earliest, latest, first at or after a time, of an id.
	Offsets(ctx context.Context, c Caller, q []OffsetQuery) ([]OffsetAnswer, error)

	// Watch reports partitions whose end, start or existence changed, each at most once between two
	// Next calls. The watcher must be closed.
	Watch(c Caller) Watcher

	// Keyed reads KV rows, timers and locks. Its methods answer CodeNotBuilt until that is built.
	Keyed() Keyed

	// Ephemeral is the door to the queues in memory.
	Ephemeral() Ephemeral

	// Records is the door of record batches, their producers, transactions and groups (Kafka's wire).
	Records() Records

	// Catalog lists and changes queues, partitions, consumer groups and dead letters.
	Catalog() Catalog

	// Inspect is the read-only side: groups, lag, leases, history, counters.
	Inspect() Inspect

	// Status tells the truth about the node's health; it never blocks on the log.
	Status(ctx context.Context) (Status, error)

	// Close drains, seals the log and releases the directory. Parked pops get their empty answer.
	Close(ctx context.Context) error
}

// Status is what health routes render.
type Status struct {
	// Role is leader, follower, candidate or stopped; Local is always leader or stopped.
	Role string
	// Node and Leader are replicas of a cluster; 0 on a single node, and Leader where none is known.
	Node   format.Replica
	Leader format.Replica
	// Cluster names the data, for ever: of one node or of several. Zero before the first entry.
	Cluster format.UUID
	// Quorum says that a majority answers, by way of who leads; of a single node, that it runs.
	Quorum  bool
	Term    format.Term
	Applied format.Index
	Durable format.Index
	// Commit is the newest entry that the node knows to be committed.
	Commit   format.Index
	CanWrite bool
	// Draining says that an operator has the node drain: it serves what reaches it, and leads only while nobody else can.
	Draining bool
	// Why says why CanWrite or Ready is false, else what Draining means; empty otherwise.
	Why   string
	Ready bool
	// Phase and Progress (0..1) describe start-up while not ready.
	Phase    string
	Progress float64
	// StorageFull is set between the disk gate's high and low marks (S-bp-4).
	StorageFull bool
	// ClockStep says that the wall clock stepped and W is slewing after it; empty otherwise.
	ClockStep string
	IOMode    string
	// Version of the data directory's format.
	Format uint32
	// Groups are the raft groups, by number, of a node with several; nil with one. Role, Leader, Term and the entries above are
	// then those of group 1; Quorum, CanWrite and Ready count for all.
	Groups []GroupStatus
}

// GroupStatus is a raft group as a node sees it; see Status for the fields. Why says why CanWrite is false; empty otherwise.
type GroupStatus struct {
	Group            format.RaftGroup
	Role             string
	Leader           format.Replica
	Term             format.Term
	Applied, Commit  format.Index
	Quorum, CanWrite bool
	Why              string
}

// RaftGroups are the raft groups by number, the one of a node that has no other too: where a person or a program is told of
// groups, all nodes look alike.
func (s *Status) RaftGroups() []GroupStatus {
	if s.Groups != nil {
		return s.Groups
	}
	return []GroupStatus{s.group(1)}
}

// group is the status of a node of one group as that of the group.
func (s *Status) group(g format.RaftGroup) GroupStatus {
	out := GroupStatus{Group: g, Role: s.Role, Leader: s.Leader, Term: s.Term, Applied: s.Applied, Commit: s.Commit, Quorum: s.Quorum,
		CanWrite: s.CanWrite}
	if !s.CanWrite { // else it says that the node drains
		out.Why = s.Why
	}
	return out
}
