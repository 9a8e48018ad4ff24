package frontendhttp

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"queen/engine/auth"
	"queen/frontend-http/wire"
)

// guard knows callers by their secret, and refuses everybody else for a reason.
type guard struct {
	principals map[string]*auth.Principal
	otherwise  error
}

func (g *guard) Authenticate(_ context.Context, c auth.Credentials) (*auth.Principal, error) {
	if c.Secret == "" {
		return nil, auth.Required
	}
	if p, ok := g.principals[c.Secret]; ok {
		return p, nil
	}
	return nil, g.otherwise
}

// byRole has one caller per role, whose secret is the role's name, and "nobody" without any.
func byRole() *guard {
	g := &guard{principals: map[string]*auth.Principal{}, otherwise: auth.BadSignature}
	for name, role := range auth.RoleNames {
		g.principals[name] = &auth.Principal{Tenant: auth.DefaultTenant, Subject: name, Roles: role}
	}
	g.principals["nobody"] = &auth.Principal{Tenant: auth.DefaultTenant}
	return g
}

// allowed is the table of the contract, written out.
var allowed = map[access][]string{
	readOnly:  {"read-only", "read-write", "admin"},
	writeOnly: {"write-only", "read-write", "admin"},
	readWrite: {"read-write", "admin"},
	admin:     {"admin"},
	public:    {"", "nobody", "read-only", "write-only", "read-write", "admin", "wrong"},
}

// TestRolesOverTheTable walks every route with every kind of caller: who may is answered as ever, also 501 and 404, and
// nobody else gets past 401 and 403.
func TestRolesOverTheTable(t *testing.T) {
	n := startWith(t, Options{Auth: byRole(), SkipPaths: []string{"/metrics", "/metrics/prometheus"}})
	for _, r := range table() {
		may := map[string]bool{}
		for _, name := range allowed[r.Access] {
			may[name] = true
		}
		require.NotEmpty(t, may, "%s has an unknown level %s", r.Path, r.Access)
		target := strings.NewReplacer(":", "", "*", "").Replace(r.Path)
		for _, name := range []string{"", "wrong", "nobody", "read-only", "write-only", "read-write", "admin"} {
			var headers []string
			if name != "" {
				headers = []string{"Authorization: Bearer " + name}
			}
			a := n.do(r.Method, target, "", headers...)
			want := 0
			switch {
			case may[name]:
			case name == "" || name == "wrong":
				want = 401
			default:
				want = 403
			}
			if want == 0 && (a.status == 401 || a.status == 403) || want != 0 && a.status != want {
				t.Errorf("%s %s (%s) as %q: status %d: %s", r.Method, r.Path, r.Access, name, a.status, cut(a.body))
			}
		}
	}
}

// TestReasonsOnTheWire: every reason has its exact words, whatever the route's family of errors.
func TestReasonsOnTheWire(t *testing.T) {
	g := &guard{}
	n := startWith(t, Options{Auth: g})
	for _, reason := range auth.Reasons {
		g.otherwise = reason
		for _, target := range []string{"/api/v1/pop/queue/q", "/api/v1/resources/queues"} {
			a := n.get(target, "Authorization: Bearer x")
			if reason == auth.Unavailable {
				a.is(503).equal(`"retry"`, "code")
				require.Equal(t, "1", a.header.Get("Retry-After"))
				continue
			}
			a.is(401).equal(fmt.Sprintf(`{"error":%q}`, reason))
			require.Equal(t, "Bearer", a.header.Get("WWW-Authenticate"))
		}
	}
	n.get("/api/v1/pop/queue/q").is(401).equal(`{"error":"Authentication required"}`)
	n.post("/api/v1/fetch", `{`).is(401).equal(`{"error":"Authentication required"}`)
	g.otherwise = errors.New("secret details")
	n.get("/api/v1/pop/queue/q", "Authorization: x").is(500).equal(`"Internal Server Error"`, "error")

	roles := startWith(t, Options{Auth: byRole()})
	roles.get("/api/v1/pop/queue/q", "Authorization: Bearer read-only").is(403).equal(`{"error":"Insufficient permissions"}`)
	for _, header := range []string{"Authorization: bearer read-only", "Authorization: read-only", "X-API-Key: read-only"} {
		roles.get("/api/v1/resources/queues", header).is(200)
	}
}

