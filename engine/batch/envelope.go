package batch

import (
	"encoding/base64"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/go-faster/jx"
)

// The envelope is the JSON form in which native readers see a record:
//
//	{"h":[{"k":"name","v":"base64"}],"k":"base64","t":1790948491582,"v":"base64"}
//
// with keys in this order and no space. k and v are always there, null for null; h only with headers, t only with a
// timestamp. Both ways of writing a record give the same bytes.

// AppendEnvelope appends the envelope of r.
func AppendEnvelope(b []byte, r *Record) []byte {
	b = append(b, '{')
	if len(r.Headers) > 0 {
		b = append(b, `"h":[`...)
		for i, h := range r.Headers {
			if i > 0 {
				b = append(b, ',')
			}
			b = append(b, `{"k":`...)
			b = AppendJSONString(b, h.Key)
			b = append(b, `,"v":`...)
			b = appendBase64(b, h.Value)
			b = append(b, '}')
		}
		b = append(b, `],`...)
	}
	b = append(b, `"k":`...)
	b = appendBase64(b, r.Key)
	if r.Timestamp != NoTimestamp {
		b = append(b, `,"t":`...)
		b = strconv.AppendInt(b, r.Timestamp, 10)
	}
	b = append(b, `,"v":`...)
	b = appendBase64(b, r.Value)
	return append(b, '}')
}

func appendBase64(b, v []byte) []byte {
	if v == nil {
		return append(b, "null"...)
	}
	b = append(b, '"')
	b = base64.StdEncoding.AppendEncode(b, v)
	return append(b, '"')
}

// AppendJSONString appends s as a JSON string. Bytes that are no UTF-8 become U+FFFD.
func AppendJSONString(b, s []byte) []byte {
	const hex = "0123456789abcdef"
	b = append(b, '"')
	for len(s) > 0 {
		c := s[0]
		switch {
		case c == '"' || c == '\\':
			b = append(b, '\\', c)
		case c == '\n':
			b = append(b, `\n`...)
		case c == '\r':
			b = append(b, `\r`...)
		case c == '\t':
			b = append(b, `\t`...)
		case c == '\b':
			b = append(b, `\b`...)
		case c == '\f':
			b = append(b, `\f`...)
		case c < ' ':
			b = append(b, `\u00`...)
			b = append(b, hex[c>>4], hex[c&15])
		case c < utf8.RuneSelf:
			b = append(b, c)
		default:
			r, n := utf8.DecodeRune(s)
			b = utf8.AppendRune(b, r)
			s = s[n:]
			continue
		}
		s = s[1:]
	}
	return append(b, '"')
}

// AppendNative appends the value that a Kafka client sees of a native message: its JSON text; null for an empty
// payload; what is not JSON as the JSON string of its bytes.
func AppendNative(b, payload []byte) []byte {
	switch {
	case len(payload) == 0:
		return append(b, "null"...)
	case utf8.Valid(payload) && jx.Valid(payload):
		return append(b, payload...)
	}
	return AppendJSONString(b, payload)
}

// ParseEnvelope reads an envelope. It is false for anything that is not exactly one: another key, k or v missing,
// a wrong type, base64 that does not decode, a key twice. The record's slices are new.
func ParseEnvelope(b []byte) (Record, bool) {
	r := Record{Timestamp: NoTimestamp}
	if !utf8.Valid(b) || !jx.Valid(b) {
		return r, false
	}
	var seen [4]bool // h, k, t, v
	d := jx.DecodeBytes(b)
	err := d.ObjBytes(func(d *jx.Decoder, key []byte) (err error) {
		if len(key) != 1 {
			return errNotEnvelope
		}
		at := strings.IndexByte("hktv", key[0])
		if at < 0 || seen[at] {
			return errNotEnvelope
		}
		seen[at] = true
		switch at {
		case 0:
			r.Headers, err = parseHeaders(d)
		case 1:
			r.Key, err = parseBase64(d)
		case 2:
			r.Timestamp, err = d.Int64()
		case 3:
			r.Value, err = parseBase64(d)
		}
		return err
	})
	if err != nil || !seen[1] || !seen[3] {
		return Record{Timestamp: NoTimestamp}, false
	}
	return r, true
}

var errNotEnvelope = refuse(Invalid, "not an envelope")

func parseHeaders(d *jx.Decoder) ([]RecordHeader, error) {
	hs := []RecordHeader{}
	err := d.Arr(func(d *jx.Decoder) error {
		var h RecordHeader
		var seen [2]bool
		err := d.ObjBytes(func(d *jx.Decoder, key []byte) (err error) {
			switch {
			case string(key) == "k" && !seen[0]:
				seen[0] = true
				var s string
				s, err = d.Str()
				h.Key = []byte(s)
			case string(key) == "v" && !seen[1]:
				seen[1] = true
				h.Value, err = parseBase64(d)
			default:
				return errNotEnvelope
			}
			return err
		})
		if err == nil && (!seen[0] || !seen[1]) {
			err = errNotEnvelope
		}
		hs = append(hs, h)
		return err
	})
	return hs, err
}

// parseBase64 reads null as nil, and "" as empty.
func parseBase64(d *jx.Decoder) ([]byte, error) {
	if d.Next() == jx.Null {
		return nil, d.Null()
	}
	s, err := d.StrBytes()
	if err != nil {
		return nil, err
	}
	out := make([]byte, base64.StdEncoding.DecodedLen(len(s)))
	n, err := base64.StdEncoding.Strict().Decode(out, s)
	return out[:n], err
}
