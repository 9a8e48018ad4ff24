package frontendhttp

import (
	"encoding/base64"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"queen/engine/auth"
	"queen/engine/enginetest/memnode"
	"queen/engine/mask"
)

// startMasked serves a real node whose operator hides /card of queue paid.
func startMasked(t *testing.T, a auth.Authenticator) *node {
	masks, err := mask.New([]mask.Rule{{Queue: "paid", Pointer: "/card"}})
	require.NoError(t, err)
	target := memnode.Open(memnode.Options{Seed: 1})
	t.Cleanup(target.Close)
	return startWith(t, Options{Engine: target.Engine, Masks: masks, Auth: a})
}

const (
	secretCard = "4111-1111"
	cardOrder  = `{"card":"` + secretCard + `","total":7}`
	maskedCard = `{"card":"***","total":7}`
)

// Goal: every route by which somebody looks at messages leaves out what the operator hides and says so; a consumer gets messages
// whole, and of another queue everybody sees everything.
func TestMasksOverHTTP(t *testing.T) {
	n := startMasked(t, nil)
	text := base64.StdEncoding.EncodeToString([]byte("card=" + secretCard))
	record := `{"k":"QUE=","v":"` + base64.StdEncoding.EncodeToString([]byte(cardOrder)) + `"}`
	for _, queue := range []string{"paid", "open"} {
		hides := queue == "paid"
		n.push1(queue, "p", "a", cardOrder)
		n.push1(queue, "record", "r", record)
		n.push1(queue, "other", "o", `{"total":8}`)
		n.post("/api/v1/push/raw?partition=text&transactionId=t&queue="+queue, "card="+secretCard, "Content-Type: text/plain", "Queen-H-n: v").is(201)
		n.post("/api/v1/timers", fmt.Sprintf(`{"operations":[{"op":"schedule","queue":%q,"timerKey":"k","delayMs":86400000,"payload":%q}]}`, queue,
			base64.StdEncoding.EncodeToString([]byte(cardOrder)))).is(200)
		p := n.get("/api/v1/pop/queue/"+queue+"/partition/p?subscriptionMode=all&consumerGroup=g").is(200).equal(cardOrder, "messages", 0, "data")
		partition := p.str("partitionId")
		n.post("/api/v1/ack", fmt.Sprintf(`{"transactionId":"a","partitionId":%q,"leaseId":%q,"consumerGroup":"g","status":"dlq"}`, partition,
			p.str("leaseId"))).is(200).equal(`true`, 0, "dlq")

		want := cardOrder
		if hides {
			want = maskedCard
		}
		told := func(a answer, path ...any) {
			t.Helper()
			at := append(path[:len(path)-1:len(path)-1], "payloadMasked")
			if hides {
				a.equal(`true`, at...)
			} else {
				a.lacks(at...)
			}
			require.Equal(t, !hides, strings.Contains(a.body, secretCard), a.body)
		}
		look := func(a answer, path ...any) {
			t.Helper()
			told(a.is(200).equal(want, path...), path...)
		}
		look(n.get("/api/v1/messages"+atNode+"&partition=p&queue="+queue), "messages", 0, "data")
		look(n.get("/api/v1/messages"+atNode+"&partition=p&queue="+queue), "messages", 0, "payload")
		look(n.get("/api/v1/messages/"+partition+"/a"), "data")
		look(n.get("/api/v1/dlq?queue="+queue), "messages", 0, "data")
		look(n.post("/api/v1/dlq/redrive", `{"queue":"`+queue+`","dryRun":true}`), "sample", 0, "data")
		fetch := func(partition, masked string) answer {
			return n.post("/api/v1/fetch", fmt.Sprintf(`{"entries":[{"queue":%q,"partition":%q,"offset":0}]%s}`, queue, partition, masked)).is(200)
		}
		look(fetch("p", `,"masked":true`), "entries", 0, "records", 0, "payload")
		fetch("other", `,"masked":true`).equal(`{"total":8}`, "entries", 0, "records", 0, "payload").
			lacks("entries", 0, "records", 0, "payloadMasked")
		for _, whole := range []string{"", `,"masked":false`} {
			fetch("p", whole).equal(cardOrder, "entries", 0, "records", 0, "payload").lacks("entries", 0, "records", 0, "payloadMasked")
		}
		timer := n.get("/api/v1/timers/" + queue + "/k").is(200)
		require.Equal(t, base64.StdEncoding.EncodeToString([]byte(want)), timer.str("payload"))
		told(answer{t: t, body: want, parsed: timer.parsed}, "payload")

		raw := n.get("/api/v1/fetch/raw?partition=p&offset=0&masked=true&queue=" + queue).is(200)
		require.Equal(t, want, raw.body)
		require.Equal(t, hides, raw.header.Get("Queen-Payload-Masked") == "true")
		require.Equal(t, cardOrder, n.get("/api/v1/fetch/raw?partition=p&offset=0&queue="+queue).is(200).body)

		rec := fetch("record", `,"masked":true`)
		value, err := base64.StdEncoding.DecodeString(rec.str("entries", 0, "records", 0, "payload", "v"))
		require.NoError(t, err)
		require.Equal(t, want, string(value))
		rec.equal(`"QUE="`, "entries", 0, "records", 0, "payload", "k")

		none := fetch("text", `,"masked":true`)
		if !hides {
			none.equal(`"`+text+`"`, "entries", 0, "records", 0, "payload")
			continue
		}
		none.equal(`null`, "entries", 0, "records", 0, "payload").equal(`true`, "entries", 0, "records", 0, "payloadMasked").
			equal(`"v"`, "entries", 0, "records", 0, "headers", 0, "value").lacks("entries", 0, "records", 0, "encoding")
		n.get("/api/v1/messages"+atNode+"&partition=text&queue="+queue).is(200).equal(`null`, "messages", 0, "data").
			equal(`null`, "messages", 0, "payload").equal(`true`, "messages", 0, "payloadMasked")
		n.get("/api/v1/fetch/raw?partition=text&offset=0&masked=true&queue="+queue).is(403).equal(`"masked"`, "code")
		n.get("/api/v1/fetch/raw?partition=p&offset=0&masked=maybe&queue=" + queue).is(400)
	}
}

// Goal: a caller that may not consume reads nothing by offset that is hidden, whether it asks for masks or not; one that may
// consume gets what it would get by a pop.
func TestMasksForWhoMayOnlyRead(t *testing.T) {
	n := startMasked(t, byRole())
	n.post("/api/v1/push", `{"items":[{"queue":"paid","partition":"p","payload":`+cardOrder+`}]}`, "Authorization: Bearer admin").is(201)
	for role, want := range map[string]string{"read-only": maskedCard, "read-write": cardOrder, "admin": cardOrder} {
		as := "Authorization: Bearer " + role
		n.post("/api/v1/fetch", `{"entries":[{"queue":"paid","partition":"p","offset":0}],"masked":false}`, as).is(200).
			equal(want, "entries", 0, "records", 0, "payload")
		require.Equal(t, want, n.get("/api/v1/fetch/raw?queue=paid&partition=p&offset=0", as).is(200).body, role)
	}
}
