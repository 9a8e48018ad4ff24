package frontendhttp

// ephemeralShapes are the bodies of ephemeral queues, in the notation of shapes.
var ephemeralShapes = map[string]string{
	"EphemeralError":     "error:string code:string",
	"EphemeralPush":      "queue:string partition?:string|null messages:[EphemeralMessage]",
	"EphemeralMessage":   "payload:any",
	"EphemeralPushed":    "pushed:int",
	"EphemeralPopped":    "queue:string messages:[EphemeralDelivered]",
	"EphemeralDelivered": "id:string partition:string payload:any attempts:int",
	"EphemeralAckCall":   "queue:string group?:string|null acks:[EphemeralAck]",
	"EphemeralAck":       "id:string status?:string|null error?:string|null",
	"EphemeralAcked":     "results:[EphemeralOutcome]",
	"EphemeralOutcome":   "id:string outcome:string",
	"EphemeralConfigure": "queue:string options?:EphemeralOptions",
	"EphemeralOptions": "maxBytes?:int maxLength?:int policy?:string ttlSeconds?:int leaseSeconds?:int retryLimit?:int " +
		"windowBuffer?:EphemeralWindow",
	"EphemeralWindow":   "ms?:int count?:int",
	"EphemeralDeclared": "queue:string options:EphemeralOptions",
	"EphemeralName":     "queue:string",
	"EphemeralReset":    "queue:string dropped:int",
	"EphemeralDeleted":  "queue:string deleted:bool declared:bool",
	"EphemeralQueues":   "queues:[EphemeralQueue] count:int cellBytes:int truncated?:bool",
	"EphemeralQueue": "queue:string tier:string depth:int bytes:int partitions:int groups:int drops:EphemeralDrops " +
		"options:EphemeralOptions",
	"EphemeralDrops": "bounds:int ttl:int retry:int",
	"EphemeralDepth": "queue:string group:string|null tier:string pending:int partitionsPending:int bytes:int " +
		"partitions:[EphemeralPartition] groups:[EphemeralGroup]",
	"EphemeralPartition": "partition:string pending:int bytes:int",
	"EphemeralGroup":     "group:string pending:int skipped:int",
	"EphemeralSystem": "ephemeralEnabled:bool cellBytes:int cellMaxBytes:int queues:int parked:int pushed:int " +
		"delivered:int acked:int redelivered:int collected:int drops:EphemeralDrops epoch:string",
	"EphemeralSwitch": "enabled:bool",
}
