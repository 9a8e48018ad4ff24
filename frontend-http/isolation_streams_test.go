package frontendhttp

import (
	"strings"
	"testing"

	"queen/engine/auth"
)

// TestStreamsOfTenantsShareNothing: what one tenant pushes and writes under a name arrives on none of the streams that
// another one has open under that name, whose first event is its own. These routes do not end, so that the walk over all
// others leaves them out.
func TestStreamsOfTenantsShareNothing(t *testing.T) {
	g := &guard{otherwise: auth.BadSignature, principals: map[string]*auth.Principal{
		"a": {Tenant: tenantID(t, tenantA), Roles: auth.Admin}, "b": {Tenant: tenantID(t, tenantB), Roles: auth.Admin},
	}}
	n := startWith(t, Options{Auth: g})
	write := func(as, mark string) {
		n.post("/api/v1/push", `{"items":[{"queue":"q","payload":"`+mark+`"}]}`, "Authorization: "+as).is(201)
		n.do("PUT", "/api/v1/kv/n/k", `{"value":"`+mark+`","forever":true}`, "Authorization: "+as).is(200)
	}
	for _, target := range []string{"/api/v1/consume?queue=q&consumerGroup=g&subscriptionMode=all&commitOnDelivery=true",
		"/api/v1/kv/watch?ns=n"} {
		e := n.events(target, "Authorization: b")
		write("a", "markA")
		write("b", "markB")
		for {
			ev, ok := e.next()
			if !ok || strings.Contains(ev.data, "markA") {
				t.Fatalf("%s: %v %s", target, ok, ev.data)
			}
			if strings.Contains(ev.data, "markB") {
				break
			}
		}
		_ = e.Close()
	}
}