// TestSkipPaths: exact, or a prefix that ends in a slash; metrics are closed unless they are named, health never is.
func TestSkipPaths(t *testing.T) {
	closed := startWith(t, Options{Auth: byRole()})
	for _, path := range []string{"/metrics", "/metrics/prometheus"} {
		require.Equal(t, 401, closed.get(path).status, path)
		require.Equal(t, 200, closed.get(path, "Authorization: nobody").status, path)
	}
	for _, path := range []string{"/livez", "/readyz", "/health", "/openapi.json"} {
		closed.get(path).is(200)
		closed.get(path, "Authorization: wrong").is(200)
	}
	n := startWith(t, Options{Auth: byRole(), SkipPaths: []string{"/", "/api/v1/resources/", "/status"}})
	n.get("/status").is(200)
	n.get("/api/v1/resources/queues").is(200)
	for _, path := range []string{"/metrics", "/api/v1/dlq?queue=q", "/status/", "/api/v1/messages?queue=q"} {
		if s := n.get(path).status; s != 401 && s != 404 {
			t.Errorf("%s: %d", path, s)
		}
	}
}

// TestProducerSub: the subject of the principal is stamped on messages, and nothing that a body says is.
func TestProducerSub(t *testing.T) {
	n := startWith(t, Options{Auth: byRole()})
	const as = "Authorization: Bearer read-write"
	n.post("/api/v1/push", `{"items":[{"queue":"q","payload":1,"producerSub":"root"}]}`, as).is(201)
	n.get("/api/v1/pop/queue/q?subscriptionMode=all", as).is(200).equal(`"read-write"`, "messages", 0, "producerSub")
	off := start(t)
	off.post("/api/v1/push", `{"items":[{"queue":"q","payload":1,"producerSub":"root"}]}`).is(201)
	off.get("/api/v1/pop/queue/q?subscriptionMode=all").is(200).equal(`null`, "messages", 0, "producerSub")
}

const (
	tenantA = "11111111-1111-1111-1111-111111111111"
	tenantB = "22222222-2222-2222-2222-222222222222"
)

func tenantID(t testing.TB, s string) auth.Tenant {
	t.Helper()
	id, ok := auth.ParseTenant(s)
	require.True(t, ok)
	return id
}

// TestTenantHeaderNarrows: the header narrows a principal of several tenants and chooses none for anybody else.
func TestTenantHeaderNarrows(t *testing.T) {
	a, b := tenantID(t, tenantA), tenantID(t, tenantB)
	g := &guard{otherwise: auth.BadSignature, principals: map[string]*auth.Principal{
		"a":    {Tenant: a, Roles: auth.Admin},
		"ab":   {Tenant: a, Tenants: []auth.Tenant{b}, Roles: auth.Admin},
		"any":  {Tenant: auth.DefaultTenant, AnyTenant: true, Roles: auth.Admin},
		"none": {Tenant: auth.DefaultTenant, Roles: auth.Admin},
	}}
	for _, reads := range []bool{true, false} {
		n := startWith(t, Options{Auth: g, Tenancy: reads})
		for _, queue := range [][2]string{{"a", "of-a"}, {"none", "of-default"}} {
			n.post("/api/v1/push", `{"items":[{"queue":"`+queue[1]+`","payload":1}]}`, "Authorization: "+queue[0]).is(201)
		}
		const missing, refused = "", "403"
		for _, c := range []struct{ as, header, reading, off string }{
			{"a", "", "of-a", "of-a"}, {"a", tenantA, "of-a", "of-a"}, {"a", tenantB, refused, "of-a"},
			{"a", "00000000-0000-0000-0000-000000000001", refused, "of-a"},
			{"ab", "", "of-a", "of-a"}, {"ab", tenantA, "of-a", "of-a"}, {"ab", tenantB, missing, "of-a"},
			{"any", "", "of-default", "of-default"}, {"any", tenantA, "of-a", "of-default"}, {"any", tenantB, missing, "of-default"},
			{"none", tenantA, refused, "of-default"}, {"none", "", "of-default", "of-default"},
		} {
			want := c.reading
			if !reads {
				want = c.off
			}
			headers := []string{"Authorization: " + c.as}
			if c.header != "" {
				headers = append(headers, "x-queen-tenant: "+c.header)
			}
			answer := n.get("/api/v1/resources/queues", headers...)
			switch {
			case want == refused:
				answer.is(403).equal(`{"error":"Insufficient permissions"}`)
			case want == missing:
				require.Zero(t, answer.is(200).len("queues"))
			default:
				require.Equal(t, want, answer.is(200).str("queues", 0, "name"), "%+v", c)
			}
		}
	}
}

