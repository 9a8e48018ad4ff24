package frontendmcp

import (
	"encoding/base64"
	"encoding/json"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"queen/engine"
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
		m, err := newMasks([]Mask{{Queue: "q", Pointer: c.pointer}})
		require.NoError(t, err, c.pointer)
		got, hidden := m.apply("q", []byte(c.in))
		require.Equal(t, c.want, string(got), "%s in %s", c.pointer, c.in)
		require.Equal(t, c.want != c.in, hidden)
		got, hidden = m.apply("other", []byte(c.in))
		require.Equal(t, c.in, string(got))
		require.False(t, hidden)
	}
	m, err := newMasks([]Mask{{Queue: "*", Pointer: "/a"}, {Queue: "q", Pointer: "/b"}})
	require.NoError(t, err)
	got, _ := m.apply("q", []byte(`{"a":1,"b":2,"c":3}`))
	require.Equal(t, `{"a":"***","b":"***","c":3}`, string(got))
	for _, in := range []string{"no JSON", `{"a":1`, "\xff", ""} {
		got, hidden := m.apply("q", []byte(in))
		require.Nil(t, got, in)
		require.True(t, hidden, in)
	}
	for _, bad := range []Mask{{Queue: "", Pointer: "/a"}, {Queue: "q", Pointer: "a"}, {Queue: "q", Pointer: "/a~2"}, {Queue: "q", Pointer: "/a~"},
		{Queue: "q", Pointer: strings.Repeat("/a", maxMaskSteps+1)}} {
		_, err := New(Options{Masks: []Mask{bad}})
		require.Error(t, err, bad)
	}
}

// FuzzMask: whatever the payload, masking neither panics nor makes something that is no JSON of JSON, and what a mask of
// every member of the top hides is gone.
func FuzzMask(f *testing.F) {
	for _, s := range []string{`{"a":[1,{"b":"}\""}],"a":null}`, `[[],{},"",1e9]`, ` true `, `{"a":{"a":{"a":1}}}`, "\xff", `{`} {
		f.Add(s, "/a/*")
	}
	f.Fuzz(func(t *testing.T, payload, pointer string) {
		m, err := newMasks([]Mask{{Queue: "q", Pointer: pointer}, {Queue: "q", Pointer: "/*"}})
		if err != nil {
			return
		}
		got, hidden := m.apply("q", []byte(payload))
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

// TestMaskedEverywhere: no answer of any tool that shows payloads, and no resource, holds what is masked, a search does not
// find it, and who looks at another queue sees everything.
func TestMaskedEverywhere(t *testing.T) {
	const secret = "4111-1111"
	r := newRig(t, func(o *Options) {
		o.Masks = []Mask{{Queue: "paid", Pointer: "/card"}}
		o.OpenAPI = []byte(`{}`)
	})
	r.f.rates.unlimited = true
	value := `{"card":"` + secret + `","total":7}`
	record := `{"k":"` + base64.StdEncoding.EncodeToString([]byte("k-1")) + `","v":"` + base64.StdEncoding.EncodeToString([]byte(value)) + `"}`
	for _, queue := range []string{"paid", "open"} {
		r.push(queue, "json", value, `{"total":8}`)
		r.push(queue, "record", record)
		r.do(&engine.Append{Queue: queue, Partition: "bytes", Messages: []engine.Message{{Payload: []byte("card=" + secret), ContentType: "text/plain"}}})
	}
	s := r.connect(Identity{}, nil)
	sum := func(queue string) (all string) {
		add := func(tool string, args map[string]any) map[string]any {
			args["queue"] = queue
			res := try(t, s, tool, args)
			require.False(t, res.IsError, textOf(res))
			all += textOf(res)
			out, err := json.Marshal(res.StructuredContent)
			require.NoError(t, err)
			all += string(out)
			return res.StructuredContent.(map[string]any)
		}
		id := ""
		for _, p := range []string{"json", "record", "bytes"} {
			m := add("message_peek", map[string]any{"partition": p})["messages"].([]any)[0].(map[string]any)
			if p == "json" {
				id = m["transaction_id"].(string)
			}
			read, err := s.ReadResource(r.ctx, &mcp.ReadResourceParams{URI: "queen://queues/" + queue + "/partitions/" + p})
			require.NoError(t, err)
			all += read.Contents[0].Text
		}
		add("message_trace", map[string]any{"partition": "json", "transaction_id": id})
		found := ask(t, s, "message_trace", map[string]any{"transaction_id": id}) // masked by the queue that it is found in
		require.Equal(t, queue, found["queue"])
		all += found["message"].(map[string]any)["payload"].(string)
		add("message_search", map[string]any{"limit": 20})
		for range 3 {
			add("message_take", map[string]any{"group": "g", "limit": 10, "share": true})
		}
		return all
	}
	masked, open := sum("paid"), sum("open")
	require.NotContains(t, masked, secret)
	require.NotContains(t, masked, base64.StdEncoding.EncodeToString([]byte(secret))[:8])
	require.GreaterOrEqual(t, strings.Count(open, secret), 10, "the test shows nothing")
	require.Contains(t, masked, `"payload_masked":true`)
	require.Contains(t, masked, `"k-1"`)
	for queue, want := range map[string]int{"paid": 0, "open": 3} {
		found := ask(t, s, "message_search", map[string]any{"queue": queue, "contains": secret, "limit": 20})["matches"].([]any)
		require.Len(t, found, want, queue)
		found = ask(t, s, "message_search", map[string]any{"queue": queue, "path": "/card", "equals": secret, "limit": 20})["matches"].([]any)
		require.Len(t, found, min(want, 2), queue)
		found = ask(t, s, "message_search", map[string]any{"queue": queue, "path": "/total", "equals": 7, "limit": 20})["matches"].([]any)
		require.Len(t, found, 2, queue)
	}
}
