package frontendmcp

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"queen/engine/auth"
	"queen/engine/format"
)

// routes is the HTTP side: who may knock, who calls, and then the protocol.
func (f *Frontend) routes() http.Handler {
	protocol := mcp.NewStreamableHTTPHandler(func(r *http.Request) *mcp.Server {
		return f.serverOf(identityOf(r.Context()))
	}, &mcp.StreamableHTTPOptions{
		// No feature needs a session, and only servers without sessions speak the current revision.
		Stateless: true, Logger: slog.New(slog.DiscardHandler), MaxRequestBodyBytes: maxBody, PropagateRequestCancellation: true,
		DisableLocalhostProtection: true, // f.guard judges the Host header, on every bind
	})
	mux := http.NewServeMux()
	mux.Handle("/mcp", f.identify("", protocol))
	mux.Handle("/mcp/readonly", f.identify(ModeRead, protocol))
	mux.HandleFunc("GET /mcp/AGENTS.md", f.primer)
	mux.HandleFunc("GET /.well-known/oauth-protected-resource", f.resourceMetadata)
	mux.HandleFunc("GET /.well-known/oauth-protected-resource/{path...}", f.resourceMetadata)
	return f.guard(mux)
}

// guard refuses requests that a web page could have made a browser send: a name that somebody made point here (DNS
// rebinding), and an origin that is not this server's.
func (f *Frontend) guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case !f.hostAllowed(r.Host):
			f.refuse(w, http.StatusForbidden, "host_refused", "the Host header names no address of this server: allow a name with mcp.hosts")
		case !f.originAllowed(r):
			f.refuse(w, http.StatusForbidden, "origin_refused", "requests of this origin are not taken: allow it with mcp.origins")
		default:
			w.Header().Set("X-Content-Type-Options", "nosniff")
			next.ServeHTTP(w, r)
		}
	})
}

// hostAllowed takes literal addresses, which no name service can redirect, localhost, and the names that are configured.
func (f *Frontend) hostAllowed(hostport string) bool {
	host := hostport
	if h, _, err := net.SplitHostPort(hostport); err == nil {
		host = h
	}
	host = strings.ToLower(strings.TrimSuffix(strings.Trim(host, "[]"), "."))
	if _, err := netip.ParseAddr(host); err == nil {
		return true
	}
	if host == "localhost" {
		return true
	}
	if u, err := url.Parse(f.opts.PublicURL); err == nil && u.Host != "" && strings.EqualFold(u.Hostname(), host) {
		return true
	}
	return slices.ContainsFunc(f.opts.Hosts, func(h string) bool { return strings.EqualFold(h, host) })
}

// originAllowed takes requests without an origin, which browsers always send across origins, and this server's own.
func (f *Frontend) originAllowed(r *http.Request) bool {
	origins := r.Header.Values("Origin")
	for _, origin := range origins {
		u, err := url.Parse(origin)
		own := err == nil && u.Host != "" && strings.EqualFold(u.Host, r.Host) && (u.Scheme == "http" || u.Scheme == "https")
		if !own && !slices.Contains(f.opts.Origins, origin) {
			return false
		}
	}
	return len(origins) <= 1
}

// identify finds out who calls and holds the tenant to its rate; narrow is what the path asks for.
func (f *Frontend) identify(narrow Mode, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		id := &Identity{Tenant: format.DefaultTenant, Mode: narrow, gone: r.Context()}
		if v := r.Header.Get("X-MCP-Readonly"); v != "" {
			readonly, err := strconv.ParseBool(v)
			if err != nil {
				f.refuse(w, http.StatusBadRequest, "bad_request", "X-MCP-Readonly is neither true nor false")
				return
			}
			if readonly {
				id.Mode = ModeRead
			}
		}
		if f.opts.Auth != nil {
			p, err := f.opts.Auth.Authenticate(r.Context(), auth.FromHeaders(r.Header.Get("Authorization"), r.Header.Get("X-API-Key")))
			if err != nil {
				f.unauthenticated(w, r, err)
				return
			}
			if !f.meantForUs(p) {
				f.unauthenticated(w, r, auth.BadAudience)
				return
			}
			if narrowed(p) == 0 {
				w.Header().Set("WWW-Authenticate", f.challenge(r)+`, error="insufficient_scope", scope="`+scopeRead+`"`)
				f.refuse(w, http.StatusForbidden, "forbidden", string(auth.Denied))
				return
			}
			id.Principal, id.Tenant = p, format.Tenant(p.Tenant)
		}
		if status, text := f.narrowTenant(id, r); status != 0 {
			f.refuse(w, status, "tenant_refused", text)
			return
		}
		if ok, after := f.opts.Quotas.Take(auth.Tenant(id.Tenant), auth.Requests, 1); !ok {
			w.Header().Set("Retry-After", strconv.Itoa(int(math.Ceil(after.Seconds()))))
			f.refuse(w, http.StatusTooManyRequests, "rate_limited", "the tenant's plan allows fewer requests a second")
			return
		}
		if r.ContentLength > maxBody { // one that does not tell its length is cut off while it is read
			f.refuse(w, http.StatusRequestEntityTooLarge, "too_large", "a request has at most 4 MiB")
			return
		}
		w.Header().Set("X-Accel-Buffering", "no")
		next.ServeHTTP(w, r.WithContext(withIdentity(r.Context(), id)))
	})
}

