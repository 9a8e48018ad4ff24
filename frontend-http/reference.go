package frontendhttp

import (
	"queen/engine"
)

// RouteInfo is a row of the contract, for documentation.
type RouteInfo struct {
	Method, Path, Access, Summary string
	Built                         bool
}

// Routes lists every route in the order of the table.
func Routes() (out []RouteInfo) {
	for _, r := range table() {
		out = append(out, RouteInfo{r.Method, r.Path, string(r.Access), r.Summary, r.Handle != nil})
	}
	return out
}

// MetricInfo is a family of metrics, for documentation.
type MetricInfo struct {
	Name, Help string
	Labels     []string
}

// Metrics lists the families that a scrape shows beside those of the runtime.
func Metrics() (out []MetricInfo) {
	for _, m := range metricTable {
		out = append(out, MetricInfo{m.name, m.help, m.labels})
	}
	return append(out,
		MetricInfo{"http_server_request_duration_seconds", "Duration of HTTP requests, waits of long polls included.",
			[]string{"route", "method", "status_class"}},
		MetricInfo{"queen_operation_duration_seconds", "Duration of broker operations; calls that waited on purpose are left out.",
			[]string{"op", "frontend", "outcome"}})
}

// StatusOf is the HTTP status of an error of the engine that refuses a whole call.
func StatusOf(code engine.ErrorCode) int { return wireErrors[code].status }

// OpenAPI is the description of the API; it is not to be changed.
func (f *Frontend) OpenAPI() []byte { return f.openAPI }
