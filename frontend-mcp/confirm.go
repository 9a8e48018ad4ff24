package frontendmcp

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// Confirming are the arguments of destructive tools: the first call leaves them out and gets a plan.
type Confirming struct {
	ConfirmToken string `json:"confirm_token,omitempty" jsonschema:"confirm_token of the plan, with the same arguments"`
}

// Planned is the answer of a destructive tool: a plan with nothing done, or what was done.
type Planned struct {
	Meta
	Done bool `json:"done" jsonschema:"false: nothing has changed yet, see plan"`
	// Plan is what the call would do.
	Plan         *Plan   `json:"plan"`
	ConfirmToken string  `json:"confirm_token,omitempty"`
	ExpiresAt    *string `json:"confirm_expires_at"`
}

// Plan says what a destructive call would do.
type Plan struct {
	Action     string            `json:"action"`
	Target     map[string]string `json:"target" jsonschema:"names of what is touched"`
	Counts     map[string]uint64 `json:"counts"`
	Reversible bool              `json:"reversible"`
	Effects    []string          `json:"effects"`
}

// Bounds of confirmations.
const (
	confirmTime = 120 // seconds
	// maxDrift is by how many percent counts may have changed between plan and deed.
	maxDrift = 10
)

func refusedToken(code, text string) error {
	return &toolError{Code: code, Message: text, Field: "confirm_token",
		Hint: "call the tool without confirm_token to get a new plan; nothing was done"}
}

// askPerson ends a call by a question to the person behind the client.
type askPerson struct{ result *mcp.CallToolResult }

func (*askPerson) Error() string { return "a person is asked" }

// confirm decides about a destructive call. With nil, nil the caller goes ahead; an answer is the plan. args are the
// tool's arguments without Confirming; name is what a person types.
func (c *call) confirm(in Confirming, args any, name string, p Plan) (*Planned, error) {
	digest := digestOf(c.tool.name, args)
	token := in.ConfirmToken
	if c.req.Params.RequestState != "" {
		token = c.req.Params.RequestState
	}
	if token == "" {
		return c.plan(digest, name, p)
	}
	sealed, ok, err := c.unseal(token)
	if err != nil {
		return nil, err
	}
	switch {
	case !ok, sealed.Tool != c.tool.name, !bytes.Equal(sealed.Args, digest), sealed.Subject != c.id.subject(),
		!bytes.Equal(sealed.Tenant, c.id.Tenant[:]):
		return nil, refusedToken("confirm_invalid", "the confirmation is not for this call of this caller")
	case sealed.left(c) < 0:
		return nil, refusedToken("confirm_expired", "the confirmation is older than its two minutes")
	case sealed.left(c) > (confirmTime+maxSkew)*1e6:
		return nil, refusedToken("confirm_expired", "the clocks of the nodes are too far apart to tell how old the confirmation is")
	case sealed.Person != (c.req.Params.RequestState != ""):
		return nil, refusedToken("confirm_invalid", "the confirmation was not given by a person")
	}
	if sealed.Person {
		if err := c.answered(name); err != nil {
			return nil, err
		}
	}
	if drifted(sealed.Counts, p.Counts) {
		return c.plan(digest, name, p)
	}
	return nil, c.spend(sealed)
}

// answered checks what the person typed.
func (c *call) answered(name string) error {
	answer, ok := c.req.Params.InputResponses[confirmInput].(*mcp.ElicitResult)
	switch {
	case !ok || answer == nil:
		return refusedToken("confirm_invalid", "the answer of the person is missing")
	case answer.Action != "accept":
		return refusedToken("declined", "the person did not agree")
	case answer.Content["name"] != name:
		return refusedToken("declined", "what the person typed is not the name of the target")
	}
	return nil
}

// drifted tells whether what a plan counted has changed by more than maxDrift percent.
func drifted(planned, now map[string]uint64) bool {
	for k, a := range planned {
		b := now[k]
		if diff := max(a, b) - min(a, b); diff*100 > max(a, b)*maxDrift {
			return true
		}
	}
	return len(planned) != len(now)
}

// confirmInput is the id of the question in a request for input.
const confirmInput = "confirm"

// plan answers a first call: with the plan and a token, or with a question to a person where the client can ask one.
func (c *call) plan(digest []byte, name string, p Plan) (*Planned, error) {
	person := c.canAsk()
	if c.f.opts.RequireHuman && !person {
		return nil, &toolError{Code: "human_required", Message: "this node wants a person to agree, and the client can not ask one",
			Hint: "use a client with elicitation, or the command line"}
	}
	token, err := c.seal(confirmation{Tenant: c.id.Tenant[:], Subject: c.id.subject(), Tool: c.tool.name, Args: digest, Counts: p.Counts,
		Person: person})
	if err != nil {
		return nil, err
	}
	if person {
		return nil, &askPerson{&mcp.CallToolResult{RequestState: token, InputRequests: mcp.InputRequestMap{
			confirmInput: &mcp.ElicitParams{Message: p.question(name), RequestedSchema: map[string]any{
				"type": "object", "required": []string{"name"},
				"properties": map[string]any{"name": map[string]any{"type": "string", "title": "Name of the target", "description": "Type it to agree."}},
			}},
		}}}
	}
	m := c.meta()
	m.Untrusted = true
	m.Hint = "Nothing has changed. Show the plan to the person you work for; call again with confirm_token and the same arguments to carry it out."
	ends := timeText(c.f.now() + confirmTime*1e6)
	return &Planned{Meta: m, Plan: &p, ConfirmToken: token, ExpiresAt: &ends}, nil
}

// question is the plan as a person reads it. Names are quoted in ASCII, so that they can not look like anything else.
func (p *Plan) question(name string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s.", p.Action, strconv.QuoteToASCII(name))
	for _, k := range sortedKeys(p.Counts) {
		fmt.Fprintf(&b, " %s: %d.", k, p.Counts[k])
	}
	for _, e := range p.Effects {
		b.WriteString(" " + e)
	}
	if !p.Reversible {
		b.WriteString(" This can not be undone.")
	}
	return b.String()
}

func sortedKeys(m map[string]uint64) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// newEra is the first revision in which a server can ask without a session.
const newEra = "2026-07-28"

// canAsk tells whether the client can ask the person behind it: it says so in this request, and there is a way to.
func (c *call) canAsk() bool {
	caps := c.req.ClientCapabilities()
	if caps == nil || caps.Elicitation == nil || caps.Elicitation.Form == nil && caps.Elicitation.URL != nil {
		return false
	}
	overHTTP := c.req.Extra != nil && c.req.Extra.Header != nil
	return c.req.ProtocolVersion() >= newEra || !overHTTP
}

// done is the answer of a call that was carried out.
func (c *call) done() Planned {
	return Planned{Meta: c.meta(), Done: true}
}
