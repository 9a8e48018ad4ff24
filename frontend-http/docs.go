package frontendhttp

import "strings"

// Docs finds a file of the documentation by its path below /docs/; "" is the first page. query is what the parameter q
// says, for a path that searches. The answer to the same does not change.
type Docs func(path, query string) (contentType, etag string, body []byte, found bool)

func docsRoutes() []*route {
	return []*route{
		{Method: "GET", Path: "/docs", Access: readOnly, Mark: additional, Summary: "The documentation of this version.",
			Response: "Text", Status: 200, Also: map[int]string{304: ""}, Alone: true, Handle: docs},
		{Method: "GET", Path: "/docs/*page", Access: readOnly, Mark: additional,
			Summary:  "A page of it: as HTML, as markdown with .md behind its name, llms.txt, and search with the parameter q.",
			Query:    []param{{Name: "q", Type: "string", About: "what search looks for"}},
			Response: "Text", Status: 200, Also: map[int]string{304: ""}, Alone: true, Handle: docs, split: wholeRest},
	}
}

// wholeRest takes everything behind the prefix as one name.
func wholeRest(rest string, names *[maxNames]string) (ok bool) {
	names[0] = rest
	return true
}

// docs answers with a file that the composition root handed over.
func docs(c *call) error {
	path := ""
	if strings.HasSuffix(c.route.Path, "*page") {
		var err error
		if path, err = c.name(0); err != nil {
			return err
		}
	}
	if c.f.opts.Docs == nil {
		return &refusal{status: 404, code: "not_found", text: "this node has no documentation"}
	}
	kind, etag, body, found := c.f.opts.Docs(path, string(c.ctx.QueryArgs().Peek("q")))
	if !found {
		return &refusal{status: 404, code: "not_found", text: "there is no such page"}
	}
	h := &c.ctx.Response.Header
	h.Set("ETag", etag)
	h.Set("Cache-Control", "no-cache")
	h.Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'")
	h.Set("X-Content-Type-Options", "nosniff")
	if string(c.ctx.Request.Header.Peek("If-None-Match")) == etag {
		c.ctx.SetStatusCode(304)
		return nil
	}
	c.send(200, append(c.buffer(), body...))
	c.ctx.SetContentType(kind)
	return nil
}
