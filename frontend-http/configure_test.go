package frontendhttp

import (
	"fmt"
	"strings"
	"testing"
)

func TestConfigureEchoesEveryOption(t *testing.T) {
	n := start(t)
	n.post("/api/v1/configure", `{"queue":"orders"}`).is(200).equal(`{"leaseTime":300,"retryLimit":3,"priority":0,`+
		`"retryDelay":1000,"maxSize":0,"ttl":3600,"deadLetterQueue":true,"dlqAfterMaxRetries":true,`+
		`"delayedProcessing":0,"windowBuffer":0,"retentionSeconds":0,"completedRetentionSeconds":0,`+
		`"retentionEnabled":false,"encryptionEnabled":false,"maxWaitTimeSeconds":0,"minPopWaitTime":0,`+
		`"dedupWindowSeconds":3600,"retentionSinkHold":"","retentionSinkHoldMaxSeconds":604800}`, "options").
		equal(`null`, "partitionId").equal(`""`, "namespace").equal(`""`, "task")
	for key, value := range map[string]string{"leaseTime": `77`, "retryLimit": `0`, "priority": `9`, "retryDelay": `5`,
		"maxSize": `11`, "ttl": `12`, "deadLetterQueue": `false`, "dlqAfterMaxRetries": `false`,
		"delayedProcessing": `2`, "windowBuffer": `3`, "retentionSeconds": `4`, "completedRetentionSeconds": `6`,
		"retentionEnabled": `true`, "encryptionEnabled": `true`, "maxWaitTimeSeconds": `8`, "minPopWaitTime": `100`,
		"dedupWindowSeconds": `13`, "retentionSinkHold": `"sink-1"`, "retentionSinkHoldMaxSeconds": `60`,
		"maxDeliveries": `7`, "kafkaPartitions": `32`, "retentionBytes": `1000`, "retentionMs": `1500`, "dlqScope": `"batch"`} {
		n.post("/api/v1/configure", fmt.Sprintf(`{"queue":"%s","options":{%q:%s}}`, key, key, value)).is(200).
			equal(value, "options", key)
		n.post("/api/v1/configure", fmt.Sprintf(`{"queue":"%s",%q:%s}`, key+"2", key, value)).is(200).
			equal(value, "options", key)
	}
	n.post("/api/v1/configure", `{"queue":"clamp","options":{"minPopWaitTime":99999,"dedupWindowSeconds":-5}}`).is(200).
		equal(`60000`, "options", "minPopWaitTime").equal(`0`, "options", "dedupWindowSeconds")
}

// TestConfigureMerges: absent keeps, null resets, replace resets what is not named; a null label beside the options
// is no reset (S-cfg-1).
func TestConfigureMerges(t *testing.T) {
	n := start(t)
	c := func(body string) answer { t.Helper(); return n.post("/api/v1/configure", body).is(200) }
	c(`{"queue":"q","namespace":"billing","task":"pay","options":{"leaseTime":10,"retryLimit":9}}`).
		equal(`"billing"`, "namespace").equal(`"pay"`, "task")
	c(`{"queue":"q","namespace":null,"task":"","options":{"retryLimit":null}}`).equal(`10`, "options", "leaseTime").
		equal(`3`, "options", "retryLimit").equal(`"billing"`, "namespace").equal(`"pay"`, "task")
	c(`{"queue":"q","leaseTime":20,"options":{"leaseTime":30,"namespace":null}}`).equal(`30`, "options", "leaseTime").
		equal(`""`, "namespace")
	c(`{"queue":"q","mode":null,"options":null}`).equal(`30`, "options", "leaseTime")
	c(`{"queue":"q","mode":"replace"}`).equal(`300`, "options", "leaseTime").equal(`""`, "task")
	c(`{"queue":"","options":{}}`).equal(`""`, "queue")
	n.push1("pushed.by.nobody", "p", "t", `1`)
	c(`{"queue":"pushed.by.nobody","options":{"retryLimit":1}}`).equal(`60`, "options", "leaseTime").
		equal(`"pushed"`, "namespace").equal(`"by"`, "task")
}

func TestConfigureRefusals(t *testing.T) {
	n := start(t)
	for body, field := range map[string]string{
		``: "", `[]`: "", `"x"`: "", `{}`: "", `{"queue":null}`: "", `{"queue":7}`: "",
		`{"queue":"no","options":[]}`: "", `{"queue":"no","options":"x"}`: "",
		`{"queue":"no","mode":"Replace"}`: "mode", `{"queue":"no","mode":""}`: "mode", `{"queue":"no","mode":true}`: "mode",
		`{"queue":"no","options":{"leaseTime":"x"}}`:                  "leaseTime",
		`{"queue":"no","options":{"leaseTime":1.5}}`:                  "leaseTime",
		`{"queue":"no","options":{"leaseTime":99999999999999999999}}`: "leaseTime",
		`{"queue":"no","options":{"deadLetterQueue":1}}`:              "deadLetterQueue",
		`{"queue":"no","options":{"namespace":1}}`:                    "namespace",
		`{"queue":"no","options":{"retentionSinkHold":"a b"}}`:        "retentionSinkHold",
		`{"queue":"no","options":{"retentionSinkHoldMaxSeconds":59}}`: "retentionSinkHoldMaxSeconds",
		`{"queue":"no","options":{"dlqScope":"all"}}`:                 "dlqScope",
		`{"queue":"no","options":{"dlqScope":1}}`:                     "dlqScope",
	} {
		a := n.post("/api/v1/configure", body).is(400)
		if a.str("error") == "" {
			t.Errorf("%s: %s", body, a.body)
		}
		if field != "" {
			a.equal(`"`+field+`"`, "invalid")
		}
	}
	a := n.post("/api/v1/configure", `{"queue":"no","mode":"Replace"}`).is(400)
	if want := `mode must be "merge" or "replace", got "Replace"`; a.str("error") != want {
		t.Errorf("%q", a.str("error"))
	}
	n.post("/api/v1/configure", `{"queue":"`+strings.Repeat("q", 412)+`"}`).is(413).equal(`"name_too_long"`, "code")
	n.get("/api/v1/resources/queues").is(200).equal(`[]`, "queues") // nothing was written
}
