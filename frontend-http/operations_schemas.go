package frontendhttp

// operationsShapes are the bodies of redrive jobs, switches, status and diagnosis, in the notation of shapes.
var operationsShapes = map[string]string{
	"Redrive": "queue:string consumerGroup?:string|null error?:string|null from?:string|null to?:string|null " +
		"ratePerSecond?:int|null target?:string|null dryRun?:bool|null",
	"RedriveJob": "id?:string dryRun:bool queue:string consumerGroup:string|null error:string|null " +
		"ratePerSecond:int|null target:string state?:string createdAt?:string endedAt?:string|null total:int totalIsMinimum:bool " +
		"moved?:int duplicates?:int failed?:int gone?:int remaining?:int lastError?:string|null sample?:[DeadLetter]",
	"KVTimers":       "kvEnabled:bool timersScheduleEnabled:bool timersFireEnabled:bool",
	"KVTimersSwitch": "kv?:bool|null timersSchedule?:bool|null timersFire?:bool|null",
	"StatusQueues":   "queues:[StatusQueue] pagination:StatusPage",
	"StatusQueue":    "id:string name:string namespace:string task:string createdAt:string partitions:int messages:Counts",
	"StatusPage":     "limit:int offset:int",
	"StatusSum": "timeRange:TimeRange bucketMinutes:int pointCount:int throughput:[ThroughputPoint] queues:StatusQueueSum " +
		"messages:StatusMessages leases:object|null deadLetterQueue:StatusDead workers:[any]|null errors:object|null " +
		"sweptAt:string|null",
	"TimeRange": "from:string to:string",
	"ThroughputPoint": "timestamp:string ingested:int delivered:int processed:int failed:int transactions:int " +
		"ingestedPerSecond:num processedPerSecond:num",
	"StatusQueueSum":    "total:int partitions:int",
	"StatusMessages":    "total:int pending:int processing:int completed:int deadLetter:int",
	"StatusDead":        "totalMessages:int",
	"StatusAnalytics":   "dataPoints:[DataPoint] interval:string from:string to:string",
	"DataPoint":         "timestamp:string messages:int",
	"QueueOps":          "timeRange:TimeRange bucketMinutes:int series:[QueueOpsPoint] queues:[string]",
	"QueueOpsPoint":     "bucket:string queueName:string " + operationsPoint,
	"QueueLag":          "=[QueueLagPoint]",
	"QueueLagPoint":     "queueName:string popCount:int avgLagMs:num|null maxLagMs:num|null bucketMinutes:int bucketTime:string",
	"StatusQueueDetail": "queue:StatusQueueHead partitions:[StatusPartition] truncated?:bool totals:Counts",
	"StatusQueueHead":   "id:string name:string namespace:string task:string createdAt:string config:StatusConfig",
	"StatusConfig":      "leaseTime:int retryLimit:int retryDelay:int maxSize:int ttl:int priority:int",
	"StatusPartition": "id:string name:string messages:StatusPartitionMessages stats:Counts cursor:StatusCursor lastActivity:string|null " +
		"oldestMessage:string|null newestMessage:string|null",
	"StatusPartitionMessages": "firstOffset:int nextOffset:int",
	"StatusCursor":            "pending:int processing:int",
	"Workload":                "timeRange:TimeRange bucketMinutes:int groupBy:string series:[WorkloadPoint] groups:[string]",
	"WorkloadPoint":           "bucket:string group:string " + operationsPoint,
	"Refreshed":               "success:bool",
	"Diagnosis":               "asOf:string node:DiagnosedNode findings:[Finding] checks:[CheckRun] truncated:bool",
	"DiagnosedNode": "role:string node:int|null leader:int|null ready:bool canWrite:bool quorum:bool why:string|null term:int applied:int durable:int " +
		"diskUsedPercent:num|null storageFull:bool clockStep:string|null ioMode:string|null",
	"Finding": "cause:string severity:string title:string queue:string|null group:string|null partition:string|null " +
		"worker:string|null partitions:int lag:int evidence:[string] nextStep:string",
	"Members": "node:int|null leader:int|null quorum:bool groups:[RaftGroup] members:[Member]",
	"Member": "node:int address:string votes:bool heard:bool draining:bool leadsGroups:[int] leads:bool|null term:int|null " +
		"applied:int|null last:int|null behind:int|null mark:int|null",
	"Drain":    "node:int draining:bool leads:bool",
	"CheckRun": "name:string outcome:string",
	"LagList":  "asOf:string rows:[LagRow] groups:[LagSum] truncated:bool",
	"LagSum":   "queue:string group:string lag:int partitions:int ageSeconds:int",
	"LagRow": "queue:string group:string partition:string partitionId:string lag:int leased:int oldestAt:string|null " +
		"ageSeconds:int worker:string|null leasedAt:string|null leaseExpiresAt:string|null attempts:int retries:int reason:string",
}

// operationsPoint is what one bucket counts.
const operationsPoint = "pushRequests:int pushMessages:int pushBytes:int popMessages:int popEmpty:int ackRequests:int " +
	"ackSuccess:int ackFailed:int transactions:int|null partitionsCreated:int|null partitionsDeleted:int|null " +
	"partitionCount:int|null avgLagMs:num|null maxLagMs:num|null parkedCount:int|null pushPerSecond:num " +
	"popPerSecond:num ackPerSecond:num emptyPerSecond:num"
