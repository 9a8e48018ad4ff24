package frontendmcp

import (
	"context"
	"errors"
	"slices"
	"strconv"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/prometheus/client_golang/prometheus"
)

// durationBuckets are 0.5 ms to 10 s, as those of the other frontends.
var durationBuckets = []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10}

// otherLabel stands for what is not on the list of a label's values.
const otherLabel = "_other"

// Metrics are what a frontend counts. They are made before it, so that who renders them can begin first.
type Metrics struct {
	operations *prometheus.HistogramVec
	refused    *prometheus.CounterVec
}

// NewMetrics makes the metrics of one frontend.
func NewMetrics() *Metrics {
	return &Metrics{
		operations: prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "mcp_server_operation_duration_seconds",
			Help: "Duration of MCP requests. error_type is tool_error for a call that a tool refused, or a JSON-RPC code.", Buckets: durationBuckets},
			[]string{"mcp_method_name", "gen_ai_tool_name", "error_type"}),
		refused: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "queen_mcp_refused_total",
			Help: "MCP requests and calls refused because of who asked, from where, how often, or without a person's word."}, []string{"reason"}),
	}
}

// Collectors are for the registry of the process.
func (m *Metrics) Collectors() []prometheus.Collector {
	return []prometheus.Collector{m.operations, m.refused}
}

// methods are the values of mcp_method_name.
var methods = []string{"initialize", "server/discover", "ping", "tools/list", "tools/call", "resources/list", "resources/templates/list",
	"resources/read", "resources/subscribe", "resources/unsubscribe", "subscriptions/listen", "prompts/list", "prompts/get", "completion/complete",
	"notifications/initialized", "notifications/cancelled", "notifications/progress", "notifications/roots/list_changed", "logging/setLevel"}

// refusals are the values of reason: why something is refused that another caller, or the same one later, may do. An
// argument that is wrong is none of these.
var refusals = []string{"host_refused", "origin_refused", "unauthorized", "forbidden", "tenant_refused", "rate_limited", "too_large", "confirm_invalid",
	"confirm_expired", "confirm_used", "declined", "human_required", "group_in_use", "not_offered", "audit_queue"}

// refuse counts a refusal, if its code is one.
func (m *Metrics) refuse(code string) {
	if slices.Contains(refusals, code) {
		m.refused.WithLabelValues(code).Inc()
	}
}

// measured takes the time of every request. Values of labels are from lists: a client can not make series.
func (f *Frontend) measured(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
		start := f.opts.Clock.Mono()
		res, err := next(ctx, method, req)
		name, tool := method, ""
		if !slices.Contains(methods, method) {
			name = otherLabel
		}
		if p, ok := req.GetParams().(*mcp.CallToolParamsRaw); ok && p != nil {
			if tool = otherLabel; toolNamed(p.Name) != nil {
				tool = p.Name
			}
			if errorType(res, err) == strconv.Itoa(jsonrpc.CodeInvalidParams) {
				f.opts.Metrics.refuse("not_offered")
			}
		}
		f.opts.Metrics.operations.WithLabelValues(name, tool, errorType(res, err)).Observe(float64(f.opts.Clock.Mono()-start) / 1e6)
		return res, err
	}
}

// toolNamed is the row of a tool, nil when there is none, offered or not.
func toolNamed(name string) *tool {
	all := registry()
	if i := slices.IndexFunc(all, func(t *tool) bool { return t.name == name }); i >= 0 {
		return all[i]
	}
	return nil
}

// codeResourceNotFound was told until revision 2025-11-25 of a resource that is not there.
const codeResourceNotFound = -32002

// errorCodes are the JSON-RPC codes that a server answers.
var errorCodes = []int64{jsonrpc.CodeParseError, jsonrpc.CodeInvalidRequest, jsonrpc.CodeMethodNotFound, jsonrpc.CodeInvalidParams,
	jsonrpc.CodeInternalError, codeResourceNotFound}

func errorType(res mcp.Result, err error) string {
	var rpc *jsonrpc.Error
	switch {
	case errors.As(err, &rpc) && slices.Contains(errorCodes, rpc.Code):
		return strconv.FormatInt(rpc.Code, 10)
	case err != nil:
		return otherLabel
	}
	if call, ok := res.(*mcp.CallToolResult); ok && call != nil && call.IsError {
		return "tool_error"
	}
	return ""
}
