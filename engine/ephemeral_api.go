package engine

import (
	"context"

	"queen/engine/ephemeral"
	"queen/engine/format"
)

// What ephemeral queues are made of; see package ephemeral for each.
type (
	EphemeralPush     = ephemeral.PushRequest
	EphemeralPop      = ephemeral.PopRequest
	EphemeralDelivery = ephemeral.Delivery
	EphemeralAck      = ephemeral.Ack
	EphemeralOutcome  = ephemeral.Outcome
	EphemeralSettings = ephemeral.Settings
	EphemeralWindow   = ephemeral.Window
	EphemeralPolicy   = ephemeral.Policy
	EphemeralQueue    = ephemeral.Queue
	EphemeralDepth    = ephemeral.Depth
	EphemeralStats    = ephemeral.Stats
)

// Verdicts of an EphemeralAck.
const (
	EphemeralCompleted = ephemeral.Completed
	EphemeralFailed    = ephemeral.Failed
	EphemeralRetry     = ephemeral.Retry
)

// EphemeralDefaults are the settings of a queue that nobody declared.
func EphemeralDefaults() EphemeralSettings { return ephemeral.DefaultSettings() }

// MaxEphemeralQueues bounds the rows of one listing.
const MaxEphemeralQueues = 10_000

// Ephemeral is the door to the queues that live in the memory of one node: messages survive nothing, declarations
// survive everything (S-eph-1 to 16). Names are at most 512 bytes without control characters (CodeBadRequest). While
// an operator has switched the family off, every call that changes something answers CodePaused.
type Ephemeral interface {
	// Push appends payloads to a partition, all or none, and gives them to pops that wait, before it returns. Nothing is
	// durable. Bounds in order: CodeQueueFull, then CodeQuotaExceeded or CodeRateLimited, then CodeOverloaded.
	Push(ctx context.Context, c Caller, r EphemeralPush) error
	// Pop hands out messages and may park up to r.Wait, with no polling. Nothing is (nil, nil). A delivery must end in
	// exactly one of Delivered and Abandon.
	Pop(ctx context.Context, c Caller, r EphemeralPop) (*EphemeralDelivery, error)
	// Ack settles messages of a group; one outcome an ack, in order.
	Ack(ctx context.Context, c Caller, queue, group string, acks []EphemeralAck) ([]EphemeralOutcome, error)

	// Configure declares a queue, replacing what was declared before; durable when it returns. It returns the
	// declaration with defaults filled in.
	Configure(ctx context.Context, c Caller, queue string, s EphemeralSettings) (EphemeralSettings, error)
	// Reset drops the messages of a queue and voids its leases; 0 when there is no such queue.
	Reset(ctx context.Context, c Caller, queue string) (dropped int64, err error)
	// Delete forgets a queue and its declaration; deleted says that there was either, declared that there was the latter.
	Delete(ctx context.Context, c Caller, queue string) (deleted, declared bool, err error)

	// Queues lists by name those in memory and those declared, at most MaxEphemeralQueues; more says that there are more.
	Queues(ctx context.Context, c Caller) (rows []EphemeralQueue, more bool, err error)
	// Depth counts a queue, for one group when group is not nil; CodeUnknownQueue.
	Depth(ctx context.Context, c Caller, queue string, group *string) (EphemeralDepth, error)

	// System is the state of the family on this node, of all tenants.
	System() EphemeralStats
	// SetEnabled switches the family on or off, durably and for every node.
	SetEnabled(ctx context.Context, on bool) error
}

// AdminStore is where declarations and switches are; *Node is one.
type AdminStore interface {
	AdminRow(t format.Tenant, kind format.AdminKind, name string) (AdminRow, bool)
	AdminRows(t format.Tenant, kind format.AdminKind, after string, limit int) []AdminRow
	AdminGeneration() uint64
	SetAdmin(ctx context.Context, t format.Tenant, c AdminChange) (applied bool, err error)
}