// narrowTenant narrows a principal to the tenant that the request names; status is 0 when it may.
func (f *Frontend) narrowTenant(id *Identity, r *http.Request) (status int, text string) {
	name := r.Header.Get("X-Queen-Tenant")
	if name == "" || !f.opts.Tenancy {
		return 0, ""
	}
	t, ok := format.ParseUUID(name)
	switch {
	case !ok:
		return http.StatusBadRequest, "invalid x-queen-tenant header (must be a UUID)"
	case id.Principal == nil || !id.Principal.ActsFor(auth.Tenant(t)):
		return http.StatusForbidden, string(auth.Denied)
	}
	id.Tenant = t
	return 0, ""
}

// unauthenticated answers a caller that is not known.
func (f *Frontend) unauthenticated(w http.ResponseWriter, r *http.Request, err error) {
	var reason auth.Reason
	if !errors.As(err, &reason) {
		f.opts.Logger.Error("authentication failed", "event", "mcp_auth", "err", err)
		f.refuse(w, http.StatusInternalServerError, "internal", "the caller could not be judged")
		return
	}
	if reason == auth.Unavailable {
		w.Header().Set("Retry-After", "1")
		f.refuse(w, http.StatusServiceUnavailable, "retry", string(reason))
		return
	}
	w.Header().Set("WWW-Authenticate", f.challenge(r)+`, scope="`+scopeRead+`"`)
	f.refuse(w, http.StatusUnauthorized, "unauthorized", string(reason))
}

// challenge says where the description of this resource is.
func (f *Frontend) challenge(r *http.Request) string {
	return `Bearer resource_metadata="` + f.base(r) + `/.well-known/oauth-protected-resource` + f.path() + `"`
}

// path is that of the public URL.
func (f *Frontend) path() string {
	if u, err := url.Parse(f.opts.PublicURL); err == nil && u.Host != "" {
		return strings.TrimSuffix(u.EscapedPath(), "/")
	}
	return "/mcp"
}

// base is the URL of this server without a path: the public one when it is told.
func (f *Frontend) base(r *http.Request) string {
	if u, err := url.Parse(f.opts.PublicURL); err == nil && u.Host != "" {
		return u.Scheme + "://" + u.Host
	}
	scheme := "http"
	if f.opts.TLS != nil {
		scheme = "https"
	}
	return scheme + "://" + r.Host
}

// resourceMetadata is the document of RFC 9728.
func (f *Frontend) resourceMetadata(w http.ResponseWriter, r *http.Request) {
	if at := "/" + r.PathValue("path"); f.opts.Auth == nil || at != "/" && at != f.path() {
		http.NotFound(w, r)
		return
	}
	resource := f.opts.PublicURL
	if resource == "" {
		resource = f.base(r) + "/mcp"
	}
	document := map[string]any{
		"resource": resource, "resource_name": "Queen", "bearer_methods_supported": []string{"header"},
		"scopes_supported": []string{scopeRead, scopeProduce, scopeConsume, scopeAdmin},
	}
	if len(f.opts.AuthorizationServers) > 0 {
		document["authorization_servers"] = f.opts.AuthorizationServers
	}
	writeJSON(w, http.StatusOK, document)
}

// primer is the text for agents without MCP.
func (f *Frontend) primer(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/markdown; charset=utf-8")
	fmt.Fprintf(w, "# Queen\n\n%s\n", instructions)
}

// refuse answers a request that does not reach the protocol.
func (f *Frontend) refuse(w http.ResponseWriter, status int, code, text string) {
	f.opts.Metrics.refuse(code)
	writeJSON(w, status, map[string]any{"error": text, "code": code})
}

func writeJSON(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v) // a client that is gone needs no answer
}
