package frontendhttp

import "testing"

// Goal: the checklist names a queue that nobody reads and one with dead letters, of the caller's choice only; lag comes
// with its reason; what is no symptom, no queue and no group is refused.
func TestDiagnose(t *testing.T) {
	n, _ := furnished(t)
	all := n.get("/api/v1/diagnose?symptom=not_delivered").is(200)
	all.equal(`"leader"`, "node", "role").equal(`true`, "node", "canWrite").equal(`false`, "truncated")
	all.equal(`"node"`, "checks", 0, "name").equal(`"ok"`, "checks", 0, "outcome").equal(`"dead_letters"`, "checks", 3, "name").
		equal(`"found"`, "checks", 3, "outcome")
	only := n.get("/api/v1/diagnose?symptom=duplicates&queue=q&group=g").is(200)
	only.equal(`"redelivery"`, "checks", 2, "name")
	n.get("/api/v1/diagnose?symptom=bad").is(400)
	n.get("/api/v1/diagnose?queue=none").is(404)
	n.get("/api/v1/diagnose?queue=q&group=none").is(404)

	row := n.get("/api/v1/lag?queue=q&group=g").is(200)
	row.equal(`2`, "rows", 0, "lag").equal(`"p"`, "rows", 0, "partition").equal(`"g"`, "rows", 0, "group").equal(`false`, "truncated").
		equal(`2`, "groups", 0, "lag").equal(`1`, "groups", 0, "partitions").equal(`"q"`, "groups", 0, "queue")
	if reason := row.str("rows", 0, "reason"); reason != "lease_held" && reason != "in_progress" {
		t.Errorf("a leased partition is behind because of %s", reason)
	}
	n.push1("q", "p2", "x", `1`)
	n.get("/api/v1/lag?limit=1").is(200).equal(`true`, "truncated")
	for i, id := range []string{"a", "b", "c", "d", "e"} { // partitions that are behind by most only together
		n.push1("wide", []string{"p1", "p2", "p3"}[i%3], id, `1`)
	}
	n.get("/api/v1/pop/queue/wide?consumerGroup=h&subscriptionMode=all").is(200)
	n.get("/api/v1/lag").is(200).equal(`"wide"`, "groups", 0, "queue").equal(`5`, "groups", 0, "lag").equal(`3`, "groups", 0, "partitions").
		equal(`"q"`, "groups", 1, "queue")
	n.get("/api/v1/lag?queue=none").is(404)
	n.get("/api/v1/lag?group=none").is(404)
}

// Goal: a queue tells which options were set, since the echo shows the others as if they acted.
func TestOptionsSet(t *testing.T) {
	n := startNode(t)
	n.post("/api/v1/configure", `{"queue":"q","namespace":"n","options":{"ttl":3600,"dlqScope":"batch"}}`).is(200)
	n.get("/api/v1/resources/queues/q").is(200).equal(`["namespace","ttl","dlqScope"]`, "optionsSet")
	n.post("/api/v1/configure", `{"queue":"q","mode":"replace","options":{"leaseTime":9}}`).is(200)
	n.get("/api/v1/resources/queues/q").is(200).equal(`["leaseTime"]`, "optionsSet").equal(`""`, "namespace").equal(`3600`, "options", "ttl")
}
