package auth

import (
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
)

// Tenant is the id of a tenant: the bytes of a UUID.
type Tenant [16]byte

// DefaultTenant owns everything that nobody else does.
var DefaultTenant = Tenant{15: 1}

// ParseTenant reads the 36 characters of a UUID; no other spelling of one is taken.
func ParseTenant(s string) (Tenant, bool) {
	if len(s) != 36 {
		return Tenant{}, false
	}
	u, err := uuid.Parse(s)
	return Tenant(u), err == nil
}

func (t Tenant) String() string { return uuid.UUID(t).String() }

// Level is what an operation asks of its caller.
type Level string

// The levels, named as the contract names them.
const (
	LevelPublic    Level = "public"
	LevelReadOnly  Level = "read-only"
	LevelWriteOnly Level = "write-only"
	LevelReadWrite Level = "read-write"
	LevelAdmin     Level = "admin"
)

// Roles is a set of roles.
type Roles uint8

// The roles. A principal may have several.
const (
	ReadOnly Roles = 1 << iota
	WriteOnly
	ReadWrite
	Admin
)

// RoleNames are the roles as keys and, unless told otherwise, tokens name them.
var RoleNames = map[string]Roles{"read-only": ReadOnly, "write-only": WriteOnly, "read-write": ReadWrite, "admin": Admin}

// satisfying says which roles satisfy a level. A level that is not in it is satisfied by nobody.
var satisfying = map[Level]Roles{
	LevelReadOnly:  ReadOnly | ReadWrite | Admin,
	LevelWriteOnly: WriteOnly | ReadWrite | Admin,
	LevelReadWrite: ReadWrite | Admin,
	LevelAdmin:     Admin,
}

func (r Roles) String() string {
	var names []string
	for name, role := range RoleNames {
		if r&role != 0 {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return strings.Join(names, ",")
}

// Principal is an authenticated caller. It is not changed once it was handed out.
type Principal struct {
	// Tenant is the one the principal acts for unless a request narrows it to another of Tenants.
	Tenant Tenant
	// Tenants are further ones it may act for.
	Tenants []Tenant
	// AnyTenant lets requests name any tenant: the principal is a gateway that has authenticated its own callers.
	AnyTenant bool
	// Subject names the caller: the "sub" of a token, the name of a key.
	Subject string
	Roles   Roles
	// Audience and Scopes are what a token names of each; a key has neither. The verifier looks at the audience only where it
	// was told one: a door with an identifier of its own looks again.
	Audience, Scopes []string
	// Expires is when the credential ends; zero is never. Whoever keeps a principal for longer than a call looks at it.
	Expires time.Time
}

// May tells whether the principal satisfies a level.
func (p *Principal) May(l Level) bool { return l == LevelPublic || p.Roles&satisfying[l] != 0 }

// ActsFor tells whether a request of the principal may be narrowed to a tenant.
func (p *Principal) ActsFor(t Tenant) bool {
	return p.AnyTenant || t == p.Tenant || slices.Contains(p.Tenants, t)
}
