package frontendmcp

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"queen/engine/auth"
)

// post sends a request as raw HTTP and returns status and body.
func post(t *testing.T, addr, path, body string, header map[string]string) (int, http.Header, string) {
	t.Helper()
	req, err := http.NewRequest("POST", "http://"+addr+path, strings.NewReader(body))
	require.NoError(t, err)
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	for k, v := range header {
		if k == "Host" {
			req.Host = v
			continue
		}
		req.Header.Set(k, v)
	}
	res, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	require.NoError(t, err)
	return res.StatusCode, res.Header, string(text)
}

const listOld = `{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{}}`

const listNew = `{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28",` +
	`"io.modelcontextprotocol/clientCapabilities":{}}}}`

// TestKnocking: what a web page, a rebound name, a liar about headers or a flood of bytes gets.
func TestKnocking(t *testing.T) {
	r := newRig(t, func(o *Options) { o.Hosts, o.Origins = []string{"broker.example"}, []string{"https://app.example"} })
	addr := r.listen()
	_, port, _ := strings.Cut(addr, ":")
	for name, c := range map[string]struct {
		body   string
		header map[string]string
		want   int
	}{
		"current revision":  {listNew, map[string]string{"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/list"}, 200},
		"2025-11-25":        {listOld, map[string]string{"MCP-Protocol-Version": "2025-11-25"}, 200},
		"2025-06-18":        {listOld, map[string]string{"MCP-Protocol-Version": "2025-06-18"}, 200},
		"2025-03-26":        {listOld, map[string]string{"MCP-Protocol-Version": "2025-03-26"}, 200},
		"no revision":       {listOld, nil, 200},
		"unknown revision":  {listOld, map[string]string{"MCP-Protocol-Version": "2019-01-01"}, 400},
		"localhost":         {listOld, map[string]string{"Host": "localhost:" + port}, 200},
		"known name":        {listOld, map[string]string{"Host": "broker.example"}, 200},
		"rebound name":      {listOld, map[string]string{"Host": "evil.example:" + port}, 403},
		"rebound to local":  {listOld, map[string]string{"Host": "localhost.evil.example"}, 403},
		"own origin":        {listOld, map[string]string{"Origin": "http://" + addr}, 200},
		"known origin":      {listOld, map[string]string{"Origin": "https://app.example"}, 200},
		"other origin":      {listOld, map[string]string{"Origin": "https://evil.example"}, 403},
		"other port":        {listOld, map[string]string{"Origin": "http://127.0.0.1:1"}, 403},
		"null origin":       {listOld, map[string]string{"Origin": "null"}, 403},
		"method disagrees":  {listNew, map[string]string{"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call"}, 400},
		"version missing":   {listNew, map[string]string{"MCP-Protocol-Version": "2026-07-28"}, 400},
		"no JSON":           {`{"jsonrpc`, nil, 400},
		"form":              {"a=b", map[string]string{"Content-Type": "application/x-www-form-urlencoded"}, 415},
		"oversize":          {`{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"x":"` + strings.Repeat("x", maxBody) + `"}}`, nil, 413},
		"readonly nonsense": {listOld, map[string]string{"X-MCP-Readonly": "maybe"}, 400},
	} {
		status, _, body := post(t, addr, "/mcp", c.body, c.header)
		require.Equal(t, c.want, status, "%s: %s", name, body)
	}
	res, err := http.Get("http://" + addr + "/mcp")
	require.NoError(t, err)
	require.NoError(t, res.Body.Close())
	require.Equal(t, 405, res.StatusCode)
}

// TestModes: for every mode, role, header and path a caller gets exactly the tools that all of them allow; a tool that is
// not listed can not be called.
func TestModes(t *testing.T) {
	for _, mode := range Modes {
		for _, role := range []auth.Roles{auth.ReadOnly, auth.WriteOnly, auth.ReadWrite, auth.Admin} {
			for _, narrow := range []Mode{"", ModeRead, ModeAdmin} {
				r := newRig(t, func(o *Options) { o.Mode = mode })
				id := Identity{Principal: &auth.Principal{Roles: role, Subject: "s"}, Mode: narrow}
				s := r.connect(id, nil)
				listed := toolsOf(t, s)
				for _, x := range registry() {
					want := mode.allows(x.mode) && (narrow != ModeRead || x.mode == ModeRead) && id.Principal.May(x.level)
					_, got := listed[x.name]
					require.Equal(t, want, got, "%s in mode %s, narrowed to %q, as %s", x.name, mode, narrow, role)
					if !want {
						_, err := s.CallTool(r.ctx, &mcp.CallToolParams{Name: x.name, Arguments: map[string]any{}})
						require.ErrorContains(t, err, "unknown tool", x.name)
					}
				}
			}
		}
	}
}

// keyring is an authenticator with fixed keys.
type keyring map[string]*auth.Principal

func (k keyring) Authenticate(_ context.Context, c auth.Credentials) (*auth.Principal, error) {
	if c.Secret == "" {
		return nil, auth.Required
	}
	if p := k[c.Secret]; p != nil {
		return p, nil
	}
	return nil, auth.BadAPIKey
}

