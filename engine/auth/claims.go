package auth

import (
	"strings"

	"github.com/golang-jwt/jwt/v5"
)

// subjectBytes bounds what is stamped on every message as its producer.
const subjectBytes = 1024

// principal reads who a token speaks for. Roles that are unknown words give nothing; a tenant that is not one is
// refused, never replaced by the default.
func (t *Tokens) principal(claims jwt.MapClaims) (*Principal, error) {
	subject, err := claims.GetSubject()
	if err != nil || len(subject) > subjectBytes {
		return nil, BadClaims
	}
	p := &Principal{Tenant: DefaultTenant, Subject: strings.Clone(subject)}
	if exp, err := claims.GetExpirationTime(); err == nil && exp != nil {
		p.Expires = exp.Add(t.opts.Leeway).UTC()
	}
	p.Audience = words(claims["aud"])
	for _, list := range words(claims["scope"]) {
		p.Scopes = append(p.Scopes, strings.Fields(list)...)
	}
	for _, name := range []string{t.opts.RolesClaim, t.opts.RolesArrayClaim} {
		for _, word := range words(claim(claims, name)) {
			p.Roles |= t.opts.RoleNames[word]
		}
	}
	if t.opts.TenantClaim == "" {
		return p, nil
	}
	if !p.setTenants(words(claim(claims, t.opts.TenantClaim))) {
		return nil, BadTenant
	}
	return p, nil
}

// claim finds a claim by its name, or by the path that the dots of the name spell.
func claim(claims map[string]any, name string) any {
	if v, ok := claims[name]; ok {
		return v
	}
	first, rest, ok := strings.Cut(name, ".")
	if !ok {
		return nil
	}
	inner, _ := claims[first].(map[string]any)
	return claim(inner, rest)
}

// words are the strings of a claim that is one or a list. A list with anything else in it is none.
func words(v any) []string {
	switch v := v.(type) {
	case string:
		return []string{v}
	case []any:
		list := make([]string, 0, len(v))
		for _, item := range v {
			word, ok := item.(string)
			if !ok {
				return nil
			}
			list = append(list, word)
		}
		return list
	}
	return nil
}
