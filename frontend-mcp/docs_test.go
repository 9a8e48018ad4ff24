package frontendmcp

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// testPages stand in for the pages that the composition root hands over.
var testPages = []Page{{Name: "concepts", Title: "Concepts", Summary: "What there is",
	Text: "# Concepts\n\n## Consumer groups\n\nA consumer group reads each partition in order.\n\n## Leases\n\nA lease runs out.\n"}}

// testSearch stands in for the search of the composition root.
func testSearch(words string, most int) (out []Section) {
	for _, s := range sections(&testPages[0]) {
		if strings.Contains(strings.ToLower(s.Text), strings.ToLower(words)) && len(out) < most {
			out = append(out, Section{Page: s.Page, Title: s.Title, Text: s.Text})
		}
	}
	return out
}

// TestGuide: a topic finds its sections, a page and a section of it are answered as they are, and what is not there is said.
func TestGuide(t *testing.T) {
	r := newRig(t, func(o *Options) { o.Pages, o.Search = testPages, testSearch })
	s := r.connect(Identity{}, nil)
	found := ask(t, s, "guide", map[string]any{"topic": "lease"})["sections"].([]any)
	require.Equal(t, "Leases", found[0].(map[string]any)["title"])
	require.Len(t, ask(t, s, "guide", map[string]any{})["pages"], 1)
	require.Len(t, ask(t, s, "guide", map[string]any{"topic": "zebra"})["pages"], 1, "nothing fits: the pages")
	require.Equal(t, testPages[0].Text, ask(t, s, "guide", map[string]any{"page": "concepts"})["sections"].([]any)[0].(map[string]any)["text"])
	section := ask(t, s, "guide", map[string]any{"page": "concepts", "section": "leases"})["sections"].([]any)[0].(map[string]any)
	require.Equal(t, "## Leases\n\nA lease runs out.\n\n", section["text"])
	for _, args := range []map[string]any{{"page": "none"}, {"page": "concepts", "section": "none"}} {
		require.Equal(t, "not_found", refused(t, s, "guide", args).Code)
	}
}
