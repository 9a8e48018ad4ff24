package frontendhttp

import (
	"strings"

	"github.com/getkin/kin-openapi/openapi3"
)

// shapes are the bodies of requests and answers, one line of members each: "name:type", with "?" after a name that may
// be absent and "|null" after a type that may be null. Types are int, uint, num, string, bool, object, any, another shape,
// or any of these in brackets for an array. A shape that begins with "=" is another type under its name.
var shapes = map[string]string{
	"Any":    "=any",
	"Object": "=object",
	"Bytes":  "=bytes",
	"Text":   "=string",
	"Empty":  "",
	"Error":  "error:string code?:string success?:bool messages?:[any] invalid?:string",

	"Push":     "items:[PushItem]",
	"PushItem": "queue:string partition?:string|null payload:any transactionId?:string|null traceId?:any",
	"Pushed":   "=[PushedItem]",
	"PushedItem": "index:int message_id:string|null transaction_id:string|null queueName:string status:string " +
		"offset?:int error?:string",

	"Popped": "success:bool queue:string partition:string partitionId:string leaseId:string consumerGroup:string " +
		"messages:[Message] partitionsClaimed:int conflation?:bool conflationConflict?:bool autopilot?:Autopilot",
	"Autopilot": "partitions:int batch:int waitMs?:int",
	"Message": "id:string transactionId:string traceId:string|null data:any producerSub:string|null createdAt:string " +
		"partitionId:string partition:string offset:int leaseId:string consumerGroup:string deliveryAttempt:int " +
		"encoding?:string contentType?:string headers?:[Header]",
	"Header": "name:string value:string encoding?:string",

	"Ack": "transactionId?:string|null partitionId:string status?:string|null error?:string|null leaseId?:string|null " +
		"consumerGroup?:string|null offset?:int|null",
	"AckBatch": "acknowledgments:[Ack] consumerGroup?:string|null",
	"Acked":    "=[AckedItem]",
	"AckedItem": "index:int transactionId:string offset?:uint success:bool error:string|null leaseReleased:bool " +
		"dlq:bool noop:bool conflated?:int",
	"Extend": "seconds?:int",
	"Extended": "leaseId:string success:bool renewed:int newExpiresAt:string|null expiresAt:string|null " +
		"lease_expires_at:string|null",
	"Leases": "leases:[LeaseEntry] truncated:bool",
	"LeaseEntry": "leaseId:string queue:string partition:string partitionId:string group:string workerId:string|null " +
		"firstOffset:int endOffset:int attempt:int expiresAt:string",
	"LeaseReleased": "leaseId:string success:bool released:int|null reason:string|null",

	"Configure": "queue:string namespace?:string|null task?:string|null mode?:string|null options?:object",
	"Configured": "configured:bool queueId:string partitionId:string|null queue:string namespace:string task:string " +
		"storage:string options:Options",
	"Options": "namespace?:string task?:string leaseTime:int retryLimit:int priority:int retryDelay:int maxSize:int " +
		"ttl:int deadLetterQueue:bool dlqAfterMaxRetries:bool delayedProcessing:int windowBuffer:int " +
		"retentionSeconds:int completedRetentionSeconds:int retentionEnabled:bool encryptionEnabled:bool " +
		"maxWaitTimeSeconds:int minPopWaitTime:int dedupWindowSeconds:int retentionSinkHold:string " +
		"retentionSinkHoldMaxSeconds:int maxDeliveries?:int kafkaPartitions?:int retentionBytes?:int retentionMs?:int " +
		"compactKeys?:bool tombstoneMs?:int minCompactionLagMs?:int maxCompactionLagMs?:int compactDirtyPermille?:int dlqScope?:string",

	"Fetch":      "entries:[FetchEntry] maxWaitMs?:int minBytes?:int maxBytes?:int masked?:bool",
	"FetchEntry": "queue:string partition?:any offset:int maxBytes?:int",
	"Fetched":    "entries:[FetchedEntry]",
	"FetchedEntry": "queue:string partition:string error?:string records:[FetchedRecord] highWatermark:int " +
		"logStartOffset:int",
	"FetchedRecord": "offset:int transactionId:string payload:any ts:string encoding?:string contentType?:string " +
		"headers?:[Header] payloadMasked?:bool",
	"OffsetsAt":      "entries:[OffsetsAtEntry]",
	"OffsetsAtEntry": "queue:string partition?:any timestamp:any",
	"Offsets":        "entries:[OffsetsEntry]",
	"OffsetsEntry": "queue:string partition:string error?:string offset:int|null ts:string|null highWatermark:int " +
		"logStartOffset:int",
	"ChangedSince":      "entries:[ChangedSinceEntry]",
	"ChangedSinceEntry": "queue:string since?:any after?:string|null limit?:int",
	"Changed":           "safeTime:string safeTimeDegraded:bool entries:[ChangedEntry]",
	"ChangedEntry":      "queue:string error?:string partitions:[ChangedPartition] next:string|null",
	"ChangedPartition":  "id:string name:string lastOffset:int logStart:int lastWriteAt:string|null",
	"PartitionPurge":    "queue:string partition:string before?:int|null",
	"PartitionPurged":   "queue:string partition:string deleted:int logStartOffset:int",

	"Groups": "=[GroupEntry]",
	"GroupEntry": "name:string topics:[string] queueName:string members:int partitionCursors:int " +
		"partitionsWithLag:int totalLag:int maxTimeLag:int state:string storage:string subscriptionMode:string " +
		"subscriptionTimestamp:string|null subscriptionCreatedAt:string|null conflation:bool sweptAt:string|null " +
		"kafkaMembers?:[KafkaMember]",
	"KafkaMember": "memberId:string instanceId:string|null clientId:string host:string protocol:string partitions:[string]",
	"Lagging":     "=[LaggingEntry]",
	"LaggingEntry": "consumer_group:string queue_name:string partition_name:string partition_id:string " +
		"worker_id:string|null offset_lag:int time_lag_seconds:int lag_hours:num oldest_unconsumed_at:string " +
		"last_consumed_at:string|null",
	"Group":        "=object",
	"Subscription": "subscriptionTimestamp:string",
	"Subscribed":   "success:bool consumerGroup:string newTimestamp:string rowsUpdated:int",
	"Seek":         "toEnd?:bool timestamp?:string",
	"Sought": "success:bool error?:string consumerGroup:string queueName:string seekToEnd:bool " +
		"targetTimestamp:string|null partitionsUpdated:int",
	"SoughtPartition": "success:bool error?:string consumerGroup:string queueName:string partitionName:string " +
		"seekToEnd:bool targetTimestamp:string|null updated:bool",
	"GroupDeleted": "success:bool consumerGroup:string queueName?:string deletedPartitions:int metadataDeleted:bool",

	"QueueDeleted": "deleted:bool queue:string existed:bool message?:string",
	"Queues":       "queues:[QueueEntry] next?:string",
	"QueueEntry": "id:string name:string namespace:string task:string createdAt:string partitions:int " +
		"retainedBytes:int segments:Segments sweptAt:string|null messages:QueueMessages",
	"Segments":      "segments:int messages:int",
	"QueueMessages": "total:int pending:int processing:int",
	"QueueDetail": "id:string name:string namespace:string task:string createdAt:string options:Options optionsSet:[string] " +
		"partitions:[PartitionEntry] truncated?:bool totals:Counts retainedBytes:int segments:Segments " +
		"sweptAt:string|null",
	"PartitionEntry": "id:string name:string createdAt:string stats:Counts oldestMessage:string|null " +
		"newestMessage:string|null",
	"Counts": "total:int pending:int processing:int completed:int failed:int|null deadLetter:int",
	"Depth": "queue:string group:string|null pending:int processing:int ready:int partitionsPending:int " +
		"partitionsReady:int conflation:bool effectivePending:int effectiveReady:int partitions:[DepthPartition]",
	"DepthPartition": "partition:string pending:int processing:int ready:int",
	"Overview": "queues:int partitions:int namespaces:int tasks:int messages:Counts lag:Lag throughput:Throughput " +
		"timestamp:string statsAge:int|null",
	"Lag":           "total:int max:int",
	"Throughput":    "ingestedPerSecond:num processedPerSecond:num",
	"Namespaces":    "namespaces:[NamespaceSum]",
	"NamespaceSum":  "namespace:string queues:int partitions:int messages:LabelMessages",
	"Tasks":         "tasks:[TaskSum]",
	"TaskSum":       "task:string queues:int partitions:int messages:LabelMessages",
	"LabelMessages": "total:int pending:int",
	"Partitions":    "partitions:[PartitionLag]",
	"PartitionLag":  "queue:string partition:string partitionId:string pending:int processing:int lagSeconds:int|null",

	"DeadLetters": "messages:[DeadLetter] pagination:Pagination total:int",
	"DeadLetter": "id:string transactionId:string partitionId:string queue:string partition:string " +
		"consumerGroup:string errorMessage:string retryCount:int data:any producerSub:string|null createdAt:string " +
		"failedAt:string encoding?:string contentType?:string headers?:[Header] payloadMasked?:bool timerKey?:string",
	"Pagination": "limit:int offset:int",
	"Purged":     "success:bool deleted:int queue:string consumerGroup:string|null",
	"Replay":     "queue?:string partition?:string target?:string|null",
	"Replayed": "success:bool result:string queue:string partition:string consumerGroup:string dlqId:string " +
		"originalTransactionId:string replayedAs:PushedItem dlqRowRemoved:bool",
	"Gone":           "success:bool result:string dlqId:string|null error:string",
	"MessageDeleted": "success:bool partitionId:string transactionId:string error?:string message:string",
	"Messages":       "messages:[BrowsedMessage] mode:Mode total:int",
	"Mode":           "hasQueueMode:bool busGroupsCount:int type:string",
	"BrowsedMessage": browsed,
	"MessageDetail": browsed + " retryCount:int errorMessage:string|null isEncrypted:bool queueConfig:Options " +
		"consumerGroups:[GroupView] mode:Mode",
	"BusStatus": "consumedBy:int totalGroups:int",
	"Segment":   "seq:int frameIdx:int|null",
	"GroupView": "name:string group:string consumed:bool leased:bool leaseExpiresAt:string|null deadLetter:bool " +
		"retryCount:int errorMessage:string|null",

	"Live": "status:string",
	"Ready": "status:string ready:bool draining:bool why:string|null role:string phase:string|null progress:num " +
		"storageFull:bool clockStep:string|null ioMode:string|null",
	"Health": "status:string engine:string version:string raft:HealthRaft",
	"HealthRaft": "role:string leader:bool draining:bool term:int applied:int commit:int lag:int storageReady:bool " +
		"clusterVersion:int kinds:int apply:HealthApply groups:[RaftGroup]",
	"RaftGroup": "group:int role:string leader:int|null term:int applied:int commit:int quorum:bool canWrite:bool " +
		"why:string|null",
	"HealthApply": "failure:string|null skipped:[any]",
	"Status":      "status:string engine:string",
	"Metrics":     "uptime:int requests:Rate messages:Rate memory:object cpu:object",
	"Rate":        "total:int rate:num",
}