// TestWhoCalls: without a credential there is a challenge that leads to the description of the resource; the role and the
// tenant of a caller hold; a header narrows and never widens.
func TestWhoCalls(t *testing.T) {
	other := auth.Tenant{15: 9}
	r := newRig(t, func(o *Options) {
		o.Auth = keyring{"reader": {Tenant: auth.DefaultTenant, Subject: "r", Roles: auth.ReadOnly},
			"boss":     {Tenant: auth.DefaultTenant, Subject: "b", Roles: auth.Admin},
			"stranger": {Tenant: other, Subject: "s", Roles: auth.Admin}, "nobody": {Tenant: auth.DefaultTenant, Subject: "n"}}
		o.Tenancy = true
	})
	r.push("orders", "p", `1`)
	addr := r.listen()
	status, header, _ := post(t, addr, "/mcp", listOld, nil)
	require.Equal(t, 401, status)
	require.Contains(t, header.Get("WWW-Authenticate"), `resource_metadata="http://`+addr+`/.well-known/oauth-protected-resource/mcp"`)
	for _, path := range []string{"/.well-known/oauth-protected-resource", "/.well-known/oauth-protected-resource/mcp"} {
		res, err := http.Get("http://" + addr + path)
		require.NoError(t, err)
		text, err := io.ReadAll(res.Body)
		require.NoError(t, err)
		require.NoError(t, res.Body.Close())
		require.Contains(t, string(text), `"resource":"http://`+addr+`/mcp"`)
	}
	as := func(key string) map[string]string { return map[string]string{"Authorization": "Bearer " + key} }
	status, _, _ = post(t, addr, "/mcp", listOld, as("wrong"))
	require.Equal(t, 401, status)
	status, _, _ = post(t, addr, "/mcp", listOld, as("nobody"))
	require.Equal(t, 403, status)
	_, _, body := post(t, addr, "/mcp", listOld, as("reader"))
	require.Contains(t, body, "queue_list")
	require.NotContains(t, body, "queue_delete")
	_, _, body = post(t, addr, "/mcp", listOld, as("boss"))
	require.Contains(t, body, "queue_delete")
	_, _, body = post(t, addr, "/mcp/readonly", listOld, as("boss"))
	require.NotContains(t, body, "queue_delete")
	narrowed := as("boss")
	narrowed["X-MCP-Readonly"] = "true"
	_, _, body = post(t, addr, "/mcp", listOld, narrowed)
	require.NotContains(t, body, "queue_delete")
	list := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"queue_list","arguments":{}}}`
	_, _, body = post(t, addr, "/mcp", list, as("boss"))
	require.Contains(t, body, `\"total\":1`)
	_, _, body = post(t, addr, "/mcp", list, as("stranger"))
	require.Contains(t, body, `\"total\":0`)
	foreign := as("stranger")
	foreign["X-Queen-Tenant"] = auth.DefaultTenant.String()
	status, _, _ = post(t, addr, "/mcp", list, foreign)
	require.Equal(t, 403, status)
}

// TestConfirmations: a token is for its caller, its tool, its arguments and its time, and for what it counted.
func TestConfirmations(t *testing.T) {
	r := newRig(t, nil)
	r.f.rates.unlimited = true
	r.furnish()
	boss := r.connect(Identity{Principal: &auth.Principal{Roles: auth.Admin, Subject: "boss"}}, nil)
	other := r.connect(Identity{Principal: &auth.Principal{Roles: auth.Admin, Subject: "other"}}, nil)
	args := func(extra ...any) map[string]any {
		m := map[string]any{"queue": "orders"}
		for i := 0; i < len(extra); i += 2 {
			m[extra[i].(string)] = extra[i+1]
		}
		return m
	}
	plan := func() string { return ask(t, boss, "queue_delete", args())["confirm_token"].(string) }
	token := plan()
	before := r.digest()
	require.Equal(t, "confirm_invalid", refused(t, other, "queue_delete", args("confirm_token", token)).Code, "another caller's")
	require.Equal(t, "confirm_invalid", refused(t, boss, "queue_delete", map[string]any{"queue": "jobs", "confirm_token": token}).Code)
	require.Equal(t, "confirm_invalid", refused(t, boss, "group_delete", args("group", "billing", "confirm_token", token)).Code)
	for i := range token { // every bit of it counts
		bent := []byte(token)
		bent[i] ^= 1
		require.Equal(t, "confirm_invalid", refused(t, boss, "queue_delete", args("confirm_token", string(bent))).Code)
		if i > 40 {
			break
		}
	}
	require.Equal(t, before, r.digest())
	r.clock.Advance((confirmTime + 1) * time.Second)
	require.Equal(t, "confirm_expired", refused(t, boss, "queue_delete", args("confirm_token", token)).Code)
	ask(t, boss, "queue_describe", args())

	token = plan()
	r.push("orders", "customer-3", `1`, `2`, `3`) // more than a tenth
	again := ask(t, boss, "queue_delete", args("confirm_token", token))
	require.Equal(t, false, again["done"])
	require.Equal(t, true, ask(t, boss, "queue_delete", args("confirm_token", again["confirm_token"]))["done"])
	require.Equal(t, "unknown_queue", refused(t, boss, "queue_delete", args("confirm_token", again["confirm_token"])).Code)
}