// TestTenantHeaderOfProxies: without authentication the header is believed from stated proxies and refused from others;
// without it a request is the default tenant's wherever it comes from.
func TestTenantHeaderOfProxies(t *testing.T) {
	const header = "x-queen-tenant: " + tenantA
	near := startWith(t, Options{Tenancy: true, TrustedProxies: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}})
	near.post("/api/v1/push", `{"items":[{"queue":"q","payload":1}]}`, header).is(201)
	require.Zero(t, near.get("/api/v1/resources/queues").is(200).len("queues"))
	far := startWith(t, Options{Tenancy: true, TrustedProxies: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}})
	far.get("/api/v1/resources/queues", header).is(403)
	far.get("/api/v1/resources/queues").is(200)
	far.get("/api/v1/resources/queues", "x-queen-tenant: me").is(400)
}

// TestStrangersSendLittle: the body of a caller who is not known is not even read, and it is told why; one who is known
// sends as much as ever, and so does anybody where nobody is asked.
func TestStrangersSendLittle(t *testing.T) {
	n := startWith(t, Options{Auth: byRole(), Server: wire.ServerOptions{BodyLimit: 1 << 20}, SkipPaths: []string{"/api/v1/fetch"}})
	large := `{"items":[{"queue":"q","payload":"` + strings.Repeat("x", 2*strangerBody) + `"}]}`
	n.post("/api/v1/push", large, "Authorization: read-write").is(201)
	n.post("/api/v1/push", large).is(401).equal(`{"error":"Authentication required"}`)
	n.post("/api/v1/push", large, "Authorization: wrong").is(401).equal(`{"error":"Invalid token signature"}`)
	n.post("/api/v1/push", `{"items":[{"queue":"q","payload":1}]}`).is(401)
	n.post("/api/v1/fetch?x=1", `{"entries":[{"queue":"q","partition":"`+strings.Repeat("x", 2*strangerBody)+`","offset":0}]}`).is(200)
	a := n.post("/api/v1/push", strings.Repeat("x", 1<<20+1), "Authorization: read-write")
	require.Equal(t, 413, a.status)
	require.Equal(t, "Payload Too Large", a.body)

	// Nothing of the announced body is sent: the answer comes by the header alone.
	c := n.dial()
	c.send("POST /api/v1/push HTTP/1.1\r\nHost: q\r\nContent-Length: 1000000\r\n\r\n")
	c.receive().is(401)
	chunked := n.dial()
	chunked.send("POST /api/v1/push HTTP/1.1\r\nHost: q\r\nTransfer-Encoding: chunked\r\n\r\n20000\r\n" + strings.Repeat("x", 0x20000))
	chunked.receive().is(401)
}
