package logstore

import (
	"errors"
	"fmt"
	"math"
	"time"

	"queen/engine/clock"
	"queen/engine/format"
	"queen/engine/vfs"
)

// Options configures Open. The zero value of a field means its default.
type Options struct {
	// FS holds Dir; required. Clock paces the beacon and the pool's retries, Rand draws nonces; default:
	// the machine's.
	FS    vfs.FS
	Clock clock.Clock
	Rand  clock.Rand
	// Dir is created when absent; required. The caller holds the lock that keeps other processes out.
	Dir string

	// SegmentBytes is the size of new segment files, a multiple of 4 KiB; default 256 MiB, at least 64
	// KiB. Existing segments keep theirs.
	SegmentBytes int64
	// ExtentBytes bounds one write; default the smaller of 8 MiB and a quarter of the segment. Under 1 MiB
	// and 8 KiB it also bounds entries, since fragments have 1 MiB.
	ExtentBytes int
	// SaverBytes bounds what one caller of Append gets into an extent in one turn, a single record apart;
	// the others have theirs before it gets more. Default the smaller of 1 MiB and half an extent.
	SaverBytes int
	// PoolReady is how many segment files are kept written and ready; default 4. PoolReserve more are kept
	// for appends after PoolLow; default 2. A node that fills a segment in no less than a minute keeps one
	// file until it writes faster, or FillPool is called.
	PoolReady, PoolReserve int
	// TailBytes bounds the recent extents kept in memory for readers; default 256 MiB, below 0 keeps none.
	TailBytes int64
	// OpenFiles bounds the files of sealed segments kept open for readers; default 64. Files in use may
	// exceed it.
	OpenFiles int
	// BeaconEvery is the least time between two writes of the beacon; default 5 ms.
	BeaconEvery time.Duration
	// Disk names the data directory in every segment; zero takes what the segments say, or draws one for a
	// new log.
	Disk format.UUID

	// FirstSegment numbers the first segment of a new log, default 1: numbers below are of segments elsewhere, in which frames of
	// bulk segments were born. Boot is a number of opens that a new log goes on from.
	FirstSegment uint32
	Boot         uint64

	// Proven are indexes that something outside the log proves durable (a checkpoint, a peer): a log that
	// ends below is rotten, not torn, and Open says so.
	Proven map[format.RaftGroup]format.Index
	// Closed reports that a segment is index-closed: its entries are then not loaded into the resident
	// index unless raft needs them. nil means none is.
	Closed func(segment uint32) bool

	// Reclaimed reports that a segment was given to Reclaim: it may be missing between others. nil means
	// that none is.
	Reclaimed func(segment uint32) bool

	// BulkNeeded reports that a bulk segment (its number has format.BulkBit) was finished for all that is
	// known: Open refuses one that is damaged, and removes any other that has no footer. nil means that
	// all were.
	BulkNeeded func(segment uint32) bool

	// Events hears what happens; nil hears nothing.
	Events *Events
	// Fatal is called once, with the error of the first failed write or flush, and is meant to end the
	// process; default panics. If it returns, every further Append fails with ErrFailed.
	Fatal func(error)

	// inline makes the pool's files and writes the beacon in the writing goroutine, for tests that want every run to
	// make the same calls.
	inline bool
}

// Events are callbacks; each may be nil. They run in the store's goroutines and must be quick and not call
// the store.
type Events struct {
	// Sealed: the segment is full and its footer durable.
	Sealed func(SegmentInfo)
	// PoolLow: the ready files are used up and could not be replaced (err says why), or they are back (err
	// is nil).
	PoolLow func(low bool, err error)
	// Torn: Open dropped a last extent that was never acknowledged.
	Torn func(segment uint32, pos int64, reason error)
	// Flushed: an extent of this many bytes became durable in this time.
	Flushed func(bytes int, took time.Duration)
}

const (
	defaultSegmentBytes = 256 << 20
	defaultExtentBytes  = 8 << 20
	defaultSaverBytes   = 1 << 20
	minSegmentBytes     = 64 << 10
	maxSegmentBytes     = format.MaxSegmentBytes
)

func (o Options) withDefaults() Options {
	if o.Clock == nil {
		o.Clock = clock.Real()
	}
	if o.Rand == nil {
		o.Rand = clock.RealRand()
	}
	if o.SegmentBytes == 0 {
		o.SegmentBytes = defaultSegmentBytes
	}
	if o.ExtentBytes == 0 {
		o.ExtentBytes = int(min(defaultExtentBytes, o.SegmentBytes/4))
	}
	o.ExtentBytes &^= vfs.BlockSize - 1
	if o.SaverBytes == 0 {
		o.SaverBytes = min(defaultSaverBytes, o.ExtentBytes/2)
	}
	if o.PoolReady == 0 {
		o.PoolReady = 4
	}
	if o.PoolReserve == 0 {
		o.PoolReserve = 2
	}
	if o.TailBytes == 0 {
		o.TailBytes = 256 << 20
	}
	if o.OpenFiles == 0 {
		o.OpenFiles = 64
	}
	if o.BeaconEvery == 0 {
		o.BeaconEvery = 5 * time.Millisecond
	}
	if o.Events == nil {
		o.Events = &Events{}
	}
	if o.Fatal == nil {
		o.Fatal = func(err error) { panic(err) }
	}
	return o
}

// Validate joins every problem of the options, after defaults.
func (o Options) Validate() error {
	var problems []error
	bad := func(cond bool, format string, args ...any) {
		if cond {
			problems = append(problems, fmt.Errorf("logstore: options: "+format, args...))
		}
	}
	bad(o.FS == nil, "FS is missing")
	bad(o.Dir == "", "Dir is missing")
	bad(o.SegmentBytes < minSegmentBytes || o.SegmentBytes > maxSegmentBytes || o.SegmentBytes%vfs.BlockSize != 0,
		"SegmentBytes %d: want a multiple of %d from %d to %d",
		o.SegmentBytes, vfs.BlockSize, minSegmentBytes, maxSegmentBytes)
	bad(o.ExtentBytes < 2*vfs.BlockSize || int64(o.ExtentBytes) > o.SegmentBytes/4,
		"ExtentBytes %d: want from %d to a quarter of a segment", o.ExtentBytes, 2*vfs.BlockSize)
	bad(o.SaverBytes < 1024 || o.SaverBytes > o.ExtentBytes/2,
		"SaverBytes %d: want from 1024 to half an extent", o.SaverBytes)
	bad(o.PoolReady < 1 || o.PoolReserve < 0 || o.PoolReady+o.PoolReserve > math.MaxInt16,
		"PoolReady %d PoolReserve %d", o.PoolReady, o.PoolReserve)
	bad(o.OpenFiles < 1, "OpenFiles %d: want at least 1", o.OpenFiles)
	return errors.Join(problems...)
}
