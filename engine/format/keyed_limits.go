package format

// Bounds of keyed rows, bytes. Edges refuse what is beyond them; apply answers CodeLimit and writes nothing.
const (
	MaxKVNamespace = 64
	MaxKVKey       = 512
	// MaxKVValue bounds the JSON text of a caller's value, MaxKVInternal that of a row in a namespace whose
	// name begins with InternalNamespace, which no caller's can.
	MaxKVValue        = 64 << 10
	MaxKVInternal     = 1 << 20
	InternalNamespace = '~'
	MaxLockName       = 256
	MaxLockOwner      = 256
	MaxTimerKey       = 512
	// MaxTimerName bounds queue and key of a timer together.
	MaxTimerName = 876
	// MaxTimerText bounds Timer.Recur; of Timer.Reason only so much is kept as a name may be long.
	MaxTimerText = 1024
	// MaxKeyedRow bounds the value of any keyed row.
	MaxKeyedRow = 1<<20 + 64<<10

	// deadTimerRoom is what a dead letter's row has at most beside the row of its timer: key, reason, the name of a
	// recurring timer's message (key@n), and what the fields take.
	deadTimerRoom = 2*MaxTimerKey + MaxTimerText + 64
)

// Fits says that the command is within the bounds of a row.
func (v *KV) Fits() bool {
	value := MaxKVValue
	if v.Namespace[0] == InternalNamespace {
		value = MaxKVInternal
	}
	return len(v.Namespace) <= MaxKVNamespace && len(v.Key) <= MaxKVKey && len(v.Value) <= value
}

// Fits says that the command is within the bounds of a row.
func (v *Lock) Fits() bool { return len(v.Name) <= MaxLockName && len(v.Owner) <= MaxLockOwner }

// Fits says that the command is within the bounds of a row, and that what it schedules could be appended.
func (v *Timer) Fits() bool {
	row := TimerRow{Partition: v.Partition, TransactionID: v.TransactionID, Recur: v.Recur, Frame: v.Frame}
	dead := DeadRow{Reason: v.Reason, Key: v.Key, Timer: v.Row}
	return len(v.Key) <= MaxTimerKey && len(v.Queue)+len(v.Key) <= MaxTimerName && TenantNameBytes+len(v.Queue)+len(v.Partition) <= NameBudget &&
		len(v.Recur) <= MaxTimerText && len(v.Reason) <= MaxTimerText &&
		len(v.TransactionID) <= MaxTransactionID && row.Size() <= MaxKeyedRow &&
		(v.Op != TimerDead || dead.Size() <= MaxKeyedRow)
}

// FitsDead says that what the command schedules could become a dead letter, whatever the reason. Apply does not ask:
// timers of before are larger.
func (v *Timer) FitsDead() bool {
	row := TimerRow{Partition: v.Partition, TransactionID: v.TransactionID, Recur: v.Recur, Frame: v.Frame}
	return row.Size()+deadTimerRoom <= MaxKeyedRow
}
