package vfs

import "fmt"

// OpKind names one kind of call on FS or File, for hooks, fault rules and logs.
type OpKind uint8

// The kinds. OpPersist is the second half of a WriteAtSync on Mem: the moment at which the bytes just written
// become durable. A crash there finds any part of them on disk.
const (
	OpOpen OpKind = iota
	OpCreate
	OpRead
	OpWrite
	OpWriteSync
	OpPersist
	OpSync
	OpTruncate
	OpPreallocate
	OpSize
	OpClose
	OpRename
	OpLink
	OpRemove
	OpMkdirAll
	OpList
	OpStat
	OpSyncDir
	OpLock
	OpUnlock
	OpFree
	opKinds
)

var opNames = [opKinds]string{
	"open", "create", "read", "write", "write-sync", "persist", "sync", "truncate", "preallocate", "size", "close",
	"rename", "link", "remove", "mkdir-all", "list", "stat", "sync-dir", "lock", "unlock", "free",
}

// String returns the name used in logs and goldens.
func (k OpKind) String() string {
	if int(k) < len(opNames) {
		return opNames[k]
	}
	return fmt.Sprintf("op(%d)", uint8(k))
}

// Mutating reports whether the operation can change what a crash leaves on disk. Opening an existing file does not;
// opening with Truncate is reported as OpTruncate after OpOpen.
func (k OpKind) Mutating() bool {
	switch k {
	case OpCreate, OpWrite, OpWriteSync, OpPersist, OpSync, OpTruncate, OpPreallocate,
		OpRename, OpLink, OpRemove, OpMkdirAll, OpSyncDir:
		return true
	}
	return false
}

// Op is one call: what, on which name, and where in the file.
type Op struct {
	Kind    OpKind
	Name    string
	NewName string // OpRename, OpLink
	Off     int64  // OpRead, OpWrite, OpWriteSync, OpPersist
	Len     int64  // as Off; the new size for OpTruncate and OpPreallocate
}

// String renders the operation as one line, the form used by Logging.
func (o Op) String() string {
	switch o.Kind {
	case OpRead, OpWrite, OpWriteSync, OpPersist:
		return fmt.Sprintf("%s: %s [%d,+%d]", o.Kind, o.Name, o.Off, o.Len)
	case OpTruncate, OpPreallocate:
		return fmt.Sprintf("%s: %s %d", o.Kind, o.Name, o.Len)
	case OpRename, OpLink:
		return fmt.Sprintf("%s: %s -> %s", o.Kind, o.Name, o.NewName)
	default:
		return fmt.Sprintf("%s: %s", o.Kind, o.Name)
	}
}
