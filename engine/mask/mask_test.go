package mask

import (
	"encoding/base64"
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestMasks: what a pointer names is replaced, every time it is there, and no other byte changes.
func TestMasks(t *testing.T) {
	for _, c := range []struct{ pointer, in, want string }{
		{"/card", `{"a": 1, "card": "4111", "b":[1, 2]}`, `{"a": 1, "card": "***", "b":[1, 2]}`},
		{"/card", `{"card":{"n":[1,{"x":"}"}]},"card":2}`, `{"card":"***","card":"***"}`},
		{"/card", `{"c\u0061rd":1, "\u0063ards":2}`, `{"c\u0061rd":"***", "\u0063ards":2}`},
		{"/a/b", `{"a":{"b":"\"\\"},"b":3}`, `{"a":{"b":"***"},"b":3}`},
		{"/a/1", `{"a":[1 , 22, 3]}`, `{"a":[1 , "***", 3]}`},
		{"/a/*/n", `{"a":[{"n":1,"m":2},{"n":3},4],"n":5}`, `{"a":[{"n":"***","m":2},{"n":"***"},4],"n":5}`},
		{"/*", `{"x":1,"y":{}}`, `{"x":"***","y":"***"}`},
		{"/a~1b/m~0n", `{"a/b":{"m~n":true}}`, `{"a/b":{"m~n":"***"}}`},
		{"/", `{"":1,"x":2}`, `{"":"***","x":2}`},
		{"", ` {"x":1} `, ` "***" `},
		{"/none", `{"x":[]}`, `{"x":[]}`},
		{"/x/y", `{"x":"y"}`, `{"x":"y"}`},
		{"/x", `[]`, `[]`}, {"/x", `"x"`, `"x"`}, {"/x", `{}`, `{}`}, {"/0", `[-1.5e3]`, `["***"]`},
	} {
		m, err := New([]Rule{{Queue: "q", Pointer: c.pointer}})
		require.NoError(t, err, c.pointer)
		got, hidden := m.Value("q", []byte(c.in))
		require.Equal(t, c.want, string(got), "%s in %s", c.pointer, c.in)
		require.Equal(t, c.want != c.in, hidden)
		got, hidden = m.Value("other", []byte(c.in))
		require.Equal(t, c.in, string(got))
		require.False(t, hidden)
	}
	m, err := New([]Rule{{Queue: "*", Pointer: "/a"}, {Queue: "q", Pointer: "/b"}})
	require.NoError(t, err)
	got, _ := m.Value("q", []byte(`{"a":1,"b":2,"c":3}`))
	require.Equal(t, `{"a":"***","b":"***","c":3}`, string(got))
	for _, in := range []string{"no JSON", `{"a":1`, "\xff", ""} {
		got, hidden := m.Value("q", []byte(in))
		require.Nil(t, got, in)
		require.True(t, hidden, in)
	}
	for _, bad := range []Rule{{Queue: "", Pointer: "/a"}, {Queue: "q", Pointer: "a"}, {Queue: "q", Pointer: "/a~2"}, {Queue: "q", Pointer: "/a~"},
		{Queue: "q", Pointer: strings.Repeat("/a", maxSteps+1)}} {
		_, err := New([]Rule{bad})
		require.Error(t, err, bad)
	}
	_, err = New(make([]Rule, maxRules+1))
	require.ErrorContains(t, err, "at most 1000")
	m, err = New(nil)
	require.NoError(t, err)
	got, hidden := m.Value("q", []byte(`{"a":1}`))
	require.Equal(t, `{"a":1}`, string(got), "no rules")
	require.False(t, hidden)
}

// FuzzMask: whatever the payload, masking neither panics nor makes something that is no JSON of JSON, and what a mask of
// every member of the top hides is gone.
func FuzzMask(f *testing.F) {
	for _, s := range []string{`{"a":[1,{"b":"}\""}],"a":null}`, `[[],{},"",1e9]`, ` true `, `{"a":{"a":{"a":1}}}`, "\xff", `{`} {
		f.Add(s, "/a/*")
	}
	f.Fuzz(func(t *testing.T, payload, pointer string) {
		m, err := New([]Rule{{Queue: "q", Pointer: pointer}, {Queue: "q", Pointer: "/*"}})
		if err != nil {
			return
		}
		got, hidden := m.Value("q", []byte(payload))
		if got == nil {
			require.True(t, hidden)
			require.False(t, json.Valid([]byte(payload)) && strings.ToValidUTF8(payload, "") == payload)
			return
		}
		require.True(t, json.Valid(got), "%q became %q", payload, got)
		var top map[string]any
		if json.Unmarshal(got, &top) == nil {
			for k, v := range top {
				require.Equal(t, "***", v, k)
			}
		}
	})
}

// TestRecord: of the JSON form of a Kafka client's record the value is judged, and key, headers and time stay as they are. What
// only looks like one is a payload as any.
func TestRecord(t *testing.T) {
	m, err := New([]Rule{{Queue: "q", Pointer: "/card"}})
	require.NoError(t, err)
	record := func(value string) string {
		v := "null"
		if value != "" {
			v = `"` + base64.StdEncoding.EncodeToString([]byte(value)) + `"`
		}
		return `{"h":[{"k":"n","v":"QQ=="}],"k":"QUE=","t":5,"v":` + v + `}`
	}
	for _, c := range []struct {
		in, want string
		hidden   bool
	}{
		{record(`{"card":4,"b":1}`), record(`{"card":"***","b":1}`), true},
		{record(`{"b":1}`), record(`{"b":1}`), false},
		{record("no JSON"), record(""), true},
		{record(""), record(""), false},
		{`{"k":null,"v":"QQ==","card":7}`, `{"k":null,"v":"QQ==","card":"***"}`, true},
		{`{"card":7}`, `{"card":"***"}`, true},
	} {
		got, hidden := m.Payload("q", []byte(c.in))
		require.Equal(t, c.want, string(got), c.in)
		require.Equal(t, c.hidden, hidden, c.in)
		got, hidden = m.Payload("other", []byte(c.in))
		require.Equal(t, c.in, string(got))
		require.False(t, hidden)
	}
	got, hidden := m.Payload("q", []byte("no JSON"))
	require.Nil(t, got)
	require.True(t, hidden)
}
