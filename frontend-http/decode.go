package frontendhttp

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"

	"github.com/go-faster/jx"
)

// What the decoders of the hot path share. The body has passed utf8.Valid before.

// atEnd refuses whatever follows the object. Next tells the start of a value from the rest, but not the end from a
// stray byte; Skip tells those, but not the end from a value cut short.
func atEnd(d *jx.Decoder) error {
	if d.Next() == jx.Invalid && errors.Is(d.Skip(), io.EOF) {
		return nil
	}
	return badBody("something follows the object")
}

// stringOrNull reads a string; ok is false for null. at is the number of the item it stands in. The bytes may alias
// the body.
func stringOrNull(d *jx.Decoder, key string, at int) (b []byte, ok bool, err error) {
	kind := d.Next()
	raw, err := d.Raw()
	if err != nil {
		return nil, false, badBody(err.Error())
	}
	switch kind {
	case jx.Null:
		return nil, false, nil
	case jx.String:
		if b, ok = unquote(raw); ok {
			return b, true, nil
		}
		return nil, false, badBody(fmt.Sprintf("%s of item %d has half a surrogate pair", key, at))
	}
	return nil, false, badBody(fmt.Sprintf("%s of item %d must be a string", key, at))
}

// unquote is the text of a valid JSON string. ok is false for half a surrogate pair: decoders turn all of those into
// the same character, and two ids must not become one.
func unquote(raw []byte) (b []byte, ok bool) {
	inner := raw[1 : len(raw)-1]
	if bytes.IndexByte(inner, '\\') < 0 {
		return inner, true
	}
	var s string
	if hasHalfPair(inner) || json.Unmarshal(raw, &s) != nil {
		return nil, false
	}
	return []byte(s), true
}

// hasHalfPair looks at the escapes of a valid JSON string.
func hasHalfPair(s []byte) bool {
	for i := 0; i < len(s); i++ {
		if s[i] != '\\' {
			continue
		}
		i++ // the character after the backslash, which is not the start of an escape itself
		if s[i] != 'u' {
			continue
		}
		unit := codeUnit(s[i+1:])
		i += 4
		if unit < 0xd800 || unit > 0xdfff {
			continue
		}
		low := s[i+1:]
		if unit > 0xdbff || len(low) < 6 || low[0] != '\\' || low[1] != 'u' || codeUnit(low[2:])&0xfc00 != 0xdc00 {
			return true
		}
		i += 6
	}
	return false
}

// codeUnit reads four hexadecimal digits.
func codeUnit(s []byte) uint64 {
	n, err := strconv.ParseUint(string(s[:4]), 16, 16)
	if err != nil {
		return 0
	}
	return n
}
