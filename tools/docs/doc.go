// Package docs holds the pages of the product, embedded in the binary: whoever runs a version reads about that version.
//
// A page is markdown under pages/. Site renders them for "/docs" of the HTTP frontend, as HTML and as the markdown they
// are, with llms.txt as their table of contents for models and a search; Pages, Search and Snippets hand them to the MCP frontend as values.
// Pages under reference/ are generated from the code by a test of tools/queen, which fails when one is out of date; blocks
// of shell in the others are run by tests there. Whoever changes a route, a setting, a metric, a command, a tool or an error
// code writes them anew:
//
//	QUEEN_WRITE_REFERENCE=1 go test ./tools/queen -run TestReferenceIsCurrent
package docs
