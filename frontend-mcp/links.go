package frontendmcp

import (
	"encoding/json"
	"slices"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// linkSince is the first revision in which answers may link to resources.
const linkSince = "2025-06-18"

// linkPage adds a link to a page of the documentation to the answer, where the client's revision has such links. It takes its
// room, so that it comes before what fills the rest. Only what this node names itself is linked to: a name that a stranger gave
// has no place outside of the fields that are marked.
func (c *call) linkPage(name string) {
	i := slices.IndexFunc(c.f.opts.Pages, func(p Page) bool { return p.Name == name })
	if i < 0 || c.req.ProtocolVersion() < linkSince {
		return
	}
	p := &c.f.opts.Pages[i]
	size := int64(len(p.Text))
	link := &mcp.ResourceLink{URI: pageURI(p.Name), Name: p.Name, Title: p.Title, MIMEType: pageType, Size: &size}
	if slices.ContainsFunc(c.links, func(l *mcp.ResourceLink) bool { return l.URI == link.URI }) {
		return
	}
	text, err := json.Marshal(link)
	if err != nil {
		return
	}
	c.links = append(c.links, link)
	c.room -= len(text) + 1
}

// pageType is the type of a page, pageURI its resource.
const pageType = "text/markdown"

func pageURI(name string) string { return "docs://" + name }

// answer is what a client reads of an answer: its JSON, and what it links to.
func (c *call) answer(text []byte) []mcp.Content {
	out := []mcp.Content{&mcp.TextContent{Text: string(text)}}
	for _, l := range c.links {
		out = append(out, l)
	}
	return out
}
