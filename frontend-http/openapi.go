package frontendhttp

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/valyala/fasthttp"
)

// openAPI renders the table of routes (TestOpenAPIIsValid). What is not built is in it too, marked, with nothing but
// its 501.
func openAPI(routes []*route, version string) ([]byte, error) {
	doc := &openapi3.T{
		OpenAPI:    "3.0.3",
		Info:       &openapi3.Info{Title: "Queen", Version: version, Description: "Native HTTP API of the Queen broker."},
		Paths:      openapi3.NewPaths(),
		Components: &openapi3.Components{Schemas: schemas()},
	}
	for _, r := range routes {
		doc.AddOperation(documentPath(r.Path), r.Method, operation(r))
	}
	b, err := json.Marshal(doc)
	if err != nil {
		return nil, fmt.Errorf("frontend-http: openapi: %w", err)
	}
	return b, nil
}

// documentPath turns ":name" and "*name" into "{name}".
func documentPath(path string) string {
	parts := strings.Split(path, "/")
	for i, p := range parts {
		if p != "" && (p[0] == ':' || p[0] == '*') {
			parts[i] = "{" + p[1:] + "}"
		}
	}
	return strings.Join(parts, "/")
}

func operation(r *route) *openapi3.Operation {
	op := openapi3.NewOperation()
	op.OperationID = operationID(r)
	op.Summary = r.Summary
	op.Tags = []string{string(r.Mark)}
	op.Extensions = map[string]any{"x-access": string(r.Access), "x-built": r.Handle != nil}
	for _, p := range strings.Split(r.Path, "/") {
		if p != "" && (p[0] == ':' || p[0] == '*') {
			op.AddParameter(openapi3.NewPathParameter(p[1:]).WithSchema(openapi3.NewStringSchema()))
		}
	}
	for _, q := range r.Query {
		p := openapi3.NewQueryParameter(q.Name).WithSchema(&openapi3.Schema{Type: &openapi3.Types{q.Type}}).
			WithRequired(q.Required)
		if q.About != "" {
			p = p.WithDescription(q.About)
		}
		op.AddParameter(p)
	}
	if r.Keyed {
		op.AddParameter(openapi3.NewHeaderParameter("Idempotency-Key").
			WithSchema(openapi3.NewStringSchema().WithMinLength(1).WithMaxLength(255)).
			WithDescription("The same key with the same call answers what was answered first, for an hour; with another call, 422."))
	}
	if r.Request != "" {
		body := openapi3.NewRequestBody().WithContent(content(r.Request))
		op.RequestBody = &openapi3.RequestBodyRef{Value: body}
	}
	op.Responses = openapi3.NewResponsesWithCapacity(3)
	answer := openapi3.NewResponse().WithDescription(r.Summary)
	if r.Response != "" {
		answer = answer.WithContent(content(r.Response))
	}
	if r.Text {
		text := openapi3.NewMediaType().WithSchemaRef(openapi3.NewSchemaRef("#/components/schemas/Text", nil))
		answer.Content["text/plain"], answer.Content["application/openmetrics-text"] = text, text
	}
	if r.Handle == nil {
		answer = openapi3.NewResponse().WithDescription("Not built yet.").WithContent(content("Error"))
	}
	if r.Events != nil {
		answer.Extensions = map[string]any{"x-streamed": references(r.Events)}
	}
	op.AddResponse(r.Status, answer)
	if r.Response == "Popped" {
		op.AddResponse(204, openapi3.NewResponse().WithDescription("Nothing to deliver."))
	}
	if r.Socket {
		frames := openapi3.NewResponse().WithDescription("A WebSocket of JSON text frames: the client sends " +
			"ConsumeOpen first, then ConsumeAck, ConsumeCredit, ConsumeExtend and ConsumeClose; the broker sends " +
			"ConsumeOpened, ConsumeMessage, ConsumeAcked, ConsumeExtended and ConsumeError.")
		frames.Extensions = map[string]any{"x-sent": references(clientFrames), "x-streamed": references(brokerFrames)}
		op.AddResponse(101, frames)
	}
	failures(op, r)
	return op
}

// references names the schemas of what a stream carries; OpenAPI itself knows bodies only.
func references(kinds map[string]string) map[string]string {
	refs := make(map[string]string, len(kinds))
	for kind, schema := range kinds {
		refs[kind] = "#/components/schemas/" + schema
	}
	return refs
}

// failures documents what is told when the call is not carried out. What is refused before it reaches its route, for its
// credentials or its tenant, has the same plain body everywhere.
func failures(op *openapi3.Operation, r *route) {
	own := errorSchemas[r.Errors]
	either := own
	if own != "Error" {
		either += "|Error"
	}
	also := map[int]string{400: either, 403: either}
	if r.Access != public || r.Closable {
		also[401] = "Error"
	}
	for status, schema := range r.Also {
		also[status] = schema
	}
	for status, schema := range also {
		answer := openapi3.NewResponse().WithDescription(fasthttp.StatusMessage(status))
		if schema != "" {
			answer = answer.WithContent(content(schema))
		}
		op.AddResponse(status, answer)
	}
	op.Responses.Set("default", &openapi3.ResponseRef{Value: openapi3.NewResponse().
		WithDescription("An error.").WithContent(content(own))})
}

// errorSchemas are the error bodies of the families.
var errorSchemas = [...]string{familyEngine: "Error", familyPop: "Error", familyRead: "Error", familyKV: "KeyedError",
	familyTimers: "KeyedError", familyEphemeral: "EphemeralError", familyTransaction: "TransactionError"}

// operationID is unique: the method and the words of the path.
func operationID(r *route) string {
	var b strings.Builder
	b.WriteString(strings.ToLower(r.Method))
	for _, p := range strings.FieldsFunc(r.Path, func(c rune) bool { return strings.ContainsRune("/:*-._", c) }) {
		b.WriteString(strings.ToUpper(p[:1]) + p[1:])
	}
	return b.String()
}

// content is the media type of a schema, or of any of those between bars.
func content(schema string) openapi3.Content {
	if strings.Contains(schema, "|") {
		any := openapi3.NewSchema()
		for _, s := range strings.Split(schema, "|") {
			any.AnyOf = append(any.AnyOf, openapi3.NewSchemaRef("#/components/schemas/"+s, nil))
		}
		return openapi3.NewContentWithJSONSchema(any)
	}
	ref := openapi3.NewSchemaRef("#/components/schemas/"+schema, nil)
	switch schema {
	case "Bytes":
		return openapi3.Content{"*/*": openapi3.NewMediaType().WithSchemaRef(ref)}
	case "Events":
		return openapi3.Content{"text/event-stream": openapi3.NewMediaType().WithSchemaRef(ref)}
	case "Text":
		return openapi3.Content{"text/plain": openapi3.NewMediaType().WithSchemaRef(ref)}
	}
	return openapi3.NewContentWithJSONSchemaRef(ref)
}
