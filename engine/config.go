package engine

import (
	"errors"
	"fmt"
	"log/slog"
	"path"
	"time"

	"queen/engine/clock"
	"queen/engine/format"
	"queen/engine/keyed"
	"queen/engine/seal"
	"queen/engine/vfs"
)

// Config is what a node needs. The zero value of a field means its default.
type Config struct {
	// FS, Clock and Rand are the seams; required.
	FS    vfs.FS
	Clock clock.Clock
	Rand  clock.Rand
	// Log receives events; nil discards them. Nothing is logged per message.
	Log *slog.Logger
	// Dir is the data directory, created when absent; required.
	Dir string
	// KeyedDir is the directory of the keyed rows' store, on the machine's own file system whatever FS
	// is; default Dir/keyed when FS is *vfs.OS. Without one keyed rows live in memory and in the log
	// only, and while there are any no checkpoint is made.
	KeyedDir string
	// Cluster is the identity that a directory without one takes, for raft groups that are one cluster; zero draws one. A
	// directory of another cluster is refused.
	Cluster format.UUID
	// Fatal ends the process after a failed write or flush, or a broken invariant; nil panics. It must
	// not return.
	Fatal func(error)

	// Quit, when it is closed, ends an Open that waits for its cluster to form. nil never does.
	Quit <-chan struct{}

	// Rested is called, from a goroutine of the node, when it has been idle for a while after work and has
	// let go of what only work needs: time to give free memory back to the system. nil is not called.
	Rested func()

	// SegmentBytes is the size of a log segment; default 256 MiB, at least 1 MiB. Persisted per file.
	SegmentBytes int64
	// PoolReady is how many zeroed segment files are kept ready by a node that writes fast, or whose disk is
	// above DiskLow; default 4. Others keep one.
	PoolReady int
	// TailBytes bounds the recent entries kept in memory for readers; default 256 MiB.
	TailBytes int64

	// WriteBytes bounds the bytes of writes between admission and apply; default 128 MiB.
	WriteBytes int64
	// AdmitHold is how long a write waits for admission before CodeOverloaded; default 15 s.
	AdmitHold time.Duration
	// DeliveredBytes bounds the table of ids handed out, which resolves acks; default 64 MiB.
	DeliveredBytes int64
	// FilterBytes bounds the filters of the runs of ids in memory, without which a push with an id reads the disk; default 512 MiB.
	FilterBytes int64

	// DiskHigh and DiskLow are the disk gate in percent used; default 85 and 80 (S-bp-4).
	DiskHigh, DiskLow int
	// MarkBytes and MarkEvery end a chunk; default 64 MiB and 10 s of traffic.
	MarkBytes int64
	MarkEvery time.Duration
	// CheckpointBytes and CheckpointEvery space checkpoints; default 256 MiB and 60 s.
	CheckpointBytes int64
	CheckpointEvery time.Duration
	// KeyedBytes bounds the keyed rows in memory that no checkpoint holds yet, before one is asked for;
	// default 64 MiB.
	KeyedBytes int64
	// RetentionEvery is the pause between retention passes; default 5 s (S-ret-5).
	RetentionEvery time.Duration
	// CompactKeys is how many keys one compaction of a partition knows at a time, 32 bytes each; default 393,216.
	// A partition with more takes several.
	CompactKeys int
	// SweepEvery is the pause between lag sweeps; default 5 s.
	SweepEvery time.Duration
	// PartitionCleanup is how long an empty idle partition is kept; default 30 days, below 0 for ever.
	PartitionCleanup time.Duration
	// Keyring gives the keys of encryption at rest as they are now; nil, or a nil ring, means none: queues that want
	// encryption refuse writes, and what was encrypted can not be read. It is called often and must not wait.
	Keyring func() *seal.Ring
	// EphemeralBytes bounds the memory of ephemeral queues; default 256 MiB.
	EphemeralBytes int64
	// pace is what background work reads and writes between two pauses; paceBytes, but in tests.
	pace int
	// DefaultStartAll makes groups that name no subscription mode start at the oldest message
	// (S-sub-8).
	DefaultStartAll bool
}

