package frontendmcp

import (
	"encoding/base64"
	"encoding/json"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"queen/engine"
	"queen/engine/mask"
)

// TestMaskedEverywhere: no answer of any tool that shows payloads, and no resource, holds what is masked, a search does not
// find it, and who looks at another queue sees everything.
func TestMaskedEverywhere(t *testing.T) {
	const secret = "4111-1111"
	masks, err := mask.New([]mask.Rule{{Queue: "paid", Pointer: "/card"}})
	require.NoError(t, err)
	r := newRig(t, func(o *Options) {
		o.Masks = masks
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
