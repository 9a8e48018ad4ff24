package frontendhttp

import "testing"

// TestDocs: pages come as they were handed over, with a validator that saves sending them again, and need no credential.
func TestDocs(t *testing.T) {
	n := start(t)
	for target, want := range map[string]string{"/docs": "page ", "/docs/": "page ", "/docs/concepts": "page concepts",
		"/docs/reference/cli.md": "page reference/cli.md"} {
		a := n.get(target)
		if a.status != 200 || a.header.Get("Content-Type") != "text/plain; charset=utf-8" ||
			a.body != want || a.header.Get("ETag") != `"1"` || a.header.Get("Content-Security-Policy") == "" {
			t.Errorf("%s: %q %v", target, a.body, a.header)
		}
	}
	if a := n.get("/docs", `If-None-Match: "1"`); a.status != 304 || a.body != "" {
		t.Errorf("%d %q", a.status, a.body)
	}
	n.get("/docs/none").is(404)
}
