package load

import (
	"errors"
	"fmt"
	"time"

	"queen/bench/internal/message"
	"queen/bench/internal/procfs"
)

// Options describe a load.
type Options struct {
	// Addr is the HTTP address of a node; with Target, which is something else to load, it is not needed.
	Addr   string
	Target Target
	// Queue must not exist; Group consumes it. Configure is the JSON of its options, empty for none.
	Queue, Group, Configure string
	// Partitions is how many there are, Size the bytes of a payload, Batch the messages of a push.
	Partitions, Size, Batch int
	// Producers and Consumers are connections. Without consumers nothing is consumed.
	Producers, Consumers int
	// PopBatch and PopPartitions are the parameters of every pop.
	PopBatch, PopPartitions int
	// Rate is messages a second over all producers; 0 is as fast as it goes.
	Rate float64
	// Backlog bounds the messages pushed and not yet acked when Rate is 0 and there are consumers; 0 is no bound.
	Backlog int64
	// Unordered says that messages of one partition may be with several consumers at a time: then only their number is judged.
	Unordered bool
	// Fill pushes one message to every partition and consumes it before time counts.
	Fill bool
	// Warmup is not counted, Duration is; Window is how often a window is closed.
	Warmup, Duration, Window time.Duration
	// Drain bounds how long consumers may take for the rest after the producers stopped; 0 does not wait, and what
	// is left then is no violation.
	Drain time.Duration
	// Process is the node's, 0 when it is not known; Data a directory on its disk, empty when not known.
	Process procfs.Process
	Data    string
	// OnWindow, when set, receives every window as it closes, those of the warm-up too.
	OnWindow func(Window)
	// Timeout bounds one exchange; 0 means 60 s.
	Timeout time.Duration
}

// Validate joins every problem of o.
func (o *Options) Validate() error {
	var errs []error
	bad := func(cond bool, format string, args ...any) {
		if cond {
			errs = append(errs, fmt.Errorf("load: "+format, args...))
		}
	}
	bad(o.Addr == "" && o.Target == nil, "no address")
	bad(o.Partitions < 1, "%d partitions", o.Partitions)
	bad(o.Producers < 1 || o.Producers > o.Partitions, "%d producers for %d partitions: each needs one of its own",
		o.Producers, o.Partitions)
	bad(o.Batch < 1, "batches of %d", o.Batch)
	bad(o.Size < message.MinPayload, "payloads of %d bytes: at least %d", o.Size, message.MinPayload)
	bad(o.Consumers > 0 && (o.PopBatch < 1 || o.PopPartitions < 1), "pops of %d messages from %d partitions",
		o.PopBatch, o.PopPartitions)
	bad(o.Fill && o.Consumers == 0, "filling needs consumers")
	return errors.Join(errs...)
}

// Defaults are the conditions under which HTTP loads are compared: 100 messages of 256 B a push over 10,000 partitions, pops of
// 1,000 messages from 64 partitions.
func Defaults() Options {
	return Options{
		Queue: "bench", Group: "bench", Partitions: 10_000, Size: 256, Batch: 100, Producers: 16, Consumers: 8,
		PopBatch: 1000, PopPartitions: 64, Backlog: 200_000, Fill: true, Warmup: 20 * time.Second,
		Duration: 60 * time.Second, Window: 10 * time.Second, Drain: time.Minute, Timeout: time.Minute,
	}
}
