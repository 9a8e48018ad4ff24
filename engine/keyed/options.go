package keyed

import (
	"errors"
	"log/slog"

	"github.com/dgraph-io/badger/v4"
	badgeroptions "github.com/dgraph-io/badger/v4/options"

	"queen/engine/clock"
)

// Options of Open. The zero value of a field means its default.
type Options struct {
	// Dir is the directory badger and this package own; created when absent, with its parents.
	// Required. One store per raft group.
	Dir string

	// Expect is the Manifest of the checkpoint being opened, as recorded by the caller; nil when no
	// checkpoint was ever recorded. With it Open refuses a directory that lost what it promises.
	Expect *Manifest

	// Logger takes badger's lines: informational ones and warnings at debug level, errors at error
	// level (they are counted as well). Default: discarded.
	Logger *slog.Logger

	// MemTableBytes is badger's memtable size, default and minimum 8 MiB; 16 MiB suits a group
	// heavy in keyed writes. Never lower it on an existing directory.
	MemTableBytes int64

	// FreeBytes returns the free bytes of the file system that holds Dir. badger writes through
	// mappings of sparse files, so a full disk kills the process with a signal that can not be
	// caught: with a nil FreeBytes nothing prevents that, which only tests should want.
	FreeBytes func() (uint64, error)

	// ReserveBytes must be free before Open, and before and during a flush. Default: three memtables
	// and two base levels, 152 MiB with default sizes.
	ReserveBytes uint64

	// RowsPerSecond bounds the rate of a flush, so that compaction leaves a core to apply. 0 is no
	// bound; 100,000 is a good value on a serving node. It needs Clock.
	RowsPerSecond int

	// Clock paces flushes. Required with RowsPerSecond, otherwise unused.
	Clock clock.Clock

	// OpenAttemptsMax is after how many Opens in a row that never returned (the process died) the
	// directory is refused with ErrOpenCrashed. Default 3; negative: never.
	OpenAttemptsMax int
}

const (
	memTableBytesMin = 8 << 20
	baseLevelBytes   = 64 << 20
	baseTableBytes   = 4 << 20
	vlogFileBytes    = 8 << 20
	valueThreshold   = 1 << 20
	memTables        = 2
)

func (o Options) withDefaults() Options {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.MemTableBytes == 0 {
		o.MemTableBytes = memTableBytesMin
	}
	if o.ReserveBytes == 0 {
		o.ReserveBytes = uint64(3*o.MemTableBytes + 2*baseLevelBytes)
	}
	if o.OpenAttemptsMax == 0 {
		o.OpenAttemptsMax = 3
	}
	return o
}

// Validate reports all problems at once.
func (o Options) Validate() error {
	var errs []error
	if o.Dir == "" {
		errs = append(errs, errors.New("keyed: Dir is required"))
	}
	if o.MemTableBytes != 0 && o.MemTableBytes < memTableBytesMin {
		errs = append(errs, errors.New("keyed: MemTableBytes is below 8 MiB"))
	}
	if o.RowsPerSecond < 0 {
		errs = append(errs, errors.New("keyed: RowsPerSecond is negative"))
	}
	if o.RowsPerSecond > 0 && o.Clock == nil {
		errs = append(errs, errors.New("keyed: RowsPerSecond needs a Clock"))
	}
	return errors.Join(errs...)
}

// badgerOptions are the measured ones. SyncWrites is not a choice: without it a WAL rotated during a
// flush is neither synced nor yet in a table when Sync returns, and a power cut loses acknowledged
// rows. With compression off both caches stay off: blocks are slices of the mapped file. The value
// log stays empty (see rowWhole). Tables are verified when opened and when written; verification per
// block read is worse than none, since badger turns a bad block into absent keys.
func (o Options) badgerOptions(log badger.Logger) badger.Options {
	return badger.DefaultOptions(o.Dir).
		WithSyncWrites(true).
		WithMemTableSize(o.MemTableBytes).
		WithNumMemtables(memTables).
		WithValueThreshold(valueThreshold).
		WithValueLogFileSize(vlogFileBytes).
		WithCompression(badgeroptions.None).
		WithBlockCacheSize(0).
		WithIndexCacheSize(0).
		WithBaseTableSize(baseTableBytes).
		WithBaseLevelSize(baseLevelBytes).
		WithNumLevelZeroTables(4).
		WithNumLevelZeroTablesStall(12).
		WithNumCompactors(2).
		WithNumVersionsToKeep(1).
		WithDetectConflicts(false).
		WithMetricsEnabled(false).
		WithNumGoroutines(2).
		WithChecksumVerificationMode(badgeroptions.OnTableRead).
		WithLogger(log)
}
