package value

import (
	"bytes"
	"encoding/json"
	"strconv"
	"unicode/utf8"

	"queen/engine/format"
)

// Compact copies a JSON text without the space between its tokens; false when it is not one JSON value in
// valid UTF-8. Strings and numbers are copied as they are written.
func Compact(text []byte) ([]byte, bool) {
	var b bytes.Buffer
	if !utf8.Valid(text) || json.Compact(&b, text) != nil {
		return nil, false
	}
	return b.Bytes(), true
}

// Number reads a compact JSON text that is a number: an integer as long as it is written as one and fits, else
// a float. Anything else, and what no float holds, is no number.
func Number(text []byte) format.Number {
	if len(text) == 0 || text[0] != '-' && (text[0] < '0' || text[0] > '9') {
		return format.Number{}
	}
	if i, err := strconv.ParseInt(string(text), 10, 64); err == nil {
		return format.Number{Kind: format.IntNumber, Int: i}
	}
	f, err := strconv.ParseFloat(string(text), 64)
	if err != nil {
		return format.Number{}
	}
	return format.Number{Kind: format.FloatNumber, Float: f}
}
