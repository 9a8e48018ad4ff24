package frontendmcp

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"unicode/utf8"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"queen/engine"
)

// toolError is what a call that failed answers, as JSON in a text block.
type toolError struct {
	Code    string `json:"code"`
	Message string `json:"message"`
	Hint    string `json:"hint,omitempty"`
	// Field and Limit name the argument that is wrong and its bound.
	Field string `json:"field,omitempty"`
	Limit string `json:"limit,omitempty"`
	// Outcome says whether the call may have changed something: none, unknown or applied.
	Outcome      string `json:"outcome"`
	Retryable    bool   `json:"retryable"`
	RetryAfterMs int64  `json:"retry_after_ms,omitempty"`
}

// Error is the JSON of the answer.
func (e *toolError) Error() string {
	shown := *e
	if shown.Outcome == "" {
		shown.Outcome = outcomeNames[engine.OutcomeNone]
	}
	text, err := safeJSON(shown)
	if err != nil {
		return string(shown.Code)
	}
	return string(text)
}

var outcomeNames = map[engine.Outcome]string{
	engine.OutcomeNone: "none", engine.OutcomeUnknown: "unknown", engine.OutcomeApplied: "applied",
}

// badArgument refuses an argument.
func badArgument(field, text string) error {
	return &toolError{Code: string(engine.CodeBadRequest), Message: text, Field: field}
}

// Explanation is what a code means and what to do about it.
type Explanation struct {
	Code, Meaning, Remedy string
}

// asToolError makes an answer of an error. What the engine says is shown unless it repeats an argument: names and keys
// may be those of strangers, and an error is not a place for them.
func asToolError(err error, args json.RawMessage) error {
	var own *toolError
	if errors.As(err, &own) {
		return own
	}
	var e *engine.Error
	switch {
	case errors.As(err, &e):
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		e = &engine.Error{Code: engine.CodeTimeout, Outcome: engine.OutcomeUnknown}
	default:
		return &toolError{Code: string(engine.CodeInternal), Message: "the node failed: its log says more"}
	}
	out := &toolError{Code: string(e.Code), Field: e.Field, Limit: e.Limit, Outcome: outcomeNames[e.Outcome],
		Retryable: e.RetryAfter > 0 || retryable[e.Code], RetryAfterMs: e.RetryAfter.Milliseconds()}
	x := explain(e.Code)
	out.Message, out.Hint = x.Meaning, x.Remedy
	if e.Message != "" && plain(e.Message) && !repeats(e.Message, args) {
		out.Message = e.Message
	}
	return out
}

var retryable = map[engine.ErrorCode]bool{engine.CodeTimeout: true, engine.CodeOverloaded: true, engine.CodeNoLeader: true,
	engine.CodeRetry: true, engine.CodeRateLimited: true, engine.CodeStorageFull: true, engine.CodeQueueFull: true}

// plain tells whether a text is one line of printable ASCII.
func plain(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r > '~' || r == utf8.RuneError })
}

// repeats tells whether a text quotes one of a call's arguments.
func repeats(text string, args json.RawMessage) bool {
	var v any
	if json.Unmarshal(args, &v) != nil {
		return len(args) > 0
	}
	var in func(any) bool
	in = func(v any) bool {
		switch v := v.(type) {
		case string:
			return len(v) > 2 && strings.Contains(text, v)
		case []any:
			for _, x := range v {
				if in(x) {
					return true
				}
			}
		case map[string]any:
			for _, x := range v {
				if in(x) {
					return true
				}
			}
		}
		return false
	}
	return in(v)
}

// cleanErrors replaces what the SDK says about arguments that do not fit their schema, which quotes them, by an error of
// ours.
func cleanErrors(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
		res, err := next(ctx, method, req)
		call, ok := res.(*mcp.CallToolResult)
		if err != nil || !ok || call == nil || !call.IsError {
			return res, err
		}
		if _, ours := call.GetError().(*toolError); ours {
			return res, nil
		}
		clean := &toolError{Code: string(engine.CodeBadRequest), Message: "the arguments do not fit the tool's input schema",
			Hint: "compare them with inputSchema in tools/list: unknown, missing and mistyped members are refused"}
		if fault := call.GetError(); fault != nil {
			clean.Field = offendingMember(fault.Error())
		}
		call.Content = nil // SetError keeps what is there
		call.SetError(clean)
		return call, nil
	}
}

// offendingMember finds the member that a schema error is about: the last word in its path, if it is one of a schema.
func offendingMember(text string) string {
	const mark = "/properties/"
	i := strings.LastIndex(text, mark)
	if i < 0 {
		return ""
	}
	name := text[i+len(mark):]
	if j := strings.IndexFunc(name, func(r rune) bool { return !(r == '_' || r >= 'a' && r <= 'z') }); j >= 0 {
		name = name[:j]
	}
	return name
}
