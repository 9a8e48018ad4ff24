package client

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"queen/tools/cli"
)

// The ways of writing a payload, the values of --payload.
//
//	auto    in: JSON if it parses, else a string, else bytes    out: JSON as it is, bytes as base64 with "encoding"
//	json    in: JSON or an error                                out: as auto
//	utf8    in: a JSON string of the text                       out: a string, or base64 where it is not text
//	base64  in: bytes                                           out: the payload's bytes
//	hex     in: bytes                                           out: the payload's bytes
//	none    in: null                                            out: left out
var payloads = []string{"auto", "json", "utf8", "base64", "hex", "none"}

// jsonType is the content type of what is JSON. Messages that are printed as JSON leave it out.
const jsonType = "application/json"

func checkPayload(how string) error {
	if !slices.Contains(payloads, how) {
		return cli.Errorf(cli.Usage, "--payload %s: there are %s", how, strings.Join(payloads, ", "))
	}
	return nil
}

// readPayload turns text into a payload: JSON, or bytes that are not.
func readPayload(how string, text []byte) (value json.RawMessage, raw []byte, err error) {
	switch how {
	case "none":
		return json.RawMessage("null"), nil, nil
	case "base64":
		raw, err = base64.StdEncoding.DecodeString(string(text))
		return nil, nonNil(raw), err
	case "hex":
		raw, err = hex.DecodeString(string(text))
		return nil, nonNil(raw), err
	case "json":
		if !json.Valid(text) || !utf8.Valid(text) {
			return nil, nil, fmt.Errorf("not JSON: %s", cut(string(text), 60))
		}
		return text, nil, nil
	case "auto":
		if json.Valid(text) && utf8.Valid(text) {
			return text, nil, nil
		}
	}
	if !utf8.Valid(text) {
		if how == "utf8" {
			return nil, nil, fmt.Errorf("not UTF-8")
		}
		return nil, text, nil
	}
	value, err = json.Marshal(string(text))
	return value, nil, err
}

func nonNil(b []byte) []byte {
	if b == nil {
		return []byte{}
	}
	return b
}

// show rewrites a message's payload for printing.
func (m *Message) show(how string) {
	switch how {
	case "auto", "json":
		return
	case "none":
		m.Data, m.Encoding = nil, ""
		return
	}
	data := m.bytes()
	if m.Encoding == "" {
		m.ContentType = jsonType // which nothing else tells any more
	}
	m.Encoding = how
	switch {
	case how == "hex":
		m.Data = quoted(hex.EncodeToString(data))
	case how == "utf8" && utf8.Valid(data):
		m.Data = quoted(string(data))
	default:
		m.Data, m.Encoding = quoted(base64.StdEncoding.EncodeToString(data)), "base64"
	}
}

// bytes are the payload's bytes as they are stored.
func (m *Message) bytes() []byte {
	var text string
	if m.Encoding == "base64" && json.Unmarshal(m.Data, &text) == nil {
		if b, err := base64.StdEncoding.DecodeString(text); err == nil {
			return b
		}
	}
	return m.Data
}

func quoted(s string) json.RawMessage {
	b, _ := json.Marshal(s) // a string always marshals
	return b
}