// browsed are the members that a message's listing and its detail share.
const browsed = "id:string transactionId:string txnHash:string|null partitionId:string offset:int queuePath:string " +
	"queue:string partition:string namespace:string task:string status:string queueStatus:string|null " +
	"busStatus:BusStatus traceId:string|null producerSub:string|null payloadAvailable:bool segment:Segment " +
	"createdAt:string leaseExpiresAt:string|null data:any payload:any encoding?:string contentType?:string " +
	"headers?:[Header] payloadMasked?:bool"

// schemas renders shapes.
func schemas() openapi3.Schemas {
	all := openapi3.Schemas{}
	for _, group := range []map[string]string{shapes, keyedShapes, ephemeralShapes, consumeShapes, operationsShapes} {
		addSchemas(all, group)
	}
	return all
}

func addSchemas(all openapi3.Schemas, group map[string]string) {
	for name, shape := range group {
		if alias, ok := strings.CutPrefix(shape, "="); ok {
			all[name] = schemaOf(alias)
			continue
		}
		s := openapi3.NewObjectSchema()
		for _, member := range strings.Fields(shape) {
			key, kind, _ := strings.Cut(member, ":")
			key, optional := strings.CutSuffix(key, "?")
			if !optional {
				s.Required = append(s.Required, key)
			}
			s.WithPropertyRef(key, schemaOf(kind))
		}
		all[name] = s.NewRef()
	}
}

// schemaOf renders a type.
func schemaOf(kind string) *openapi3.SchemaRef {
	kind, nullable := strings.CutSuffix(kind, "|null")
	var s *openapi3.Schema
	switch {
	case strings.HasPrefix(kind, "["):
		s = openapi3.NewArraySchema()
		s.Items = schemaOf(strings.Trim(kind, "[]"))
	case kind == "uint": // up to 2^64-1
		s = openapi3.NewIntegerSchema().WithMin(0)
	case kind == "int":
		s = openapi3.NewInt64Schema()
	case kind == "num":
		s = openapi3.NewFloat64Schema()
	case kind == "string":
		s = openapi3.NewStringSchema()
	case kind == "bytes":
		s = openapi3.NewStringSchema().WithFormat("binary")
	case kind == "bool":
		s = openapi3.NewBoolSchema()
	case kind == "object":
		s = openapi3.NewObjectSchema().WithAnyAdditionalProperties()
	case kind == "any":
		s = openapi3.NewSchema().WithNullable()
	default:
		return openapi3.NewSchemaRef("#/components/schemas/"+kind, nil)
	}
	if nullable {
		s = s.WithNullable()
	}
	return s.NewRef()
}