// TestAPersonAgrees: a client that can ask a person gets a question, in either era; what is typed decides, and the state
// of the question is no token by itself.
func TestAPersonAgrees(t *testing.T) {
	r := newRig(t, func(o *Options) { o.RequireHuman = true })
	r.furnish()
	var typed, action string
	var asked string
	can := r.connect(Identity{}, &mcp.ClientOptions{ElicitationHandler: func(_ context.Context, req *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
		asked = req.Params.Message
		return &mcp.ElicitResult{Action: action, Content: map[string]any{"name": typed}}, nil
	}})
	can2 := r.connect(Identity{}, nil)
	require.Equal(t, "human_required", refused(t, can2, "queue_delete", map[string]any{"queue": "orders"}).Code)
	before := r.digest()
	for _, c := range [][2]string{{"decline", "orders"}, {"cancel", "orders"}, {"accept", "order"}, {"accept", ""}} {
		action, typed = c[0], c[1]
		require.Equal(t, "declined", refused(t, can, "queue_delete", map[string]any{"queue": "orders"}).Code, c)
		require.Equal(t, before, r.digest())
	}
	require.Contains(t, asked, `"orders"`)
	action, typed = "accept", "orders"
	require.Equal(t, true, ask(t, can, "queue_delete", map[string]any{"queue": "orders"})["done"])
}

// TestAPersonAgreesOverHTTP: where no session is kept the question travels as input that is required, and its state comes back
// with the answer: by itself, changed, or for other arguments it is worth nothing.
func TestAPersonAgreesOverHTTP(t *testing.T) {
	r := newRig(t, func(o *Options) { o.RequireHuman = true })
	r.furnish()
	addr := r.listen()
	s, err := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, &mcp.ClientOptions{
		ElicitationHandler: func(_ context.Context, req *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
			return &mcp.ElicitResult{Action: "accept", Content: map[string]any{"name": "jobs"}}, nil
		}}).Connect(r.ctx, &mcp.StreamableClientTransport{Endpoint: "http://" + addr + "/mcp", DisableStandaloneSSE: true}, nil)
	require.NoError(t, err)
	defer s.Close()
	require.Equal(t, "declined", refused(t, s, "queue_delete", map[string]any{"queue": "orders"}).Code, "another name was typed")
	call := func(params string) string {
		_, _, body := post(t, addr, "/mcp", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"queue_delete",`+params+
			`,"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{"elicitation":{}}}}}`,
			map[string]string{"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call", "Mcp-Name": "queue_delete"})
		return body
	}
	asked := call(`"arguments":{"queue":"orders"}`)
	require.Contains(t, asked, "input_required")
	_, state, _ := strings.Cut(asked, `"requestState":"`)
	state, _, _ = strings.Cut(state, `"`)
	require.NotEmpty(t, state)
	typed := `"inputResponses":{"confirm":{"action":"accept","content":{"name":"orders"}}},`
	before := r.digest()
	require.Contains(t, call(`"arguments":{"queue":"orders","confirm_token":"`+state+`"}`), "confirm_invalid", "as a token")
	require.Contains(t, call(`"arguments":{"queue":"orders"},"requestState":"`+state+`"`), "confirm_invalid", "without the person")
	require.Contains(t, call(typed+`"arguments":{"queue":"jobs"},"requestState":"`+state+`"`), "confirm_invalid", "for another queue")
	require.Contains(t, call(typed+`"arguments":{"queue":"orders"},"requestState":"x`+state+`"`), "confirm_invalid", "changed")
	require.Equal(t, before, r.digest())
	require.Contains(t, call(typed+`"arguments":{"queue":"orders"},"requestState":"`+state+`"`), `"done":true`)
	require.Contains(t, call(typed+`"arguments":{"queue":"orders"},"requestState":"`+state+`"`), "unknown_queue")
	require.Equal(t, true, ask(t, s, "queue_delete", map[string]any{"queue": "jobs"})["done"])
}

// TestLimits: a caller that calls too often is told when to come back, and one caller does not slow another.
func TestLimits(t *testing.T) {
	r := newRig(t, nil)
	a := r.connect(Identity{Principal: &auth.Principal{Roles: auth.ReadOnly, Subject: "a"}}, nil)
	b := r.connect(Identity{Principal: &auth.Principal{Roles: auth.ReadOnly, Subject: "b"}}, nil)
	for range callsBurst {
		ask(t, a, "explain_error", map[string]any{"error": "x"})
	}
	e := refused(t, a, "explain_error", map[string]any{"error": "x"})
	require.Equal(t, "rate_limited", e.Code)
	require.True(t, e.Retryable)
	require.Positive(t, e.RetryAfterMs)
	ask(t, b, "explain_error", map[string]any{"error": "x"})
	r.clock.Advance(time.Second)
	ask(t, a, "explain_error", map[string]any{"error": "x"})
}
