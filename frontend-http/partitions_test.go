package frontendhttp

import (
	"fmt"
	"testing"
)

// TestPurgePartition: a purge takes what is before an offset, or all that is there, and tells how many; offsets go on.
func TestPurgePartition(t *testing.T) {
	n := startNode(t)
	for i := range 5 {
		n.push1("q", "p", fmt.Sprint("t", i), `1`)
	}
	n.push1("q", "other", "t", `1`)
	purge := func(body string) answer { return n.post("/api/v1/partitions/purge", body) }
	purge(`{"queue":"q","partition":"p","before":2}`).is(200).equal(`{"queue":"q","partition":"p","deleted":2,"logStartOffset":2}`)
	purge(`{"queue":"q","partition":"p","before":1}`).is(200).equal(`{"queue":"q","partition":"p","deleted":0,"logStartOffset":2}`)
	n.get("/api/v1/pop/queue/q/partition/p?consumerGroup=g&subscriptionMode=all").is(200).equal(`"t2"`, "messages", 0, "transactionId")

	for _, bad := range []struct {
		body   string
		status int
		code   string
	}{
		{`{"queue":"q","partition":"p","before":6}`, 404, "offset_out_of_range"},
		{`{"queue":"q","partition":"p","before":18446744073709551615}`, 404, "offset_out_of_range"},
		{`{"queue":"q","partition":"none"}`, 404, "unknown_partition"},
		{`{"queue":"none","partition":"p"}`, 404, "unknown_queue"},
		{`{"queue":"q","partition":"p","before":-1}`, 400, "bad_body"},
		{`{"queue":"q","partition":""}`, 400, "bad_request"},
		{`{"queue":"q"}`, 400, "bad_request"},
		{`{"partition":"p"}`, 400, "bad_request"},
		{``, 400, "bad_body"},
	} {
		purge(bad.body).is(bad.status).equal(`"`+bad.code+`"`, "code")
	}

	purge(`{"queue":"q","partition":"p"}`).is(200).equal(`{"queue":"q","partition":"p","deleted":3,"logStartOffset":5}`)
	purge(`{"queue":"q","partition":"p","before":null}`).is(200).equal(`0`, "deleted")
	n.push1("q", "p", "t5", `1`)
	n.post("/api/v1/fetch", `{"entries":[{"queue":"q","partition":"p","offset":5},{"queue":"q","partition":"other","offset":0}]}`).is(200).
		equal(`5`, "entries", 0, "logStartOffset").equal(`"t5"`, "entries", 0, "records", 0, "transactionId").
		equal(`"t"`, "entries", 1, "records", 0, "transactionId")
}
