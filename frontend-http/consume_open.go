package frontendhttp

import (
	"context"
	"errors"
	"fmt"
	"time"

	"queen/engine"
	"queen/engine/format"
)

// Limits and defaults of a stream.
const (
	defaultInFlight      = 256
	maxInFlight          = 10000
	defaultInFlightBytes = 8 << 20
	maxInFlightBytes     = 64 << 20
	maxStreamBatch       = 10000
)

// consumeShapes are the frames of a consume stream, in the notation of shapes.
var consumeShapes = map[string]string{
	"Events": "=string",
	"ConsumeOpen": "type:string queue:string consumerGroup?:string partition?:string|null subscriptionMode?:string " +
		"subscriptionFrom?:string leaseSeconds?:int maxInFlight?:int maxInFlightBytes?:int batch?:int partitions?:int " +
		"commitOnDelivery?:bool",
	"ConsumeOpened": "type:string queue:string consumerGroup:string maxInFlight:int maxInFlightBytes:int " +
		"leaseSeconds:int commitOnDelivery:bool",
	"ConsumeMessage": "type:string id:string transactionId:string traceId:string|null data:any producerSub:string|null " +
		"createdAt:string partitionId:string partition:string offset:int leaseId:string consumerGroup:string " +
		"deliveryAttempt:int encoding?:string contentType?:string headers?:[Header]",
	"ConsumeAck":    "type:string id?:any acks:[Ack]",
	"ConsumeAcked":  "type:string id?:any results:[AckedItem]",
	"ConsumeCredit": "type:string messages:int",
	"ConsumeExtend": "type:string id?:any leaseId:string seconds?:int",
	"ConsumeExtended": "type:string id?:any leaseId:string success:bool renewed:int " +
		"expiresAt:string|null",
	"ConsumeClose": "type:string",
	"ConsumeError": "type:string id?:any code:string error:string field?:string",
	"KVChange":     "key:string value?:any version:int expiresAt:string|null deleted:bool",
	"KVLost":       "",
	"StreamError":  "code:string error:string",
}

// What streams carry, kind to schema: the type of a frame, the name of an event.
var (
	clientFrames = map[string]string{"open": "ConsumeOpen", "ack": "ConsumeAck", "credit": "ConsumeCredit",
		"extend": "ConsumeExtend", "close": "ConsumeClose"}
	brokerFrames = map[string]string{"opened": "ConsumeOpened", "message": "ConsumeMessage", "acked": "ConsumeAcked",
		"extended": "ConsumeExtended", "error": "ConsumeError"}
	consumeEvents = map[string]string{"message": "Message", "error": "StreamError"}
	watchEvents   = map[string]string{"change": "KVChange", "lost": "KVLost", "error": "StreamError"}
)

// openFrame is the first frame of a client: what to consume, and how much of it at once.
type openFrame struct {
	Type             string  `json:"type"`
	Queue            *string `json:"queue"`
	Group            string  `json:"consumerGroup"`
	Partition        *string `json:"partition"`
	Mode             string  `json:"subscriptionMode"`
	From             string  `json:"subscriptionFrom"`
	LeaseSeconds     *int64  `json:"leaseSeconds"`
	MaxInFlight      *int64  `json:"maxInFlight"`
	MaxInFlightBytes *int64  `json:"maxInFlightBytes"`
	Batch            *int64  `json:"batch"`
	Partitions       *int64  `json:"partitions"`
	CommitOnDelivery bool    `json:"commitOnDelivery"`
}

// order is a checked openFrame.
type order struct {
	pop engine.PopRequest
	// messages and bytes bound what is in flight.
	messages int
	bytes    int64
}

// openQuery reads the same members from the query.
func (q *query) openQuery() openFrame {
	number := func(key string) *int64 {
		if !q.has(key) {
			return nil
		}
		n := q.integer(key, 0)
		return &n
	}
	name := func(key string) *string {
		if !q.has(key) {
			return nil
		}
		s := q.text(key)
		return &s
	}
	return openFrame{Queue: name("queue"), Group: q.text("consumerGroup"), Partition: name("partition"),
		Mode: q.text("subscriptionMode"), From: q.text("subscriptionFrom"), LeaseSeconds: number("leaseSeconds"),
		MaxInFlight: number("maxInFlight"), MaxInFlightBytes: number("maxInFlightBytes"), Batch: number("batch"),
		Partitions: number("partitions"), CommitOnDelivery: q.boolean("commitOnDelivery")}
}

func badField(field, text string) *refusal {
	return &refusal{status: 400, code: "bad_request", field: field, text: field + " " + text}
}

// order checks the frame and fills in every default but the lease's.
func (o *openFrame) order() (r order, err error) {
	pick := func(field string, v *int64, absent, most int64) int64 {
		switch {
		case v == nil:
			return absent
		case (*v < 1 || *v > most) && err == nil:
			err = badField(field, fmt.Sprintf("must be 1 to %d", most))
		}
		return *v
	}
	if o.Queue == nil {
		return r, badField("queue", "is required")
	}
	r.pop.Scope.Queue = *o.Queue
	if o.Partition != nil {
		r.pop.Scope.Partition, r.pop.Scope.Pinned = *o.Partition, true
		if *o.Partition == "" {
			r.pop.Scope.Partition = format.DefaultPartition
		}
	}
	r.pop.Group = groupName(o.Group)
	r.messages = int(pick("maxInFlight", o.MaxInFlight, defaultInFlight, maxInFlight))
	r.bytes = pick("maxInFlightBytes", o.MaxInFlightBytes, defaultInFlightBytes, maxInFlightBytes)
	r.pop.Batch = int(pick("batch", o.Batch, 200, maxStreamBatch))
	r.pop.Partitions = int(pick("partitions", o.Partitions, 1, 64))
	r.pop.Lease = time.Duration(pick("leaseSeconds", o.LeaseSeconds, 0, maxLease)) * time.Second
	r.pop.CommitOnDelivery = o.CommitOnDelivery
	q := query{}
	r.pop.Start = q.startOf(o.Mode, o.From)
	switch {
	case err != nil:
		return r, err
	case q.err != nil:
		return r, badField("subscriptionFrom", "must be now or an ISO-8601 instant")
	}
	return r, checkNames(len(r.pop.Scope.Queue), max(len(r.pop.Scope.Partition), len(r.pop.Group)))
}

// fixLease makes the length of the stream's leases explicit, so that the stream knows when they are over: what the
// queue says now, or what a queue has that a pop creates.
func (r *order) fixLease(ctx context.Context, e engine.Engine, c engine.Caller) error {
	if r.pop.Lease != 0 || r.pop.CommitOnDelivery {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, readDeadline)
	defer cancel()
	seconds := format.DefaultOptions(false).LeaseTime
	info, err := e.Catalog().Queue(ctx, c, r.pop.Scope.Queue)
	var known *engine.Error
	switch {
	case err == nil:
		seconds = info.Options.LeaseTime
	case errors.As(err, &known) && known.Code == engine.CodeUnknownQueue:
	default:
		return err
	}
	r.pop.Lease = time.Duration(min(max(seconds, 1), maxLease)) * time.Second
	return nil
}
