package frontendhttp

// keyedShapes are the bodies of transactions, keys, locks and timers, in the notation of shapes.
var keyedShapes = map[string]string{
	"Transaction": "operations?:[object]|null kv?:[KVOp]|null timers?:[TimerOp]|null positions?:[PositionOp]|null " +
		"requiredLeases?:[string]|null",
	"PositionOp": "queue:string consumerGroup:string partition?:string|null offset:int|null metadata?:string|null " +
		"subscriptionMode?:string|null",
	"TransactionResult": "transactionId:string success:bool results:[TransactionElement] reason?:string error?:string " +
		"ok?:bool failedIndex?:int kvReason?:string version?:int|null value?:any",
	"TransactionElement": "index:int type:string opIndex?:int success?:bool transactionId?:string messageId?:string|null " +
		"queueName?:string offset?:int error?:string|null dlq?:bool duplicate?:bool op?:string applied?:bool " +
		"key?:string value?:any version?:int|null reason?:string found?:bool expiresAt?:string|null " +
		"updatedAt?:string|null rows?:[KVRow] missing?:[string] truncated?:bool ok?:bool status?:string queue?:string " +
		"timerKey?:string txn?:string|null deliverAt?:string|null",

	"KVCall": "operations:[KVOp]",
	"KVOp": "op:string ns:string key?:string keys?:[string] prefix?:string after?:string|null limit?:int|null " +
		"keysOnly?:bool snapshot?:string|null value?:any ttlSeconds?:int|null forever?:bool expect?:int required?:bool delta?:num " +
		"min?:num|null max?:num|null",
	"KVResults": "results?:[KVResult] ok?:bool reason?:string failedIndex?:int kvReason?:string version?:int|null " +
		"value?:any",
	"KVResult": "index:int op:string applied?:bool found?:bool key?:string value?:any version?:int|null " +
		"reason?:string expiresAt?:string|null updatedAt?:string|null rows?:[KVRow] missing?:[string] truncated?:bool " +
		"nextAfter?:string|null snapshot?:string|null",
	"KVRow":        "key:string value?:any version:int expiresAt:string|null updatedAt:string|null",
	"KVRead":       "found:bool key:string value?:any version?:int expiresAt?:string|null updatedAt?:string|null",
	"KVPut":        "value:any ttlSeconds?:int|null forever?:bool expect?:int required?:bool",
	"KVExpect":     "expect?:int required?:bool",
	"KVWritten":    "op?:string applied?:bool key?:string value?:any version?:int|null reason?:string ok?:bool failedIndex?:int kvReason?:string",
	"KVNamespaces": "namespaces:[KVNamespace]",
	"KVNamespace":  "namespace:string keys:int",
	"KVList": "namespace:string prefix?:string after?:string limit?:int keysOnly?:bool " +
		"includeExpired?:bool snapshot?:string",
	"KVListed": "rows:[KVListedRow] truncated:bool nextAfter:string|null bytes:int snapshot?:string|null",
	"KVListedRow": "key:string value?:any version:int expiresAt:string|null updatedAt:string|null " +
		"expired:bool",

	"LockCall": "operations:[LockOp]",
	"LockOp": "op:string name:string owner?:string|null ttlSeconds?:int|null limit?:int|null token?:int|null " +
		"slot?:int|null",
	"LockResults": "results:[LockResult]",
	"LockResult": "index:int op:string name:string acquired?:bool renewed?:bool released?:bool already?:bool " +
		"held?:bool reason?:string slot?:int token?:int owner?:string|null guard?:KVOp expiresAt?:string|null " +
		"holders?:[LockHolder]",
	"LockHolder": "slot:int owner:string|null token?:int since?:string|null renewedAt?:string|null " +
		"expiresAt?:string|null",

	"TimerCall": "operations:[TimerOp]",
	"TimerOp": "op:string queue:string timerKey:string partition?:string|null delayMs?:int|null at?:string|null " +
		"cron?:string|null tz?:string|null catchUp?:string|null maxFires?:int|null until?:string|null txn?:string|null " +
		"payload?:string payloadZstd?:bool " +
		"encrypted?:bool",
	"TimerResults": "results:[TimerIndexed]",
	"TimerIndexed": "index:int ok:bool status:string queue:string timerKey:string txn:string|null " +
		"messageId?:string|null deliverAt?:string|null",
	"TimerResult": "ok:bool status:string queue:string timerKey:string txn:string|null",
	"TimerRead": "found:bool queue?:string timerKey?:string partition?:string deliverAt?:string txn?:string|null " +
		"messageId?:string|null payload?:string payloadMasked?:bool payloadZstd?:bool encrypted?:bool producerSub?:string|null " +
		"attempts?:int lastError?:string|null claimed?:bool createdAt?:string|null updatedAt?:string|null " +
		"cron?:string tz?:string|null catchUp?:string fires?:int maxFires?:int until?:string paused?:bool",
	"TimerList": "rows?:[TimerRow] truncated?:bool nextAfter?:string|null count?:int",
	"TimerRow": "timerKey:string partition:string deliverAt:string txn:string|null messageId:string|null attempts:int " +
		"lastError:string|null claimed:bool cron?:string tz?:string|null catchUp?:string fires?:int maxFires?:int " +
		"until?:string paused:bool",

	"StreamQuery": "name:string source_queue:string sink_queue?:string config_hash:string reset?:bool",
	"StreamRegistered": "success:bool query_id?:string name?:string config_hash?:string fresh?:bool reset?:bool " +
		"error?:string",
	"StreamStateGet": "query_id:string partition_id:string keys?:[string] key_prefix?:string ripe_at_or_before?:num|null",
	"StreamState":    "success:bool rows:[StreamRow]",
	"StreamRow":      "key:string value?:any updated_at:string|null",
	"StreamCycle": "query_id:string partition_id:string consumer_group?:string state_ops?:[StreamStateOp] " +
		"push_items?:[PushItem] ack?:any release_lease?:bool",
	"StreamStateOp": "type:string key:string value?:any",
	"StreamCycled": "success:bool query_id?:string partition_id?:string queueName?:string state_ops_applied?:int " +
		"push_results?:[StreamPushed] ack_result?:any error?:string",
	"StreamPushed": "queue:string partition:string status:string baseOffset:int",

	"Trace": "transactionId:string partitionId:string consumerGroup?:string|null traceNames?:any eventType?:string " +
		"workerId?:string|null data:any",
	"TraceMade": "success:bool traceId:string",
	"Traces":    "traces:[TraceRow]",
	"TraceRow": "id:string event_type:string data?:any consumer_group:string|null worker_id:string|null created_at:string " +
		"trace_names:[string] transaction_id?:string partition_id?:string queue_name?:string|null " +
		"partition_name?:string|null message_payload?:any",
	"TracesByName": "traces:[TraceRow] total:int pagination:Pagination",
	"TraceNames":   "trace_names:[TraceName] total:int pagination:Pagination",
	"TraceName":    "trace_name:string trace_count:int message_count:int last_seen:string",

	"TransactionError": "error:string code?:string transactionId?:string success?:bool reason?:string results?:[any]",
	"KeyedError":       "error:string reason:string detail:string",
}
