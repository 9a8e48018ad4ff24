package frontendmcp

import (
	"encoding/json"
	"io"
	"net/http"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"queen/engine/auth"
)

// TestScopes: the scopes of a token narrow its roles, each level by itself, and never add to them.
func TestScopes(t *testing.T) {
	const ro, wo, rw, ad = auth.ReadOnly, auth.WriteOnly, auth.ReadWrite, auth.Admin
	for _, c := range []struct {
		roles  auth.Roles
		scopes []string
		want   auth.Roles
	}{
		{ad, nil, ad}, {ad, []string{"openid", "profile"}, ad}, {ro, []string{scopeAdmin}, ro}, {wo, []string{scopeRead}, 0},
		{ad, []string{scopeRead}, ro}, {ad, []string{scopeProduce}, wo}, {ad, []string{scopeRead, scopeProduce}, ro | wo},
		{ad, []string{scopeConsume}, ro | wo | rw}, {rw, []string{scopeRead, "openid"}, ro}, {ad, []string{scopeAdmin}, ro | wo | rw | ad},
		{rw, []string{scopeAdmin}, ro | wo | rw}, {0, []string{scopeAdmin}, 0},
	} {
		require.Equal(t, c.want, narrowed(&auth.Principal{Roles: c.roles, Scopes: c.scopes}), "%s with %v", c.roles, c.scopes)
	}
}

// TestTokensAreMeantForSomebody: a token that names audiences is taken where one of them is the public URL; one whose scopes
// leave nothing is refused with the scope that it lacks; the document of the resource stands where its URL says.
func TestTokensAreMeantForSomebody(t *testing.T) {
	const url = "https://broker.example/tools/mcp"
	token := func(audience []string, scopes ...string) *auth.Principal {
		return &auth.Principal{Tenant: auth.DefaultTenant, Subject: "t", Roles: auth.Admin, Audience: audience, Scopes: scopes}
	}
	keys := keyring{"ours": token([]string{"other", url}), "none": token(nil), "other": token([]string{"https://other.example"}),
		"read": token(nil, scopeRead)}
	keys["lacks"] = token(nil, scopeRead)
	keys["lacks"].Roles = auth.WriteOnly
	r := newRig(t, func(o *Options) {
		o.Auth, o.PublicURL = keys, url
		o.AuthorizationServers = []string{"https://login.example"}
	})
	addr := r.listen()
	call := func(key string) (int, http.Header, string) {
		return post(t, addr, "/mcp", listOld, map[string]string{"Authorization": "Bearer " + key})
	}
	for key, want := range map[string]int{"ours": 200, "none": 200, "other": 401, "read": 200, "lacks": 403, "": 401} {
		status, header, body := call(key)
		require.Equal(t, want, status, "%s: %s", key, body)
		if want != 200 {
			require.Contains(t, header.Get("WWW-Authenticate"),
				`resource_metadata="https://broker.example/.well-known/oauth-protected-resource/tools/mcp"`)
			require.Contains(t, header.Get("WWW-Authenticate"), `scope="queen:read"`)
		}
	}
	_, header, _ := call("lacks")
	require.Contains(t, header.Get("WWW-Authenticate"), `error="insufficient_scope"`)
	_, _, body := call("read")
	require.Contains(t, body, "queue_list")
	require.NotContains(t, body, "message_push")

	for path, want := range map[string]int{"": 200, "/tools/mcp": 200, "/mcp": 404} {
		res, err := http.Get("http://" + addr + "/.well-known/oauth-protected-resource" + path)
		require.NoError(t, err)
		text, err := io.ReadAll(res.Body)
		require.NoError(t, err)
		require.NoError(t, res.Body.Close())
		require.Equal(t, want, res.StatusCode, path)
		if want == 200 {
			var doc map[string]any
			require.NoError(t, json.Unmarshal(text, &doc))
			require.Equal(t, url, doc["resource"])
			require.Equal(t, []any{"https://login.example"}, doc["authorization_servers"])
			require.Equal(t, []any{"header"}, doc["bearer_methods_supported"])
			require.Len(t, doc["scopes_supported"], 4)
		}
	}
	// Where the verifier knows the audiences, it has looked at them.
	r.f.opts.Audiences = []string{"other.example"}
	status, _, _ := call("other")
	require.Equal(t, 200, status)
}

