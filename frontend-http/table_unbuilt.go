package frontendhttp

// unbuiltRoutes are the routes of the contract whose features are not built yet: they answer 501, so that a client can
// tell them from a path that never existed.
func unbuiltRoutes() []*route {
	var rows []*route
	add := func(m mark, a access, summary string, where ...string) {
		for i := 0; i < len(where); i += 2 {
			rows = append(rows, &route{Method: where[i], Path: where[i+1], Access: a, Mark: m, Summary: summary,
				Status: 501})
		}
	}
	add(operator, readOnly, "Status and analytics.", "GET", "/api/v1/analytics/queue-parked-replicas", "GET", "/api/v1/analytics/retention",
		"GET", "/api/v1/analytics/dlq-signatures",
		"GET", "/api/v1/analytics/partition-liveness", "GET", "/api/v1/analytics/system-metrics",
		"GET", "/api/v1/analytics/worker-metrics")
	add(operator, admin, "System settings.", "GET", "/api/v1/system/raft/membership/*what",
		"POST", "/api/v1/system/raft/membership/*what")
	add(operator, readOnly, "Replication.", "GET", "/api/v1/raft/status")
	add(operator, public, "Dashboard.", "GET", "/auth/me", "GET", "/auth/login", "POST", "/auth/login",
		"GET", "/auth/logout", "POST", "/auth/logout", "GET", "/", "GET", "/assets/*file")
	return rows
}
