package frontendhttp

import (
	"net/http"
	"testing"

	"queen/engine"
)

// TestEveryCodeIsMapped walks the engine's codes: each has a status a client can act on, its own code on the wire, and
// words for an item.
func TestEveryCodeIsMapped(t *testing.T) {
	if len(wireErrors) != len(engine.Codes) {
		t.Errorf("%d codes mapped of %d", len(wireErrors), len(engine.Codes))
	}
	seen := map[string]bool{}
	for _, code := range engine.Codes {
		w, ok := wireErrors[code]
		if !ok {
			t.Errorf("%s is not mapped", code)
			continue
		}
		if http.StatusText(w.status) == "" || w.status < 400 || w.item == "" || seen[w.code] {
			t.Errorf("%s: %+v", code, w)
		}
		seen[w.code] = true
		if w.code != string(code) {
			t.Errorf("%s is %s on the wire", code, w.code)
		}
		if got := itemError(&engine.Error{Code: code}); got == "" {
			t.Errorf("%s has no text for an item", code)
		}
		if got := readError(&engine.Error{Code: code}); got == "" {
			t.Errorf("%s has no text for a read", code)
		}
	}
}

func TestItemError(t *testing.T) {
	for _, c := range []struct {
		e    engine.Error
		want string
	}{
		{engine.Error{Code: engine.CodeUnresolvable, Message: "unresolvable: no such message"}, "unresolvable: no such message"},
		{engine.Error{Code: engine.CodeUnresolvable, Message: "no such message"}, "unresolvable: no such message"},
		{engine.Error{Code: engine.CodeUnresolvable}, "unresolvable"},
		{engine.Error{Code: "new"}, "internal"},
	} {
		if got := itemError(&c.e); got != c.want {
			t.Errorf("%+v: %q", c.e, got)
		}
	}
}
