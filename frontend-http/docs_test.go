package frontendhttp

import "testing"

// TestDocs: pages come as they were handed over, with a validator that saves sending them again, and what is looked for goes along.
func TestDocs(t *testing.T) {
	n := start(t)
	for target, want := range map[string]string{"/docs": "page ", "/docs/": "page ", "/docs/concepts": "page concepts",
		"/docs/search?q=a%20%3Cb": "page searcha <b",
		"/docs/reference/cli.md":  "page reference/cli.md"} {
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

// TestDocsAreForReaders: where callers show who they are, the documentation is for those who may read, unless a skip path
// opens it.
func TestDocsAreForReaders(t *testing.T) {
	closed := startWith(t, Options{Auth: byRole()})
	open := startWith(t, Options{Auth: byRole(), SkipPaths: []string{"/docs", "/docs/"}})
	for _, target := range []string{"/docs", "/docs/", "/docs/concepts", "/docs/concepts.md", "/docs/llms.txt", "/docs/search?q=x"} {
		closed.get(target).is(401)
		closed.get(target, "Authorization: Bearer write-only").is(403)
		if a, b := closed.get(target, "Authorization: Bearer read-only"), open.get(target); a.status != 200 || b.status != 200 {
			t.Errorf("%s: %d to a reader, %d where it is open", target, a.status, b.status)
		}
	}
}
