package frontendmcp

import (
	"context"
	"slices"

	"queen/engine"
	"queen/engine/auth"
	"queen/engine/format"
)

// Mode is how far a caller may go.
type Mode string

// The modes. Each includes the ones before it.
const (
	ModeRead  Mode = "read"
	ModeWrite Mode = "write"
	ModeAdmin Mode = "admin"
)

// Modes are all of them, the weakest first.
var Modes = []Mode{ModeRead, ModeWrite, ModeAdmin}

// allows tells whether a tool of mode need may be used in mode m.
func (m Mode) allows(need Mode) bool { return slices.Index(Modes, need) <= slices.Index(Modes, m) }

// KnownToolsets are the names that Options.Toolsets takes.
var KnownToolsets = []string{"cluster", "queues", "messages", "groups", "dlq", "state", "storage", "docs", "consume", "ops"}

// DefaultToolsets are those that are on unless something else is asked for: consume takes leases, ops moves nodes.
var DefaultToolsets = []string{"cluster", "queues", "messages", "groups", "dlq", "state", "storage", "docs"}

// view is what one caller may use: callers with the same view share a server.
type view struct {
	mode   Mode
	roles  auth.Roles
	tenant format.Tenant // changes that a server tells are its tenant's
}

// allRoles is what a caller may do when nobody is asked.
const allRoles = auth.ReadOnly | auth.WriteOnly | auth.ReadWrite | auth.Admin

// Identity is who is behind a connection.
type Identity struct {
	// Principal is nil when nobody was asked.
	Principal *auth.Principal
	Tenant    format.Tenant
	// Mode narrows Options.Mode for this caller; "" does not.
	Mode Mode
	// inner calls are the server's own and not counted.
	inner bool
	// gone ends when nobody waits for the answer any more; nil when that can not be told.
	gone context.Context
}

// subject names the caller for the audit and for what is bound to it.
func (id *Identity) subject() string {
	if id.Principal == nil {
		return ""
	}
	return id.Principal.Subject
}

func (id *Identity) caller() engine.Caller {
	return engine.Caller{Tenant: id.Tenant, Subject: id.subject()}
}

// roles are what the caller may do.
func (id *Identity) roles() auth.Roles {
	if id.Principal == nil {
		return allRoles
	}
	return narrowed(id.Principal)
}

// viewOf is what a caller sees: the weakest of the node's mode and the one it asked for, and its roles.
func (f *Frontend) viewOf(id *Identity) view {
	mode := f.opts.Mode
	if id.Mode != "" && mode.allows(id.Mode) {
		mode = id.Mode
	}
	return view{mode: mode, roles: id.roles(), tenant: id.Tenant}
}

// offers tells whether a tool is in a view.
func (f *Frontend) offers(v view, t *tool) bool {
	return v.mode.allows(t.mode) && (&auth.Principal{Roles: v.roles}).May(t.level) &&
		slices.Contains(f.opts.Toolsets, t.toolset) &&
		(len(f.opts.Tools) == 0 || slices.Contains(f.opts.Tools, t.name))
}

// identityKey finds the Identity of a request in its context.
type identityKey struct{}

func withIdentity(ctx context.Context, id *Identity) context.Context {
	return context.WithValue(ctx, identityKey{}, id)
}

func identityOf(ctx context.Context) *Identity {
	id, _ := ctx.Value(identityKey{}).(*Identity)
	return id
}
