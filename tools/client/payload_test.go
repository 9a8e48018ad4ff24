package client

import (
	"bytes"
	"encoding/json"
	"testing"
)

// TestPayloads goes through every way of writing a payload, in and out.
func TestPayloads(t *testing.T) {
	for _, c := range []struct {
		how, in  string
		json     string // what goes in as JSON; empty for bytes
		raw      []byte
		bad      bool
		out, enc string // what that payload looks like when it is printed the same way
	}{
		{how: "auto", in: `{"a": 1}`, json: `{"a": 1}`, out: `{"a": 1}`},
		{how: "auto", in: `plain`, json: `"plain"`, out: `"plain"`},
		{how: "auto", in: "\xff\xfe", raw: []byte("\xff\xfe"), out: `"//4="`, enc: "base64"},
		{how: "auto", in: "\"\xff\"", raw: []byte("\"\xff\""), out: `"Iv8i"`, enc: "base64"},
		{how: "json", in: `[1]`, json: `[1]`, out: `[1]`},
		{how: "json", in: `[1`, bad: true},
		{how: "json", in: "\"\xff\"", bad: true},
		{how: "utf8", in: `[1]`, json: `"[1]"`, out: `"\"[1]\""`, enc: "utf8"},
		{how: "utf8", in: "\xff", bad: true},
		{how: "base64", in: "//4=", raw: []byte("\xff\xfe"), out: `"//4="`, enc: "base64"},
		{how: "base64", in: "", raw: []byte{}, out: `""`, enc: "base64"},
		{how: "base64", in: "?", bad: true},
		{how: "hex", in: "fffe", raw: []byte("\xff\xfe"), out: `"fffe"`, enc: "hex"},
		{how: "hex", in: "f", bad: true},
		{how: "none", in: "x", json: "null", out: ""},
	} {
		value, raw, err := readPayload(c.how, []byte(c.in))
		if (err != nil) != c.bad {
			t.Errorf("%s %q: %v", c.how, c.in, err)
			continue
		}
		if c.bad {
			continue
		}
		if string(value) != c.json || !bytes.Equal(raw, c.raw) || (raw == nil) != (c.raw == nil) {
			t.Errorf("%s %q: json %s, raw %q", c.how, c.in, value, raw)
		}
		m := Message{Data: value}
		if raw != nil {
			b, _ := json.Marshal(raw) // the wire's form of bytes is base64, as is JSON's in Go
			m.Data, m.Encoding = b, "base64"
		}
		m.show(c.how)
		if string(m.Data) != c.out || m.Encoding != c.enc {
			t.Errorf("%s %q prints as %s %s, want %s %s", c.how, c.in, m.Data, m.Encoding, c.out, c.enc)
		}
	}
}
