package frontendhttp

import (
	"sort"
	"strings"

	"github.com/gofiber/fiber/v2"
)

// access is the level a route asks of a principal. Levels are a set, not a ladder (http-api 1.3).
type access string

const (
	public    access = "public"
	readOnly  access = "read-only"
	writeOnly access = "write-only"
	readWrite access = "read-write"
	admin     access = "admin"
)

// mark says who needs a route (http-api 0.2).
type mark string

const (
	core       mark = "core"
	common     mark = "common"
	operator   mark = "admin"
	additional mark = "additional"
)

// family is the shape of a route's error bodies (http-api 1.2).
type family uint8

const (
	familyEngine      family = iota // {"error","code"}
	familyPop                       // a 400 is {"success":false,"error","messages":[]}
	familyRead                      // a 400 is {"error"}
	familyKV                        // {"error","reason","detail"}, codes of the key-value store
	familyTimers                    // the same, codes of timers
	familyEphemeral                 // {"error","code"} throughout, codes of its own
	familyTransaction               // {"error","code"}; roll backs and bad parts have the transaction's own body
)

// param is a query parameter, for the document only; handlers parse their own.
type param struct {
	Name, Type, About string
	Required          bool
}

// handler answers one request. What it returns as an error becomes the answer.
type handler func(*call) error

// route is one row of the table. Path has ":name" for a name, "*name" for the rest; split, when set, finds the names
// by a rule of its own.
type route struct {
	Method, Path string
	Access       access
	Mark         mark
	Summary      string
	Query        []param
	// Request and Response name schemas of the document; empty means no body. Status is that of success.
	Request, Response string
	Status            int
	Errors            family
	// Text says that success is also told as text, to whoever asks for it.
	Text bool
	// Also are further statuses with bodies of their own, for the document; several schemas stand between bars, and none is
	// no body.
	Also map[int]string
	// Op is the operation counted in queen_operation_duration_seconds; empty means none.
	Op string
	// Keyed routes read the Idempotency-Key header.
	Keyed bool
	// Frees routes remove one key or cancel one timer and do nothing else: no rate refuses them (S-kv-21, S-tmr-16).
	Frees bool
	// Alone routes answer without an engine; Probe routes also answer HEAD, as load balancers send it. No other route
	// does: a HEAD of a pop would claim messages.
	Alone, Probe bool
	// Closable public routes are open only as long as the skip paths name them: they tell something about the traffic.
	Closable bool
	// Socket routes also answer a WebSocket handshake.
	Socket bool
	// Events of an event stream, by name, and the schemas of their data, for the document.
	Events map[string]string
	// Handle is nil while the route is not built.
	Handle handler

	split    splitter
	number   int      // in the table
	prefix   string   // the literal part before the first name
	segments []string // what follows it
}

// splitter finds the names in the part of a path after its literal prefix, still percent-encoded.
type splitter func(rest string, names *[maxNames]string) (ok bool)

// maxNames bounds the names in a path.
const maxNames = 3

// prepare computes what matching needs.
func (r *route) prepare(number int) {
	r.number = number
	i := strings.IndexAny(r.Path, ":*")
	if i < 0 {
		r.prefix = r.Path
		return
	}
	r.prefix = r.Path[:i]
	r.segments = strings.Split(r.Path[i:], "/")
	switch {
	case r.split != nil:
	case r.Handle != nil:
		r.split = r.byLiteral
	default:
		r.split = r.bySegment
	}
}

// byLiteral finds the names between the literals of the path, the last occurrence of each: some clients leave slashes
// in names as they are, and a name that holds such a literal can still be sent percent-encoded. Rows with more literals
// stand before those with fewer.
func (r *route) byLiteral(rest string, names *[maxNames]string) (ok bool) {
	last := len(r.segments) - 1
	if literal := r.segments[last]; literal[0] != ':' {
		if rest, ok = strings.CutSuffix(rest, "/"+literal); !ok {
			return false
		}
		last--
	}
	for i := last; i > 0; i -= 2 {
		between := "/" + r.segments[i-1] + "/"
		at := strings.LastIndex(rest, between)
		if at < 0 {
			return false
		}
		names[i/2] = rest[at+len(between):]
		rest = rest[:at]
	}
	names[0] = rest
	return true
}

// bySegment matches literals and one segment per ":name"; a last "*name" takes the rest.
func (r *route) bySegment(rest string, names *[maxNames]string) (ok bool) {
	n := 0
	for i, want := range r.segments {
		if want[0] == '*' {
			names[n] = rest
			return true
		}
		have, after, more := strings.Cut(rest, "/")
		if more != (i < len(r.segments)-1) {
			return false
		}
		if want[0] == ':' {
			names[n] = have
			n++
		} else if want != have {
			return false
		}
		rest = after
	}
	return true
}

// queueAndPartition splits at the last "/partition/"; the empty queue name is legal.
func queueAndPartition(rest string, names *[maxNames]string) (ok bool) {
	const between = "/partition/"
	i := strings.LastIndex(rest, between)
	if i < 0 {
		return false
	}
	names[0], names[1] = rest[:i], rest[i+len(between):]
	return true
}

// everything takes the rest as one name.
func everything(rest string, names *[maxNames]string) (ok bool) {
	names[0] = rest
	return true
}

// address splits a partition id from a raw transaction id before a literal end.
func address(end string) splitter {
	return func(rest string, names *[maxNames]string) (ok bool) {
		rest, ok = strings.CutSuffix(rest, end)
		if !ok {
			return false
		}
		names[0], names[1], ok = strings.Cut(rest, "/")
		return ok
	}
}

// register puts the table into the server: literal paths first, then one catch-all per method and literal prefix,
// longest prefix first, which tries its rows in table order.
func (f *Frontend) register(routes []*route) {
	app := f.server.App
	type group struct{ method, prefix string }
	rows := map[group][]*route{}
	var groups []group
	for _, r := range routes {
		if r.segments == nil {
			answer := func(c *fiber.Ctx) error { return f.run(c, r, [maxNames]string{}) }
			app.Add(r.Method, r.Path, answer)
			if r.Probe {
				app.Add("HEAD", r.Path, answer)
			}
			continue
		}
		g := group{r.Method, r.prefix}
		if rows[g] == nil {
			groups = append(groups, g)
		}
		rows[g] = append(rows[g], r)
	}
	sort.SliceStable(groups, func(i, j int) bool { return len(groups[i].prefix) > len(groups[j].prefix) })
	for _, g := range groups {
		candidates := rows[g]
		app.Add(g.method, g.prefix+"*", func(c *fiber.Ctx) error { return f.choose(c, g.prefix, candidates) })
	}
}

// choose finds the row for a path with names in it. The path is still as the client sent it.
func (f *Frontend) choose(c *fiber.Ctx, prefix string, candidates []*route) error {
	rest, ok := strings.CutPrefix(c.Path(), prefix)
	if !ok {
		return fiber.ErrNotFound
	}
	var names [maxNames]string
	for _, r := range candidates {
		if r.split(rest, &names) {
			return f.run(c, r, names)
		}
	}
	return c.Next()
}
