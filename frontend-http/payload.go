package frontendhttp

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"net/url"
	"strings"
	"unicode/utf8"

	"github.com/valyala/fasthttp"

	"queen/engine"
	"queen/engine/mask"
)

const (
	// headerPrefix starts the HTTP headers that carry message headers.
	headerPrefix = "Queen-H-"
	binaryType   = "application/octet-stream"
	jsonType     = "application/json"
	// maxContentType bounds a stored content type; maxHeaders the headers of one message.
	maxContentType = 255
	maxHeaders     = 128
)

// contentType is the stored content type of a raw push: "" for JSON, which is then checked, because a pop gives it
// back inside a JSON document.
func (c *call) contentType() (string, error) {
	sent := bytes.TrimSpace(c.ctx.Request.Header.ContentType())
	switch {
	case len(sent) == 0:
		return binaryType, nil
	case len(sent) > maxContentType:
		return "", badRequest("Content-Type exceeds 255 bytes")
	}
	kind, _, _ := strings.Cut(strings.ToLower(string(sent)), ";")
	if strings.TrimSpace(kind) != jsonType {
		return string(sent), nil
	}
	if body := c.body(); !utf8.Valid(body) || !json.Valid(body) {
		return "", badBody("Content-Type says JSON, the body is not")
	}
	return "", nil
}

// messageHeaders reads the Queen-H-* headers. HTTP header names have no case, so names are kept in lower case; both
// name and value are percent-decoded, which is how any byte gets through.
func (c *call) messageHeaders() (hs []engine.Header, err error) {
	for k, v := range c.ctx.Request.Header.All() {
		if len(k) <= len(headerPrefix) || !strings.EqualFold(string(k[:len(headerPrefix)]), headerPrefix) {
			continue
		}
		h, err := unescapeHeader(string(k[len(headerPrefix):]), string(v))
		switch {
		case err != nil:
			return nil, err
		case len(hs) == maxHeaders:
			return nil, badRequest("more than 128 message headers")
		}
		hs = append(hs, h)
	}
	return hs, nil
}

func unescapeHeader(name, value string) (engine.Header, error) {
	name, nameErr := url.PathUnescape(strings.ToLower(name))
	value, valueErr := url.PathUnescape(value)
	if nameErr != nil || valueErr != nil || !utf8.ValidString(name) {
		return engine.Header{}, badRequest("a Queen-H- header has an invalid percent-escape or is not UTF-8")
	}
	return engine.Header{Name: name, Value: []byte(value)}, nil
}

// setMessageHeaders is the way back. Upper-case letters of a name are escaped too, so that they survive.
func setMessageHeaders(h *fasthttp.ResponseHeader, hs []engine.Header) {
	for _, m := range hs {
		h.Add(headerPrefix+escapeHeader([]byte(m.Name), true), escapeHeader(m.Value, false))
	}
}

// escapeHeader percent-encodes what can not stand in a header: everything but letters, digits and -._~ in a name,
// control bytes, "%" and bytes beyond ASCII in a value.
func escapeHeader(s []byte, name bool) string {
	const hex = "0123456789ABCDEF"
	b := make([]byte, 0, len(s)+8)
	for i, c := range s {
		var plain bool
		switch {
		case name:
			plain = c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || c == '-' || c == '.' || c == '_' || c == '~'
		case c == ' ':
			plain = i > 0 && i < len(s)-1
		default:
			plain = c > ' ' && c < 0x7f && c != '%'
		}
		if plain {
			b = append(b, c)
		} else {
			b = append(b, '%', hex[c>>4], hex[c&15])
		}
	}
	return string(b)
}

// plainHeader reports whether a stored content type can stand in a response header as it is.
func plainHeader(s string) bool {
	for i := 0; i < len(s); i++ {
		if s[i] < ' ' || s[i] > '~' {
			return false
		}
	}
	return true
}

// payload writes a message's payload under key: JSON as it was stored, anything else as base64 text with the keys that
// say so. Headers follow where there are any.
func (o *out) payload(key string, r *engine.Record) {
	if r.ContentType == "" {
		o.raw(key, r.Payload)
	} else {
		o.key(key)
		o.b = append(o.b, '"')
		o.b = base64.StdEncoding.AppendEncode(o.b, r.Payload)
		o.b = append(o.b, '"')
		o.str("encoding", "base64")
		o.str("contentType", r.ContentType)
	}
	if len(r.Headers) > 0 {
		o.headers(r.Headers)
	}
}

// shown is a record as it is shown to who looks at messages: without what the operator hides, and without a payload where all of it
// is hidden. Who is handed messages to work on gets them whole.
type shown struct {
	engine.Record
	masked bool
}

// show hides what masks say of a record of a queue; nil ones hide nothing.
func show(m *mask.Set, queue string, r *engine.Record) shown {
	s := shown{Record: *r}
	s.Payload, s.masked = m.Payload(queue, r.Payload)
	return s
}

// shown writes a payload as payload does, and says where something of it is hidden.
func (o *out) shown(key string, s *shown) {
	if !s.masked || s.Payload != nil {
		o.payload(key, &s.Record)
	} else {
		o.null(key)
		if s.ContentType != "" {
			o.str("contentType", s.ContentType)
		}
		if len(s.Headers) > 0 {
			o.headers(s.Headers)
		}
	}
	if s.masked {
		o.bool("payloadMasked", true)
	}
}

// headers keeps order and repeats; a value that is not UTF-8 is base64 text and says so.
func (o *out) headers(hs []engine.Header) {
	o.key("headers").open('[')
	for _, h := range hs {
		o.open('{')
		o.str("name", h.Name)
		if utf8.Valid(h.Value) {
			o.str("value", string(h.Value))
		} else {
			o.str("value", base64.StdEncoding.EncodeToString(h.Value))
			o.str("encoding", "base64")
		}
		o.close('}')
	}
	o.close(']')
}
