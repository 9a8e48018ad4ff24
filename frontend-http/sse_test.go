package frontendhttp

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestEventStreamOfMessages(t *testing.T) {
	onBoth(t, func(t *testing.T, n *node) {
		n.push1("q", "p", "a", "{\"n\":\n\r1}")
		e := n.events("/api/v1/consume?queue=q&consumerGroup=g&subscriptionMode=all&commitOnDelivery=true")
		for i := range 3 {
			ev := e.want("message")
			var m struct {
				Data        struct{ N int }
				PartitionID string
				Offset      int
			}
			require.NoError(t, json.Unmarshal([]byte(ev.data), &m), ev.data)
			require.Equal(t, i+1, m.Data.N)
			require.Equal(t, fmt.Sprint(m.PartitionID, ":", i), ev.id)
			n.push1("q", "p", fmt.Sprint("b", i), fmt.Sprintf(`{"n":%d}`, i+2))
		}
	})
}

func TestEventStreamHandsBackAtHangUp(t *testing.T) {
	onBoth(t, func(t *testing.T, n *node) {
		n.push1("q", "p", "a", `1`)
		n.push1("q", "p", "b", `2`)
		e := n.events("/api/v1/consume?queue=q&consumerGroup=g&subscriptionMode=all&maxInFlight=1")
		m := answer{t: t, body: e.want("message").data, parsed: new(any)}
		n.post("/api/v1/ack/batch", `{"consumerGroup":"g","acknowledgments":[`+ackOf(m, "completed")+`]}`).is(200).
			equal(`true`, 0, "leaseReleased")
		m = answer{t: t, body: e.want("message").data, parsed: new(any)}
		m.equal(`2`, "data")
		_ = e.Close()
		n.get("/api/v1/pop/queue/q?consumerGroup=g&wait=true&timeout=15000").is(200).equal(`2`, "messages", 0, "data").
			equal(`1`, "messages", 0, "deliveryAttempt")
	})
}

func TestEventStreamsShowThatTheyLive(t *testing.T) {
	n := startWith(t, Options{Streams: StreamOptions{Heartbeat: time.Millisecond}})
	for _, target := range []string{"/api/v1/consume?queue=q", "/api/v1/kv/watch?ns=n"} {
		e := n.events(target)
		for range 3 {
			line, err := e.r.ReadString('\n')
			require.NoError(t, err)
			require.Equal(t, ":\n", line)
			_, err = e.r.ReadString('\n')
			require.NoError(t, err)
		}
	}
}

func TestWatchFollowsAPrefix(t *testing.T) { onBoth(t, watchFollowsAPrefix) }

func watchFollowsAPrefix(t *testing.T, n *node) {
	put := func(key, value string) string {
		a := n.do("PUT", "/api/v1/kv/n/"+key, `{"value":`+value+`,"forever":true}`).is(200)
		return fmt.Sprint(a.at("version"))
	}
	before := put("a/0", `"old"`)
	e := n.events("/api/v1/kv/watch?ns=n&prefix=a/")
	version := put("a/1", "{\"x\":\r\n1}")
	put("b/1", `2`)
	ev := e.want("change")
	require.Equal(t, version, ev.id)
	require.JSONEq(t, `{"key":"a/1","value":{"x":1},"version":`+version+`,"expiresAt":null,"deleted":false}`, ev.data)
	n.do("DELETE", "/api/v1/kv/n/a/1", "").is(200)
	ev = e.want("change")
	require.JSONEq(t, `{"key":"a/1","version":`+ev.id+`,"expiresAt":null,"deleted":true}`, ev.data)

	for _, again := range []*eventReader{n.events("/api/v1/kv/watch?ns=n&prefix=a/&fromVersion=" + before),
		n.events("/api/v1/kv/watch?ns=n&prefix=a/", "Last-Event-ID: "+before)} {
		require.Equal(t, version, again.want("change").id)
		require.Equal(t, ev.id, again.want("change").id)
	}
}

func TestWatchRefusals(t *testing.T) {
	n := start(t)
	for query, reason := range map[string]string{
		"":                     "kv_bad_namespace",
		"ns=A":                 "kv_bad_namespace",
		"ns=n&prefix=%00":      "kv_bad_key",
		"ns=n&fromVersion=-1":  "kv_bad_version",
		"ns=n&fromVersion=":    "kv_bad_version",
		"ns=%ff":               "kv_bad_request",
		"ns=n&fromVersion=1.5": "kv_bad_version",
		"ns=n&prefix=" + strings.Repeat("k", 513): "kv_bad_key",
	} {
		n.get("/api/v1/kv/watch?"+query).is(400).equal(`"kv_bad_request"`, "error").equal(`"`+reason+`"`, "reason")
	}
	n.get("/api/v1/kv/watch?ns=n", "Last-Event-ID: x").is(400).equal(`"kv_bad_version"`, "reason")
}