// budget is a bound of memory that nodes of one process divide among them.
type budget struct {
	name  string
	bytes *int64
	def   int64
}

func (c *Config) budgets() []budget {
	return []budget{{"TailBytes", &c.TailBytes, 256 << 20}, {"WriteBytes", &c.WriteBytes, 128 << 20}, {"DeliveredBytes", &c.DeliveredBytes, 64 << 20},
		{"FilterBytes", &c.FilterBytes, 512 << 20}, {"KeyedBytes", &c.KeyedBytes, 64 << 20}}
}

// withBudgets fills in what Share divides.
func (c Config) withBudgets() Config {
	for _, b := range c.budgets() {
		if *b.bytes == 0 {
			*b.bytes = b.def
		}
	}
	if c.PoolReady == 0 {
		c.PoolReady = 4
	}
	return c
}

// Share is c for one of n nodes of a process, which divide the budgets of memory and the segment files kept ready among them.
func (c Config) Share(n int) Config {
	c = c.withBudgets()
	for _, b := range c.budgets() {
		*b.bytes = max(1, *b.bytes/int64(n))
	}
	c.PoolReady = max(1, c.PoolReady/n)
	return c
}

func (c Config) withDefaults() Config {
	c = c.withBudgets()
	def := func(p *int64, v int64) {
		if *p == 0 {
			*p = v
		}
	}
	dur := func(p *time.Duration, v time.Duration) {
		if *p == 0 {
			*p = v
		}
	}
	def(&c.SegmentBytes, 256<<20)
	def(&c.MarkBytes, 64<<20)
	def(&c.CheckpointBytes, 256<<20)
	dur(&c.AdmitHold, 15*time.Second)
	dur(&c.MarkEvery, 10*time.Second)
	dur(&c.CheckpointEvery, 60*time.Second)
	dur(&c.RetentionEvery, 5*time.Second)
	dur(&c.SweepEvery, 5*time.Second)
	dur(&c.PartitionCleanup, 30*24*time.Hour)
	if _, machine := c.FS.(*vfs.OS); machine && c.KeyedDir == "" {
		c.KeyedDir = path.Join(c.Dir, "keyed")
	}
	if c.pace == 0 {
		c.pace = paceBytes
	}
	if c.CompactKeys == 0 {
		c.CompactKeys = 3 << 17
	}
	if c.DiskHigh == 0 {
		c.DiskHigh = 85
	}
	if c.DiskLow == 0 {
		c.DiskLow = min(80, c.DiskHigh)
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.Fatal == nil {
		c.Fatal = func(err error) { panic(err) }
	}
	return c
}

// overlay is when rows in memory ask for a checkpoint.
func (c *Config) overlay() keyed.OverlayLimits { return keyed.OverlayLimits{Bytes: c.KeyedBytes} }

// Validate joins every problem of c.
func (c Config) Validate() error {
	var errs []error
	bad := func(cond bool, what string, args ...any) {
		if cond {
			errs = append(errs, fmt.Errorf("engine: "+what, args...))
		}
	}
	bad(c.FS == nil, "FS is missing")
	bad(c.Clock == nil, "Clock is missing")
	bad(c.Rand == nil, "Rand is missing")
	bad(c.Dir == "", "Dir is missing")
	bad(c.SegmentBytes != 0 && c.SegmentBytes < 1<<20, "SegmentBytes %d is below 1 MiB", c.SegmentBytes)
	bad(c.DiskHigh < 0 || c.DiskHigh > 100, "DiskHigh %d is not a percentage", c.DiskHigh)
	bad(c.DiskLow > c.DiskHigh, "DiskLow %d is above DiskHigh %d", c.DiskLow, c.DiskHigh)
	bad(c.CompactKeys < 0, "CompactKeys is negative")
	bad(c.EphemeralBytes < 0, "EphemeralBytes is negative")
	for _, b := range c.budgets() {
		bad(*b.bytes < 0, "%s %d is below 0", b.name, *b.bytes)
	}
	return errors.Join(errs...)
}
