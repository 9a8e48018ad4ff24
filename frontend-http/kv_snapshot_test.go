package frontendhttp

import (
	"fmt"
	"testing"
)

// TestKVSnapshot: pages that name the snapshot of the first one tell what held then, on both routes, and what is no
// snapshot, or another tenant's, is refused by name.
func TestKVSnapshot(t *testing.T) {
	n := start(t)
	for i := range 5 {
		n.do("PUT", fmt.Sprintf("/api/v1/kv/n/p%d", i), `{"value":"old","forever":true}`).is(200)
	}
	page := func(members string) answer {
		return n.post("/api/v1/kv", `[{"op":"getPrefix","ns":"n","prefix":"p","limit":2`+members+`}]`)
	}
	list := func(members string) answer {
		return n.post("/api/v1/resources/kv/list", `{"namespace":"n","limit":2`+members+`}`)
	}
	page(``).is(200).lacks("results", 0, "snapshot")
	page(`,"snapshot":null`).is(200).lacks("results", 0, "snapshot")
	list(``).is(200).lacks("snapshot")
	token := page(`,"snapshot":"new"`).is(200).equal(`"p1"`, "results", 0, "nextAfter").str("results", 0, "snapshot")
	other := list(`,"snapshot":"new"`).is(200).str("snapshot")
	n.do("PUT", "/api/v1/kv/n/p2", `{"value":"new","forever":true}`).is(200)
	n.do("DELETE", "/api/v1/kv/n/p3", "").is(200)
	page(`,"after":"p1"`).is(200).equal(`"new"`, "results", 0, "rows", 0, "value").equal(`"p4"`, "results", 0, "rows", 1, "key")

	page(`,"after":"p1","snapshot":"`+token+`"`).is(200).equal(`"old"`, "results", 0, "rows", 0, "value").
		equal(`"p3"`, "results", 0, "rows", 1, "key").equal(`"`+token+`"`, "results", 0, "snapshot")
	page(`,"after":"p3","snapshot":"`+token+`"`).is(200).equal(`"p4"`, "results", 0, "rows", 0, "key").
		equal(`null`, "results", 0, "snapshot").equal(`null`, "results", 0, "nextAfter")
	list(`,"after":"p1","snapshot":"`+other+`"`).is(200).equal(`"old"`, "rows", 0, "value").equal(`"p3"`, "rows", 1, "key").
		equal(`"`+other+`"`, "snapshot")
	list(`,"after":"p3","snapshot":"`+other+`"`).is(200).equal(`null`, "snapshot")

	for _, a := range []answer{page(`,"snapshot":"` + token + `0"`), list(`,"snapshot":"none"`)} {
		a.is(410).equal(`"snapshot_expired"`, "error").equal(`"snapshot_expired"`, "reason")
	}
	for _, a := range []answer{page(`,"snapshot":7`), list(`,"snapshot":7`), n.post("/api/v1/kv", `[{"op":"put","ns":"n","key":"p9","value":1,`+
		`"forever":true},{"op":"getPrefix","ns":"n","prefix":"p","snapshot":"new"}]`)} {
		a.is(400).equal(`"kv_bad_request"`, "error")
	}
	n.get("/api/v1/kv/n/p9").is(200).equal(`false`, "found")
}
