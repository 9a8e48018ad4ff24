package frontendmcp

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Mask hides what stands at a place of the JSON payloads of a queue, in every answer that shows payloads or searches them.
// Of a queue with a mask, a payload that is no JSON is not shown at all: nobody can tell what stands where in it.
type Mask struct {
	// Queue is a name; "*" is every queue.
	Queue string
	// Pointer is a JSON pointer (RFC 6901), in which a step "*" is every member of an object and every element of an
	// array; "" is the whole payload.
	Pointer string
}

// Bounds of masks.
const (
	maxMasks     = 1000
	maxMaskSteps = 32
)

// hiddenValue is the JSON that stands where something is hidden.
const hiddenValue = `"***"`

// everything is the step, and the queue, that fits all.
const everything = "*"

// steps are the steps of the pointer, unescaped.
func (m Mask) steps() ([]string, error) {
	if m.Queue == "" {
		return nil, errors.New("the queue is empty: name one, or * for all")
	}
	if m.Pointer == "" {
		return nil, nil
	}
	if !strings.HasPrefix(m.Pointer, "/") {
		return nil, fmt.Errorf("%q is no JSON pointer: it begins with a slash", m.Pointer)
	}
	steps := strings.Split(m.Pointer[1:], "/")
	if len(steps) > maxMaskSteps {
		return nil, fmt.Errorf("%q has more than %d steps", m.Pointer, maxMaskSteps)
	}
	for i, s := range steps {
		if rest := strings.NewReplacer("~0", "", "~1", "").Replace(s); strings.Contains(rest, "~") {
			return nil, fmt.Errorf("%q is no JSON pointer: behind ~ comes 0 or 1", m.Pointer)
		}
		steps[i] = unescaped(s)
	}
	return steps, nil
}

// unescaped is a step of a JSON pointer as it is meant.
func unescaped(step string) string {
	return strings.ReplaceAll(strings.ReplaceAll(step, "~1", "/"), "~0", "~")
}

// masks are the pointers of masks by queue.
type masks map[string][][]string

// newMasks joins every problem of rules.
func newMasks(rules []Mask) (masks, error) {
	if len(rules) > maxMasks {
		return nil, fmt.Errorf("frontend-mcp: there are %d masks: at most %d", len(rules), maxMasks)
	}
	out, errs := masks{}, []error{}
	for i, r := range rules {
		steps, err := r.steps()
		if err != nil {
			errs = append(errs, fmt.Errorf("frontend-mcp: mask %d: %w", i+1, err))
		}
		out[r.Queue] = append(out[r.Queue], steps)
	}
	return out, errors.Join(errs...)
}

// of are the pointers for a queue.
func (m masks) of(queue string) [][]string {
	if len(m) == 0 {
		return nil
	}
	return slices.Concat(m[everything], m[queue])
}

// apply hides what the pointers name. hidden says that something was; the payload is nil when it can not be shown at all.
// Bytes beside those of hidden values stay as they are.
func (m masks) apply(queue string, payload []byte) (shown []byte, hidden bool) {
	rules := m.of(queue)
	if len(rules) == 0 {
		return payload, false
	}
	if !utf8.Valid(payload) || !json.Valid(payload) {
		return nil, true
	}
	k := masker{in: payload}
	k.value(rules)
	if k.from == 0 {
		return payload, false
	}
	return append(k.out, payload[k.from:]...), true
}

// masker goes through valid JSON.
type masker struct {
	in, out []byte
	at      int // where it is
	from    int // what is before it is in out
}

// value goes past one value; rules are the rests of the pointers that lead to it.
func (k *masker) value(rules [][]string) {
	k.space()
	switch {
	case slices.ContainsFunc(rules, func(r []string) bool { return len(r) == 0 }):
		k.out = append(append(k.out, k.in[k.from:k.at]...), hiddenValue...)
		k.skip()
		k.from = k.at
	case len(rules) > 0 && k.in[k.at] == '{':
		k.members(func() []byte {
			start := k.at
			k.skip()
			name := k.in[start:k.at]
			k.space()
			k.at++ // the colon
			return name
		}, rules)
	case len(rules) > 0 && k.in[k.at] == '[':
		n := 0
		k.members(func() []byte {
			n++
			return strconv.AppendQuote(nil, strconv.Itoa(n-1))
		}, rules)
	default:
		k.skip()
	}
}

// members goes past an object or an array; name reads the name of the next member as a JSON string.
func (k *masker) members(name func() []byte, rules [][]string) {
	for k.at++; ; k.at++ { // past the bracket, then past each comma
		if k.space(); k.in[k.at] == '}' || k.in[k.at] == ']' {
			break
		}
		var step string
		_ = json.Unmarshal(name(), &step) // a string of valid JSON
		var rest [][]string
		for _, r := range rules {
			if r[0] == step || r[0] == everything {
				rest = append(rest, r[1:])
			}
		}
		k.value(rest)
		if k.space(); k.in[k.at] != ',' {
			break
		}
	}
	k.at++
}

func (k *masker) space() {
	for k.at < len(k.in) && strings.IndexByte(" \t\r\n", k.in[k.at]) >= 0 {
		k.at++
	}
}

// skip goes past one value, whatever it is.
func (k *masker) skip() {
	for depth := 0; k.at < len(k.in); {
		switch c := k.in[k.at]; {
		case c == '"':
			k.at++
			for k.in[k.at] != '"' {
				if k.in[k.at] == '\\' {
					k.at++
				}
				k.at++
			}
			k.at++
		case c == '{' || c == '[':
			depth++
			k.at++
			continue
		case c == '}' || c == ']':
			depth--
			k.at++
		case depth > 0 && bytes.IndexByte([]byte(" \t\r\n,:"), c) >= 0:
			k.at++
			continue
		default: // a number or a word
			for k.at < len(k.in) && bytes.IndexByte([]byte(" \t\r\n,:]}"), k.in[k.at]) < 0 {
				k.at++
			}
		}
		if depth == 0 {
			return
		}
	}
}
