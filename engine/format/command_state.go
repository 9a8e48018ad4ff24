package format

// Txn brackets the Parts commands that follow it in the same entry: all of them apply or none does
// (S-txn-1). Acks are judged first, then appends, positions, keyed rows, timers (S-txn-4); the first
// refusal is the transaction's, and its parts answer CodeRolledBack.
type Txn struct {
	Parts uint32
	// KeepDuplicates has a message whose id is in its partition's window answered as a duplicate, as outside of a
	// transaction, instead of refusing all (S-str-8).
	KeepDuplicates bool
}

// Once brackets the Parts commands that follow it in the same entry, a Txn with its parts among them:
// they apply at most once while the row of the key lives (Idempotency-Key, R-22). Met again with the
// same digest it answers CodeRepeated and the place of the first, with another one CodeMismatch; either
// way the parts are not applied and answer CodeRolledBack.
type Once struct {
	Tenant Tenant
	// Key is the keyed hash of the caller's key, Digest that of the call's body.
	Key, Digest [16]byte
	// Keep is how long the row lives, microseconds on W.
	Keep  int64
	Parts uint32
	// Note is what the proposer needs to answer a repeat beside the verdicts, at most MaxOnceNote bytes. Apply keeps it
	// and never reads it.
	Note []byte
}

// MaxOnceNote bounds the note of a Once, bytes, so that it fits one keyed row with the verdicts.
const MaxOnceNote = 128 << 10

// Number is a JSON number as counters keep it: an integer as long as it fits, else a float.
type Number struct {
	Kind  NumberKind
	Int   int64
	Float float64
}

// NumberKind says which field of a Number counts.
type NumberKind uint8

const (
	NotANumber  NumberKind = 0
	IntNumber   NumberKind = 1
	FloatNumber NumberKind = 2
)

// KVOp is what a KV command does to its key.
type KVOp uint8

const (
	KVPut    KVOp = 1
	KVDelete KVOp = 2
	// KVIncr adds Number to a counter; a key that is absent or expired counts as 0 (S-kv-9, S-kv-10).
	KVIncr KVOp = 3
	// KVCheck writes nothing and holds while the key is at version Expect, 0 for absent (S-kv-15).
	KVCheck KVOp = 4
)

// KV changes or checks one key. Reads are no commands: they are answered from the state after the
// command they travel with.
type KV struct {
	Tenant         Tenant
	Op             KVOp
	Namespace, Key []byte
	// HasExpect makes Expect a condition: 0 the key must be absent, N it must be at version N.
	HasExpect bool
	Expect    uint64
	// Required rolls the surrounding Txn back when the condition is lost (S-txn-14).
	Required bool
	// Value is the JSON text that KVPut stores; Number what it says when it is a number, or the delta.
	Value  []byte
	Number Number
	// Min and Max bound the result of KVIncr; NotANumber means no bound.
	Min, Max Number
	// Keep is the row's lifetime from apply, microseconds on W; 0 means for ever. KVIncr uses it only when
	// it creates the counter (S-kv-11).
	Keep int64
}

// LockOp is what a Lock command does.
type LockOp uint8

const (
	LockAcquire LockOp = 1
	LockRenew   LockOp = 2
	LockRelease LockOp = 3
)

// LockNamespace is the KV namespace of permits: one row per slot, key name#slot, version = token.
const LockNamespace = "queen-locks"

// Lock takes, renews or gives back one permit (S-lock-1). The row's inline number is the keyed hash of
// its owner, so that apply can tell owners apart without reading a value.
type Lock struct {
	Tenant Tenant
	Op     LockOp
	Name   []byte
	// Owner is empty for a holder without a name.
	Owner []byte
	// Limit is the number of slots, 1..1024 (LockAcquire).
	Limit uint32
	// Slot and Token name the permit (LockRenew, LockRelease).
	Slot  uint32
	Token uint64
	// Keep is the permit's lifetime from apply, microseconds on W, above 0 (LockAcquire, LockRenew).
	Keep int64
	// Since is evidence of LockRenew: when the permit was acquired, as its row said; 0 means unknown.
	Since Wall
}

// TimerOp is what a Timer command does.
type TimerOp uint8

const (
	// TimerSchedule inserts or replaces a timer (S-tmr-1).
	TimerSchedule TimerOp = 1
	TimerCancel   TimerOp = 2
	// TimerFailed records that a fire was refused: the timer at Version becomes due at Due, its attempts rise.
	TimerFailed TimerOp = 3
	// TimerDead files the timer at Version, whose fires were refused for good too often, as a dead letter of the
	// partition that its message was for, and ends it; a recurring one goes on at Due (S-tmr-17).
	TimerDead TimerOp = 4
	// TimerPause holds a timer back, TimerResume lets it go on: what fell due meanwhile is due then.
	TimerPause  TimerOp = 5
	TimerResume TimerOp = 6
)

// TimerGroup is the consumer group under which timers that could not fire are dead letters.
const TimerGroup = "__timer__"

// TimerOffset and what lies above are no offsets of messages: they address dead letters whose message was never
// stored, each by the version that its timer had last.
const TimerOffset Offset = 1 << 63

// Timer schedules a message for later, by (queue, key).
type Timer struct {
	Tenant     Tenant
	Op         TimerOp
	Queue, Key []byte
	// Due is when to fire. With Relative it is counted from the entry's W, and may be 0 or less (S-tmr-6).
	Due      Wall
	Relative bool
	// Partition is the destination; TransactionID what the fired message will carry (not for recurring ones,
	// whose n-th message carries key@n).
	Partition     []byte
	TransactionID []byte
	// Recur is the recurrence as the proposer reads it; empty fires once. Apply keeps it and never reads it.
	Recur []byte
	// Frame is a native frame of the one message, without its id; stored in the keyed row.
	Frame []byte
	// Version and Reason belong to TimerFailed and TimerDead.
	Version uint64
	Reason  []byte
	// Counted says of TimerFailed that the same would be refused again: so many of them end the timer.
	Counted bool
	// Row is the timer's row as the dead letter keeps it (TimerDead): apply can not read it.
	Row []byte
}

// Fire appends what a due timer holds and deletes the timer, or moves a recurring one on to Next: both or
// neither (S-tmr-7). A timer that is not at Version any more, or not due at W, refuses it (CodeGone). A
// message that repeats one in the destination's dedup window ends the timer without an append.
type Fire struct {
	Tenant     Tenant
	Queue, Key []byte
	Version    uint64
	// Next is the next due time of a recurring timer; 0 ends it.
	Next   Wall
	Append Append
}
