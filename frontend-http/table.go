package frontendhttp

// table is every route of the contract, in groups. A row without Handle answers not_built.
func table() []*route {
	var all []*route
	for _, rows := range [][]*route{hotRoutes(), leaseRoutes(), partitionRoutes(), groupRoutes(), resourceRoutes(),
		letterRoutes(), healthRoutes(), transactionRoutes(), kvRoutes(), lockRoutes(), timerRoutes(),
		streamRoutes(), traceRoutes(), consumeRoutes(), watchRoutes(),
		ephemeralRoutes(), redriveRoutes(), systemRoutes(), statusRoutes(), diagnosisRoutes(), drainRoutes(), analyticsRoutes(), docsRoutes(), unbuiltRoutes()} {
		all = append(all, rows...)
	}
	for i, r := range all {
		r.prepare(i)
	}
	return all
}

var popQuery = []param{
	{Name: "batch", Type: "integer", About: "Messages of the whole call, over all partitions; default 200."},
	{Name: "partitions", Type: "integer", About: "Partitions one call may claim, 1 to 64; default 1."},
	{Name: "wait", Type: "boolean", About: "Wait until a message is deliverable."},
	{Name: "timeout", Type: "integer", About: "How long to wait, in ms; default 30000, at most 60000."},
	{Name: "leaseSeconds", Type: "integer", About: "Length of the lease; default the queue's leaseTime."},
	{Name: "consumerGroup", Type: "string", About: "Default: queue mode."},
	{Name: "commitOnDelivery", Type: "boolean", About: "Move the cursor at delivery; no lease, at most once."},
	{Name: "autoAck", Type: "boolean", About: "Older name of commitOnDelivery."},
	{Name: "subscriptionMode", Type: "string", About: "Where a new consumer group starts: new (default) or all."},
	{Name: "subscriptionFrom", Type: "string", About: "now, or the ISO-8601 instant at which a new group starts."},
	{Name: "autopilot", Type: "boolean", About: "Let the broker choose batch and partitions where they are not sent."},
	{Name: "conflation", Type: "boolean", About: "Last-value delivery: the newest message of a partition stands for all " +
		"before it. Stored at the group's first pop."},
}

func hotRoutes() []*route {
	return []*route{
		{Method: "POST", Path: "/api/v1/push", Access: writeOnly, Mark: core, Summary: "Push messages.",
			Request: "Push", Response: "Pushed", Status: 201, Op: "push", Keyed: true, Handle: push},
		{Method: "POST", Path: "/api/v1/ack", Access: readWrite, Mark: core, Summary: "Settle one message.",
			Request: "Ack", Response: "Acked", Status: 200, Op: "ack", Handle: ack},
		{Method: "POST", Path: "/api/v1/ack/batch", Access: readWrite, Mark: core, Summary: "Settle messages.",
			Request: "AckBatch", Response: "Acked", Status: 200, Op: "ack", Handle: ackBatch},
		{Method: "POST", Path: "/api/v1/push/raw", Access: writeOnly, Mark: additional,
			Summary: "Push one message of any content type; Queen-H-* headers become message headers.",
			Query: []param{{Name: "queue", Type: "string", Required: true}, {Name: "partition", Type: "string"},
				{Name: "transactionId", Type: "string"}, {Name: "traceId", Type: "string"}},
			Request: "Bytes", Response: "Pushed", Status: 201, Op: "push", Keyed: true, Handle: pushRaw},
		{Method: "GET", Path: "/api/v1/pop/queue/:queue/partition/:partition", Access: readWrite, Mark: core,
			Summary: "Pop from one partition; 204 when there is nothing.", Query: popQuery, Response: "Popped",
			Status: 200, Errors: familyPop, Op: "pop", Handle: popPartition, split: queueAndPartition},
		{Method: "GET", Path: "/api/v1/pop/queue/:queue", Access: readWrite, Mark: core,
			Summary: "Pop from a queue; 204 when there is nothing.", Query: popQuery, Response: "Popped",
			Status: 200, Errors: familyPop, Op: "pop", Handle: popQueue, split: everything},
		{Method: "GET", Path: "/api/v1/pop", Access: readWrite, Mark: common,
			Summary:  "Pop from every queue whose labels match; never waits.",
			Query:    append([]param{{Name: "namespace", Type: "string"}, {Name: "task", Type: "string"}}, popQuery...),
			Response: "Popped", Status: 200, Errors: familyPop, Op: "pop", Handle: popDiscovery},
		{Method: "POST", Path: "/api/v1/lease/:leaseId/extend", Access: readWrite, Mark: common,
			Summary: "Extend a lease on every partition it covers.", Request: "Extend", Response: "Extended",
			Status: 200, Op: "extend", Handle: extend},
		{Method: "POST", Path: "/api/v1/configure", Access: readWrite, Mark: core,
			Summary: "Create a queue or change its options.", Request: "Configure", Response: "Configured",
			Status: 200, Op: "configure", Handle: configure},
		{Method: "POST", Path: "/api/v1/fetch", Access: readOnly, Mark: common,
			Summary: "Read messages by offset, without lease or cursor; with masked true, and for callers that may not consume, without what mcp.mask hides.",
			Request: "Fetch", Response: "Fetched",
			Status: 200, Errors: familyRead, Op: "fetch", Handle: fetch},
		{Method: "POST", Path: "/api/v1/fetch/offsets", Access: readOnly, Mark: common,
			Summary: "Find the first message at or after a time.", Request: "OffsetsAt", Response: "Offsets",
			Status: 200, Errors: familyRead, Op: "offsets", Handle: fetchOffsets},
		{Method: "GET", Path: "/api/v1/fetch/raw", Access: readOnly, Mark: additional,
			Summary: "Read one message's bytes by offset.",
			Query: []param{{Name: "queue", Type: "string", Required: true}, {Name: "partition", Type: "string"},
				{Name: "offset", Type: "integer", Required: true},
				{Name: "masked", Type: "boolean", About: "Hide what mcp.mask hides, as it is hidden from callers that may not consume; " +
					"the header Queen-Payload-Masked tells."}},
			Response: "Bytes", Status: 200, Errors: familyRead, Op: "fetch", Handle: fetchRaw},
		{Method: "POST", Path: "/api/v1/partitions/changed", Access: readOnly, Mark: common,
			Summary: "List the partitions written since a time.", Request: "ChangedSince", Response: "Changed",
			Status: 200, Errors: familyRead, Handle: changed},
	}
}
