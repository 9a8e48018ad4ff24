package frontendmcp

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"queen/engine/auth"
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

// linksOf are the links of an answer.
func linksOf(res *mcp.CallToolResult) (links []*mcp.ResourceLink) {
	for _, c := range res.Content {
		if l, ok := c.(*mcp.ResourceLink); ok {
			links = append(links, l)
		}
	}
	return links
}

// TestGuideLinksToWhatItLeavesOut: of a page that is larger than an answer the guide shows what fits and the titles of the rest,
// and links to the page as a resource; clients of the revision before such links get none.
func TestGuideLinksToWhatItLeavesOut(t *testing.T) {
	text := "# Big\n\nIntro.\n\n"
	for i := range 40 {
		text += fmt.Sprintf("## Part %d\n\n%s\n\n", i, strings.Repeat("word ", 200))
	}
	r := newRig(t, func(o *Options) {
		o.Pages = append(slices.Clone(testPages), Page{Name: "reference/big", Title: "Big", Summary: "A lot", Text: text})
		o.Search = func(words string, most int) []Section {
			return slices.Repeat([]Section{{Page: "reference/big", Title: "Big", Text: text}}, most)
		}
	})
	s := r.connect(Identity{}, nil)
	res := try(t, s, "guide", map[string]any{"page": "reference/big"})
	checked(t, toolsOf(t, s), "guide", res)
	require.LessOrEqual(t, sizeOf(t, res), defaultRoom)
	out := res.StructuredContent.(map[string]any)
	require.Equal(t, true, out["truncated"])
	rows := out["sections"].([]any)
	require.Len(t, rows, 41)
	require.Contains(t, rows[0].(map[string]any)["text"], "Intro.")
	last := rows[40].(map[string]any)
	require.Equal(t, []any{"Part 39", "", true}, []any{last["title"], last["text"], last["truncated"]})
	part := ask(t, s, "guide", map[string]any{"page": "reference/big", "section": "Part 39"})["sections"].([]any)
	require.Contains(t, part[0].(map[string]any)["text"], "word")

	links := linksOf(res)
	require.Len(t, links, 1)
	read, err := s.ReadResource(r.ctx, &mcp.ReadResourceParams{URI: links[0].URI})
	require.NoError(t, err)
	require.Equal(t, text, read.Contents[0].Text)
	require.EqualValues(t, len(text), *links[0].Size)

	for name, args := range map[string]map[string]any{"guide": {"topic": "part"}, "setup": {"feature": "part"}} {
		res := try(t, s, name, args)
		require.LessOrEqual(t, sizeOf(t, res), defaultRoom, name)
		require.Len(t, linksOf(res), 1, "%s: each page once", name)
	}
	require.Empty(t, linksOf(try(t, s, "queue_list", nil)))

	addr := r.listen()
	for revision, want := range map[string]bool{"2025-03-26": false, "2025-06-18": true, "2025-11-25": true} {
		_, _, body := post(t, addr, "/mcp", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"guide","arguments":{"page":"concepts"}}}`,
			map[string]string{"MCP-Protocol-Version": revision})
		require.Contains(t, body, "A lease runs out.", revision)
		require.Equal(t, want, strings.Contains(body, "resource_link"), revision)
	}
}

// TestExplainQuotas: what is said of a quota or a rate names every one that there is, and not the tenant's plan alone.
func TestExplainQuotas(t *testing.T) {
	s := newRig(t, nil).connect(Identity{}, nil)
	explained := func(code string) (meaning, remedy string) {
		all := ask(t, s, "explain_error", map[string]any{"error": code})["explanations"].([]any)
		require.Len(t, all, 1)
		x := all[0].(map[string]any)
		return x["meaning"].(string), x["remedy"].(string)
	}
	meaning, _ := explained("rate_limited")
	for b := auth.Requests; b <= auth.Ephemeral; b++ {
		require.Contains(t, meaning, b.String())
	}
	require.Contains(t, meaning, fmt.Sprintf("%d times a second", callsPerSecond))
	require.Contains(t, meaning, fmt.Sprintf("%d calls", maxConcurrent))
	meaning, remedy := explained("quota_exceeded")
	for _, text := range []string{meaning, remedy} {
		require.Contains(t, text, "plan")
		require.Contains(t, text, "field partitions", "of the share of transactions")
		require.Contains(t, text, "transactions")
	}
}
