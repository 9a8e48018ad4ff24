package frontendhttp

import (
	"strings"
	"testing"
	"time"

	"queen/engine/clock"
)

// consumed is a node with one queue of three messages, of which group g has consumed one.
func consumed(t *testing.T) (*worker, *clock.Fake) {
	w := consume(t, 3, "")
	w.ack("m1 completed")
	return w, w.clock
}

func TestGroupListings(t *testing.T) {
	w, fake := consumed(t)
	fake.Advance(100 * time.Second)
	a := w.get("/api/v1/consumer-groups").is(200)
	a.equal(`"g"`, 0, "name").equal(`["q"]`, 0, "topics").equal(`2`, 0, "totalLag").equal(`1`, 0, "partitionsWithLag").
		equal(`100`, 0, "maxTimeLag").equal(`"Stable"`, 0, "state").equal(`"all"`, 0, "subscriptionMode").
		equal(`false`, 0, "conflation")
	fake.Advance(300 * time.Second)
	w.get("/api/v1/consumer-groups").is(200).equal(`"Lagging"`, 0, "state")
	w.get("/api/v1/consumer-groups/lagging").is(200).equal(`[]`)
	w.get("/api/v1/consumer-groups/lagging?minLagSeconds=60").is(200).equal(`"g"`, 0, "consumer_group").
		equal(`2`, 0, "offset_lag").equal(`400`, 0, "time_lag_seconds").equal(`null`, 0, "last_consumed_at")
	w.get("/api/v1/consumer-groups/lagging?minLagSeconds=x").is(400)
	w.get("/api/v1/consumer-groups/g").is(200).equal(`1`, "q", "partitions", 0, "totalConsumed").
		equal(`2`, "q", "partitions", 0, "offsetLag").equal(`false`, "q", "partitions", 0, "leaseActive").
		equal(`false`, "q", "conflation")
	w.get("/api/v1/consumer-groups/unknown").is(200).equal(`{}`)
}

func TestSeek(t *testing.T) {
	w, _ := consumed(t)
	old := w.lease
	w.post("/api/v1/consumer-groups/g/queues/q/seek", `{"toEnd":true}`).is(200).equal(`{"success":true,` +
		`"consumerGroup":"g","queueName":"q","seekToEnd":true,"targetTimestamp":null,"partitionsUpdated":1}`)
	w.ack("m2 completed").equal(`false`, 0, "success") // its lease ended with the seek (S-seek-6)
	w.redelivers()
	w.post("/api/v1/consumer-groups/g/queues/q/seek", `{"timestamp":"1970-01-01T00:00:00Z"}`).is(200).
		equal(`true`, "success").equal(`"1970-01-01T00:00:00.000001Z"`, "targetTimestamp")
	w.redelivers("m1", "m2", "m3")
	if w.lease == old {
		t.Error("a lease outlived a seek")
	}
	w.post("/api/v1/consumer-groups/g/queues/q/partitions/p/seek", ``).is(200).equal(`{"success":true,` +
		`"consumerGroup":"g","queueName":"q","partitionName":"p","seekToEnd":true,"targetTimestamp":null,"updated":true}`)
	w.redelivers()
	w.post("/api/v1/consumer-groups/g/queues/none/seek", `{"toEnd":true}`).is(404).
		equal(`"Queue not found or has no partitions"`, "error").equal(`0`, "partitionsUpdated")
	w.post("/api/v1/configure", `{"queue":"bare"}`).is(200)
	w.post("/api/v1/consumer-groups/g/queues/bare/seek", `{"toEnd":true}`).is(404).equal(`false`, "success")
	w.post("/api/v1/consumer-groups/g/queues/q/partitions/none/seek", `{}`).is(404).
		equal(`"Partition not found"`, "error").equal(`false`, "success")
	w.post("/api/v1/consumer-groups/never/queues/q/partitions/p/seek", `{}`).is(404).equal(`false`, "updated").
		equal(`"Consumer group not found"`, "error")
	for _, body := range []string{``, `{}`, `{"toEnd":false}`, `{"timestamp":"soon"}`, `{"toEnd":1}`, `[]`,
		`{"toEnd":true,"timestamp":"1970-01-01T00:00:00Z"}`} {
		w.post("/api/v1/consumer-groups/g/queues/q/seek", body).is(400)
	}
	w.post("/api/v1/consumer-groups/"+strings.Repeat("g", 450)+"/queues/q/seek", `{"toEnd":true}`).is(413)
}

func TestSubscriptionAndDeletion(t *testing.T) {
	w, _ := consumed(t)
	w.post("/api/v1/consumer-groups/g/subscription", `{"subscriptionTimestamp":"2026-01-01T00:00:00Z"}`).is(200).
		equal(`{"success":true,"consumerGroup":"g","newTimestamp":"2026-01-01T00:00:00.000000Z","rowsUpdated":1}`)
	w.get("/api/v1/consumer-groups").is(200).equal(`"2026-01-01T00:00:00.000000Z"`, 0, "subscriptionTimestamp").
		equal(`"timestamp"`, 0, "subscriptionMode")
	for _, body := range []string{``, `{}`, `{"subscriptionTimestamp":""}`, `{"subscriptionTimestamp":null}`,
		`{"subscriptionTimestamp":"x"}`, `{"subscriptionTimestamp":1}`} {
		w.post("/api/v1/consumer-groups/g/subscription", body).is(400)
	}
	w.do("DELETE", "/api/v1/consumer-groups/never?deleteMetadata=true", "").is(200).equal(`true`, "success").
		equal(`0`, "deletedPartitions").equal(`true`, "metadataDeleted")
	w.do("DELETE", "/api/v1/consumer-groups/g/queues/other", "").is(200).equal(`0`, "deletedPartitions")
	w.do("DELETE", "/api/v1/consumer-groups/g/queues/q?deleteMetadata=false", "").is(200).equal(`{"success":true,` +
		`"consumerGroup":"g","queueName":"q","deletedPartitions":1,"metadataDeleted":false}`)
	w.get("/api/v1/consumer-groups").is(200).equal(`"g"`, 0, "name")
	w.do("DELETE", "/api/v1/consumer-groups/g", "").is(200).equal(`true`, "success")
	w.get("/api/v1/consumer-groups").is(200).equal(`[]`)
	w.redelivers("m1", "m2", "m3")
	w.do("DELETE", "/api/v1/consumer-groups/g?deleteMetadata=maybe", "").is(400)
}
