package format

// Code is a verdict of apply about one command. The numbers are on disk (outcome records).
type Code uint8

const (
	CodeOK Code = 0
	// CodeMoved refuses a whole entry stamped by a deposed leader.
	CodeMoved Code = 1
	// CodeStaleEvidence asks the proposer to look again; clients never see it.
	CodeStaleEvidence Code = 2
	// CodeNeedEvidence: a Pop met a partition whose missing cursor needs a look-up; see Claims so far.
	CodeNeedEvidence Code = 3
	CodeNotBuilt     Code = 4
	CodeMalformed    Code = 5
	// CodeUnknownPartition: never existed, deleted, or another tenant's.
	CodeUnknownPartition Code = 6
	CodeUnknownQueue     Code = 7
	CodeUnknownGroup     Code = 8
	// CodeNotLeased: the consumer group has neither cursor nor lease on that partition (S-ack-22).
	CodeNotLeased Code = 9
	// CodeLeaseInvalid: expired, released, foreign or unknown lease (S-ack-13).
	CodeLeaseInvalid Code = 10
	// CodePartial: a Release of a lease on which something was acked already; the lease stays.
	CodePartial Code = 11
	// CodeGone: the dead letter or row named is not there any more.
	CodeGone Code = 12
	// CodeDuplicate: a Redrive whose id is inside the dedup window; nothing moved.
	CodeDuplicate Code = 13
	// CodeEncryption: the queue wants encryption and no key is usable.
	CodeEncryption Code = 14
	// CodeUnresolvable: an ack above what was leased (S-ack-11).
	CodeUnresolvable Code = 15
	// CodeCommitted: failed, retry or dlq at or below the cursor (S-ack-10).
	CodeCommitted Code = 16
	// CodeLimit: a bound of the state is reached (names, rows).
	CodeLimit Code = 17
	// CodeRolledBack: part of a Txn or Once that did not take place.
	CodeRolledBack Code = 18
	// CodePrecondition: a required condition on a keyed row was lost.
	CodePrecondition Code = 19
	// CodeRepeated: a Once whose key was seen with the same body; CodeMismatch: with another body.
	CodeRepeated Code = 20
	CodeMismatch Code = 21
	// CodeFull: the partition retains as many messages as maxSize allows, and the batch is not divided.
	CodeFull Code = 22
	// What a producer is refused for: a gap before the batch, a repeat of one too old to be known, an epoch below the
	// producer's.
	CodeOutOfSequence     Code = 23
	CodeDuplicateSequence Code = 24
	CodeProducerEpoch     Code = 25
	// CodeProducerFenced: another one took over its transactional id. CodeProducerMapping: the id is not bound to that
	// producer.
	CodeProducerFenced  Code = 26
	CodeProducerMapping Code = 27
	// CodeTxnState: the transaction is not in a state, or has not the partition, for that.
	CodeTxnState Code = 28
)

// KVReason says why a KV or Lock command did not apply.
type KVReason uint8

const (
	KVApplied KVReason = 0
	KVExists  KVReason = 1
	KVAbsent  KVReason = 2
	KVVersion KVReason = 3
	KVLimit   KVReason = 4
	KVType    KVReason = 5
	// LockHeld: every slot is taken. LockLost: the token is not the permit's any more.
	LockHeld KVReason = 6
	LockLost KVReason = 7
)

// KVResult is the verdict about one KV command: what is true of the key after it.
type KVResult struct {
	Reason KVReason
	// Version is the row's, 0 when there is none; Number its value when it is a number.
	Version uint64
	Number  Number
	Expires Wall // 0 never
}

// LockResult is the verdict about one Lock command.
type LockResult struct {
	Reason KVReason
	// Already says that this owner held the permit before; the token is unchanged.
	Already bool
	Slot    uint32
	Token   uint64
	Expires Wall
}

// TimerStatus is what became of a timer (S-tmr-2).
type TimerStatus uint8

const (
	TimerScheduled   TimerStatus = 1
	TimerRescheduled TimerStatus = 2
	TimerCancelled   TimerStatus = 3
	TimerAbsent      TimerStatus = 4
	// TimerFiled: it is a dead letter; a recurring one goes on at Due.
	TimerFiled TimerStatus = 5
	// TimerPaused and TimerResumed: it is held back, or is not, whatever it was before.
	TimerPaused  TimerStatus = 6
	TimerResumed TimerStatus = 7
)

// TimerResult is the verdict about one Timer command. The id of the message it will fire is that of the
// command's place, except for recurring ones.
type TimerResult struct {
	Status  TimerStatus
	Version uint64
	Due     Wall
}

// TxnResult is the verdict about one Txn: its code is the reason of a roll back, Failed the number of the
// part that caused it, from 0.
type TxnResult struct{ Failed uint32 }

// OnceResult tells where the first call of a key took place, and what it answered: Parts is the canonical
// form of the parts' verdicts, which AppendParts makes and ParseParts reads. Apply fills in the place of a Once
// that takes place, and nothing of a repeated one: whoever answers the repeat reads the row (OnceRow).
type OnceResult struct {
	Index Index
	First Ordinal // of the Once command
	W     Wall
	Parts []byte
}

// DupResult tells what a refused message repeats, or that it was refused for want of room.
type DupResult struct {
	At     uint32 // number inside the frame as proposed
	Offset Offset // the original's offset
	Place  Place  // the original's place, for its message id
	W      Wall   // the original's createdAt
	// Full says that the message repeats nothing: its partition retains as many as maxSize allows.
	Full bool
}