// TestReadOnly wins over every mode.
func TestReadOnly(t *testing.T) {
	r := newRig(t, func(o *Options) { o.ReadOnly = true })
	for _, x := range toolsOf(t, r.connect(Identity{Mode: ModeAdmin}, nil)) {
		require.True(t, x.Annotations.ReadOnlyHint, x.Name)
	}
}

// counts reads what metrics say: the number of observations, or the value, by the labels' values.
func (r *rig) counts(family string) map[string]float64 {
	r.t.Helper()
	registry := prometheus.NewRegistry()
	registry.MustRegister(r.f.opts.Metrics.Collectors()...)
	families, err := registry.Gather()
	require.NoError(r.t, err)
	out := map[string]float64{}
	for _, f := range families {
		if f.GetName() != family {
			continue
		}
		for _, m := range f.GetMetric() {
			values := map[string]string{}
			for _, l := range m.GetLabel() {
				values[l.GetName()] = l.GetValue()
			}
			key := values["mcp_method_name"] + "/" + values["gen_ai_tool_name"] + "/" + values["error_type"]
			if m.GetCounter() != nil {
				key = values["reason"]
			}
			out[key] = m.GetCounter().GetValue() + float64(m.GetHistogram().GetSampleCount())
		}
	}
	return out
}

// TestMetrics: every request is measured under its method, its tool and its error, each refusal is counted under its reason,
// and what a client makes up makes no series.
func TestMetrics(t *testing.T) {
	r := newRig(t, func(o *Options) {
		o.Mode = ModeWrite
		o.Auth = keyring{"key": {Tenant: auth.DefaultTenant, Subject: "k", Roles: auth.ReadWrite}, "empty": {Tenant: auth.DefaultTenant}}
	})
	r.push("orders", "p", `1`)
	addr := r.listen()
	header := map[string]string{"Authorization": "Bearer key"}
	call := func(tool, args string) string {
		_, _, body := post(t, addr, "/mcp", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"`+tool+`","arguments":`+args+`}}`, header)
		return body
	}
	call("queue_list", `{}`)
	call("queue_list", `{}`)
	call("queue_describe", `{"queue":"none"}`)
	call("queue_delete", `{"queue":"orders"}`) // not in mode write
	call("made-up", `{}`)
	call("kv_delete", `{"namespace":"n","key":"k","confirm_token":"forged"}`)
	post(t, addr, "/mcp", `{"jsonrpc":"2.0","id":1,"method":"made/up"}`, header)
	post(t, addr, "/mcp", listOld, nil)
	post(t, addr, "/mcp", listOld, map[string]string{"Authorization": "Bearer empty"})
	post(t, addr, "/mcp", listOld, map[string]string{"Host": "evil.example"})
	post(t, addr, "/mcp", listOld, map[string]string{"Origin": "https://evil.example"})
	ops := r.counts("mcp_server_operation_duration_seconds")
	for series, want := range map[string]float64{"tools/call/queue_list/": 2, "tools/call/queue_describe/tool_error": 1, "tools/call/queue_delete/-32602": 1,
		"tools/call/_other/-32602": 1, "tools/call/kv_delete/tool_error": 1} {
		require.Equal(t, want, ops[series], "%s in %v", series, ops)
	}
	for series := range ops {
		require.NotContains(t, series, "made")
	}
	refused := r.counts("queen_mcp_refused_total")
	require.Equal(t, map[string]float64{"not_offered": 2, "confirm_invalid": 1, "unauthorized": 1, "forbidden": 1, "host_refused": 1,
		"origin_refused": 1}, refused)
}
