package kafkaload

import (
	"errors"
	"fmt"
	"time"

	"queen/bench/internal/procfs"
)

// Options describe a load.
type Options struct {
	// Addr is where the broker listens for Kafka clients.
	Addr string
	// Topic must not exist, or with Existing have Partitions and no record; Group consumes it, and when it is empty the consumers
	// divide the partitions themselves.
	Topic, Group string
	Existing     bool
	// Partitions is how many there are; CreateStep how many are asked for in one request, 0 for all.
	Partitions, CreateStep int
	// Size is the bytes of a value, Batch the records written to one partition at a time, Linger how long a client waits
	// for more of them.
	Size, Batch int
	Linger      time.Duration
	// Merge lets a client put what waits for one partition into larger record batches than Batch. Without it brokers get
	// batches of one size whatever the number of partitions.
	Merge bool
	// Producers and Consumers are clients with connections of their own. Without consumers nothing is consumed.
	Producers, Consumers int
	// InFlight bounds the unanswered records of all producers.
	InFlight int
	// Rate is records a second over all producers; 0 is as fast as it goes.
	Rate float64
	// FromSend lets latency count from the moment in which a batch is handed to the client and not from its moment in the schedule
	// of Rate: where more is offered than is taken, all that the schedule tells is how far it is behind.
	FromSend bool
	// Backlog bounds the records produced and not yet consumed when Rate is 0 and there are consumers; 0 is no bound.
	Backlog int64
	// Fill writes one record to every partition and consumes it before time counts.
	Fill bool
	// Warmup is not counted, Duration is; Window is how often a window is closed.
	Warmup, Duration, Window time.Duration
	// Records ends the counted time with the window in which so many were produced; 0 is no bound.
	Records uint64
	// Retention is the topic's; 0 leaves the target's default, in our node no limit.
	Retention time.Duration
	// Drain bounds how long the answers of the last batches, and then the consumers, may take after the producers stopped.
	Drain time.Duration
	// LeaveRest says that records left unconsumed after Drain are no violation.
	LeaveRest bool
	// Setup bounds the creation of the topic, the joining of the group and the filling, each; 0 means 3 minutes.
	Setup time.Duration
	// Process is the broker's, 0 when it is not known; Data a directory on its disk, empty when not known.
	Process procfs.Process
	Data    string
	// OnWindow, when set, receives every window as it closes, those of the warm-up too.
	OnWindow func(Window)
}

// Defaults are the conditions under which brokers are compared.
func Defaults() Options {
	return Options{
		Topic: "bench", Partitions: 200, Size: 256, Batch: 100, Linger: 5 * time.Millisecond, Producers: 4, Consumers: 2,
		InFlight: 20_000, Backlog: 200_000, Fill: true, Warmup: 20 * time.Second, Duration: 60 * time.Second,
		Window: 10 * time.Second, Drain: time.Minute, Setup: 3 * time.Minute,
	}
}

// batchBytes bounds a record batch of Size-byte values so that Batch records fill it.
func (o *Options) batchBytes() int32 {
	perRecord := 10 // length, attributes, deltas, lengths of key and value, number of headers
	if o.Size > 8<<10 {
		perRecord = 14
	}
	return int32(min(max(o.Batch*(o.Size+perRecord)+batchHeaderBytes, batchBytesMin), batchBytesMax))
}

const (
	batchHeaderBytes = 61
	batchBytesMin    = 1 << 10   // what the client allows
	batchBytesMax    = 1_000_012 // and its default, which brokers take
)

// Validate joins every problem of o.
func (o *Options) Validate() error {
	var errs []error
	bad := func(cond bool, format string, args ...any) {
		if cond {
			errs = append(errs, fmt.Errorf("kafkaload: "+format, args...))
		}
	}
	bad(o.Addr == "", "no address")
	bad(o.Topic == "", "no topic")
	bad(o.Partitions < 1, "%d partitions", o.Partitions)
	bad(o.CreateStep < 0, "partitions created %d at a time", o.CreateStep)
	bad(o.Producers < 1 || o.Producers > o.Partitions, "%d producers for %d partitions: each needs one of its own",
		o.Producers, o.Partitions)
	bad(o.Consumers < 0 || o.Consumers > o.Partitions, "%d consumers for %d partitions", o.Consumers, o.Partitions)
	bad(o.Batch < 1, "batches of %d", o.Batch)
	bad(o.InFlight < o.Batch*o.Producers, "%d records in flight: %d producers need a batch of %d each", o.InFlight, o.Producers, o.Batch)
	bad(o.Size < stampBytes, "values of %d bytes: at least %d", o.Size, stampBytes)
	bad(o.Fill && o.Consumers == 0, "filling needs consumers")
	return errors.Join(errs...)
}
