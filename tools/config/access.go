package config

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strings"
)

// Authenticates tells whether callers must show who they are.
func (c *Config) Authenticates() bool { return c.JWTEnabled || c.AuthKeys != "" }

// listener is the address of a frontend.
type listener struct{ name, addr string }

// listeners has a row for every frontend that listens: one switch, --insecure, is for all of them.
func (c *Config) listeners() []listener { return []listener{{"http", c.HTTP}, {"mcp", c.MCP}} }

// validateAccess finds what would let strangers in, and what would keep everybody out.
func (c *Config) validateAccess() (errs []error) {
	for _, l := range c.listeners() {
		if !c.Insecure && !c.Authenticates() && slices.Contains(c.Frontends, l.name) && !loopback(l.addr) {
			errs = append(errs, fmt.Errorf("%s: %s can be reached from other machines and nothing authenticates the callers: "+
				"use 127.0.0.1, ask them for tokens or keys (jwt.enabled, auth.keys), or allow it with --insecure", l.name, l.addr))
		}
	}
	if c.JWTEnabled && c.JWTSecret == "" && c.JWTSecretFile == "" && c.JWTPublicKey == "" && c.JWTKeySet == "" {
		errs = append(errs, errors.New("jwt.enabled: nothing can verify a token: give jwt.secret, jwt.secret.file, "+
			"jwt.public.key or jwt.jwks.url"))
	}
	if c.JWTSecret != "" && c.JWTSecretFile != "" {
		errs = append(errs, errors.New("jwt.secret.file: jwt.secret is there too: only one can count"))
	}
	if c.EncryptionKey != "" && c.EncryptionKeyring != "" {
		errs = append(errs, errors.New("encryption.keyring: encryption.key is there too: put it into the file as the key 1"))
	}
	if !c.Insecure && !privateURL(c.JWTKeySet) {
		errs = append(errs, fmt.Errorf("jwt.jwks.url: whoever answers for %s decides which tokens are good: use https, "+
			"or allow it with --insecure", c.JWTKeySet))
	}
	switch proxies := len(c.TrustedProxies) > 0; {
	case c.TenancyHeader && !c.Authenticates() && !proxies:
		errs = append(errs, errors.New("tenancy.header: nothing authenticates the callers, so anybody could name any tenant: "+
			"state the proxies that set the header with tenancy.trusted.proxies, or authenticate (jwt.enabled, auth.keys)"))
	case c.Authenticates() && proxies:
		errs = append(errs, errors.New("tenancy.trusted.proxies: callers are authenticated, so the tenant comes from them: "+
			`give the proxy a token or key for the tenant "*" instead`))
	}
	return errs
}

// privateURL tells whether what is fetched from a URL can not be forged on the way. A file is no URL.
func privateURL(s string) bool {
	u, err := url.Parse(s)
	return err != nil || u.Scheme != "http" || loopback(net.JoinHostPort(u.Hostname(), "0"))
}

// loopback tells whether only this machine can reach addr, which has been checked to be host:port. A name other than
// localhost counts as reachable: what it resolves to can change.
func loopback(addr string) bool {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return false
	}
	if strings.EqualFold(host, "localhost") {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.Unmap().IsLoopback()
}
