package engine

import (
	"time"

	"queen/engine/format"
)

// Bounds of keyed rows. The edge refuses what is beyond them before anything is written.
const (
	// MaxKVKey bounds a key, bytes; MaxKVNamespace a namespace.
	MaxKVKey       = 512
	MaxKVNamespace = 64
	// MaxKVValue bounds a value, bytes of compact JSON (S-kv-19).
	MaxKVValue = 64 << 10
	// MaxLockSlots bounds the limit of a semaphore (S-lock-2).
	MaxLockSlots = 1024
	// MaxTimerPayload bounds the payload of a timer, bytes; MaxTimerHorizon how far ahead it may be due.
	MaxTimerPayload = 1 << 20
	MaxTimerHorizon = 90 * 24 * time.Hour
)

// KVKind is what a KV op does.
type KVKind uint8

const (
	KVGet     KVKind = 1 // Key
	KVGetMany KVKind = 2 // Keys
	KVPrefix  KVKind = 3 // Key is the prefix; After, Limit, KeysOnly
	KVPut     KVKind = 4 // Value
	KVDelete  KVKind = 5
	KVIncr    KVKind = 6 // Delta, Min, Max
	KVCheck   KVKind = 7 // Expect
)

// KV reads or changes keys of one namespace (S-kv-*). Reads in a batch that also writes see the state
// after the whole batch; a batch of reads alone is one linearizable snapshot and writes nothing to the log.
// All KV ops of one Atomic batch are judged in order; a required one that loses rolls everything back.
type KV struct {
	Kind           KVKind
	Namespace, Key string
	Keys           []string
	// Value is compact JSON text, at most MaxKVValue bytes. It is copied before Do returns.
	Value []byte
	// Delta, Min and Max are numbers of KVIncr; Kind NotANumber leaves a bound out.
	Delta, Min, Max format.Number
	// HasExpect makes Expect a condition: 0 absent, N at version N.
	HasExpect bool
	Expect    uint64
	Required  bool
	// Keep is the lifetime; 0 means for ever. Below a millisecond counts as one.
	Keep time.Duration
	// After (exclusive), Limit (1..1000, 0 means 100) and KeysOnly belong to KVPrefix.
	After    string
	Limit    int
	KeysOnly bool
	// Snapshot has the pages of a KVPrefix be of one moment: SnapshotNew for the first one, and what that answered for later
	// ones, of the same prefix or another. Keyed.KV takes it, Do does not.
	Snapshot string
}

// SnapshotNew begins a snapshot.
const SnapshotNew = "new"

// KVRow is one live row.
type KVRow struct {
	Key     string
	Value   []byte // JSON text; nil with KeysOnly
	Version uint64
	Expires format.Wall // 0 never
	Updated format.Wall
}

// KVItem answers one KV op.
type KVItem struct {
	// Applied says that a write took place or that a check holds; Reason why not.
	Applied bool
	Reason  format.KVReason
	// Row is the row after the op: what was written, what a lost op lost to, what was read. Found is false
	// when there is none. A held check and a delete fill in nothing but the version.
	Found bool
	Row   KVRow
	// Rows answers KVGetMany and KVPrefix in key order, Missing names keys without a row. Truncated
	// says that more follows: at the limit, or after 4 MiB; Next is the After of the next page.
	Rows      []KVRow
	Missing   []string
	Truncated bool
	Next      string
	// Snapshot names the moment of a page that is not the last one, where the op asked for one.
	Snapshot string
}

// Lock takes, renews, or gives back a permit (S-lock-*). Each Lock op is judged alone, also in a
// batch with others; inside an Atomic batch use a required KVCheck on the permit's row instead.
type Lock struct {
	Op    format.LockOp
	Name  string // 1..256 bytes, no '#', no control characters
	Owner string // at most 256 bytes; "" is a holder without a name
	Limit uint32 // 1..MaxLockSlots; 0 means 1
	Slot  uint32
	Token uint64
	TTL   time.Duration
}

// LockItem answers one Lock op. Holders is filled when the op was refused.
type LockItem struct {
	Granted, Already bool
	Reason           format.KVReason // LockHeld, LockLost
	Slot             uint32
	Token            uint64
	Expires          format.Wall
	Holders          []LockHolder
}

// LockHolder is who holds one slot of a lock.
type LockHolder struct {
	Slot                    uint32
	Owner                   string // "" has no name
	Token                   uint64
	Since, Renewed, Expires format.Wall
}

// CatchUp says what a recurring timer does about fires that were due while nobody could fire.
type CatchUp uint8

const (
	CatchUpOne CatchUp = 0 // one fire for all that were missed
	CatchUpAll CatchUp = 1
	// CatchUpSkip leaves out what would be a minute late or more.
	CatchUpSkip CatchUp = 2
)

// Timer schedules or cancels a message for later (S-tmr-*). Exactly one of Delay, At and Cron says when:
// At when it is not 0, Cron when it is not empty, else Delay.
type Timer struct {
	Op         format.TimerOp // TimerSchedule, TimerCancel, TimerPause or TimerResume
	Queue, Key string
	Partition  string
	Delay      time.Duration
	At         format.Wall
	// Cron is five fields, Zone an IANA name ("" is UTC).
	Cron, Zone string
	CatchUp    CatchUp
	// MaxFires and Until end a recurring timer: after so many fires, at the last time that is not later
	// . 0 is no end.
	MaxFires uint64
	Until    format.Wall
	// Message is what will be delivered; its TransactionID may be empty. Payload at most MaxTimerPayload.
	Message Message
}

// TimerItem answers one Timer op.
type TimerItem struct {
	Status format.TimerStatus
	// Due is when it will fire, or would if it were not paused, 0 for cancels. MessageID is what the fired message will
	// have as its id; zero for recurring timers and whatever is no schedule.
	Due       format.Wall
	MessageID format.UUID
}

// CommitOffset sets or forgets where a consumer group reads next in one partition (S-txn-18). The queue must
// exist; partition and registration are created; a lease of the group there ends.
type CommitOffset struct {
	Queue, Partition, Group string
	Offset                  format.Offset
	Forget                  bool
	// Start is where the group starts elsewhere on the queue if it is not registered yet.
	Start    format.StartKind
	Metadata string // at most 4096 bytes
}

func (*Lock) op()         {}
func (*CommitOffset) op() {}
