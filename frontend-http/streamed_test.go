package frontendhttp

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
)

// streamed holds one frame of the broker, or the data of one event, to /openapi.json as documented does with answers:
// its kind is one of those that the route's answer names, and its body has the shape that is told for it, with no member
// beyond. Every test reads its streams through it.
func streamed(tb testing.TB, path string, status int, kind string, body []byte) {
	tb.Helper()
	if _, bench := tb.(*testing.B); bench {
		return
	}
	if err := streamedAsTold(path, status, kind, body); err != nil {
		tb.Errorf("GET %s: %q is not streamed as /openapi.json tells: %v\n%s", path, kind, err, cut(string(body)))
	}
}

// streamedAsTold checks one frame or event.
func streamedAsTold(path string, status int, kind string, body []byte) error {
	doc, err := strictDocument()
	if err != nil {
		return err
	}
	r := rowOf("GET", path)
	if r == nil {
		return fmt.Errorf("no route has the path")
	}
	told := doc.Paths.Value(documentPath(r.Path)).Get.Responses.Status(status)
	if told == nil {
		return fmt.Errorf("status %d is not documented", status)
	}
	kinds, _ := told.Value.Extensions["x-streamed"].(map[string]any)
	name, _ := kinds[kind].(string)
	schema := doc.Components.Schemas[strings.TrimPrefix(name, "#/components/schemas/")]
	if schema == nil {
		return fmt.Errorf("its kind is none of %v", slices.Sorted(maps.Keys(kinds)))
	}
	v, err := parsed(body)
	if err != nil {
		return err
	}
	return schema.Value.VisitJSON(v)
}

// TestStreamsAreHeldToTheDocument: what every test reads its streams through finds a kind, a member and a type that the
// document does not name.
func TestStreamsAreHeldToTheDocument(t *testing.T) {
	const consume, watch = "/api/v1/consume", "/api/v1/kv/watch"
	message := `"id":"a","transactionId":"b","traceId":null,"data":{"n":1},"producerSub":null,"createdAt":"c","offset":0,` +
		`"partitionId":"1","partition":"p","leaseId":"l","consumerGroup":"g","deliveryAttempt":1`
	change := `"key":"k","version":1,"expiresAt":null,"deleted":true`
	for _, c := range []struct {
		path       string
		status     int
		kind, body string
		bad        string
	}{
		{consume, 101, "message", `{"type":"message",` + message + `}`, ""},
		{consume, 101, "message", `{"type":"message",` + message + `,"secret":1}`, "secret"},
		{consume, 101, "message", `{` + message + `}`, "type"},
		{consume, 101, "extended", `{"type":"extended","leaseId":"l","success":true,"renewed":"1","expiresAt":null}`, "renewed"},
		{consume, 101, "changed", `{"type":"changed"}`, "its kind is none of [acked error extended message opened]"},
		{consume, 101, "error", `{"type":"error","code":"c","error":"e"} {}`, "more than one value"},
		{consume, 200, "message", `{` + message + `}`, ""},
		{consume, 200, "message", `{"type":"message",` + message + `}`, "type"},
		{consume, 200, "error", `{"code":"c","error":"e"}`, ""},
		{consume, 200, "error", `{"code":"c"}`, "error"},
		{consume, 200, "", `{}`, "its kind is none of [error message]"},
		{watch, 200, "change", `{` + change + `}`, ""},
		{watch, 200, "change", `{` + change + `,"ns":"n"}`, "ns"},
		{watch, 200, "lost", `{}`, ""},
		{watch, 200, "lost", `{"from":1}`, "from"},
		{watch, 101, "change", `{` + change + `}`, "status 101 is not documented"},
	} {
		err := streamedAsTold(c.path, c.status, c.kind, []byte(c.body))
		if (err == nil) != (c.bad == "") || err != nil && !strings.Contains(err.Error(), c.bad) {
			t.Errorf("%s %d %s %s: %v, want %q", c.path, c.status, c.kind, c.body, err, c.bad)
		}
	}
}

// TestClientFramesAreDocumented: the members that a frame of a client may have are those that the document names.
func TestClientFramesAreDocumented(t *testing.T) {
	doc, err := strictDocument()
	if err != nil {
		t.Fatal(err)
	}
	taken := maps.Clone(frameMembers)
	taken["open"] = openMembers
	told := doc.Paths.Value("/api/v1/consume").Get.Responses.Status(101).Value.Extensions["x-sent"].(map[string]any)
	if len(told) != len(taken) {
		t.Errorf("%d kinds of frames are documented, %d are taken", len(told), len(taken))
	}
	for kind, members := range taken {
		name, _ := told[kind].(string)
		schema := doc.Components.Schemas[strings.TrimPrefix(name, "#/components/schemas/")]
		if schema == nil {
			t.Errorf("%s is not documented", kind)
			continue
		}
		want := slices.Sorted(slices.Values(append(strings.Fields(members), "type")))
		if have := slices.Sorted(maps.Keys(schema.Value.Properties)); !slices.Equal(have, want) {
			t.Errorf("%s: the document names %v, a frame may have %v", kind, have, want)
		}
	}
}
