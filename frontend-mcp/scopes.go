package frontendmcp

import (
	"slices"

	"queen/engine/auth"
)

// Scopes of tokens, as the resource's metadata lists them.
const (
	scopeRead    = "queen:read"
	scopeProduce = "queen:produce"
	scopeConsume = "queen:consume"
	scopeAdmin   = "queen:admin"
)

// scopes are what each scope lets a caller do, in the roles of the HTTP API.
var scopes = map[string]auth.Roles{scopeRead: auth.ReadOnly, scopeProduce: auth.WriteOnly, scopeConsume: auth.ReadWrite, scopeAdmin: auth.Admin}

// narrowed are the roles of a principal as far as the scopes of its token go. Scopes never add to roles, and a token
// without one of ours has what its roles give.
func narrowed(p *auth.Principal) auth.Roles {
	var granted auth.Roles
	for _, s := range p.Scopes {
		granted |= scopes[s]
	}
	if granted == 0 {
		return p.Roles
	}
	by := &auth.Principal{Roles: granted}
	var out auth.Roles
	for role, level := range map[auth.Roles]auth.Level{auth.ReadOnly: auth.LevelReadOnly, auth.WriteOnly: auth.LevelWriteOnly,
		auth.ReadWrite: auth.LevelReadWrite, auth.Admin: auth.LevelAdmin} {
		if p.May(level) && by.May(level) {
			out |= role
		}
	}
	return out
}

// meantForUs tells whether a token may be shown here: one that names audiences is for these only. Where the verifier was
// told audiences it has looked; else ours is the URL that clients use.
func (f *Frontend) meantForUs(p *auth.Principal) bool {
	return len(f.opts.Audiences) > 0 || len(p.Audience) == 0 || slices.Contains(p.Audience, f.opts.PublicURL)
}
