package frontendhttp

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"sort"
	"strings"
	"sync"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/valyala/fasthttp"
)

// documented stands between the frontend and the socket of every test of this package and holds each answer to
// /openapi.json: its status is one of the operation's, and its body has the shape that is told for it, with no member
// beyond. So the suite proves the document, and not only the examples of the table.
func documented(tb testing.TB, next fasthttp.RequestHandler) fasthttp.RequestHandler {
	if _, bench := tb.(*testing.B); bench {
		return next
	}
	return func(ctx *fasthttp.RequestCtx) {
		method := string(ctx.Method())
		path, _, _ := strings.Cut(string(ctx.RequestURI()), "?")
		next(ctx)
		if ctx.Response.IsBodyStream() || ctx.Hijacked() || method == "HEAD" {
			return
		}
		if err := answersAsTold(method, path, &ctx.Response); err != nil {
			tb.Errorf("%s %s is not answered as /openapi.json tells: %v", method, path, err)
		}
	}
}

// strictDocument is the document with nothing allowed beyond what it names.
var strictDocument = sync.OnceValues(func() (*openapi3.T, error) {
	raw, err := openAPI(table(), "test")
	if err != nil {
		return nil, err
	}
	doc, err := openapi3.NewLoader().LoadFromData(raw)
	if err != nil {
		return nil, err
	}
	for _, s := range doc.Components.Schemas {
		if more := s.Value.AdditionalProperties; s.Value.Type.Is("object") && more.Has == nil && more.Schema == nil {
			no := false
			s.Value.AdditionalProperties = openapi3.BoolSchema{Has: &no}
		}
	}
	return doc, nil
})

// answersAsTold checks one answer.
func answersAsTold(method, path string, res *fasthttp.Response) error {
	doc, err := strictDocument()
	if err != nil {
		return err
	}
	status, kind := res.StatusCode(), string(res.Header.ContentType())
	told := (*openapi3.Response)(nil)
	if r := rowOf(method, path); r != nil {
		op := doc.Paths.Value(documentPath(r.Path)).GetOperation(method)
		if ref := op.Responses.Status(status); ref != nil {
			told = ref.Value
		} else if status < 400 {
			return fmt.Errorf("status %d is not documented", status)
		} else {
			told = op.Responses.Default().Value
		}
	} else {
		// No row: the words of the server itself, in the common shape.
		told = openapi3.NewResponse().WithContent(openapi3.NewContentWithJSONSchema(doc.Components.Schemas["Error"].Value))
	}
	if len(res.Body()) == 0 {
		if len(told.Content) > 0 && status < 400 {
			return fmt.Errorf("status %d has no body", status)
		}
		return nil
	}
	if status == fasthttp.StatusRequestEntityTooLarge && strings.HasPrefix(kind, "text/plain") {
		return nil // the body's own limit, which the contract has as text
	}
	media := told.Content.Get(kind)
	if media == nil {
		return fmt.Errorf("status %d with a body of type %q is not documented: %s", status, kind, cut(string(res.Body())))
	}
	if !strings.HasPrefix(kind, "application/json") || media.Schema.Ref == "#/components/schemas/Bytes" {
		return nil
	}
	v, err := parsed(res.Body())
	if err != nil {
		return fmt.Errorf("status %d: %w: %s", status, err, cut(string(res.Body())))
	}
	note(v)
	if err := media.Schema.Value.VisitJSON(v); err != nil {
		return fmt.Errorf("status %d: %w\n%s", status, err, cut(string(res.Body())))
	}
	return nil
}

// parsed is a JSON text as schemas look at it.
func parsed(text []byte) (v any, err error) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	if err := d.Decode(&v); err != nil {
		return nil, err
	}
	if d.More() {
		return nil, errors.New("more than one value")
	}
	return plainNumbers(v), nil
}

// plainNumbers makes numbers of the words for them; a payload may hold one that no float is as large as.
func plainNumbers(v any) any {
	switch v := v.(type) {
	case json.Number:
		f, err := v.Float64()
		if err != nil {
			return 0.0
		}
		return f
	case []any:
		for i := range v {
			v[i] = plainNumbers(v[i])
		}
	case map[string]any:
		for k := range v {
			v[k] = plainNumbers(v[k])
		}
	}
	return v
}

// rows are the table in the order in which the server tries it.
var rows = sync.OnceValue(func() []*route {
	all := table()
	sort.SliceStable(all, func(i, j int) bool {
		a, b := all[i], all[j]
		if (a.segments == nil) != (b.segments == nil) {
			return a.segments == nil
		}
		return len(a.prefix) > len(b.prefix)
	})
	return all
})

// rowOf finds the row that serves a path; nil when none does.
func rowOf(method, path string) *route {
	for _, r := range rows() {
		if r.Method != method {
			continue
		}
		var names [maxNames]string
		if r.segments == nil {
			if r.Path == path {
				return r
			}
		} else if rest, ok := strings.CutPrefix(path, r.prefix); ok && r.split(rest, &names) {
			return r
		}
	}
	return nil
}

// TestTheSuiteIsHeldToTheDocument: what stands before every test's socket finds a status, a member and a type that the
// document does not name.
func TestTheSuiteIsHeldToTheDocument(t *testing.T) {
	for _, c := range []struct {
		status int
		body   string
		bad    string
	}{
		{201, `[]`, ""},
		{201, `[{"index":0,"message_id":null,"transaction_id":"a","queueName":"q","status":"queued","offset":1}]`, ""},
		{200, `[]`, "status 200 is not documented"},
		{201, `[{"index":0}]`, "message_id"},
		{201, `[{"index":"0","message_id":null,"transaction_id":"a","queueName":"q","status":"queued"}]`, "integer"},
		{201, `[{"index":0,"message_id":null,"transaction_id":"a","queueName":"q","status":"queued","secret":1}]`, "secret"},
		{201, ``, "has no body"},
		{400, `{"error":"x","code":"y"}`, ""},
		{400, `{"message":"x"}`, "error"},
	} {
		var res fasthttp.Response
		res.SetStatusCode(c.status)
		res.Header.SetContentType("application/json")
		res.SetBodyString(c.body)
		err := answersAsTold("POST", "/api/v1/push", &res)
		if (err == nil) != (c.bad == "") || err != nil && !strings.Contains(err.Error(), c.bad) {
			t.Errorf("%d %s: %v, want %q", c.status, c.body, err, c.bad)
		}
	}
}