// AppendResult is the verdict about one frame.
type AppendResult struct {
	Partition PartitionID
	Queue     QueueID
	// Base is the offset of the first stored message; Kept of Count were stored.
	Base  Offset
	Count uint32
	Kept  uint32
	// Dups names the refused ones, ordered by At; empty when Kept == Count.
	Dups []DupResult
	// Pos and Len are where the frame lies in the entry's bytes, Flags what its row says; set when something was stored.
	Pos, Len uint32
	Flags    RowFlags
	// Row numbers the frames stored in the raft group from 1; PrevRow is the partition's row before,
	// 0 when none. Row is 0 when nothing was stored. Both are functions of the log.
	Row, PrevRow uint64
	// NewQueue and NewPartition report creation by this command.
	NewQueue, NewPartition bool
}

// ControlRow is where the end of a transaction took an offset of a partition.
type ControlRow struct {
	Partition    PartitionID
	Queue        QueueID
	Offset       Offset
	Row, PrevRow uint64 // as in AppendResult
}

// EndTxnResult is the verdict about one EndTxn.
type EndTxnResult struct {
	// ID and Epoch are the producer's from now on.
	ID    ProducerID
	Epoch int16
	// From and To are its rows in Results.Controls: none for a repeat.
	From, To uint32
	// Pos and Len are where the control batch lies in the entry's bytes.
	Pos, Len uint32
}

// ProducerResult is the verdict about one Producer.
type ProducerResult struct {
	ID    ProducerID
	Epoch int16
	// Failed is the number of the partition or position that was refused.
	Failed uint32
}

// Claim is one partition's part of a Pop.
type Claim struct {
	Partition PartitionID
	Queue     QueueID
	First     Offset
	// End is one past the last offset claimed.
	End Offset
	// Attempt is the 1-based delivery count of this head (S-lease-7).
	Attempt uint32
	// NewestRow is the partition's newest row at apply, from which a look-up starts.
	NewestRow uint64
	// Conflated counts the positions a conflating claim skips.
	Conflated uint64
}

// PopResult is the verdict about one Pop.
type PopResult struct {
	// Lease is zero for commit-on-delivery and for an empty pop.
	Lease UUID
	// Expiry is when the lease ends, on T.
	Expiry Mono
	Claims []Claim
	// Need names the partition and generation for which a missing cursor needs evidence
	// (CodeNeedEvidence); claims before it stand.
	Need           PartitionID
	NeedGeneration uint32
	NeedStart      StartKind
	NeedFrom       Wall
	NeedAfter      Place
	// Again is set when the Pop ended at its look limit and more may be ready.
	Again bool
	// Conflate is the stored policy of the group; Conflict that the request asked for another.
	Conflate, Conflict bool
}

// AckResult is the verdict about one Ack. Cursors name the next offset to deliver.
type AckResult struct {
	// Queue is that of the partition; 0 when there is no such partition, and in verdicts that a key remembers.
	Queue         QueueID
	Before, After Offset
	// LeaseFirst and LeaseEnd are the leased range before the call, equal when none.
	LeaseFirst, LeaseEnd Offset
	Released             bool
	// Filed reports dead letters written, FiledFirst..FiledEnd; Dropped that the budget was spent with
	// the dead letter queue off.
	Filed                bool
	FiledFirst, FiledEnd Offset
	DeadLetter           DeadLetterID
	Dropped              bool
	// Conflated counts the messages that a conflating group settled without having been handed them.
	Conflated uint64
}

// ExtendResult is the verdict about one Extend.
type ExtendResult struct {
	Renewed uint32
	// Expiry is the earliest expiry among renewed rows.
	Expiry Mono
}

// CountResult is the verdict of commands that touch a number of rows.
type CountResult struct {
	Rows    uint64
	Existed bool
	// More says that a bounded command has work left.
	More bool
}

// Result is the verdict about one command: the code, and where its details are in Results.
type Result struct {
	Kind Kind
	Code Code
	// First is the first ordinal the command consumed.
	First Ordinal
	// At is the position of the details in the slice of the kind; meaningless where a kind has none.
	At uint32
}

// Results collects the verdicts of one entry in command order; details lie in one slice per kind
// so that an entry of thousands of frames costs a handful of allocations. Reset keeps capacity.
type Results struct {
	// Refused is not CodeOK when the whole entry was refused (CodeMoved, CodeMalformed).
	Refused Code
	Items   []Result
	Appends []AppendResult // Append, Redrive, Fire
	Pops    []PopResult
	Acks    []AckResult
	Extends []ExtendResult
	Counts  []CountResult // Release, Register, SetOffset, Trim, Delete, Sweep, Purge, ...
	Configs []ConfigResult
	KVs     []KVResult
	Locks   []LockResult
	Timers  []TimerResult
	Txns    []TxnResult
	Onces   []OnceResult
	Groups  []GroupResult

	Producers []ProducerResult
	Ends      []EndTxnResult
	Controls  []ControlRow // of Ends
}

// ConfigResult is the verdict about one Configure.
type ConfigResult struct {
	Queue   QueueID
	Created bool
	Options QueueOptions
}

// Reset empties r for the next entry.
func (r *Results) Reset() {
	r.Refused = CodeOK
	r.Items = r.Items[:0]
	r.Appends = r.Appends[:0]
	r.Pops = r.Pops[:0]
	r.Acks = r.Acks[:0]
	r.Extends = r.Extends[:0]
	r.Counts = r.Counts[:0]
	r.Configs = r.Configs[:0]
	r.KVs = r.KVs[:0]
	r.Locks = r.Locks[:0]
	r.Timers = r.Timers[:0]
	r.Txns = r.Txns[:0]
	r.Onces = r.Onces[:0]
	r.Groups = r.Groups[:0]
	r.Producers, r.Ends, r.Controls = r.Producers[:0], r.Ends[:0], r.Controls[:0]
}
