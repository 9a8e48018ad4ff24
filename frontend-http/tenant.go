package frontendhttp

import (
	"net"
	"net/netip"

	"github.com/gofiber/fiber/v2"

	"queen/engine/auth"
	"queen/engine/format"
)

// tenantOf says for which tenant a request is: the principal's own, or the one the header narrows it to. p is nil when
// nobody was authenticated.
func (c *call) tenantOf(p *auth.Principal) (format.Tenant, error) {
	own := format.DefaultTenant
	if p != nil {
		own = format.Tenant(p.Tenant)
	}
	if !c.f.opts.Tenancy {
		return own, nil
	}
	h := c.ctx.Request.Header.Peek("x-queen-tenant")
	if len(h) == 0 {
		return own, nil
	}
	named, ok := format.ParseUUID(string(h))
	switch {
	case !ok:
		return own, &refusal{status: fiber.StatusBadRequest, text: "invalid x-queen-tenant header (must be a UUID)"}
	case p != nil && p.ActsFor(auth.Tenant(named)):
		return named, nil
	case p == nil && c.f.opts.Auth == nil && c.trusted():
		return named, nil
	case p == nil && c.f.opts.Auth != nil:
		return own, nil // an open route, which belongs to no tenant
	}
	return own, &refusal{status: fiber.StatusForbidden, text: string(auth.Denied)}
}

// trusted tells whether the request comes from a proxy whose word about tenants is taken.
func (c *call) trusted() bool {
	tcp, ok := c.ctx.RemoteAddr().(*net.TCPAddr)
	if !ok {
		return false
	}
	addr := tcp.AddrPort().Addr().Unmap()
	return containsAddr(c.f.opts.TrustedProxies, addr)
}

func containsAddr(prefixes []netip.Prefix, addr netip.Addr) bool {
	for _, p := range prefixes {
		if p.Contains(addr) {
			return true
		}
	}
	return false
}
