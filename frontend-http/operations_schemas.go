package frontendhttp

// operationsShapes are the bodies of redrive jobs and switches, in the notation of shapes.
var operationsShapes = map[string]string{
	"Redrive": "queue:string consumerGroup?:string|null error?:string|null from?:string|null to?:string|null " +
		"ratePerSecond?:int|null dryRun?:bool|null",
	"RedriveJob": "id?:string dryRun:bool queue:string consumerGroup:string|null error:string|null " +
		"ratePerSecond:int|null state?:string createdAt?:string endedAt?:string|null total:int totalIsMinimum:bool " +
		"moved?:int duplicates?:int failed?:int gone?:int remaining?:int lastError?:string|null sample?:[DeadLetter]",
	"KVTimers":       "kvEnabled:bool timersScheduleEnabled:bool timersFireEnabled:bool",
	"KVTimersSwitch": "kv?:bool|null timersSchedule?:bool|null timersFire?:bool|null",
	"Refreshed":      "success:bool",
}
