package mask

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"queen/engine/batch"
)

// Rule hides what stands at a place of the JSON payloads of a queue, in every answer that shows payloads or searches them.
// Of a queue with a rule, a payload that is no JSON is not shown at all: nobody can tell what stands where in it.
type Rule struct {
	// Queue is a name; "*" is every queue.
	Queue string
	// Pointer is a JSON pointer (RFC 6901), in which a step "*" is every member of an object and every element of an
	// array; "" is the whole payload.
	Pointer string
}

// Bounds of rules.
const (
	maxRules = 1000
	maxSteps = 32
)

// hiddenValue is the JSON that stands where something is hidden.
const hiddenValue = `"***"`

// everything is the step, and the queue, that fits all.
const everything = "*"

// steps are the steps of the pointer, unescaped.
func (m Rule) steps() ([]string, error) {
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
	if len(steps) > maxSteps {
		return nil, fmt.Errorf("%q has more than %d steps", m.Pointer, maxSteps)
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

// Set is rules by queue. A nil one hides nothing.
type Set struct{ pointers map[string][][]string }

// New joins every problem of rules. Of none it is nil.
func New(rules []Rule) (*Set, error) {
	switch {
	case len(rules) == 0:
		return nil, nil
	case len(rules) > maxRules:
		return nil, fmt.Errorf("there are %d masks: at most %d", len(rules), maxRules)
	}
	m, errs := &Set{map[string][][]string{}}, []error{}
	for i, r := range rules {
		steps, err := r.steps()
		if err != nil {
			errs = append(errs, fmt.Errorf("mask %d: %w", i+1, err))
		}
		m.pointers[r.Queue] = append(m.pointers[r.Queue], steps)
	}
	return m, errors.Join(errs...)
}

// of are the pointers for a queue.
func (m *Set) of(queue string) [][]string {
	if m == nil {
		return nil
	}
	return slices.Concat(m.pointers[everything], m.pointers[queue])
}

// Value hides what the pointers name in the payload of a message, or in the value of a record. hidden says that something was; shown
// is nil when it can not be shown at all. Bytes beside those of hidden values stay as they are.
func (m *Set) Value(queue string, payload []byte) (shown []byte, hidden bool) {
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

// Payload is Value for a payload as it is stored: of the JSON form of a Kafka client's record it hides parts of the value, which is
// null where it can not be shown.
func (m *Set) Payload(queue string, payload []byte) (shown []byte, hidden bool) {
	if len(m.of(queue)) == 0 {
		return payload, false
	}
	r, ok := batch.ParseEnvelope(payload)
	if !ok {
		return m.Value(queue, payload)
	}
	if r.Value == nil {
		return payload, false
	}
	if r.Value, hidden = m.Value(queue, r.Value); !hidden {
		return payload, false
	}
	return batch.AppendEnvelope(nil, &r), true
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
