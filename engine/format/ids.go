package format

import (
	"encoding/hex"
	"strconv"
)

// RaftGroup numbers a raft group of the node, 1..63 (dragonboat shard id). Local has one: 1.
type RaftGroup uint8

// Replica is a replica number inside a raft group. Local is always replica 1.
type Replica uint64

// Index numbers the entries of one raft group, from 1.
type Index uint64

// Ordinal numbers what the commands of one entry consume: one per proposed message of an Append,
// Fire or Redrive (refused messages too), one for every other command; at most MaxOrdinals.
type Ordinal uint32

// MaxOrdinals bounds the ordinals of one entry; a larger command is refused at the edge.
const MaxOrdinals = 1 << 22

// Place is a position in a raft group's log that is finer than an entry. Every "since then" in
// state is a Place, because pops ride behind pushes inside one entry.
type Place struct {
	Index   Index
	Ordinal Ordinal
}

// Before reports whether p comes before q in the log.
func (p Place) Before(q Place) bool {
	return p.Index < q.Index || p.Index == q.Index && p.Ordinal < q.Ordinal
}

// IsZero reports the place before the first entry.
func (p Place) IsZero() bool { return p == Place{} }

// PartitionID is counter*64 + raft group: never reused, and the id itself routes. 0 is none.
type PartitionID uint64

// RaftGroup is the group that owns the partition.
func (p PartitionID) RaftGroup() RaftGroup { return RaftGroup(p & 63) }

// String is the wire form: decimal digits (S-id-2).
func (p PartitionID) String() string { return strconv.FormatUint(uint64(p), 10) }

// QueueID names one life of a queue; deleting a queue changes its id at once. 0 is none.
type QueueID uint64

// ConsumerID names one life of a consumer group on one queue. 0 is none.
type ConsumerID uint64

// ProducerID names a producer of record batches: counter*64 + raft group, never reused. 0 is none.
type ProducerID int64

// Bounds of what producers stamp on their batches.
const (
	MaxProducerID    = 1<<62 - 1
	MaxProducerEpoch = 1<<15 - 1
	MaxSequence      = 1<<31 - 1
)

// DeadLetterID names a dead letter record: the Place at which it was filed, as a UUID on the wire.
type DeadLetterID = UUID

// Offset is the number of a message in its partition, from 0. It is never a byte position.
type Offset uint64

// Pos is a byte position in a file. It is never a message number.
type Pos uint64

// Mono is T, the possession clock: microseconds, advanced by entries only, still while no leader
// runs. Leases and live retry back-off are measured on it (engine design section 4).
type Mono int64

// Wall is W, the calendar clock: microseconds since the Unix epoch, never going back. createdAt,
// delays, dedup windows, retention and time to live are measured on it.
type Wall int64

// Term is a raft term; the epoch of an entry is the term of the leader that stamped it.
type Term uint64

// UUID is 16 raw bytes; the zero value means none.
type UUID [16]byte

// IsZero reports the absent id.
func (u UUID) IsZero() bool { return u == UUID{} }

// String is the canonical 8-4-4-4-12 form.
func (u UUID) String() string {
	var b [36]byte
	return string(u.AppendTo(b[:0]))
}

// AppendTo appends the canonical text form to dst.
func (u UUID) AppendTo(dst []byte) []byte {
	var b [36]byte
	hex.Encode(b[0:8], u[0:4])
	b[8] = '-'
	hex.Encode(b[9:13], u[4:6])
	b[13] = '-'
	hex.Encode(b[14:18], u[6:8])
	b[18] = '-'
	hex.Encode(b[19:23], u[8:10])
	b[23] = '-'
	hex.Encode(b[24:36], u[10:16])
	return append(dst, b[:]...)
}

// ParseUUID reads the canonical form, either letter case; ok is false for anything else.
func ParseUUID(s string) (u UUID, ok bool) {
	if len(s) != 36 || s[8] != '-' || s[13] != '-' || s[18] != '-' || s[23] != '-' {
		return UUID{}, false
	}
	compact := make([]byte, 0, 32)
	compact = append(compact, s[0:8]...)
	compact = append(compact, s[9:13]...)
	compact = append(compact, s[14:18]...)
	compact = append(compact, s[19:23]...)
	compact = append(compact, s[24:36]...)
	if _, err := hex.Decode(u[:], compact); err != nil {
		return UUID{}, false
	}
	return u, true
}

// Tenant scopes every name (S-id-1).
type Tenant = UUID

// DefaultTenant owns every request while tenancy is off (S-id-9).
var DefaultTenant = Tenant{15: 1}

// IDHash is the keyed 128-bit hash (SipHash-2-4-128 under the cluster's hash key) of a caller's
// transactionId alone; tables and runs key by (partition, IDHash).
type IDHash [16]byte

// Names and identifiers on the wire.
const (
	// DefaultPartition receives pushes that name none (S-id-3).
	DefaultPartition = "Default"
	// QueueMode is the reserved consumer group of pops and acks that name none (S-id-4).
	QueueMode = "__QUEUE_MODE__"
	// NameBudget bounds tenant (36) + queue + longer of partition and consumer group, bytes (S-id-6).
	NameBudget = 447
	// TenantNameBytes is what the tenant takes of NameBudget, also when tenancy is off.
	TenantNameBytes = 36
	// MaxTransactionID bounds a caller's transactionId, bytes (S-id-17).
	MaxTransactionID = 65535
)
